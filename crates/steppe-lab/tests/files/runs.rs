//! Runs that look like real ones, made from a seed: data for the tests of reports.
//!
//! Figures of memory wander and jump by pages as those of a process do; verdicts are written by
//! hand, to match the figures.

#![allow(dead_code, reason = "each test binary uses some of them")]

use std::fs;
use std::path::{Path, PathBuf};

use steppe_lab::record::{
    Epoch, Folder, LeakSite, LoadedRun, Manifest, Method, Outcome, Problem, ProblemKind, RunKind,
    Sample, VariantVerdict, Verdict,
};
use steppe_lab::report::Timelines;

mod parts;
mod rows;

use parts::{figure, growth, interval, manifest, problems, ratio, variant_verdict};
use rows::{
    Course, KIB, MIB, Noise, cycle_epoch, float, soak_epoch, soak_rows, start_epoch, whole,
};

/// A run and its samples.
#[derive(Debug, Clone)]
pub struct Made {
    pub run: LoadedRun,
    pub samples: Vec<Sample>,
}

impl Made {
    pub fn timelines(&self) -> Timelines {
        let samples = self.samples.iter().cloned().map(Ok::<_, std::fmt::Error>);
        Timelines::collect(samples).expect("no row is damaged")
    }

    /// Writes the run into a folder, as a real run does.
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

fn verdict(kind: RunKind, word: Outcome, headline: &str, variants: Vec<VariantVerdict>) -> Verdict {
    Verdict {
        kind,
        outcome: word,
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
        growth(
            "rss_growth",
            Outcome::Stable,
            interval(-1.6, 0.9, 3.4),
            32.0,
        ),
        growth(
            "hwm_growth",
            Outcome::Stable,
            interval(-4.1, 1.2, 6.5),
            64.0,
        ),
        growth(
            "live_growth",
            Outcome::Stable,
            interval(-0.4, 0.02, 0.5),
            32.0,
        ),
        figure("p99", "ms", Outcome::Go, 2.6, Some(12.0)),
        figure("syscalls_per_op", "calls/op", Outcome::Go, 4.12, Some(4.5)),
        figure("errors", "count", Outcome::Go, 0.0, Some(0.0)),
        figure("close_wait", "sockets", Outcome::Go, 0.0, Some(0.0)),
        figure("cpu_us_per_op", "µs/op", Outcome::Go, 38.2, None),
    ];
    let headline =
        "Memory stays flat: it grows by 0.9 KiB an epoch, 3.4 at most, of 32 that it may.";
    let variants = vec![variant_verdict("default", Outcome::Stable, 5, findings)];
    let manifest = manifest(RunKind::Soak, "gateway under load", &["default"], 5);
    let verdict = verdict(RunKind::Soak, Outcome::Stable, headline, variants);
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
        epoch.errors = Some(match epoch.epoch % 17 {
            9 => 40 + u64::from(epoch.run),
            _ => 0,
        });
    }
    let mut growing = growth(
        "rss_growth",
        Outcome::Unbounded,
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
            Outcome::Leak,
            interval(197.0, 200.0, 203.1),
            32.0,
        ),
        figure("p99", "ms", Outcome::Go, 2.7, Some(12.0)),
        figure("errors", "count", Outcome::NoGo, 850.0, Some(0.0)),
    ];
    let headline = "Memory grows without bound: 200 KiB an epoch, 196 at least, of 32 that it may.";
    let variants = vec![variant_verdict("default", Outcome::Leak, 5, findings)];
    let verdict = verdict(RunKind::Soak, Outcome::Leak, headline, variants);
    made(
        manifest(RunKind::Soak, "leaky", &["default"], 5),
        epochs,
        samples,
        verdict,
    )
}

