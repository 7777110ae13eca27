//! The simulation that backs the statistics: series and pairs whose truth is known, judged.
//!
//! `cargo test -p steppe-lab --test simulation -- --nocapture --test-threads=1` prints the tables,
//! including rows with few assertions. Seeds are fixed, so the same figures come out everywhere.
//!
//! Few draws of each truth are judged, unless the statistics changed (`STEPPE_STATS_CHANGED=1`, which
//! `cargo xtask test` sets), in the long tier (`STEPPE_LONG=1`), or where `STEPPE_DRAWS` has the number.
//! A bound is stated for all draws; for fewer, it allows the deviation that chance causes in equally good
//! statistics.
//!
//! Slopes and noise of series are in units of the budget per epoch.

mod share;

use std::thread;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use steppe_lab::record::Outcome;
use steppe_lab::stats::{
    ALPHA, Alarm, Drift, GateInput, Hypothesis, Look, Shape, auto_warmup, detectable_ratio, holm,
    judge_drift, judge_memory, judge_pairs, noise,
};
use steppe_testkit::is_long;

use share::Share;

const EPOCHS: u32 = 240;
const BUDGET: f64 = 1.0;

/// Draws where the statistics did not change.
const FEW: u64 = 50;
/// Draws behind the figures in the documentation.
const MANY: u64 = 1_000;

/// Number of draws to judge, of `all` that are judged when the statistics changed.
fn draws(all: u64) -> u64 {
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(said) = variable("STEPPE_DRAWS") {
        return said.parse().expect("STEPPE_DRAWS is a number");
    }
    let is_changed = variable("STEPPE_STATS_CHANGED").is_some_and(|value| value == "1");
    if is_changed || is_long() {
        all
    } else {
        all.min(FEW)
    }
}

/// A series without noise.
#[derive(Debug, Clone, Copy)]
enum Truth {
    Leak,
    AtBudget,
    Steady,
    /// Rises by 100 budgets and stops.
    Plateau,
    /// Rises by 1,500 budgets in all, with a time constant of this many epochs: still rises after the
    /// warm-up.
    Filling(u32),
    /// 96 budgets every fifteen epochs.
    Stairs,
}

impl Truth {
    fn at(self, epoch: u32) -> f64 {
        match self {
            Self::Plateau => 100.0 * (1.0 - (-f64::from(epoch) / 15.0).exp()),
            Self::Filling(constant) => {
                1_500.0 * (1.0 - (-f64::from(epoch) / f64::from(constant)).exp())
            }
            Self::Stairs => 96.0 * f64::from(epoch / 15),
            _ => self.slope() * f64::from(epoch),
        }
    }

    /// Slope in the long run.
    fn slope(self) -> f64 {
        match self {
            Self::Leak => 2.0,
            Self::AtBudget => 1.0,
            Self::Steady | Self::Plateau | Self::Filling(_) => 0.0,
            Self::Stairs => 6.4,
        }
    }
}

/// Noise with a standard deviation of 1.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// First-order autoregressive: this part of an epoch's noise is left in the next.
    Kept(f64),
    /// Half of the variance is noise of which 0.9 is left in the next epoch, half is white.
    KeptUnderWhite,
    /// Student's t with two degrees of freedom (no variance at all), half of it kept.
    Heavy,
    /// Rises for ten epochs and falls at once, with little noise.
    Sawtooth,
}

impl Noise {
    fn series(self, epochs: u32, random: &mut Pcg64) -> Vec<f64> {
        let kept = match self {
            Self::Kept(kept) => kept,
            Self::KeptUnderWhite => 0.9,
            Self::Heavy => 0.5,
            Self::Sawtooth => 0.0,
        };
        let fresh = (1.0 - kept * kept).sqrt();
        let phase = random.random_range(0..10);
        let mut value = normal(random);
        let mut points = Vec::new();
        for epoch in 0..epochs {
            points.push(match self {
                Self::Kept(_) | Self::Heavy => value,
                Self::KeptUnderWhite => (value + normal(random)) / 2.0_f64.sqrt(),
                Self::Sawtooth => f64::from((epoch + phase) % 10) / 2.9 + 0.2 * value,
            });
            let next = match self {
                Self::Heavy => student(2, random),
                _ => normal(random),
            };
            value = kept * value + fresh * next;
        }
        points
    }
}

