//! The last ten minutes, a sample a second, in a ring of fixed size.

use serde_json::{Value, json};
use steppe_telemetry::recent;

/// Samples of ten minutes.
const SAMPLES_MAX: usize = 600;

/// Bytes of the ring, filled or not.
const BYTES: usize = SAMPLES_MAX * size_of::<Sample>();

/// Bytes that admin has of the budget from the start on: the ring, and the last errors.
pub const FIXED_BYTES: usize = BYTES + recent::BYTES_MAX;

const _: () = assert!(size_of::<Sample>() <= 40);

/// A sample of one second of the node.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sample {
    /// End of the second, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub rss_bytes: u64,
    /// Bytes reserved of the whole budget.
    pub reserved_bytes: u64,
    pub requests_per_second: f32,
    /// Percentiles of the requests that ended, in milliseconds; 0 if none did.
    pub p50_ms: f32,
    pub p99_ms: f32,
    /// Responses with a status of 5xx.
    pub server_errors_per_second: f32,
}

impl Sample {
    /// A percentile for JSON: `null` if no request ended.
    pub(super) fn milliseconds(value: f32) -> Value {
        match value > 0.0 {
            true => json!(rounded(value)),
            false => Value::Null,
        }
    }

    fn to_json(self) -> Value {
        json!([
            self.at_ms,
            self.rss_bytes,
            self.reserved_bytes,
            rounded(self.requests_per_second),
            Self::milliseconds(self.p50_ms),
            Self::milliseconds(self.p99_ms),
            rounded(self.server_errors_per_second),
        ])
    }
}

/// The value with three digits after the point: more would be noise, and most of the text.
pub(super) fn rounded(value: f32) -> f64 {
    (f64::from(value) * 1e3).round() / 1e3
}

/// The ring of samples.
#[derive(Debug)]
pub(super) struct History {
    samples: Box<[Sample]>,
    /// Index of the next sample: that of the oldest, once the ring is full.
    next: usize,
    count: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            samples: vec![Sample::default(); SAMPLES_MAX].into_boxed_slice(),
            next: 0,
            count: 0,
        }
    }
}

impl History {
    pub(super) fn push(&mut self, sample: Sample) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % SAMPLES_MAX;
        self.count = (self.count + 1).min(SAMPLES_MAX);
    }

    /// The newest sample.
    pub(super) fn last(&self) -> Sample {
        self.samples[(self.next + SAMPLES_MAX - 1) % SAMPLES_MAX]
    }

    /// Rows of numbers, the oldest first, with the names of their columns.
    pub(super) fn to_json(&self) -> Value {
        let first = self.next + SAMPLES_MAX - self.count;
        let rows = (first..first + self.count)
            .map(|index| self.samples[index % SAMPLES_MAX].to_json())
            .collect::<Vec<_>>();
        json!({
            "columns": [
                "at_ms", "rss_bytes", "reserved_bytes", "requests_per_second", "p50_ms", "p99_ms",
                "5xx_per_second",
            ],
            "samples": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ms: u64) -> Sample {
        Sample {
            at_ms,
            p50_ms: 1.5,
            ..Sample::default()
        }
    }

    #[test]
    fn the_oldest_is_overwritten_and_order_is_kept() {
        let mut history = History::default();
        assert_eq!(history.to_json()["samples"], json!([]));
        for number in 0..SAMPLES_MAX as u64 + 5 {
            history.push(at(number));
        }
        let rows = history.to_json();
        let rows = rows["samples"].as_array().expect("an array");
        assert_eq!(rows.len(), SAMPLES_MAX);
        assert_eq!(rows[0], json!([5, 0, 0, 0.0, 1.5, null, 0.0]));
        assert!(rows.is_sorted_by_key(|row| row[0].as_u64()));
        assert_eq!(history.last(), at(SAMPLES_MAX as u64 + 4));
    }
}
