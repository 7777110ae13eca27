//! Manifests and findings of made runs.

use steppe_lab::record::{
    Capability, Finding, Interval, Machine, Manifest, Method, Outcome, Problem, ProblemKind,
    RunEntry, RunKind, VariantEntry, VariantVerdict,
};

use super::rows::MIB;

pub fn interval(lower: f64, estimate: f64, upper: f64) -> Option<Interval> {
    Some(Interval {
        lower,
        estimate,
        upper,
    })
}

pub fn growth(metric: &str, word: Outcome, value: Option<Interval>, limit: f64) -> Finding {
    let estimate = value.map_or(0.0, |value| value.estimate);
    let upper = value.map_or(0.0, |value| value.upper);
    Finding {
        metric: metric.to_owned(),
        unit: "KiB/epoch".to_owned(),
        outcome: word,
        text: format!("grows by {estimate} KiB an epoch, {upper} at most, of {limit} that it may"),
        method: Method::FreshProcesses,
        limit: Some(limit),
        value,
        last_half: value.map(|value| Interval {
            lower: value.lower * 0.8 - 1.0,
            estimate: value.estimate * 0.97,
            upper: value.upper * 1.2 + 1.0,
        }),
        confidence: Some(0.95),
        points: 48,
        series: 5,
        p_value: None,
        detectable: None,
        per_step: None,
        hours_left: None,
        notes: Vec::new(),
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub fn figure(metric: &str, unit: &str, word: Outcome, value: f64, limit: Option<f64>) -> Finding {
    let held = limit.map_or_else(
        || "no limit is set".to_owned(),
        |limit| format!("limit {limit}"),
    );
    Finding {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        outcome: word,
        text: format!("{value} {unit} in the worst epoch, {held}"),
        method: Method::Limit,
        limit,
        value: interval(value, value, value),
        last_half: None,
        confidence: None,
        points: 48,
        series: 5,
        p_value: None,
        detectable: None,
        per_step: None,
        hours_left: None,
        notes: Vec::new(),
    }
}

pub fn variant_verdict(
    name: &str,
    word: Outcome,
    runs: u32,
    findings: Vec<Finding>,
) -> VariantVerdict {
    VariantVerdict {
        name: name.to_owned(),
        outcome: word,
        expect: None,
        runs,
        findings,
        leaks: Vec::new(),
        growing: Vec::new(),
        looks: Vec::new(),
    }
}

pub fn manifest(kind: RunKind, name: &str, variants: &[&str], runs: u32) -> Manifest {
    let entry = |variant: &&str| VariantEntry {
        name: (*variant).to_owned(),
        cmd: ["/usr/local/bin/server", "--listen", "127.0.0.1:8080"]
            .map(str::to_owned)
            .into(),
        env: vec![("RUST_LOG".to_owned(), "warn".to_owned())],
        preload: None,
        executable: Some("/usr/local/bin/server".to_owned()),
        executable_sha256: Some("9f".repeat(32)),
    };
    let run_entry = |variant: &&str, run| RunEntry {
        variant: (*variant).to_owned(),
        run,
        start_ms: u64::from(run) * 300_000,
        ready_ms: 41,
        ended: Some("exit status: 0".to_owned()),
    };
    let all_runs =
        (0..runs).flat_map(|run| variants.iter().map(move |variant| run_entry(variant, run)));
    Manifest {
        format: 1,
        lab_version: "0.0.0".to_owned(),
        command: ["steppe-lab", "soak", "soak.toml"]
            .map(str::to_owned)
            .into(),
        kind,
        scenario_name: name.to_owned(),
        scenario_path: "soak.toml".to_owned(),
        scenario_sha256: "c4".repeat(32),
        scenario_text: "[target]\ncmd = [\"server\"]\nready = \"tcp://127.0.0.1:8080\"\n"
            .to_owned(),
        started: "2026-01-17T09:30:00Z".to_owned(),
        finished: Some("2026-01-17T09:55:21Z".to_owned()),
        complete: true,
        seed: 7,
        machine: machine(),
        capabilities: capabilities(),
        variants: variants.iter().map(entry).collect(),
        runs: all_runs.collect(),
        sampler_cpu_us: Some(2_140_000),
        lab_cpu_us: Some(184_000_000),
        lab_hwm_bytes: Some(21 * MIB),
    }
}

pub fn machine() -> Machine {
    Machine {
        kernel: "6.8.0-51-generic".to_owned(),
        architecture: "x86_64".to_owned(),
        cpu_model: Some("AMD EPYC 7763 64-Core Processor".to_owned()),
        cpus: 8,
        memory_bytes: 32 * 1024 * MIB,
        governor: None,
        transparent_huge_pages: Some("madvise".to_owned()),
        cgroup: Some("v2".to_owned()),
        load_average: Some(0.31),
    }
}

pub fn capabilities() -> Vec<Capability> {
    let capability = |name: &str, available, detail: &str, lost: &str| Capability {
        name: name.to_owned(),
        available,
        detail: detail.to_owned(),
        lost: lost.to_owned(),
    };
    vec![
        capability("rss", true, "/proc/PID/statm", "nothing can be judged"),
        capability(
            "smaps",
            true,
            "/proc/PID/smaps_rollup",
            "growth is judged by RSS",
        ),
        capability(
            "syscalls",
            true,
            "perf tracepoint raw_syscalls:sys_enter",
            "no system calls",
        ),
        capability(
            "instructions",
            false,
            "the hardware counter is not supported here; run on a machine without virtualization",
            "no instructions per operation",
        ),
    ]
}

pub fn ratio(metric: &str, word: Outcome, value: Option<Interval>, limit: Option<f64>) -> Finding {
    let text = value.map_or_else(
        || "not measured in enough pairs".to_owned(),
        |value| {
            format!(
                "{} times the first, {} to {}",
                value.estimate, value.lower, value.upper
            )
        },
    );
    Finding {
        metric: metric.to_owned(),
        unit: "ratio".to_owned(),
        outcome: word,
        text,
        method: Method::PairedBootstrap,
        limit,
        value,
        last_half: None,
        confidence: Some(0.95),
        points: 12,
        series: 2,
        p_value: None,
        detectable: None,
        per_step: None,
        hours_left: None,
        notes: Vec::new(),
    }
}

pub fn problems() -> Vec<Problem> {
    let problem = |kind, text: &str, help: &str| Problem {
        kind,
        text: text.to_owned(),
        help: help.to_owned(),
    };
    vec![
        problem(
            ProblemKind::GeneratorSaturated,
            "load \"http 1\": its thread was idle 2 % of the time in epoch 7",
            "add threads = 2, lower the rate, or run the lab on another machine",
        ),
        problem(
            ProblemKind::Interrupted,
            "ended by Ctrl-C after 9 of 60 epochs",
            "",
        ),
        problem(ProblemKind::Note, "1 look at smaps failed", "nothing to do"),
    ]
}