fn normal(random: &mut Pcg64) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

fn student(degrees: u32, random: &mut Pcg64) -> f64 {
    let squares: f64 = (0..degrees).map(|_| normal(random).powi(2)).sum();
    normal(random) / (squares / f64::from(degrees)).sqrt()
}

/// The series of one process, without its warm-up.
fn process(truth: Truth, noise: Noise, epochs: u32, random: &mut Pcg64) -> Vec<f64> {
    let noise = noise.series(epochs, random);
    let points = (0..epochs).zip(noise);
    let after_warmup = points.skip(auto_warmup(epochs) as usize);
    after_warmup
        .map(|(epoch, noise)| truth.at(epoch) + 40.0 * noise)
        .collect()
}

/// Verdicts on the same truth, one a seed.
fn drifts(truth: Truth, noise: Noise, (processes, epochs): (u32, u32), seeds: u64) -> Vec<Drift> {
    on_two_threads(seeds, |seed| {
        let mut random = Pcg64::seed_from_u64(seed);
        let series: Vec<Vec<f64>> = (0..processes)
            .map(|_| process(truth, noise, epochs, &mut random))
            .collect();
        judge_drift(&series, BUDGET, !seed).expect("every series is long enough")
    })
}

fn on_two_threads<T: Send>(seeds: u64, judge: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let half = seeds / 2;
    let judge = &judge;
    thread::scope(|scope| {
        let first = scope.spawn(move || (1..=half).map(judge).collect::<Vec<T>>());
        let mut second: Vec<T> = (half + 1..=seeds).map(judge).collect();
        let mut all = first.join().expect("a judge doesn't panic");
        all.append(&mut second);
        all
    })
}

fn percent<T>(all: &[T], is_so: impl Fn(&T) -> bool) -> f64 {
    Share::of(all, is_so).percent()
}

/// Shares of the verdicts.
struct Row {
    stable: Share,
    growing: Share,
    unbounded: Share,
}

impl Row {
    fn alarms(&self) -> Share {
        Share {
            hits: self.growing.hits + self.unbounded.hits,
            ..self.growing
        }
    }
}

fn drift_header(processes: u32, seeds: u64) {
    println!("\n{processes} process(es), {seeds} seeds: % of verdicts");
    println!("           STABLE GROWING UNBOUNDED INCONCLUSIVE | slope within  half-width");
}

fn drift_row(truth: Truth, processes: u32, seeds: u64) -> Row {
    let drifts = drifts(truth, Noise::Kept(0.8), (processes, EPOCHS), seeds);
    let word = |word: Outcome| Share::of(&drifts, |drift| drift.outcome == word);
    let row = Row {
        stable: word(Outcome::Stable),
        growing: word(Outcome::Growing),
        unbounded: word(Outcome::Unbounded),
    };
    let is_within =
        |drift: &Drift| (drift.whole.lower..=drift.whole.upper).contains(&truth.slope());
    let half_widths = drifts
        .iter()
        .map(|drift| drift.whole.upper - drift.whole.lower);
    println!(
        "{:10} {:6.1} {:7.1} {:9.1} {:12.1} | {:12.1}  {:10.2}",
        format!("{truth:?}"),
        row.stable.percent(),
        row.growing.percent(),
        row.unbounded.percent(),
        word(Outcome::Inconclusive).percent(),
        percent(&drifts, is_within),
        half_widths.sum::<f64>() / 2.0 / drifts.len() as f64,
    );
    row
}

#[test]
fn five_processes_tell_a_leak_from_noise_and_from_a_plateau() {
    let seeds = draws(MANY);
    drift_header(5, seeds);
    let leak = drift_row(Truth::Leak, 5, seeds);
    let at_budget = drift_row(Truth::AtBudget, 5, seeds);
    let steady = drift_row(Truth::Steady, 5, seeds);
    let plateau = drift_row(Truth::Plateau, 5, seeds);
    assert!(leak.unbounded.is_at_least(95.0, MANY));
    assert!(steady.stable.is_at_least(95.0, MANY));
    assert!(steady.alarms().is_at_most(2.0, MANY));
    assert!(plateau.unbounded.is_at_most(1.0, MANY));
    // 2.5 % on either side, and the deviation that 1,000 seeds may have.
    assert!(at_budget.stable.is_at_most(4.0, MANY));
    assert!(at_budget.alarms().is_at_most(4.0, MANY));
}

