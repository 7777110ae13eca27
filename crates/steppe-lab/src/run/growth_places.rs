//! Notes where a series grew: places of the first counted epoch against those of the last.

use std::collections::BTreeMap;

use crate::limits::PLACES_TOLD;
use crate::observe::{PlaceUnit, Places, grown};
use crate::record::VariantVerdict;

/// Places of one run, early and late.
#[derive(Debug, Default)]
struct Pair {
    early: Option<Places>,
    late: Option<Places>,
}

/// Places by variant, of the last run that came to its end.
#[derive(Debug, Default)]
pub(super) struct GrowthPlaces {
    by_variant: BTreeMap<String, Pair>,
}

impl GrowthPlaces {
    /// Keeps the places of a run's first counted epoch.
    pub(super) fn early(&mut self, variant: &str, places: Places) {
        self.by_variant.entry(variant.to_owned()).or_default().early = Some(places);
    }

    /// Keeps the places of a run's last epoch.
    pub(super) fn late(&mut self, variant: &str, places: Places) {
        self.by_variant.entry(variant.to_owned()).or_default().late = Some(places);
    }

    /// Adds a note to each finding of growth that is not known to stay within its budget.
    pub(super) fn tell(&self, verdict: &mut VariantVerdict) {
        let Some(Pair {
            early: Some(early),
            late: Some(late),
        }) = self.by_variant.get(&verdict.name)
        else {
            return;
        };
        let open = verdict.findings.iter_mut();
        for finding in open.filter(|finding| finding.is_open_growth()) {
            let Some(unit) = unit_of(&finding.metric) else {
                continue;
            };
            let most: Vec<String> = grown(early, late, unit)
                .into_iter()
                .take(PLACES_TOLD)
                .map(|(name, more)| told(unit, &name, more))
                .collect();
            if !most.is_empty() {
                let places = most.join("; ");
                finding.notes.push(format!(
                    "where it grew, first counted epoch to last: {places}"
                ));
            }
        }
    }
}

fn unit_of(metric: &str) -> Option<PlaceUnit> {
    match metric {
        "rss_growth" | "hwm_growth" | "cgroup_growth" | "live_growth" => Some(PlaceUnit::Bytes),
        "open_files_growth" | "established_growth" | "close_wait_growth" => Some(PlaceUnit::Files),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are told")]
fn told(unit: PlaceUnit, name: &str, more: u64) -> String {
    match unit {
        PlaceUnit::Bytes if more < 1 << 20 => format!("{} KiB {name}", more / 1024),
        PlaceUnit::Bytes => format!("{:.2} MiB {name}", more as f64 / 1_048_576.0),
        PlaceUnit::Files => format!("{more} × {name}"),
    }
}
