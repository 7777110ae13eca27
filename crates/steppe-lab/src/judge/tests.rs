//! Verdicts on synthetic rows.

use super::*;
use crate::scenario::{AbMetric, GrowthBudget};

/// Rows whose memory is `bytes(epoch)`, a thousand operations each.
fn rows(run: u32, count: u32, bytes: impl Fn(u32) -> u64, live: Option<u64>) -> Vec<Epoch> {
    let row = |epoch| Epoch {
        variant: "default".to_owned(),
        run,
        epoch,
        warmup: epoch < 5,
        start_ms: u64::from(epoch) * 5_000,
        load_ms: 4_750,
        operations: Some(1_000),
        errors: Some(0),
        anonymous_bytes: Some(bytes(epoch)),
        swap_bytes: Some(0),
        hwm_bytes: Some(bytes(epoch) + 4_096),
        live_bytes: live.map(|slope| slope * u64::from(epoch)),
        syscalls: Some(4_000),
        ..Epoch::default()
    };
    (0..count).map(row).collect()
}

fn judge(epochs: &[Epoch], budget: &Budget) -> VariantVerdict {
    judge_at(epochs, budget, Look::ONLY)
}

fn judge_at(epochs: &[Epoch], budget: &Budget, look: Look) -> VariantVerdict {
    let latency = BTreeMap::new();
    let evidence = Evidence {
        epochs,
        latency: &latency,
        limit_bytes: Some(1 << 30),
        live_is_whole: true,
        seed: 1,
        look,
    };
    let all = [Variant {
        name: "default".to_owned(),
        ..Variant::default()
    }];
    variants(evidence, &all, budget, RunKind::Soak).remove(0)
}

fn budget() -> Budget {
    Budget {
        per_epoch: GrowthBudget {
            rss_kib: Some(32.0),
            hwm_kib: Some(64.0),
            live_kib: None,
        },
        ..Budget::default()
    }
}

fn finding<'a>(verdict: &'a VariantVerdict, metric: &str) -> &'a Finding {
    verdict
        .findings
        .iter()
        .find(|finding| finding.metric == metric)
        .unwrap()
}

const MIB: u64 = 1 << 20;

#[test]
fn flat_memory_is_stable() {
    let verdict = judge(&rows(0, 60, |_| 8 * MIB, None), &budget());
    assert_eq!(verdict.outcome, Outcome::Stable, "{verdict:#?}");
    let growth = finding(&verdict, "rss_growth");
    assert!(growth.text.contains("[single run]"), "{}", growth.text);
}

/// A median of slopes does not see one step, so both slopes stay 0.
#[test]
fn a_step_after_a_stable_look_is_open_again() {
    let stepped = |epoch| (8 + if epoch < 95 { 0 } else { 100 }) * MIB;
    let epochs = rows(0, 115, stepped, None);
    let mut looked = Looked::default();
    let mut take = |number, count: usize| {
        let look = |number| Look { number, of: 5 };
        let judged = |look| judge_at(&epochs[..count], &budget(), look);
        let mut verdict = judged(look(number));
        let of = (look(number), count as u64);
        let decision = looked.take(of, &mut verdict, |earlier| Some(judged(earlier)));
        (decision, finding(&verdict, "rss_growth").clone())
    };
    let (_, first) = take(1, 60);
    assert_eq!(first.outcome, Outcome::Stable);
    let (decision, second) = take(2, 115);
    let slopes = [second.value, second.last_half].map(|slope| slope.unwrap().estimate);
    assert_eq!(slopes, [0.0, 0.0]);
    assert_eq!(decision, Decision::Open);
    assert_eq!(second.outcome, Outcome::Inconclusive, "{second:#?}");
    let rose = second
        .notes
        .iter()
        .any(|note| note.starts_with("it rose by"));
    assert!(rose, "{second:#?}");
}