#[test]
fn one_process_is_seldom_wrong_and_often_short_of_unbounded() {
    let seeds = draws(MANY);
    drift_header(1, seeds);
    let leak = drift_row(Truth::Leak, 1, seeds);
    let steady = drift_row(Truth::Steady, 1, seeds);
    let plateau = drift_row(Truth::Plateau, 1, seeds);
    assert!(leak.stable.is_at_most(1.0, MANY));
    assert!(steady.alarms().is_at_most(2.0, MANY));
    assert!(plateau.unbounded.is_at_most(1.0, MANY));
}

#[test]
fn three_processes_claim_no_more_than_each_does() {
    const ALL: u64 = 100;
    let seeds = draws(ALL);
    drift_header(3, seeds);
    let leak = drift_row(Truth::Leak, 3, seeds);
    let steady = drift_row(Truth::Steady, 3, seeds);
    assert!(leak.stable.is_at_most(1.0, ALL));
    assert!(steady.alarms().is_at_most(2.0, ALL));
}

/// Two minutes of epochs of a second, like an exploration: noise of ten budgets.
#[test]
fn what_still_fills_is_no_leak_and_stairs_are() {
    const ALL: u64 = 300;
    let seeds = draws(ALL);
    println!("\n1 process, 120 epochs, {seeds} seeds: % of verdicts");
    println!("              STABLE GROWING UNBOUNDED INCONCLUSIVE  told apart");
    for truth in [
        Truth::Filling(8),
        Truth::Filling(25),
        Truth::Stairs,
        Truth::Leak,
        Truth::Steady,
    ] {
        let drifts = on_two_threads(seeds, |seed| {
            let mut random = Pcg64::seed_from_u64(seed);
            let noise = Noise::Kept(0.5).series(120, &mut random);
            let points = (0..120).zip(noise).skip(auto_warmup(120) as usize);
            let points: Vec<f64> = points
                .map(|(epoch, noise)| truth.at(epoch) + 10.0 * noise)
                .collect();
            judge_drift(&[points], BUDGET, !seed).expect("long enough")
        });
        let word = |word: Outcome| Share::of(&drifts, |drift| drift.outcome == word);
        let told = Share::of(&drifts, |drift| !matches!(drift.shape, Shape::Line));
        println!(
            "{:13} {:6.1} {:7.1} {:9.1} {:12.1} {:11.1}",
            format!("{truth:?}"),
            word(Outcome::Stable).percent(),
            word(Outcome::Growing).percent(),
            word(Outcome::Unbounded).percent(),
            word(Outcome::Inconclusive).percent(),
            told.percent(),
        );
        let unbounded = word(Outcome::Unbounded);
        match truth {
            Truth::Filling(_) => assert!(unbounded.is_at_most(2.5, ALL)),
            Truth::Stairs => {
                assert!(unbounded.is_at_least(90.0, ALL) && told.is_at_least(90.0, ALL));
            }
            Truth::Leak => assert!(told.is_at_most(5.0, ALL)),
            _ => assert!(word(Outcome::Stable).is_at_least(80.0, ALL)),
        }
    }
}

/// Memory of a server with a garbage collector: teeth of 400 budgets, whose heights differ by `spread`,
/// collected at any moment of an epoch. Noise of ten, half of it kept.
fn collected(truth: Truth, (period, spread): (f64, f64), random: &mut Pcg64) -> Vec<f64> {
    const HEIGHT: f64 = 400.0;
    let mut garbage = HEIGHT * random.random::<f64>();
    let mut full = HEIGHT;
    let mut points = Vec::new();
    for (epoch, noise) in (0..EPOCHS).zip(Noise::Kept(0.5).series(EPOCHS, random)) {
        garbage += HEIGHT / period;
        if garbage >= full {
            // Memory that was allocated since the collection is there.
            garbage %= full;
            full = HEIGHT * (1.0 + spread * normal(random)).clamp(0.5, 1.5);
        }
        points.push(truth.at(epoch) + garbage + 10.0 * noise);
    }
    points.split_off(auto_warmup(EPOCHS) as usize)
}

