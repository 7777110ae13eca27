//! Metric families as OpenMetrics text, encoded by `prometheus-client`.
//!
//! A family is a name, a help text and one sample per label set. Names follow the
//! encoder's rules: a counter gets its `_total`, a unit becomes part of the name.

mod plain;

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::HistogramSum;

pub use plain::{PLAIN_CONTENT_TYPE, plain};

/// The media type of [`exposition`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Encodes every metric of `registry` as OpenMetrics text.
///
/// # Errors
/// When a collector fails.
pub fn exposition(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// Name, help and unit of a family.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<&'static Unit>,
}

impl Family {
    /// A family without a unit. `name` has no `_total`.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            unit: None,
        }
    }

    /// A family of bytes; `_bytes` is added to its name.
    #[must_use]
    pub const fn bytes(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            unit: Some(&Unit::Bytes),
        }
    }

    /// A family of seconds; `_seconds` is added to its name.
    #[must_use]
    pub const fn seconds(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            unit: Some(&Unit::Seconds),
        }
    }

    /// Writes counters.
    ///
    /// # Errors
    /// The writer's.
    pub fn counters<L: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit, MetricType::Counter)?;
        samples.into_iter().try_for_each(|(labels, value)| {
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }

    /// Writes a counter without labels.
    ///
    /// # Errors
    /// The writer's.
    pub fn counter(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// Writes a gauge without labels.
    ///
    /// # Errors
    /// The writer's.
    pub fn gauge(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    /// Writes gauges.
    ///
    /// # Errors
    /// The writer's.
    pub fn gauges<L: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit, MetricType::Gauge)?;
        samples
            .into_iter()
            .try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
    }

    /// Writes histograms.
    ///
    /// # Errors
    /// The writer's.
    pub fn histograms<L: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        samples: impl IntoIterator<Item = (L, HistogramSum)>,
    ) -> fmt::Result {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit, MetricType::Histogram)?;
        samples.into_iter().try_for_each(|(labels, sum)| {
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum.seconds(), sum.count(), &sum.buckets(), None)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::collector::Collector;

    use super::*;
    use crate::Histogram;

    #[derive(Debug)]
    struct Sample;

    impl Collector for Sample {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            Family::new("things", "Things").counters(
                &mut encoder,
                [([("route", "a\"b\\c\nd")], 3), ([("route", "-")], 0)],
            )?;
            Family::bytes("held", "Bytes held")
                .gauges(&mut encoder, [([("by", "x")], u64::MAX)])?;
            Family::seconds("cpu", "CPU time").counter(&mut encoder, 1.5)?;
            let histogram = Histogram::new();
            histogram.observe(Duration::from_millis(2));
            Family::seconds("latency", "Latency").histograms(
                &mut encoder,
                [([("route", "a")], HistogramSum::of([&histogram].into_iter()))],
            )
        }
    }

    fn lines() -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Sample));
        let text = exposition(&registry).expect("a string takes everything");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn counters_and_gauges_have_their_names() {
        let lines = lines();
        for line in [
            "# TYPE things counter",
            "things_total{route=\"-\"} 0",
            "# UNIT held_bytes bytes",
            "held_bytes{by=\"x\"} 18446744073709551615",
            "cpu_seconds_total 1.5",
        ] {
            assert!(
                lines.iter().any(|have| have == line),
                "{line} in {lines:#?}"
            );
        }
        assert_eq!(lines.last().map(String::as_str), Some("# EOF"));
    }

    #[test]
    fn label_values_are_escaped() {
        let want = r#"things_total{route="a\"b\\c\nd"} 3"#;
        assert!(lines().iter().any(|line| line == want));
    }

    #[test]
    fn histogram_buckets_are_cumulative() {
        let lines = lines();
        for line in [
            "latency_seconds_bucket{le=\"0.001536\",route=\"a\"} 0",
            "latency_seconds_bucket{le=\"0.002048\",route=\"a\"} 1",
            "latency_seconds_bucket{le=\"+Inf\",route=\"a\"} 1",
            "latency_seconds_count{route=\"a\"} 1",
            "latency_seconds_sum{route=\"a\"} 0.002",
        ] {
            assert!(
                lines.iter().any(|have| have == line),
                "{line} in {lines:#?}"
            );
        }
    }
}