/// Memory is counted in pages: growth by less than one over the whole run can't be seen.
#[test]
fn nothing_is_stable_under_a_budget_that_could_not_have_been_seen() {
    let with_budget = |kib| Budget {
        per_epoch: GrowthBudget {
            rss_kib: Some(kib),
            ..budget().per_epoch
        },
        ..budget()
    };
    // A page over 54 steps is 76 bytes a step.
    let verdict = judge(&rows(0, 60, |_| 8 * MIB, None), &with_budget(0.07));
    let growth = finding(&verdict, "rss_growth");
    assert_eq!(growth.outcome, Outcome::Inconclusive, "{growth:#?}");
    let said = "the smallest growth that this run could detect is ";
    assert!(
        growth.notes.iter().any(|note| note.starts_with(said)),
        "{growth:#?}"
    );
    for kib in [0.0, 0.08] {
        let verdict = judge(&rows(0, 60, |_| 8 * MIB, None), &with_budget(kib));
        assert_eq!(finding(&verdict, "rss_growth").outcome, Outcome::Stable);
    }
}

#[test]
fn a_leak_is_named_with_its_bytes_an_operation() {
    let leaking = |epoch| 8 * MIB + u64::from(epoch) * 500_000;
    let verdict = judge(&rows(0, 60, leaking, Some(500_000)), &budget());
    assert_eq!(verdict.outcome, Outcome::Leak);
    let growth = finding(&verdict, "rss_growth");
    assert_eq!(growth.outcome, Outcome::Unbounded);
    assert!(
        growth
            .notes
            .iter()
            .any(|note| note == "500 bytes per operation"),
        "{:?}",
        growth.notes
    );
    assert!(
        growth
            .notes
            .iter()
            .any(|note| note.contains("is reached in")),
        "{:?}",
        growth.notes
    );
}

/// A rise that slows down makes the whole window noisy; the growth beside it is clear.
#[test]
fn growth_beside_a_curve_is_unbounded_with_a_note() {
    let filling = |epoch| {
        let left = (0..epoch).fold(40 * MIB, |left, _| left * 5 / 6);
        48 * MIB - left + u64::from(epoch) * 61_440
    };
    let verdict = judge(&rows(0, 60, filling, None), &budget());
    let growth = finding(&verdict, "rss_growth");
    assert_eq!(growth.outcome, Outcome::Unbounded, "{growth:#?}");
    let lower = growth.value.unwrap().lower;
    assert!(lower < growth.limit.unwrap(), "{growth:#?}");
    let said = "it slows down, and the rest without that curve is above the budget";
    assert!(
        growth.notes.iter().any(|note| note.starts_with(said)),
        "{growth:#?}"
    );
}

#[test]
fn a_zero_has_no_sign() {
    let told = [-0.0, -1e-9, -0.004, 12.0].map(kept::number);
    assert_eq!(told, ["0", "0", "-0.004", "12"]);
}

#[test]
fn growth_with_flat_live_bytes_is_retention() {
    let growing = |epoch| 8 * MIB + u64::from(epoch) * 500_000;
    let verdict = judge(&rows(0, 60, growing, Some(0)), &budget());
    assert_eq!(verdict.outcome, Outcome::Unbounded);
    let notes = &finding(&verdict, "rss_growth").notes;
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("retention, not a leak")),
        "{notes:?}"
    );
}

#[test]
fn growth_under_load_shows_in_the_high_water_mark() {
    let mut epochs = rows(0, 60, |_| 8 * MIB, None);
    for epoch in &mut epochs {
        epoch.hwm_bytes = Some(8 * MIB + u64::from(epoch.epoch) * 500_000);
    }
    let verdict = judge(&epochs, &budget());
    assert_eq!(finding(&verdict, "rss_growth").outcome, Outcome::Stable);
    assert_eq!(verdict.outcome, Outcome::Unbounded);
}

#[test]
fn shared_memory_is_held_too() {
    let mut epochs = rows(0, 60, |_| 8 * MIB, None);
    for epoch in &mut epochs {
        epoch.shmem_bytes = Some(u64::from(epoch.epoch) * 500_000);
    }
    assert_eq!(judge(&epochs, &budget()).outcome, Outcome::Unbounded);
}

