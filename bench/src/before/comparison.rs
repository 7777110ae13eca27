//! A figure of two builds: its ratio with an interval, instructions, and the verdict "no slower".
//!
//! A round runs each build twice, there and back (`Schedule::Mirrored`), and gives one ratio: the
//! geometric mean of its two pairs, so that a drift within the round is in neither. The interval is
//! that of the median of these ratios over the rounds, by the bootstrap that all benches use.
//!
//! Invariant: a verdict is printed and nothing depends on it; the exit code says whether the run
//! was valid.

use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value, json};

use super::counts::Counts;
use crate::stats::{median, median_interval};
use crate::table::{Table, figure};

/// One figure of both builds: what an operation costs, the less the better.
#[derive(Debug)]
pub struct Comparison {
    pub name: String,
    /// Unit of the costs.
    pub unit: &'static str,
    pub costs: Costs,
    pub instructions: Instructions,
}

/// Costs of an operation, run by run: elements `2 * i` and `2 * i + 1` are from round `i`. A run
/// that failed has NaN.
#[derive(Debug, Default)]
pub struct Costs {
    pub now: Vec<f64>,
    pub before: Vec<f64>,
}

/// Instructions an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Instructions {
    Counted { now: Counts, before: Counts },
    NotCounted,
}

/// Instructions of now to those of before, and how far that may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    ratio: f64,
    spread: f64,
}

/// The answer to "is today's build no slower?", and the figures that it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    pub answer: Answer,
    interval: Option<(f64, f64)>,
    instructions: Option<Share>,
    rounds: usize,
}

/// In a word or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// The interval tells too little, or the counts lie too far apart: it takes more rounds, or a
    /// quieter machine.
    TooWide,
    /// The interval allows it, and instructions were not counted.
    Unknown,
}

/// Width of an interval that tells enough.
pub const WIDTH_MAX: f64 = 0.04;
/// Instructions to those of before.
pub const INSTRUCTIONS_MAX: f64 = 1.005;
/// Counts that lie closer together are taken as the same.
const SPREAD_SHOWN: f64 = 0.001;
/// Below that, the extremes of all ratios hold the median less often than 95 times in 100: with
/// `n` ratios they miss it `2^(1 - n)` of the time.
pub const ROUNDS_MIN: usize = 6;

impl Costs {
    /// Today's cost to that of before, round by round, of the rounds that are complete.
    pub fn ratios(&self) -> Vec<f64> {
        let rounds = self.now.chunks_exact(2).zip(self.before.chunks_exact(2));
        let ratio =
            |(now, before): (&[f64], &[f64])| (now[0] * now[1] / (before[0] * before[1])).sqrt();
        rounds
            .map(ratio)
            .filter(|ratio| ratio.is_finite())
            .collect()
    }
}

impl Instructions {
    /// Counted where both were.
    pub fn of(now: Counts, before: Counts) -> Self {
        match now.median().is_finite() && before.median().is_finite() {
            true => Self::Counted { now, before },
            false => Self::NotCounted,
        }
    }

    fn share(&self) -> Option<Share> {
        match self {
            Self::Counted { now, before } => Some(Share {
                ratio: now.median() / before.median(),
                spread: now.spread().max(before.spread()),
            }),
            Self::NotCounted => None,
        }
    }
}

impl Share {
    /// More than allowed, wherever in its spread it is.
    fn is_more(self) -> bool {
        self.ratio - self.spread > INSTRUCTIONS_MAX
    }

    /// As many as allowed, and counted well enough to say so.
    fn is_as_few(self) -> bool {
        self.ratio <= INSTRUCTIONS_MAX && self.spread <= INSTRUCTIONS_MAX - 1.0
    }
}

