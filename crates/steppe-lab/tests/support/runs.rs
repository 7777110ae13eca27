//! Runs that look like real ones, made from a seed: what reports are tested with.
//!
//! Figures of memory wander and jump by pages as those of a process do; verdicts say what the
//! figures do, written by hand.

#![allow(dead_code, reason = "each test binary uses some of them")]

use std::fs;
use std::path::{Path, PathBuf};

use steppe_lab::record::{
    Capability, Epoch, Finding, Folder, Interval, LeakSite, LoadedRun, Machine, Manifest, Method,
    Problem, ProblemKind, RunEntry, RunKind, Sample, VariantEntry, VariantVerdict, Verdict, Word,
};
use steppe_lab::report::Timelines;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// A run and what was sampled in it.
#[derive(Debug, Clone)]
pub struct Made {
    pub run: LoadedRun,
    pub samples: Vec<Sample>,
}

impl Made {
    pub fn timelines(&self) -> Timelines {
        let samples = self.samples.iter().cloned().map(Ok::<_, std::fmt::Error>);
        Timelines::collect(&self.run, samples).expect("no row is damaged")
    }

    /// Puts it into a folder, as a run does.
    pub fn write(&self, path: &Path) -> PathBuf {
        let _ = fs::remove_dir_all(path);
        let mut folder = Folder::create(path).expect("a folder");
        for epoch in &self.run.epochs {
            folder.write_epoch(epoch).expect("a row");
        }
        for sample in &self.samples {
            folder.write_sample(sample).expect("a row");
        }
        folder
            .write_manifest(&self.run.manifest)
            .expect("a manifest");
        if let Some(verdict) = &self.run.verdict {
            folder.write_verdict(verdict).expect("a verdict");
        }
        path.to_owned()
    }
}

/// xorshift64*: enough for noise, the same everywhere.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits =
            u32::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32).expect("32 bits");
        f64::from(bits) / f64::from(u32::MAX)
    }

    /// About normal, of deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

/// How the memory of a made run moves.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    pub start_bytes: u64,
    pub growth_bytes: f64,
    pub noise_bytes: f64,
    pub warmup: u32,
    pub epochs: u32,
    pub runs: u32,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made figures"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[allow(clippy::cast_precision_loss, reason = "made figures")]
fn float(value: u64) -> f64 {
    value as f64
}

fn pages(bytes: f64) -> u64 {
    whole(bytes) / 4096 * 4096
}

/// The epochs and samples of a soak of one variant.
pub fn soak_rows(variant: &str, course: Course, noise: &mut Noise) -> (Vec<Epoch>, Vec<Sample>) {
    let (mut epochs, mut samples) = (Vec::new(), Vec::new());
    for run in 0..course.runs {
        let mut drift = 0.0;
        for epoch in 0..course.epochs {
            drift = 0.8 * drift + 0.6 * noise.normal() * course.noise_bytes;
            let warm = float(course.start_bytes) * 0.25 * (-f64::from(epoch) / 3.0).exp();
            let base = float(course.start_bytes) - warm + course.growth_bytes * f64::from(epoch);
            let made = soak_epoch(variant, run, epoch, base + drift, course, noise);
            for step in 0..10 {
                let under_load = base + drift + float(6 * MIB) * (0.6 + 0.4 * noise.share());
                let quiet = step == 9;
                samples.push(Sample {
                    variant: variant.to_owned(),
                    run,
                    at_ms: u64::from(epoch) * 5000 + step * 500 + 400,
                    rss_bytes: Some(pages(if quiet { base } else { under_load })),
                    ..Sample::default()
                });
            }
            epochs.push(made);
        }
    }
    (epochs, samples)
}