#[test]
fn swapped_out_memory_is_still_held() {
    let mut epochs = rows(0, 60, |_| 8 * MIB, None);
    for epoch in &mut epochs {
        epoch.swap_bytes = Some(u64::from(epoch.epoch) * 500_000);
    }
    assert_eq!(judge(&epochs, &budget()).outcome, Outcome::Unbounded);
}

#[test]
fn what_was_not_seen_is_no_pass() {
    let mut epochs = rows(0, 60, |_| 8 * MIB, None);
    for epoch in &mut epochs[30..40] {
        epoch.hwm_bytes = None;
    }
    let with_limits = Budget {
        p99_ms: Some(12.0),
        ..budget()
    };
    let verdict = judge(&epochs, &with_limits);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    let mark = finding(&verdict, "hwm_growth");
    assert!(
        mark.text.ends_with("it was seen in 45 of 55 epochs"),
        "{}",
        mark.text
    );
    assert_eq!(finding(&verdict, "p99").outcome, Outcome::Inconclusive);
}

#[test]
fn a_broken_limit_is_no_go() {
    let with_limits = Budget {
        syscalls_per_op: Some(3.5),
        errors: Some(0),
        ..budget()
    };
    let verdict = judge(&rows(0, 60, |_| 8 * MIB, None), &with_limits);
    assert_eq!(verdict.outcome, Outcome::NoGo);
    let syscalls = finding(&verdict, "syscalls_per_op");
    assert_eq!(
        syscalls.text,
        "the number of system calls is 4 calls/op; allowed is at most 3.5"
    );
    assert_eq!(finding(&verdict, "errors").outcome, Outcome::Go);
}

#[test]
fn refusals_are_no_errors_and_have_a_limit_of_their_own() {
    let mut epochs = rows(0, 60, |_| 8 * MIB, None);
    let silent = judge(&epochs, &budget());
    assert!(silent.findings.iter().all(|it| it.metric != "refused"));
    for epoch in &mut epochs {
        epoch.refused = epoch.operations.map(|count| count / 3);
    }
    let with_limits = |refused_share| Budget {
        errors: Some(0),
        refused_share,
        ..budget()
    };
    let verdict = judge(&epochs, &with_limits(None));
    assert_eq!(finding(&verdict, "errors").outcome, Outcome::Go);
    let refused = finding(&verdict, "refused");
    assert_eq!(refused.text, "the refused share is 25 % of operations");
    let verdict = judge(&epochs, &with_limits(Some(0.2)));
    assert_eq!(verdict.outcome, Outcome::NoGo);
    let refused = finding(&verdict, "refused");
    assert_eq!(
        refused.text,
        "the refused share is 25 % of operations; allowed is at most 20"
    );
    let verdict = judge(&epochs, &with_limits(Some(0.3)));
    assert_eq!(finding(&verdict, "refused").outcome, Outcome::Go);
}

#[test]
fn growth_under_the_budget_is_told_with_the_time_that_is_left() {
    let slow = |epoch| 8 * MIB + u64::from(epoch) * 10_240;
    let verdict = judge(&rows(0, 60, slow, None), &budget());
    assert_eq!(verdict.outcome, Outcome::Stable);
    let notes = &finding(&verdict, "rss_growth").notes;
    let left = notes
        .iter()
        .find(|note| note.starts_with("at this rate"))
        .unwrap();
    // (1 GiB − 8.6 MiB) / 10 KiB × 5 s.
    assert!(
        left.ends_with("the limit of 1024 MiB is reached in 6.02 days"),
        "{left}"
    );
}