/// Draws of each saw-tooth, and of other noise, where the statistics changed.
const TEETH: u64 = 100;

/// Verdicts on saw-teeth; prints a row.
fn of_teeth(truth: Truth, (period, spread): (f64, f64), processes: u32) -> Vec<Drift> {
    let drifts = on_two_threads(draws(TEETH), |seed| {
        let mut random = Pcg64::seed_from_u64(seed);
        let series: Vec<Vec<f64>> = (0..processes)
            .map(|_| collected(truth, (period, spread), &mut random))
            .collect();
        judge_memory(&series, None, BUDGET, !seed).expect("long enough")
    });
    let word = |word: Outcome| percent(&drifts, |drift| drift.outcome == word);
    println!(
        "{processes:7} {:8} {period:6.1} {spread:6.1} {:6.1} {:7.1} {:9.1} {:12.1}  {:13.1}",
        format!("{truth:?}"),
        word(Outcome::Stable),
        word(Outcome::Growing),
        word(Outcome::Unbounded),
        word(Outcome::Inconclusive),
        percent(&drifts, |drift| collections(drift)
            .is_some_and(|seen| seen >= 4)),
    );
    drifts
}

/// Number of collections that were seen, if the series is a saw-tooth.
fn collections(drift: &Drift) -> Option<u32> {
    match drift.shape {
        Shape::Teeth(teeth) => Some(teeth.collections),
        _ => None,
    }
}

/// 200 epochs after the warm-up: from fifty collections to one.
#[test]
fn garbage_is_no_leak_and_a_leak_below_it_is() {
    println!(
        "\nsaw-teeth, {EPOCHS} epochs, {} seeds: % of verdicts",
        draws(TEETH)
    );
    println!("process          period spread STABLE GROWING UNBOUNDED INCONCLUSIVE  4 collections");
    let of_one = [4.0, 7.3, 12.0, 20.0, 33.0, 45.0, 90.0, 150.0].map(|period| (1, period, 0.1));
    let uneven = [(1, 20.0, 0.3), (5, 12.0, 0.1), (5, 33.0, 0.1)];
    for (processes, period, spread) in of_one.into_iter().chain(uneven) {
        let healthy = of_teeth(Truth::Steady, (period, spread), processes);
        let alarm = |drift: &Drift| matches!(drift.outcome, Outcome::Unbounded | Outcome::Growing);
        let alarms = Share::of(&healthy, alarm);
        assert!(alarms.is_at_most(5.0, TEETH), "{period}: {alarms:?}");
        let leaking = of_teeth(Truth::Leak, (period, spread), processes);
        let is_stable = |drift: &Drift| drift.outcome == Outcome::Stable;
        let stable = Share::of(&leaking, is_stable);
        assert!(stable.is_at_most(2.5, TEETH), "{period}: {stable:?}");
        // Fewer than four collections claim nothing, and a leak is found behind four.
        let is_short = |drift: &Drift| collections(drift).is_some_and(|seen| seen < 4);
        for drift in healthy.iter().chain(&leaking).filter(|it| is_short(it)) {
            assert_eq!(drift.outcome, Outcome::Inconclusive);
        }
        let with_four = |drift: &Drift| collections(drift).is_some_and(|seen| seen >= 4);
        let four_seen = Share::of(&leaking, with_four);
        let (seen, _): (Vec<_>, Vec<_>) = leaking.into_iter().partition(with_four);
        let found = Share::of(&seen, |drift| drift.outcome == Outcome::Unbounded);
        assert!(found.is_at_least(90.0, TEETH), "{period}: {found:?}");
        if (12.0..=33.0).contains(&period) {
            let stable = Share::of(&healthy, is_stable);
            assert!(stable.is_at_least(90.0, TEETH), "{period}: {stable:?}");
            assert!(
                four_seen.is_at_least(90.0, TEETH),
                "{period}: {four_seen:?}"
            );
        }
    }
}