fn soak_epoch(
    variant: &str,
    run: u32,
    epoch: u32,
    bytes: f64,
    course: Course,
    noise: &mut Noise,
) -> Epoch {
    let is_first = epoch == 0;
    let operations = whole(23_700.0 + 40.0 * noise.normal() - if is_first { 900.0 } else { 0.0 });
    let p50 = 310.0 * (1.0 + 0.02 * noise.normal());
    Epoch {
        variant: variant.to_owned(),
        run,
        epoch,
        warmup: epoch < course.warmup,
        start_ms: u64::from(epoch) * 5000 + 400,
        load_ms: 4750,
        operations,
        errors: 0,
        intended: Some(23_750),
        p50_us: Some(p50),
        p90_us: Some(p50 * 1.9),
        p99_us: Some(p50 * (7.0 + 1.5 * noise.share())),
        p999_us: Some(p50 * (18.0 + 14.0 * noise.share())),
        max_us: Some(p50 * 60.0),
        rss_bytes: Some(pages(bytes + float(7 * MIB))),
        anonymous_bytes: Some(pages(bytes)),
        hwm_bytes: Some(pages(bytes + float(13 * MIB) + float(MIB) * noise.share())),
        live_bytes: Some(whole(
            float(course.start_bytes) * 0.55 + float(40 * KIB) * noise.share(),
        )),
        cpu_us: Some(whole(float(operations) * (38.0 + 0.6 * noise.normal()))),
        syscalls: Some(whole(float(operations) * (4.1 + 0.01 * noise.normal()))),
        threads: Some(9),
        processes: Some(1),
        open_files: Some(82 + u64::from(epoch % 3)),
        established_max: Some(64),
        close_wait_max: Some(0),
        ..Epoch::default()
    }
}

pub fn interval(lower: f64, estimate: f64, upper: f64) -> Option<Interval> {
    Some(Interval {
        lower,
        estimate,
        upper,
    })
}

pub fn growth(metric: &str, word: Word, value: Option<Interval>, limit: f64) -> Finding {
    let estimate = value.map_or(0.0, |value| value.estimate);
    let upper = value.map_or(0.0, |value| value.upper);
    Finding {
        metric: metric.to_owned(),
        unit: "KiB/epoch".to_owned(),
        word,
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
        notes: Vec::new(),
    }
}

pub fn figure(metric: &str, unit: &str, word: Word, value: f64, limit: Option<f64>) -> Finding {
    let held = limit.map_or_else(
        || "no limit is set".to_owned(),
        |limit| format!("limit {limit}"),
    );
    Finding {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        word,
        text: format!("{value} {unit} in the worst epoch, {held}"),
        method: Method::Limit,
        limit,
        value: interval(value, value, value),
        last_half: None,
        confidence: None,
        points: 48,
        series: 5,
        notes: Vec::new(),
    }
}