#[test]
fn the_worst_variant_decides_unless_it_is_expected() {
    let variant = |word, expect| VariantVerdict {
        name: "a".to_owned(),
        outcome: word,
        expect,
        runs: 1,
        findings: Vec::new(),
        leaks: Vec::new(),
        growing: Vec::new(),
        looks: Vec::new(),
    };
    let word = |variants| whole(RunKind::Soak, true, variants, Vec::new(), Vec::new()).outcome;
    let stable = variant(Outcome::Stable, None);
    assert_eq!(
        word(vec![stable.clone(), variant(Outcome::Growing, None)]),
        Outcome::Growing
    );
    let expected = variant(Outcome::Unbounded, Some(Outcome::Unbounded));
    assert_eq!(word(vec![stable.clone(), expected]), Outcome::Stable);
    let missed = variant(Outcome::Stable, Some(Outcome::Unbounded));
    assert_eq!(word(vec![stable, missed]), Outcome::NoGo);
}

#[test]
fn what_is_expected_hides_nothing_else() {
    let with_limits = Budget {
        syscalls_per_op: Some(3.5),
        ..budget()
    };
    let leaking = |epoch| 8 * MIB + u64::from(epoch) * 500_000;
    let mut verdict = judge(&rows(0, 60, leaking, Some(500_000)), &with_limits);
    verdict.expect = Some(Outcome::Unbounded);
    assert_eq!(verdict.outcome, Outcome::Leak);
    let word = |verdict| whole(RunKind::Soak, true, vec![verdict], Vec::new(), Vec::new()).outcome;
    assert_eq!(word(verdict.clone()), Outcome::NoGo);
    verdict
        .findings
        .retain(|finding| finding.metric != "syscalls_per_op");
    assert_eq!(word(verdict), Outcome::Stable);
}

#[test]
fn growth_of_what_the_live_bytes_leave_out_is_not_called_retention() {
    let growing = |epoch| 8 * MIB + u64::from(epoch) * 500_000;
    // Live bytes are within their budget, and grow by more than half as much as resident memory.
    let nearly = judge(
        &rows(0, 60, growing, Some(300_000)),
        &Budget {
            per_epoch: GrowthBudget {
                live_kib: Some(400.0),
                ..budget().per_epoch
            },
            ..budget()
        },
    );
    let notes = &finding(&nearly, "rss_growth").notes;
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("leak or retention is unknown")),
        "{notes:?}"
    );
}

#[test]
fn a_rate_that_was_not_kept_is_no_go() {
    let mut epochs = rows(0, 60, |_| 8 * MIB, None);
    for epoch in &mut epochs {
        epoch.intended = Some(2_000);
        epoch.kept = Some(1_000);
    }
    let verdict = judge(&epochs, &budget());
    assert_eq!(verdict.outcome, Outcome::NoGo);
    assert_eq!(finding(&verdict, "rate_kept").value.unwrap().estimate, 50.0);
}

#[test]
fn problems_have_exit_codes_of_their_own() {
    let exit = |kind, complete| {
        let problem = Problem {
            kind,
            text: "why".to_owned(),
            help: String::new(),
        };
        let verdict = whole(
            RunKind::Soak,
            complete,
            Vec::new(),
            Vec::new(),
            vec![problem],
        );
        (verdict.exit_code, verdict.headline)
    };
    assert_eq!(exit(ProblemKind::TargetFailed, false).0, 4);
    assert_eq!(exit(ProblemKind::MissingCapability, false).0, 5);
    assert_eq!(
        exit(ProblemKind::GeneratorSaturated, true),
        (5, "why".to_owned())
    );
    let (code, headline) = exit(ProblemKind::Interrupted, false);
    assert_eq!(code, 130);
    assert!(headline.contains("incomplete"), "{headline}");
}