/// Noise without a collector keeps the words of a line.
#[test]
fn noise_is_seldom_taken_for_teeth() {
    println!(
        "\n1 process, {EPOCHS} epochs, {} seeds: % that are taken for saw-teeth",
        draws(TEETH)
    );
    let kinds = [
        (Truth::Steady, Noise::Kept(0.0)),
        (Truth::Steady, Noise::Kept(0.8)),
        (Truth::Steady, Noise::Kept(0.95)),
        (Truth::Steady, Noise::KeptUnderWhite),
        (Truth::Steady, Noise::Heavy),
        (Truth::Leak, Noise::Kept(0.8)),
        (Truth::Plateau, Noise::Kept(0.8)),
        (Truth::Stairs, Noise::Kept(0.8)),
    ];
    for (truth, noise) in kinds {
        let drifts = on_two_threads(draws(TEETH), |seed| {
            let mut random = Pcg64::seed_from_u64(seed);
            let points = process(truth, noise, EPOCHS, &mut random);
            judge_memory(&[points], None, BUDGET, !seed).expect("long enough")
        });
        let taken = Share::of(&drifts, |drift| collections(drift).is_some());
        println!(
            "{:8} {:16} {:5.1}",
            format!("{truth:?}"),
            format!("{noise:?}"),
            taken.percent(),
        );
        assert!(taken.is_at_most(2.0, TEETH), "{truth:?} {noise:?}");
    }
}

/// Checks where the interval of one process holds, and where it doesn't.
#[test]
fn redrawn_blocks_cover_the_slope_of_most_noise() {
    const ALL: u64 = 300;
    let seeds = draws(ALL);
    println!("\n1 process, 120 epochs, {seeds} seeds: % of 95 % intervals that hold the slope");
    println!("                   whole  last half");
    let kinds = [
        (Noise::Kept(0.0), 90.0),
        (Noise::Kept(0.5), 90.0),
        (Noise::Kept(0.8), 90.0),
        (Noise::Kept(0.95), 75.0),
        (Noise::KeptUnderWhite, 70.0),
        (Noise::Heavy, 90.0),
        (Noise::Sawtooth, 90.0),
    ];
    for (noise, whole_min) in kinds {
        let drifts = drifts(Truth::Steady, noise, (1, 120), seeds);
        let whole = Share::of(&drifts, |d| d.whole.lower <= 0.0 && d.whole.upper >= 0.0);
        let half = |d: &Drift| d.last_half.lower <= 0.0 && d.last_half.upper >= 0.0;
        println!(
            "{:17} {:6.1}  {:9.1}",
            format!("{noise:?}"),
            whole.percent(),
            percent(&drifts, half)
        );
        assert!(whole.is_at_least(whole_min, ALL), "{noise:?}");
    }
}

/// Runs of twenty series where the statistics changed.
const TWENTY: u64 = 20;

/// Number of runs of twenty series: each costs as much as twenty draws of one.
fn seeds_of_twenty() -> u64 {
    match draws(MANY) {
        FEW => TWENTY / 2,
        MANY if !is_long() => TWENTY,
        seeds => seeds,
    }
}

/// The result of a run of many series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    all_stable: bool,
    alarms: usize,
    first_alarms: bool,
    looks: u32,
}

/// Twenty series at once, each with noise of ten budgets; the truth of the first is `first`, the others
/// are steady. For each the points of its processes, warm-up left out.
fn series_of_twenty(
    first: Truth,
    (processes, epochs, warmup): (u32, u32, u32),
    seed: u64,
) -> Vec<Vec<Vec<f64>>> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut runs = |number: u32| {
        let truth = if number == 0 { first } else { Truth::Steady };
        let kept = [0.0, 0.3, 0.5, 0.8][number as usize % 4];
        let mut run = || {
            let noise = Noise::Kept(kept).series(epochs, &mut random);
            let points = (0..epochs).zip(noise).skip(warmup as usize);
            points
                .map(|(epoch, noise)| truth.at(epoch) + 10.0 * noise)
                .collect()
        };
        (0..processes).map(|_| run()).collect()
    };
    (0..20).map(&mut runs).collect()
}