pub fn variant_verdict(
    name: &str,
    word: Word,
    runs: u32,
    findings: Vec<Finding>,
) -> VariantVerdict {
    VariantVerdict {
        name: name.to_owned(),
        word,
        expect: None,
        runs,
        findings,
        leaks: Vec::new(),
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

fn machine() -> Machine {
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

fn capabilities() -> Vec<Capability> {
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
            "no instructions an operation",
        ),
    ]
}

fn made(manifest: Manifest, epochs: Vec<Epoch>, samples: Vec<Sample>, verdict: Verdict) -> Made {
    Made {
        run: LoadedRun {
            path: PathBuf::from("run"),
            manifest,
            epochs,
            verdict: Some(verdict),
        },
        samples,
    }
}

fn verdict(kind: RunKind, word: Word, headline: &str, variants: Vec<VariantVerdict>) -> Verdict {
    Verdict {
        kind,
        word,
        exit_code: word.exit_code(),
        complete: true,
        headline: headline.to_owned(),
        variants,
        comparisons: Vec::new(),
        problems: Vec::new(),
    }
}

/// One variant, 5 runs of 60 epochs, all limits kept.
pub fn stable() -> Made {
    let course = Course {
        start_bytes: 31 * MIB,
        growth_bytes: 900.0,
        noise_bytes: 60_000.0,
        warmup: 12,
        epochs: 60,
        runs: 5,
    };
    let (epochs, samples) = soak_rows("default", course, &mut Noise::new(1));
    let findings = vec![
        growth("rss_growth", Word::Stable, interval(-1.6, 0.9, 3.4), 32.0),
        growth("hwm_growth", Word::Stable, interval(-4.1, 1.2, 6.5), 64.0),
        growth("live_growth", Word::Stable, interval(-0.4, 0.02, 0.5), 32.0),
        figure("p99", "ms", Word::Go, 2.6, Some(12.0)),
        figure("syscalls_per_op", "calls/op", Word::Go, 4.12, Some(4.5)),
        figure("errors", "count", Word::Go, 0.0, Some(0.0)),
        figure("close_wait", "count", Word::Go, 0.0, Some(0.0)),
        figure("cpu_us_per_op", "µs/op", Word::Go, 38.2, None),
    ];
    let headline =
        "Memory stays flat: it grows by 0.9 KiB an epoch, 3.4 at most, of 32 that it may.";
    let variants = vec![variant_verdict("default", Word::Stable, 5, findings)];
    let manifest = manifest(RunKind::Soak, "gateway under load", &["default"], 5);
    let verdict = verdict(RunKind::Soak, Word::Stable, headline, variants);
    made(manifest, epochs, samples, verdict)
}

/// One variant, 5 runs, 200 KiB an epoch of which 32 are allowed.
pub fn unbounded() -> Made {
    let course = Course {
        start_bytes: 31 * MIB,
        growth_bytes: 204_800.0,
        noise_bytes: 260_000.0,
        warmup: 12,
        epochs: 60,
        runs: 5,
    };
    let (mut epochs, samples) = soak_rows("default", course, &mut Noise::new(2));
    for epoch in &mut epochs {
        let leaked = 200 * KIB * u64::from(epoch.epoch);
        epoch.live_bytes = epoch.live_bytes.map(|live| live + leaked);
        epoch.errors = if epoch.epoch % 17 == 9 {
            40 + u64::from(epoch.run)
        } else {
            0
        };
    }
    let mut growing = growth(
        "rss_growth",
        Word::Unbounded,
        interval(196.2, 200.4, 204.9),
        32.0,
    );
    growing.notes = vec![
        "The limit of 512 MiB is reached in 3.4 hours.".to_owned(),
        "Live bytes grow alike: a leak, of 8.6 bytes an operation.".to_owned(),
    ];
    let findings = vec![
        growing,
        growth(
            "live_growth",
            Word::Leak,
            interval(197.0, 200.0, 203.1),
            32.0,
        ),
        figure("p99", "ms", Word::Go, 2.7, Some(12.0)),
        figure("errors", "count", Word::NoGo, 850.0, Some(0.0)),
    ];
    let headline = "Memory grows without bound: 200 KiB an epoch, 196 at least, of 32 that it may.";
    let variants = vec![variant_verdict("default", Word::Leak, 5, findings)];
    let verdict = verdict(RunKind::Soak, Word::Leak, headline, variants);
    made(
        manifest(RunKind::Soak, "leaky", &["default"], 5),
        epochs,
        samples,
        verdict,
    )
}

/// Four variants of three cycles, with the published figures.
pub fn cycles() -> Made {
    let table: [(&str, [u64; 4], Word); 4] = [
        ("baseline", [57, 6114, 7573, 8389], Word::Unbounded),
        ("baseline, 2 arenas", [57, 4321, 4436, 4436], Word::Stable),
        ("zero-copy", [61, 6282, 7368, 8140], Word::Unbounded),
        ("zero-copy, 2 arenas", [57, 3946, 4004, 4061], Word::Stable),
    ];
    let (mut epochs, mut samples, mut variants) = (Vec::new(), Vec::new(), Vec::new());
    for (name, megabytes, word) in table {
        samples.push(Sample {
            variant: name.to_owned(),
            at_ms: 500,
            rss_bytes: Some(megabytes[0] * 1_000_000),
            ..Sample::default()
        });
        for (cycle, megabytes) in (0..).zip(&megabytes[1..]) {
            epochs.push(cycle_epoch(name, cycle, megabytes * 1_000_000));
        }
        let slope = (float(megabytes[3] - megabytes[1]) * 1e6 / 2.0 / 1024.0).round();
        let mut finding = growth(
            "rss_growth",
            word,
            interval((slope * 0.93).round(), slope, (slope * 1.09).round()),
            65_536.0,
        );
        finding.unit = "KiB/cycle".to_owned();
        finding.text = finding.text.replace("an epoch", "a cycle");
        finding.last_half = None;
        finding.method = Method::BlockBootstrap;
        (finding.points, finding.series) = (3, 1);
        let mut variant = variant_verdict(name, word, 1, vec![finding]);
        variant.expect = (name == "baseline").then_some(Word::Unbounded);
        variants.push(variant);
    }
    let headline = "zero-copy grows without bound: 907 MiB a cycle, of 64 that it may.";
    let verdict = verdict(RunKind::Cycle, Word::Unbounded, headline, variants);
    let names = table.map(|row| row.0);
    made(
        manifest(RunKind::Cycle, "large payloads", &names, 1),
        epochs,
        samples,
        verdict,
    )
}

fn cycle_epoch(variant: &str, cycle: u32, rss_bytes: u64) -> Epoch {
    Epoch {
        variant: variant.to_owned(),
        epoch: cycle,
        start_ms: 1000 + u64::from(cycle) * 20_000,
        load_ms: 17_000,
        operations: 1000,
        p50_us: Some(1_540_000.0),
        p90_us: Some(1_900_000.0),
        p99_us: Some(2_310_000.0),
        rss_bytes: Some(rss_bytes),
        anonymous_bytes: Some(rss_bytes - 9 * MIB),
        hwm_bytes: Some(rss_bytes + 310 * MIB),
        cpu_us: Some(23_000_000),
        threads: Some(37),
        ..Epoch::default()
    }
}

fn ratio(metric: &str, word: Word, value: Option<Interval>, limit: Option<f64>) -> Finding {
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
        word,
        text,
        method: Method::PairedBootstrap,
        limit,
        value,
        last_half: None,
        confidence: Some(0.95),
        points: 1,
        series: 12,
        notes: Vec::new(),
    }
}

