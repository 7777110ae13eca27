//! The simulation that backs the statistics: series and pairs whose truth is known, judged.
//!
//! `cargo test -p steppe-lab --test simulation -- --nocapture --test-threads=1` prints the tables,
//! those too that little is asserted of. Seeds are fixed, so the same figures come out everywhere.
//!
//! Slopes and noise are in units of the budget per epoch.

use std::collections::BTreeMap;
use std::thread;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use steppe_lab::record::Word;
use steppe_lab::stats::{Drift, auto_warmup, judge_drift};

const SEEDS: u64 = 1_000;
const EPOCHS: u32 = 240;
/// How much of an epoch's noise is left in the next.
const KEPT: f64 = 0.8;
const NOISE: f64 = 40.0;
const BUDGET: f64 = 1.0;

#[derive(Debug, Clone, Copy)]
enum Truth {
    Leak,
    Steady,
    /// Rises by 100 budgets and stops.
    Plateau,
}

const TRUTHS: [Truth; 3] = [Truth::Leak, Truth::Steady, Truth::Plateau];

impl Truth {
    fn at(self, epoch: u32) -> f64 {
        match self {
            Self::Leak => 2.0 * f64::from(epoch),
            Self::Steady => 0.0,
            Self::Plateau => 100.0 * (1.0 - (-f64::from(epoch) / 15.0).exp()),
        }
    }
}

fn normal(random: &mut Pcg64) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// What a process shows, without its warm-up.
fn process(truth: Truth, random: &mut Pcg64) -> Vec<f64> {
    let fresh = NOISE * (1.0 - KEPT * KEPT).sqrt();
    let mut noise = NOISE * normal(random);
    let mut points = Vec::new();
    for epoch in 0..EPOCHS {
        if epoch >= auto_warmup(EPOCHS) {
            points.push(truth.at(epoch) + noise);
        }
        noise = KEPT * noise + fresh * normal(random);
    }
    points
}

/// Verdicts on the same truth under all seeds.
fn drifts(truth: Truth, processes: u32) -> Vec<Drift> {
    on_two_threads(SEEDS, |seed| {
        let mut random = Pcg64::seed_from_u64(seed);
        let series: Vec<Vec<f64>> = (0..processes)
            .map(|_| process(truth, &mut random))
            .collect();
        judge_drift(&series, BUDGET, seed).expect("200 points are enough")
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
    100.0 * all.iter().filter(|one| is_so(one)).count() as f64 / all.len() as f64
}

/// Prints a row a truth, and gives back how many percent got each word.
fn drift_table(processes: u32) -> BTreeMap<&'static str, BTreeMap<Word, f64>> {
    println!("\n{processes} process(es), {SEEDS} seeds: % of verdicts");
    println!("         STABLE GROWING UNBOUNDED INCONCLUSIVE | true slope within  half-width");
    let mut rows = BTreeMap::new();
    for truth in TRUTHS {
        let drifts = drifts(truth, processes);
        let (name, slope) = match truth {
            Truth::Leak => ("leak", 2.0),
            Truth::Steady => ("steady", 0.0),
            Truth::Plateau => ("plateau", 0.0),
        };
        let words = [
            Word::Stable,
            Word::Growing,
            Word::Unbounded,
            Word::Inconclusive,
        ];
        let row = words.map(|word| (word, percent(&drifts, |drift| drift.word == word)));
        let within = percent(&drifts, |d| {
            d.whole.lower <= slope && slope <= d.whole.upper
        });
        let width: f64 = drifts
            .iter()
            .map(|d| d.whole.upper - d.whole.estimate)
            .sum();
        println!(
            "{name:8} {:6.1} {:7.1} {:9.1} {:12.1} | {within:17.1}  {:10.2}",
            row[0].1,
            row[1].1,
            row[2].1,
            row[3].1,
            width / drifts.len() as f64,
        );
        rows.insert(name, row.into());
    }
    rows
}

#[test]
fn five_processes_tell_a_leak_from_noise_and_from_a_plateau() {
    let table = drift_table(5);
    assert!(table["leak"][&Word::Unbounded] >= 95.0);
    assert!(table["steady"][&Word::Stable] >= 95.0);
    let worse = table["steady"][&Word::Growing] + table["steady"][&Word::Unbounded];
    assert!(worse <= 2.0);
    assert!(table["plateau"][&Word::Unbounded] <= 1.0);
}

#[test]
fn one_process_is_seldom_wrong_and_often_silent() {
    let table = drift_table(1);
    assert!(table["leak"][&Word::Stable] <= 1.0);
    let worse = table["steady"][&Word::Growing] + table["steady"][&Word::Unbounded];
    assert!(worse <= 2.0);
    assert!(table["plateau"][&Word::Unbounded] <= 1.0);
}