/// Four variants of three cycles, with the published figures.
pub fn cycles() -> Made {
    let table: [(&str, [u64; 4], Outcome); 4] = [
        ("baseline", [57, 6114, 7573, 8389], Outcome::Unbounded),
        (
            "baseline, 2 arenas",
            [57, 4321, 4436, 4436],
            Outcome::Stable,
        ),
        ("zero-copy", [61, 6282, 7368, 8140], Outcome::Unbounded),
        (
            "zero-copy, 2 arenas",
            [57, 3946, 4004, 4061],
            Outcome::Stable,
        ),
    ];
    let (mut epochs, mut variants) = (Vec::new(), Vec::new());
    for (name, megabytes, word) in table {
        epochs.push(start_epoch(name, megabytes[0] * 1_000_000));
        for (cycle, megabytes) in (1..).zip(&megabytes[1..]) {
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
        variant.expect = (name == "baseline").then_some(Outcome::Unbounded);
        variants.push(variant);
    }
    let headline = "zero-copy grows without bound: 907 MiB a cycle, of 64 that it may.";
    let verdict = verdict(RunKind::Cycle, Outcome::Unbounded, headline, variants);
    let names = table.map(|row| row.0);
    made(
        manifest(RunKind::Cycle, "large payloads", &names, 1),
        epochs,
        Vec::new(),
        verdict,
    )
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
            let mut warmup = epoch.clone();
            (warmup.warmup, warmup.rss_bytes) = (true, Some(3 * MIB));
            epoch.epoch = 1;
            epochs.extend([warmup, epoch]);
        }
    }
    let comparisons = vec![
        ratio(
            "cpu_us_per_op",
            Outcome::NoGo,
            interval(1.082, 1.098, 1.114),
            Some(1.05),
        ),
        ratio(
            "syscalls_per_op",
            Outcome::Go,
            interval(0.998, 1.001, 1.004),
            Some(1.02),
        ),
        ratio(
            "p99",
            Outcome::Inconclusive,
            interval(0.94, 1.02, 1.13),
            Some(1.1),
        ),
        ratio("rss", Outcome::Go, interval(0.996, 1.0, 1.003), None),
        ratio(
            "instructions_per_op",
            Outcome::Inconclusive,
            None,
            Some(1.05),
        ),
    ];
    let headline =
        "after costs 1.098 times the CPU per operation, 1.082 at least; the limit is 1.05.";
    let mut verdict = verdict(RunKind::Ab, Outcome::NoGo, headline, Vec::new());
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
    let manifest = manifest(RunKind::Calibrate, "decoder", &["first", "second"], 12);
    run.run.manifest = manifest;
    for epoch in &mut run.run.epochs {
        let is_first = epoch.variant == "before";
        epoch.variant = if is_first { "first" } else { "second" }.to_owned();
    }
    let verdict = run.run.verdict.as_mut().expect("it has one");
    verdict.kind = RunKind::Calibrate;
    verdict.outcome = Outcome::Go;
    verdict.exit_code = 0;
    verdict.headline = "A program against itself: no difference, as it should be.".to_owned();
    let mut cpu = ratio(
        "cpu_us_per_op",
        Outcome::Go,
        interval(0.988, 1.001, 1.013),
        None,
    );
    cpu.notes = vec!["12 pairs would see a true ratio of 1.021 in 4 of 5 comparisons.".to_owned()];
    verdict.comparisons = vec![
        cpu,
        ratio("p99", Outcome::Go, interval(0.93, 1.01, 1.1), None),
        ratio("rss", Outcome::Go, interval(0.999, 1.0, 1.001), None),
    ];
    run
}

/// Findings of memcheck.
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
    let lost = figure("lost_bytes", "bytes", Outcome::Leak, 128_000.0, Some(0.0));
    let mut variant = variant_verdict("default", Outcome::Leak, 1, vec![lost]);
    variant.leaks = vec![
        site("definitely lost", 128_000, 1000),
        site("possibly lost", 304, 1),
    ];
    let headline = "1,000 blocks of 128,000 bytes are lost: keep (leaky.c:31).";
    let verdict = verdict(RunKind::Leaks, Outcome::Leak, headline, vec![variant]);
    made(
        manifest(RunKind::Leaks, "leaky", &["default"], 1),
        Vec::new(),
        Vec::new(),
        verdict,
    )
}

/// A single run ended by Ctrl-C after 9 epochs, with a generator that set the pace.
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
    let mut finding = growth("rss_growth", Outcome::Inconclusive, None, 32.0);
    finding.text = "5 points are too few to tell".to_owned();
    finding.method = Method::BlockBootstrap;
    (finding.points, finding.series) = (5, 1);
    let variants = vec![variant_verdict(
        "default",
        Outcome::Inconclusive,
        1,
        vec![finding],
    )];
    let headline = "The measurement can't be used: the generator, not the server, set the pace.";
    let mut verdict = verdict(RunKind::Soak, Outcome::Invalid, headline, variants);
    verdict.complete = false;
    verdict.problems = problems();
    let mut manifest = manifest(RunKind::Soak, "gateway under load", &["default"], 1);
    manifest.complete = false;
    manifest.finished = None;
    made(manifest, epochs, samples, verdict)
}

/// A run killed before anything was measured.
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

/// Many variants, one that never moves, one of a single epoch, and hostile text.
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
    let mut finding = growth("rss_growth", Outcome::Stable, interval(0.0, 0.0, 0.0), 32.0);
    finding.text = harm.to_owned();
    finding.notes = vec![harm.to_owned()];
    let mut odd = figure(harm, harm, Outcome::NoGo, 1e300, Some(-1e-300));
    odd.text = harm.to_owned();
    let mut variants: Vec<VariantVerdict> = names
        .iter()
        .map(|name| variant_verdict(name, Outcome::Stable, 2, vec![finding.clone()]))
        .collect();
    variants[0].findings.push(odd);
    variants[0].leaks = vec![LeakSite {
        kind: harm.to_owned(),
        bytes: 1,
        blocks: 1,
        stack: vec![harm.to_owned()],
    }];
    let mut verdict = verdict(RunKind::Soak, Outcome::NoGo, harm, variants);
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
    let mut finding = growth(
        "rss_growth",
        Outcome::Stable,
        interval(-0.3, 0.1, 0.6),
        32.0,
    );
    finding.method = Method::BlockBootstrap;
    (finding.points, finding.series) = (900, 1);
    let variants = vec![variant_verdict(
        "default",
        Outcome::Stable,
        1,
        vec![finding],
    )];
    let verdict = verdict(
        RunKind::Soak,
        Outcome::Stable,
        "Memory stays flat.",
        variants,
    );
    made(
        manifest(RunKind::Soak, "a long one", &["default"], 1),
        epochs,
        samples,
        verdict,
    )
}

/// All runs by name.
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