/// Two variants, 12 pairs.
pub fn ab() -> Made {
    let mut noise = Noise::new(3);
    let mut epochs = Vec::new();
    for run in 0..12 {
        for (variant, factor) in [("before", 1.0), ("after", 1.1)] {
            let course = Course {
                start_bytes: 31 * MIB,
                growth_bytes: 0.0,
                noise_bytes: 90_000.0,
                warmup: 0,
                epochs: 1,
                runs: 1,
            };
            let mut epoch = soak_epoch(variant, run, 0, float(31 * MIB), course, &mut noise);
            epoch.cpu_us = epoch.cpu_us.map(|cpu| whole(float(cpu) * factor));
            epoch.p999_us = None;
            epochs.push(epoch);
        }
    }
    let comparisons = vec![
        ratio(
            "cpu_per_op",
            Word::NoGo,
            interval(1.082, 1.098, 1.114),
            Some(1.05),
        ),
        ratio(
            "syscalls_per_op",
            Word::Go,
            interval(0.998, 1.001, 1.004),
            Some(1.02),
        ),
        ratio(
            "p99",
            Word::Inconclusive,
            interval(0.94, 1.02, 1.13),
            Some(1.1),
        ),
        ratio("rss", Word::Go, interval(0.996, 1.0, 1.003), None),
        ratio("instructions_per_op", Word::Inconclusive, None, Some(1.05)),
    ];
    let headline =
        "after costs 1.098 times the CPU an operation, 1.082 at least; the limit is 1.05.";
    let mut verdict = verdict(RunKind::Ab, Word::NoGo, headline, Vec::new());
    verdict.comparisons = comparisons;
    made(
        manifest(RunKind::Ab, "decoder", &["before", "after"], 12),
        epochs,
        Vec::new(),
        verdict,
    )
}