/// Indices of the verdicts that are alarms, of all that were judged at once.
fn alarms(drifts: &[Drift], alpha: f64) -> Vec<usize> {
    let alarms: Vec<usize> = (0..drifts.len())
        .filter(|index| drifts[*index].outcome == Outcome::Unbounded)
        .collect();
    // The first series stands for memory at rest, which has half of the level.
    let others = f64::from(u32::try_from(drifts.len() - 1).expect("twenty"));
    let weighed = |at: &usize| Alarm {
        p_value: drifts[*at].over_budget_p,
        weight: if *at == 0 { others } else { 1.0 },
    };
    let weighed: Vec<Alarm> = alarms.iter().map(weighed).collect();
    let count = holm(&weighed, 2.0 * others, alpha);
    alarms
        .into_iter()
        .zip(count)
        .filter_map(|(index, counts)| counts.then_some(index))
        .collect()
}

/// Twenty series, looked at once.
fn twenty(first: Truth, processes: u32, seed: u64) -> Run {
    let plan = (processes, EPOCHS, auto_warmup(EPOCHS));
    let drifts: Vec<Drift> = series_of_twenty(first, plan, seed)
        .iter()
        .zip(0_u64..)
        .map(|(runs, number)| judge_drift(runs, BUDGET, !seed ^ number).expect("long enough"))
        .collect();
    let counted = alarms(&drifts, ALPHA);
    Run {
        all_stable: drifts.iter().all(|drift| drift.outcome == Outcome::Stable),
        alarms: counted.len(),
        first_alarms: counted.contains(&0),
        looks: 1,
    }
}

/// Twenty series of a run that goes on until each is decided, at five looks at most: one process after 48
/// epochs, 96, and so on, or five processes of 48 epochs, ten, and so on. An alarm ends the run.
fn twenty_until_decided(first: Truth, processes: u32, seed: u64) -> Run {
    const FIRST_LOOK: u32 = EPOCHS / LOOKS;
    let is_one = processes == 1;
    let warmup = auto_warmup(FIRST_LOOK);
    let plan = match is_one {
        true => (1, EPOCHS, warmup),
        false => (processes * LOOKS, FIRST_LOOK, warmup),
    };
    let series = series_of_twenty(first, plan, seed);
    // Number of the look that found each series STABLE.
    let mut stable: [Option<u32>; 20] = [None; 20];
    for number in 1..=LOOKS {
        let alpha = Look { number, of: LOOKS }.level(ALPHA);
        let judge_at = |index: usize, alpha: f64| {
            let hypothesis = Hypothesis {
                budget: BUDGET,
                alpha,
            };
            let runs = &series[index];
            let seed = !seed ^ index as u64 ^ u64::from(number << 8);
            let drift = if is_one {
                let points = (FIRST_LOOK * number - warmup) as usize;
                judge_drift(&[runs[0][..points].to_vec()], hypothesis, seed)
            } else {
                judge_drift(&runs[..(processes * number) as usize], hypothesis, seed)
            };
            drift.expect("long enough")
        };
        let drifts: Vec<Drift> = (0..20).map(|index| judge_at(index, alpha)).collect();
        // Like `judge::Looked`: a series that was decided stays so while its slopes are within the budget
        // and it is STABLE at the level of the look that decided it.
        for (index, drift) in drifts.iter().enumerate() {
            let is_within = drift.outcome == Outcome::Inconclusive
                && drift.whole.estimate.max(drift.last_half.estimate) <= BUDGET;
            let is_kept = |since: &u32| {
                let earlier = Look {
                    number: *since,
                    of: LOOKS,
                };
                let again = || judge_at(index, earlier.level(ALPHA)).outcome;
                is_within && again() == Outcome::Stable
            };
            stable[index] = match drift.outcome {
                Outcome::Stable => stable[index].or(Some(number)),
                _ => stable[index].filter(is_kept),
            };
        }
        let counted = alarms(&drifts, alpha);
        let all_stable = stable.iter().all(Option::is_some);
        if all_stable || !counted.is_empty() || number == LOOKS {
            return Run {
                all_stable,
                alarms: counted.len(),
                first_alarms: counted.contains(&0),
                looks: number,
            };
        }
    }
    unreachable!("the last look returns")
}