#[test]
fn pairs_are_judged_by_what_each_run_used() {
    let run = |variant: &str, run: u32, cpu_us: u64| Epoch {
        variant: variant.to_owned(),
        run,
        operations: Some(1_000),
        load_ms: 1_000,
        cpu_us: Some(cpu_us),
        ..Epoch::default()
    };
    let epochs: Vec<Epoch> = (0..12)
        .flat_map(|pair| {
            let noise = u64::from(pair * 7 % 5);
            [
                run("old", pair, 20_000 + noise * 40),
                run("new", pair, 23_000 + noise * 30),
            ]
        })
        .collect();
    let latency = BTreeMap::new();
    let evidence = Evidence {
        epochs: &epochs,
        latency: &latency,
        limit_bytes: None,
        live_is_whole: true,
        seed: 1,
        look: Look::ONLY,
    };
    let plan = crate::scenario::AbPlan::default();
    assert_eq!(plan.gates[0].metric, AbMetric::CpuPerOp);
    let found = comparisons(
        evidence,
        ("old", "new"),
        &BTreeMap::new(),
        &plan,
        RunKind::Ab,
    );
    assert_eq!(found[0].outcome, Outcome::NoGo, "{found:#?}");
    let ratio = found[0].value.unwrap().estimate;
    assert!((ratio - 1.148).abs() < 0.01, "{ratio}");
    // The headline has the gate that is the furthest over its limit, before findings on single variants.
    let mut milder = found[0].clone();
    (milder.metric, milder.text) = ("rss".to_owned(), "rss".to_owned());
    milder.value = Some(super::exactly(1.06));
    let mut kept = judge(&rows(0, 20, |_| 8 * MIB, None), &budget());
    kept.outcome = Outcome::NoGo;
    kept.findings[0].outcome = Outcome::NoGo;
    let both = vec![milder, found[0].clone()];
    let verdict = whole(RunKind::Ab, true, vec![kept], both, Vec::new());
    let said = "cpu_us_per_op is 1.1";
    assert!(verdict.headline.starts_with(said), "{}", verdict.headline);
    let gate = crate::scenario::AbGate {
        metric: AbMetric::P99,
        limit: 1.0,
    };
    let unseen = crate::scenario::AbPlan {
        gates: vec![gate],
        ..plan
    };
    let found = comparisons(
        evidence,
        ("old", "new"),
        &BTreeMap::new(),
        &unseen,
        RunKind::Ab,
    );
    assert_eq!(found[0].outcome, Outcome::Inconclusive);
}

/// Rows of a minute and a half at one a second, changed by `change`.
fn changed(change: impl Fn(&mut Epoch, u64)) -> VariantVerdict {
    let mut epochs = rows(0, 90, |_| 8 * MIB, None);
    for epoch in &mut epochs {
        let number = u64::from(epoch.epoch);
        epoch.start_ms = number * 1_000;
        epoch.operations = Some(300);
        epoch.load_ms = 950;
        epoch.cpu_us = Some(300 * 100);
        epoch.p50_us = Some(5_000.0);
        epoch.p99_us = Some(9_000.0);
        epoch.open_files = Some(20);
        epoch.files_left = Some(1_004);
        epoch.tasks_left = Some(1 << 20);
        epoch.zombies = Some(0);
        epoch.threads = Some(4);
        epoch.control_ns = Some(50_000);
        epoch.steal = Some(0.0);
        change(epoch, number);
    }
    judge(&epochs, &budget())
}

#[test]
fn everything_that_holds_still_is_stable() {
    let verdict = changed(|_, _| {});
    assert_eq!(verdict.outcome, Outcome::Stable, "{verdict:#?}");
    for metric in ["open_files_growth", "zombies_growth", "p99_growth"] {
        assert_eq!(finding(&verdict, metric).outcome, Outcome::Stable);
    }
    // A series that was not measured has no finding.
    let speaks_of = |metric: &str| verdict.findings.iter().any(|it| it.metric == metric);
    assert!(!speaks_of("mappings_growth") && !speaks_of("live_growth"));
}

#[test]
fn a_limit_that_is_reached_within_a_day_is_an_alarm() {
    let verdict = changed(|epoch, number| {
        epoch.open_files = Some(20 + number * 27);
        epoch.files_left = Some(1_000_000 - number * 27);
    });
    let files = finding(&verdict, "open_files_growth");
    assert_eq!(files.outcome, Outcome::Unbounded, "{files:#?}");
    let text = &files.notes[0];
    let said = "at this rate, RLIMIT_NOFILE is reached in 10.3 hours";
    assert_eq!(text, said);
    let whole = whole(RunKind::Soak, true, vec![verdict], Vec::new(), Vec::new());
    let said = "; open_files reaches its limit first, in 10.3 hours";
    assert!(whole.headline.ends_with(said), "{}", whole.headline);
}