/// A program against itself.
pub fn calibration() -> Made {
    let mut run = ab();
    run.run.manifest.kind = RunKind::Calibrate;
    let verdict = run.run.verdict.as_mut().expect("it has one");
    verdict.kind = RunKind::Calibrate;
    verdict.word = Word::Go;
    verdict.exit_code = 0;
    verdict.headline = "A program against itself: no difference, as it should be.".to_owned();
    let mut cpu = ratio("cpu_per_op", Word::Go, interval(0.988, 1.001, 1.013), None);
    cpu.notes = vec!["12 pairs would see a true ratio of 1.021 in 4 of 5 comparisons.".to_owned()];
    verdict.comparisons = vec![
        cpu,
        ratio("p99", Word::Go, interval(0.93, 1.01, 1.1), None),
        ratio("rss", Word::Go, interval(0.999, 1.0, 1.001), None),
    ];
    run
}

/// What memcheck found.
pub fn leaks() -> Made {
    let stack = [
        "malloc (vg_replace_malloc.c:446)",
        "keep (leaky.c:31)",
        "answer (leaky.c:88)",
    ];
    let site = |kind: &str, bytes, blocks| LeakSite {
        kind: kind.to_owned(),
        bytes,
        blocks,
        stack: stack.map(str::to_owned).into(),
    };
    let lost = figure("lost_bytes", "B", Word::Leak, 128_000.0, Some(0.0));
    let mut variant = variant_verdict("default", Word::Leak, 1, vec![lost]);
    variant.leaks = vec![
        site("definitely lost", 128_000, 1000),
        site("possibly lost", 304, 1),
    ];
    let headline = "1,000 blocks of 128,000 bytes are lost: keep (leaky.c:31).";
    let verdict = verdict(RunKind::Leaks, Word::Leak, headline, vec![variant]);
    made(
        manifest(RunKind::Leaks, "leaky", &["default"], 1),
        Vec::new(),
        Vec::new(),
        verdict,
    )
}

/// Ended by Ctrl-C after 9 epochs, of a single run, with a generator that set the pace.
pub fn incomplete() -> Made {
    let course = Course {
        start_bytes: 31 * MIB,
        growth_bytes: 0.0,
        noise_bytes: 50_000.0,
        warmup: 4,
        epochs: 9,
        runs: 1,
    };
    let (mut epochs, samples) = soak_rows("default", course, &mut Noise::new(4));
    for epoch in &mut epochs {
        epoch.live_bytes = None;
        epoch.syscalls = None;
        // A look that failed leaves a gap.
        if epoch.epoch == 6 {
            epoch.anonymous_bytes = None;
            epoch.p99_us = None;
        }
    }
    let mut finding = growth("rss_growth", Word::Inconclusive, None, 32.0);
    finding.text = "5 points are too few to tell".to_owned();
    finding.method = Method::BlockBootstrap;
    (finding.points, finding.series) = (5, 1);
    let variants = vec![variant_verdict(
        "default",
        Word::Inconclusive,
        1,
        vec![finding],
    )];
    let headline = "The measurement can't be used: the generator, not the server, set the pace.";
    let mut verdict = verdict(RunKind::Soak, Word::Invalid, headline, variants);
    verdict.complete = false;
    verdict.problems = problems();
    let mut manifest = manifest(RunKind::Soak, "gateway under load", &["default"], 1);
    manifest.complete = false;
    manifest.finished = None;
    made(manifest, epochs, samples, verdict)
}