/// Most looks at a run.
const LOOKS: u32 = 5;

#[test]
fn twenty_series_at_once_are_seldom_called_sick_and_a_leak_among_them_is_found() {
    println!("\n20 series, {} seeds: % of runs", seeds_of_twenty());
    println!("                         all STABLE  any false alarm  the leak is found");
    for processes in [1, 5] {
        for first in [Truth::Steady, Truth::Leak] {
            let runs = on_two_threads(seeds_of_twenty(), |seed| twenty(first, processes, seed));
            println!("{}", row_of_twenty(&runs, first, processes));
        }
    }
}

#[test]
fn five_looks_at_twenty_series_are_no_more_often_wrong_than_one() {
    println!(
        "\n20 series until each is decided, five looks at most, {} seeds: % of runs",
        seeds_of_twenty()
    );
    println!(
        "                         all STABLE  any false alarm  the leak is found  decided by look 1, \
         2, 3, 4, 5"
    );
    for processes in [1, 5] {
        for first in [Truth::Steady, Truth::Leak] {
            let runs = on_two_threads(seeds_of_twenty(), |seed| {
                twenty_until_decided(first, processes, seed)
            });
            let row = row_of_twenty(&runs, first, processes);
            let by = (1..=LOOKS).map(|look| {
                let is_decided =
                    |run: &Run| run.looks <= look && (run.all_stable || run.alarms > 0);
                format!("{:5.1}", percent(&runs, is_decided))
            });
            println!("{row}  {}", by.collect::<Vec<_>>().join(" "));
        }
    }
}

/// Checks the results of runs, and returns them as a row.
fn row_of_twenty(runs: &[Run], first: Truth, processes: u32) -> String {
    let all = TWENTY.max(runs.len() as u64);
    let stable = Share::of(runs, |run| run.all_stable);
    let found = Share::of(runs, |run| run.first_alarms);
    let false_alarms = Share::of(runs, |run| {
        let is_leak = matches!(first, Truth::Leak) && run.first_alarms;
        run.alarms > usize::from(is_leak)
    });
    assert!(false_alarms.is_at_most(5.0, all), "{false_alarms:?}");
    match first {
        Truth::Leak => {
            let is_told = found.is_at_least(90.0, all) && stable.is_at_most(1.0, all);
            assert!(is_told, "{found:?} {stable:?}");
        }
        _ => assert!(stable.is_at_least(80.0, all), "{stable:?}"),
    }
    format!(
        "{processes:2} process(es), {:7} {:9.1}  {:15.1}  {:17.1}",
        format!("{first:?}"),
        stable.percent(),
        false_alarms.percent(),
        found.percent(),
    )
}

#[derive(Debug, Clone, Copy)]
enum Tail {
    Normal,
    /// Student's t with three degrees of freedom.
    Heavy,
    /// A tenth of the pairs is far off, to one side.
    Skewed,
}

/// A metric of both variants, with noise of about 5 % in each log ratio.
fn pairs(tail: Tail, ratio: f64, count: u32, random: &mut Pcg64) -> (Vec<f64>, Vec<f64>) {
    let second = (0..count).map(|_| {
        let noise = match tail {
            Tail::Normal => normal(random),
            Tail::Heavy => student(3, random),
            Tail::Skewed if random.random_bool(0.1) => 4.5 + 3.0 * normal(random),
            Tail::Skewed => normal(random) - 0.5,
        };
        ratio * (0.05 * noise).exp()
    });
    (vec![1.0; count as usize], second.collect())
}

fn words(tail: Tail, count: u32, (ratio, limit): (f64, f64), seeds: u64) -> Vec<Outcome> {
    on_two_threads(seeds, |seed| {
        let mut random = Pcg64::seed_from_u64(seed);
        let (first, second) = pairs(tail, ratio, count, &mut random);
        let gate = GateInput {
            first: &first,
            second: &second,
            limit,
        };
        let answers = judge_pairs(&[gate], !seed);
        answers[0].as_ref().expect("nothing is missing").outcome
    })
}