#[test]
fn a_cost_that_rises_is_an_alarm_unless_the_machine_did_it() {
    let dearer = |epoch: &mut Epoch, number: u64| epoch.cpu_us = Some(300 * (100 + 2 * number));
    let verdict = changed(dearer);
    let cpu = finding(&verdict, "cpu_us_per_op_growth");
    assert_eq!(
        (cpu.outcome, verdict.outcome),
        (Outcome::Unbounded, Outcome::Unbounded)
    );
    assert_eq!(finding(&verdict, "p50_growth").outcome, Outcome::Stable);
    let verdict = changed(|epoch, number| {
        dearer(epoch, number);
        epoch.control_ns = Some(50_000 + 1_000 * number);
    });
    let cpu = finding(&verdict, "cpu_us_per_op_growth");
    assert_eq!(cpu.outcome, Outcome::Inconclusive);
    assert!(
        cpu.notes
            .iter()
            .any(|note| note.starts_with("the machine changed")),
        "{cpu:#?}"
    );
    let verdict = changed(|epoch, number| {
        dearer(epoch, number);
        epoch.steal = Some(0.001 * f64::from(u32::try_from(number).unwrap()));
    });
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
}

#[test]
fn throughput_that_falls_is_an_alarm() {
    let verdict = changed(|epoch, number| epoch.operations = Some(300 - 2 * number));
    assert_eq!(
        finding(&verdict, "throughput_loss").outcome,
        Outcome::Unbounded
    );
    let text = &finding(&verdict, "throughput_loss").text;
    assert!(
        text.contains("falls by ") && !text.contains("by -"),
        "{text}"
    );
    let verdict = changed(|epoch, number| epoch.operations = Some(300 + 2 * number));
    let risen = finding(&verdict, "throughput_loss");
    assert_eq!(risen.outcome, Outcome::Stable);
    let text = &risen.text;
    assert!(text.contains("throughput grows by "), "{text}");
    assert!(text.contains("; allowed is a loss of "), "{text}");
    assert!(
        !text.contains("by -") && !text.contains("by \u{2212}"),
        "{text}"
    );
}

/// Memory that is given back is said to fall, not to grow by less than zero.
#[test]
fn memory_that_falls_is_told_as_a_fall() {
    let falls = |epoch| 800 * MIB - 2 * MIB * u64::from(epoch);
    let verdict = judge(&rows(0, 60, falls, None), &budget());
    let text = &finding(&verdict, "rss_growth").text;
    assert!(text.contains("falls by "), "{text}");
    assert!(text.contains("; allowed is growth of "), "{text}");
}

#[test]
fn what_lies_beside_the_processes_is_judged_as_memory_is() {
    let verdict = changed(|epoch, number| {
        epoch.cgroup_reclaimable_bytes = Some(3 * MIB * number);
        epoch.cgroup_bytes = Some(20 * MIB + 3 * MIB * number);
    });
    assert_eq!(verdict.outcome, Outcome::Stable, "page cache is no growth");
    let verdict = changed(|epoch, number| {
        epoch.cgroup_reclaimable_bytes = Some(3 * MIB);
        epoch.cgroup_bytes = Some(20 * MIB + MIB * number);
    });
    let beside = finding(&verdict, "cgroup_growth");
    assert_eq!(beside.outcome, Outcome::Unbounded, "{beside:#?}");
    assert!((beside.value.unwrap().estimate - 86_400.0).abs() < 1.0);
}

#[test]
fn time_wait_is_judged_when_the_first_of_them_end() {
    // The number of sockets rises for a minute, as everywhere, and then stays.
    let fills = |epoch: &mut Epoch, number: u64| {
        epoch.time_wait_max = Some(300 * (number + 1).min(60));
    };
    assert_eq!(changed(fills).outcome, Outcome::Stable);
}