impl Comparison {
    pub fn verdict(&self) -> Verdict {
        let ratios = self.costs.ratios();
        let instructions = self.instructions.share();
        let interval = (ratios.len() >= ROUNDS_MIN).then(|| median_interval(&ratios));
        let is_narrow = interval.is_some_and(|(low, high)| high - low <= WIDTH_MAX);
        let is_slower = interval.is_some_and(|(low, _)| low > 1.0);
        let answer = match instructions {
            _ if is_slower => Answer::No,
            Some(share) if share.is_more() => Answer::No,
            _ if !is_narrow => Answer::TooWide,
            Some(share) if share.is_as_few() => Answer::Yes,
            Some(_) => Answer::TooWide,
            None => Answer::Unknown,
        };
        Verdict {
            answer,
            interval,
            instructions,
            rounds: ratios.len(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let finite = |values: &[f64]| -> Vec<f64> {
            let values = values.iter().copied();
            values.filter(|value| value.is_finite()).collect()
        };
        let cost = |values: &[f64]| {
            let cost = median(&finite(values));
            format!("{} {}", figure(cost, digits(cost)), self.unit)
        };
        let ratios = self.costs.ratios();
        let (low, high) = median_interval(&ratios);
        let (now, before) = match &self.instructions {
            Instructions::Counted { now, before } => (now.median(), before.median()),
            Instructions::NotCounted => (f64::NAN, f64::NAN),
        };
        vec![
            self.name.clone(),
            cost(&self.costs.before),
            cost(&self.costs.now),
            figure(median(&ratios), 3),
            format!("{}–{}", figure(low, 3), figure(high, 3)),
            ratios.len().to_string(),
            figure(before, digits(before)),
            figure(now, digits(now)),
            figure(now / before, 4),
        ]
    }

    fn to_json(&self) -> Value {
        let verdict = self.verdict();
        let (low, high) = verdict.interval.unzip();
        json!({
            "ratio": median(&self.costs.ratios()),
            "low": low,
            "high": high,
            "instructions": verdict.instructions.map(|share| share.ratio),
            "no_slower": verdict.answer.text(),
        })
    }
}

/// As many as show a difference of 1 in 1,000.
fn digits(value: f64) -> usize {
    match value {
        value if value >= 1_000.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    }
}

impl Answer {
    pub const fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::TooWide => "too wide",
            Self::Unknown => "unknown",
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "no slower: {} (", self.answer.text())?;
        match self.interval {
            Some((low, high)) => {
                let width = (high - low) * 100.0;
                write!(
                    formatter,
                    "interval {low:.3} to {high:.3}, {width:.1} % wide"
                )?;
            }
            None => write!(
                formatter,
                "{} complete rounds, an interval takes {ROUNDS_MIN}",
                self.rounds
            )?,
        }
        match self.instructions {
            Some(Share { ratio, spread }) if spread > SPREAD_SHOWN => {
                let spread = spread * 100.0;
                write!(formatter, "; instructions {ratio:.4} ± {spread:.1} %)")
            }
            Some(Share { ratio, .. }) => write!(formatter, "; instructions {ratio:.4})"),
            None => write!(formatter, "; instructions not counted)"),
        }
    }
}

/// Costs, ratios and instructions of all figures.
pub fn table(comparisons: &[Comparison]) -> Table {
    let mut table = Table::new(&[
        "figure",
        "before",
        "now",
        "now/before",
        "95 % of it",
        "rounds",
        "instr. before",
        "now",
        "now/before",
    ]);
    for comparison in comparisons {
        table.row(comparison.cells());
    }
    table
}

/// A line for each figure.
pub fn verdicts(comparisons: &[Comparison]) -> String {
    let line = |comparison: &Comparison| {
        let (name, verdict) = (&comparison.name, comparison.verdict());
        format!("{name}: {verdict}\n")
    };
    comparisons.iter().map(line).collect()
}