fn problems() -> Vec<Problem> {
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

/// Killed before anything was measured.
pub fn empty() -> Made {
    let mut manifest = manifest(RunKind::Soak, "killed", &["default"], 0);
    (manifest.complete, manifest.finished) = (false, None);
    Made {
        run: LoadedRun {
            path: PathBuf::from("run"),
            manifest,
            epochs: Vec::new(),
            verdict: None,
        },
        samples: Vec::new(),
    }
}

/// Many variants, one that never moves, one of a single epoch, and text that means harm.
pub fn hostile() -> Made {
    let harm = "<img src=x onerror=alert(1)>|`\u{1b}[31m\u{0}\"'&]]>{{ 7 * 7 }}\u{202e}";
    let mut noise = Noise::new(5);
    let (mut epochs, mut samples) = (Vec::new(), Vec::new());
    let mut names = vec![harm.to_owned()];
    names.extend((1..10).map(|number| format!("variant {number}")));
    for (index, name) in (0_u32..).zip(&names) {
        let course = Course {
            start_bytes: 20 * MIB,
            growth_bytes: f64::from(index) * 700.0,
            noise_bytes: f64::from(index) * 9000.0,
            warmup: 5,
            epochs: if index == 9 { 1 } else { 40 },
            runs: 2,
        };
        let (mut rows, looks) = soak_rows(name, course, &mut noise);
        if index == 0 {
            for row in &mut rows {
                row.anonymous_bytes = Some(20 * MIB);
            }
        }
        epochs.extend(rows);
        samples.extend(looks);
    }
    let mut finding = growth("rss_growth", Word::Stable, interval(0.0, 0.0, 0.0), 32.0);
    finding.text = harm.to_owned();
    finding.notes = vec![harm.to_owned()];
    let mut odd = figure(harm, harm, Word::NoGo, 1e300, Some(-1e-300));
    odd.text = harm.to_owned();
    let mut variants: Vec<VariantVerdict> = names
        .iter()
        .map(|name| variant_verdict(name, Word::Stable, 2, vec![finding.clone()]))
        .collect();
    variants[0].findings.push(odd);
    variants[0].leaks = vec![LeakSite {
        kind: harm.to_owned(),
        bytes: 1,
        blocks: 1,
        stack: vec![harm.to_owned()],
    }];
    let mut verdict = verdict(RunKind::Soak, Word::NoGo, harm, variants);
    verdict.problems = vec![Problem {
        kind: ProblemKind::HelperFailed,
        text: harm.to_owned(),
        help: harm.to_owned(),
    }];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut manifest = manifest(RunKind::Soak, harm, &names, 2);
    manifest.scenario_text = format!("# {harm}\n```\n</pre></script>\n");
    manifest.command = vec![harm.to_owned()];
    manifest.variants[0].cmd = vec![harm.to_owned()];
    manifest.machine.cpu_model = Some(harm.to_owned());
    manifest.capabilities[3].detail = harm.to_owned();
    manifest.runs[0].ended = Some(harm.to_owned());
    made(manifest, epochs, samples, verdict)
}

/// A thousand epochs of one run.
pub fn long() -> Made {
    let course = Course {
        start_bytes: 31 * MIB,
        growth_bytes: 20.0,
        noise_bytes: 90_000.0,
        warmup: 100,
        epochs: 1000,
        runs: 1,
    };
    let (epochs, samples) = soak_rows("default", course, &mut Noise::new(6));
    let mut finding = growth("rss_growth", Word::Stable, interval(-0.3, 0.1, 0.6), 32.0);
    finding.method = Method::BlockBootstrap;
    (finding.points, finding.series) = (900, 1);
    let variants = vec![variant_verdict("default", Word::Stable, 1, vec![finding])];
    let verdict = verdict(RunKind::Soak, Word::Stable, "Memory stays flat.", variants);
    made(
        manifest(RunKind::Soak, "a long one", &["default"], 1),
        epochs,
        samples,
        verdict,
    )
}

/// All of them by name.
pub fn all() -> Vec<(&'static str, Made)> {
    vec![
        ("stable", stable()),
        ("unbounded", unbounded()),
        ("cycles", cycles()),
        ("ab", ab()),
        ("calibration", calibration()),
        ("leaks", leaks()),
        ("incomplete", incomplete()),
        ("empty", empty()),
        ("hostile", hostile()),
        ("long", long()),
    ]
}
