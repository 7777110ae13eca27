//! Costs of two proxies, as ratios within each round.
//!
//! A ratio's spread over the rounds shows the smallest difference that the run can detect: a slow minute
//! of the machine is in both halves of a pair, so it widens the figures' spread and hardly the ratio's.

use serde_json::{Map, Value, json};

use super::measure::Results;
use super::report::{REFERENCE, rounded, saturated};
use crate::stats::{extremes, median, median_interval, ratios};
use crate::table::{Table, figure};

/// Two proxies, and the ratio of the first one's cost to the other's, round by round.
pub struct Pair {
    /// The operation, unless it is a request.
    pub what: &'static str,
    pub of: &'static str,
    pub to: &'static str,
    /// A suffix of `what`, for a setting that another pair of these proxies does not have.
    pub further: &'static str,
    pub ratios: Vec<f64>,
}

impl Pair {
    pub fn median(&self) -> f64 {
        median(&self.ratios)
    }

    fn name(&self) -> String {
        let colon = if self.what.is_empty() { "" } else { ": " };
        let Self { what, further, .. } = self;
        format!("{what}{further}{colon}{} ÷ {}", self.of, self.to)
    }
}

/// Pairs of Steppe to the floor, and of every proxy to the reference.
pub fn all(results: &[Results]) -> Vec<Pair> {
    let to_reference = results.iter().map(|result| (result.name, REFERENCE));
    let names = [("steppe", "floor")].into_iter().chain(to_reference);
    names
        .filter(|(of, to)| of != to)
        .filter_map(|(of, to)| pair(results, of, to))
        .collect()
}

/// Pairs of caches: Steppe to each of the others.
pub fn cached(results: &[Results]) -> Vec<Pair> {
    let others = results.iter().map(|result| result.name);
    others
        .filter(|other| *other != "steppe")
        .filter_map(|other| pair(results, "steppe", other))
        .collect()
}

/// The pair of CPU a request; `None` if one of them did not run at saturation.
pub fn pair(results: &[Results], of: &'static str, to: &'static str) -> Option<Pair> {
    let cpu_us = |result: &Results| saturated(result, |run| run.cpu_us);
    pair_by(results, "", (of, to), cpu_us)
}

/// The pair of another figure; `None` if one of them does not have it.
pub fn pair_by(
    results: &[Results],
    what: &'static str,
    (of, to): (&'static str, &'static str),
    read: impl Fn(&Results) -> Vec<f64>,
) -> Option<Pair> {
    let figures = |name| Some(read(results.iter().find(|result| result.name == name)?));
    let ratios = ratios(&figures(of)?, &figures(to)?);
    (!ratios.is_empty()).then_some(Pair {
        what,
        of,
        to,
        further: "",
        ratios,
    })
}

pub fn table(pairs: &[Pair]) -> Table {
    let mut table = Table::new(&["pair", "median", "95 % of it", "min–max", "rounds"]);
    let range = |(low, high)| format!("{}–{}", figure(low, 3), figure(high, 3));
    for pair in pairs {
        table.row(vec![
            pair.name(),
            figure(pair.median(), 3),
            range(median_interval(&pair.ratios)),
            range(extremes(&pair.ratios)),
            pair.ratios.len().to_string(),
        ]);
    }
    table
}

/// Figures of the pairs in JSON, by `of/to`.
pub fn to_json(pairs: &[Pair]) -> Value {
    let pairs = pairs.iter().map(|pair| {
        let (least, most) = extremes(&pair.ratios);
        let figures = json!({
            "median": rounded(pair.median(), 3),
            "min": rounded(least, 3),
            "max": rounded(most, 3),
            "rounds": pair.ratios.len(),
        });
        (format!("{}/{}", pair.of, pair.to), figures)
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::result;
    use super::*;

    #[test]
    fn pairs_are_of_one_round_and_show_their_spread() {
        let results = [
            result("steppe", [8.0, 18.0, 8.0]),
            // Round 2 is slow for every proxy.
            result("nginx", [10.0, 20.0, 10.0]),
            result("floor", [7.0, 15.0, 5.0]),
        ];
        let pairs = all(&results);
        let names: Vec<_> = pairs.iter().map(Pair::name).collect();
        assert_eq!(names, ["steppe ÷ floor", "steppe ÷ nginx", "floor ÷ nginx"]);
        let json = to_json(&pairs);
        assert_eq!(json["steppe/floor"]["median"], 1.2);
        assert_eq!(
            json["steppe/nginx"],
            json!({"median": 0.8, "min": 0.8, "max": 0.9, "rounds": 3})
        );
        let text = table(&pairs).to_string();
        assert!(
            text.contains("0.800–0.900") && text.contains("1.143"),
            "{text}"
        );
    }

    #[test]
    fn a_pair_needs_both() {
        assert!(pair(&[result("steppe", [1.0; 3])], "steppe", "floor").is_none());
        assert!(pair(&[Results::default()], "", "").is_none());
    }
}