#[test]
fn time_wait_comes_and_goes_with_connections_and_grows_only_with_their_rate() {
    // Forty are closed at once now and then, and each is gone a minute later.
    let wanders = |epoch: &mut Epoch, number: u64| {
        epoch.time_wait_max = Some(4 + 40 * (number / 9 * 7 % 3 % 2));
    };
    assert_eq!(changed(wanders).outcome, Outcome::Stable);
    let grows = |epoch: &mut Epoch, number: u64| {
        epoch.time_wait_max = Some(100 * number.saturating_sub(50));
    };
    let verdict = changed(grows);
    let growth = finding(&verdict, "time_wait_growth");
    assert_eq!(growth.outcome, Outcome::Unbounded, "{growth:#?}");
}

/// A collector's memory: 3 MiB more each epoch and back every `period`, on a floor that grows.
fn collected(count: u32, period: u32, floor: u64) -> VariantVerdict {
    let bytes = |epoch| 50 * MIB + 3 * MIB * u64::from(epoch % period) + floor * u64::from(epoch);
    judge(&rows(0, count, bytes, None), &budget())
}

#[test]
fn a_saw_tooth_is_judged_at_its_floor() {
    let verdict = collected(90, 12, 0);
    let rest = finding(&verdict, "rss_growth");
    assert_eq!(rest.outcome, Outcome::Stable, "{rest:#?}");
    assert_eq!(rest.value.unwrap().estimate, 0.0);
    let said = "it is a saw-tooth: 7 collections, one every 60 s; memory after them is judged";
    assert!(rest.notes.iter().any(|note| note == said), "{rest:#?}");

    let verdict = collected(90, 12, 500_000);
    let rest = finding(&verdict, "rss_growth");
    assert_eq!(rest.outcome, Outcome::Unbounded, "{rest:#?}");
    assert!(
        rest.notes
            .iter()
            .any(|note| note == "500 bytes per operation")
    );
}

/// A series without a budget can't exceed one: STABLE needs no evidence.
#[test]
fn too_few_collections_of_what_has_no_budget_are_stable() {
    let mut epochs = rows(0, 70, |_| 8 * MIB, None);
    for epoch in &mut epochs {
        epoch.hwm_bytes = Some(50 * MIB + 3 * MIB * u64::from(epoch.epoch % 24));
    }
    let drift = crate::scenario::DriftBudget {
        is_off: true,
        ..Default::default()
    };
    let budget = Budget {
        drift,
        ..Budget::default()
    };
    let verdict = judge(&epochs, &budget);
    assert_eq!(verdict.outcome, Outcome::Stable, "{verdict:#?}");
}

#[test]
fn too_few_collections_are_named_with_the_time_that_more_take() {
    for floor in [0, 500_000] {
        let verdict = collected(70, 24, floor);
        let rest = finding(&verdict, "rss_growth");
        assert_eq!(rest.outcome, Outcome::Inconclusive, "{rest:#?}");
        let said = "memory is a saw-tooth: 2 collections were seen, 4 are needed; about 4 minutes more \
                    would show them";
        assert_eq!(rest.text, said);
    }
}

#[test]
fn collections_that_were_forced_count_and_too_few_are_named() {
    let forced = |count: u32| {
        let mut epochs = rows(0, 60, |_| 8 * MIB, None);
        for epoch in &mut epochs {
            let is_done = (5..5 + count).contains(&epoch.epoch);
            epoch.collections = Some(u64::from(is_done));
        }
        judge(&epochs, &budget())
    };
    assert_eq!(forced(4).outcome, Outcome::Stable);
    let verdict = forced(1);
    let rest = finding(&verdict, "rss_growth");
    assert_eq!(rest.outcome, Outcome::Inconclusive, "{rest:#?}");
    let said = "growth of memory can't be judged: 1 collection was forced, 4 are needed (`target.collect`)";
    assert_eq!(rest.text, said);
}
