//! The text format of Prometheus, as far as sums need it.

use std::collections::BTreeSet;

/// One scrape.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
    text: String,
}

#[derive(Debug, Clone)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    /// Parses a scrape.
    ///
    /// # Panics
    /// When a line is neither a comment nor a sample.
    pub fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines
            .map(|line| parse_sample(line).unwrap_or_else(|| panic!("not a sample: {line}")))
            .collect();
        Self {
            samples,
            text: text.to_owned(),
        }
    }

    /// The scrape as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of all series.
    pub fn names(&self) -> BTreeSet<&str> {
        self.samples
            .iter()
            .map(|sample| sample.name.as_str())
            .collect()
    }

    /// Sum of the samples with this name and at least these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted = |sample: &&Sample| sample.name == name && sample.has(labels);
        self.samples
            .iter()
            .filter(wanted)
            .map(|sample| sample.value)
            .sum()
    }

    /// True if a series has this name and at least these labels.
    pub fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.samples
            .iter()
            .any(|sample| sample.name == name && sample.has(labels))
    }
}

impl Sample {
    fn has(&self, labels: &[(&str, &str)]) -> bool {
        let there = |(key, value): &(&str, &str)| {
            self.labels
                .iter()
                .any(|(have, with)| have == key && with == value)
        };
        labels.iter().all(there)
    }
}

fn parse_sample(line: &str) -> Option<Sample> {
    let name_end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

fn parse_labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.push((key.to_owned(), value));
        rest = after;
    }
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_label() {
        let text = "# TYPE a counter\na_total{r=\"x, \\\"y}\",s=\"2xx\"} 3\na_total{s=\"5xx\"} 4 17\nup 1\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.sum("a_total", &[]), 7.0);
        assert_eq!(
            metrics.sum("a_total", &[("s", "2xx"), ("r", "x, \"y}")]),
            3.0
        );
        assert!(!metrics.has("a_total", &[("s", "4xx")]));
        assert_eq!(
            metrics.names().into_iter().collect::<Vec<_>>(),
            ["a_total", "up"]
        );
    }
}