#[test]
fn a_ratio_at_its_limit_is_seldom_told_from_it() {
    let seeds = draws(MANY);
    println!("\nA/B, {seeds} seeds: % of 95 % intervals beside the true ratio");
    println!("                  all below  all above");
    for tail in [Tail::Normal, Tail::Heavy, Tail::Skewed] {
        for count in [10, 20] {
            let words = words(tail, count, (1.03, 1.03), seeds);
            let below = percent(&words, |word| *word == Outcome::Go);
            let above = percent(&words, |word| *word == Outcome::NoGo);
            println!(
                "{:7} {count} pairs {below:10.1} {above:10.1}",
                format!("{tail:?}")
            );
            let is_told = |word: &Outcome| matches!(word, Outcome::Go | Outcome::NoGo);
            if !matches!(tail, Tail::Skewed) {
                let told = Share::of(&words, is_told);
                assert!(told.is_at_most(7.0, MANY), "{tail:?} {count}");
            }
        }
    }
}

/// Three gates on the same program: the chance that any of them is told from its limit.
#[test]
fn a_program_is_not_worse_than_itself() {
    let seeds = draws(MANY);
    println!("\nA/A, 10 pairs, 3 gates, {seeds} seeds: % with …");
    println!("               limit  any NO-GO  any GO  all GO");
    for tail in [Tail::Normal, Tail::Heavy] {
        for limit in [1.0, 1.05] {
            let rounds = on_two_threads(seeds, |seed| three_gates(tail, limit, seed));
            let any = |wanted: Outcome| Share::of(&rounds, |words| words.contains(&wanted));
            let all = percent(&rounds, |words| {
                words.iter().all(|word| *word == Outcome::Go)
            });
            let tail = format!("{tail:?}");
            let (no_go, go) = (any(Outcome::NoGo), any(Outcome::Go));
            println!(
                "{tail:14} {limit:5.2}  {:9.1}  {:6.1}  {all:6.1}",
                no_go.percent(),
                go.percent(),
            );
            if limit > 1.0 {
                assert!(no_go.is_at_most(1.0, MANY), "{tail} {limit}");
            } else {
                let told = Share {
                    hits: no_go.hits + go.hits,
                    ..go
                };
                assert!(told.is_at_most(7.0, MANY), "{tail} {limit}");
            }
        }
    }
}

fn three_gates(tail: Tail, limit: f64, seed: u64) -> Vec<Outcome> {
    let mut random = Pcg64::seed_from_u64(seed);
    let metrics: Vec<_> = (0..3).map(|_| pairs(tail, 1.0, 10, &mut random)).collect();
    let gates: Vec<GateInput<'_>> = metrics
        .iter()
        .map(|(first, second)| GateInput {
            first,
            second,
            limit,
        })
        .collect();
    let answers = judge_pairs(&gates, !seed);
    answers
        .into_iter()
        .flatten()
        .map(|answer| answer.outcome)
        .collect()
}

#[test]
fn an_effect_that_is_called_detectable_is_found_four_times_in_five() {
    const ALL: u64 = 2_000;
    let seeds = draws(ALL);
    println!("\nA/B with the ratio that is called detectable, {seeds} seeds: % NO-GO at 1.0");
    let mut random = Pcg64::seed_from_u64(5);
    let (first, second) = pairs(Tail::Normal, 1.0, 10_000, &mut random);
    let seen = noise(&first, &second).expect("10,000 pairs");
    assert!((seen - 0.05).abs() < 0.002, "{seen}");
    for count in [10, 20] {
        let ratio = detectable_ratio(&first, &second, count).expect("10,000 pairs");
        let words = words(Tail::Normal, count, (ratio, 1.0), seeds);
        let found = Share::of(&words, |word| *word == Outcome::NoGo);
        println!(
            "{count} pairs, noise of 5 %: a ratio of {ratio:.3} is found in {:.1}",
            found.percent()
        );
        let is_as_told = found.is_at_least(75.0, ALL) && found.is_at_most(85.0, ALL);
        assert!(is_as_told, "{count}: {found:?}");
    }
}
