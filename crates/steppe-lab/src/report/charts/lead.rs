//! The chart that a reader should see first: the series that the verdict is about.
//!
//! The worst variant's worst finding leads; among equals the first one, which is memory. A leak that
//! was expected counts as kept, and leads only where nothing else went wrong.

use crate::record::{Finding, Outcome, VariantVerdict};

use super::super::tracks::Along;
use super::drift;
use super::{Chart, ChartInput};

pub(super) fn chart(input: &ChartInput<'_>) -> Option<Chart> {
    if input.along == Along::Runs {
        return None;
    }
    let variants = &input.verdict?.variants;
    let mut in_order: Vec<&VariantVerdict> = variants.iter().collect();
    in_order.sort_by_key(|variant| {
        std::cmp::Reverse((weight(variant.counts_as()), weight(variant.outcome)))
    });
    in_order.into_iter().find_map(|verdict| {
        let mut tracks = input.tracks.iter();
        let variant = tracks.find(|tracks| tracks.name == verdict.name)?;
        let mut findings: Vec<&Finding> = verdict.findings.iter().collect();
        findings.retain(|finding| finding.limit.is_some());
        findings.sort_by_key(|finding| std::cmp::Reverse(weight(finding.outcome)));
        let drawn = findings.into_iter();
        let chart = drawn
            .filter_map(|finding| drift::of_finding(input, variant, finding))
            .next()?;
        let is_one = variants.len() == 1;
        let title = if is_one {
            chart.title
        } else {
            format!("{} of {}", chart.title, verdict.name)
        };
        Some(Chart { title, ..chart })
    })
}

/// The rank of an outcome: all kept limits are equal.
fn weight(outcome: Outcome) -> Outcome {
    outcome.max(Outcome::Stable)
}