/// By the name of the figure.
pub fn to_json(comparisons: &[Comparison]) -> Value {
    let entry = |comparison: &Comparison| (comparison.name.clone(), comparison.to_json());
    Value::Object(comparisons.iter().map(entry).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Draws;

    /// Costs of rounds in which today's build takes `slower` times the other's, the machine drifts,
    /// and each run is off by up to `noise`.
    fn costs(rounds: usize, slower: f64, noise: f64) -> Costs {
        let mut draws = Draws::new(1);
        let mut costs = Costs::default();
        for round in 0..rounds {
            let drift = 1.0 + 0.02 * round as f64;
            let mut run = |base: f64| {
                let off = draws.below(2_001) as f64 / 1_000.0 - 1.0;
                base * drift * (1.0 + noise * off)
            };
            costs.now.extend([run(slower), run(slower)]);
            costs.before.extend([run(1.0), run(1.0)]);
        }
        costs
    }

    fn comparison(costs: Costs, instructions: Instructions) -> Comparison {
        Comparison {
            name: "a figure".to_owned(),
            unit: "ns",
            costs,
            instructions,
        }
    }

    fn counted(now: &[f64], before: &[f64]) -> Instructions {
        let counts = |values: &[f64]| values.iter().copied().collect();
        Instructions::of(counts(now), counts(before))
    }

    fn answer(slower: f64, noise: f64, instructions: f64) -> Answer {
        let instructions = counted(&[100.0 * instructions], &[100.0]);
        comparison(costs(15, slower, noise), instructions)
            .verdict()
            .answer
    }

    #[test]
    fn the_same_build_is_no_slower() {
        assert_eq!(answer(1.0, 0.02, 1.0), Answer::Yes);
        assert_eq!(answer(0.9, 0.02, 0.9), Answer::Yes);
        assert_eq!(answer(1.0, 0.02, 1.005), Answer::Yes);
    }

    #[test]
    fn a_planted_slow_down_is_shown() {
        // By the clock, by the instructions, and by each alone.
        assert_eq!(answer(1.03, 0.01, 1.03), Answer::No);
        assert_eq!(answer(1.03, 0.01, 1.0), Answer::No);
        assert_eq!(answer(1.0, 0.01, 1.03), Answer::No);
        assert_eq!(answer(1.0, 0.2, 1.006), Answer::No);
    }

    #[test]
    fn an_interval_that_tells_too_little_is_said_to() {
        assert_eq!(answer(1.0, 0.2, 1.0), Answer::TooWide);
        let few = comparison(costs(5, 1.0, 0.001), counted(&[9.0], &[9.0])).verdict();
        assert_eq!(
            few.to_string(),
            "no slower: too wide (5 complete rounds, an interval takes 6; instructions 1.0000)"
        );
    }

    #[test]
    fn counts_that_scatter_decide_only_what_lies_beyond_them() {
        let verdict = |now: &[f64]| {
            let instructions = counted(now, &[100.0, 100.0]);
            comparison(costs(15, 1.0, 0.01), instructions).verdict()
        };
        assert_eq!(verdict(&[99.0, 101.0]).answer, Answer::TooWide);
        assert_eq!(verdict(&[100.4, 100.9]).answer, Answer::TooWide);
        assert_eq!(verdict(&[102.5, 103.5]).answer, Answer::No);
        assert_eq!(verdict(&[100.0, 100.4]).answer, Answer::Yes);
        let text = verdict(&[99.0, 101.0]).to_string();
        assert!(text.ends_with("; instructions 1.0000 ± 2.0 %)"), "{text}");
    }

    #[test]
    fn without_instructions_nothing_is_promised() {
        let verdict = comparison(costs(15, 1.0, 0.01), Instructions::NotCounted).verdict();
        assert_eq!(verdict.answer, Answer::Unknown);
        let text = verdict.to_string();
        assert!(text.ends_with("; instructions not counted)"), "{text}");
        let verdict = comparison(costs(15, 1.03, 0.01), Instructions::NotCounted).verdict();
        assert_eq!(verdict.answer, Answer::No);
    }

    #[test]
    fn a_verdict_says_what_it_rests_on() {
        let costs = Costs {
            now: vec![1.02; 12],
            before: vec![1.0; 12],
        };
        let comparison = comparison(costs, counted(&[1.0004], &[1.0]));
        assert_eq!(
            verdicts(&[comparison]),
            "a figure: no slower: no (interval 1.020 to 1.020, 0.0 % wide; instructions 1.0004)\n"
        );
    }

    #[test]
    fn a_drift_within_a_round_is_in_no_ratio() {
        // ABBA, and each run is 10 % slower than the one before it: now 1.0 and 1.331 times, before
        // 1.1 and 1.21 times.
        let costs = Costs {
            now: vec![1.0, 1.331],
            before: vec![1.1, 1.21],
        };
        assert!((costs.ratios()[0] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_run_that_failed_takes_its_round_with_it() {
        let costs = Costs {
            now: vec![1.0, f64::NAN, 2.0, 2.0, 1.0],
            before: vec![1.0, 1.0, 1.0, 1.0, 1.0],
        };
        assert_eq!(costs.ratios(), [2.0]);
    }

    #[test]
    fn intervals_of_equal_builds_hold_1_about_95_times_in_100() {
        let mut draws = Draws::new(7);
        // A sum of four has tails, as timings do.
        let mut run = || 1.0 + (0..4).map(|_| draws.below(1_000) as f64 / 1e5).sum::<f64>();
        let held = (0..200).filter(|_| {
            let mut costs = Costs::default();
            for _ in 0..15 {
                costs.now.extend([run(), run()]);
                costs.before.extend([run(), run()]);
            }
            let (low, high) = median_interval(&costs.ratios());
            low <= 1.0 && 1.0 <= high
        });
        let held = held.count();
        assert!((182..=200).contains(&held), "{held} of 200");
    }

    #[test]
    fn json_has_the_verdict_by_name() {
        let json = to_json(&[comparison(costs(15, 1.0, 0.001), counted(&[9.0], &[9.0]))]);
        assert_eq!(json["a figure"]["no_slower"], "yes");
        assert_eq!(json["a figure"]["instructions"], 1.0);
    }
}
