//! Reports the sites of a program that grew, by profiles of the target's runtime.

use std::collections::BTreeMap;

use super::environment::Target;
use super::profiler::Profiler;
use crate::limits::PLACES_TOLD;
use crate::profile::Profile;
use crate::record::{Finding, Problem, ProblemKind, VariantVerdict};
use crate::scenario::{ProfileSource, Program};
use crate::target::MetricClient;

/// Profiles of one run, early and late.
#[derive(Debug, Default)]
struct Pair {
    early: Option<Profile>,
    late: Option<Profile>,
    /// The first reason why a profile is missing.
    failure: Option<String>,
}

/// The moment at which a profile is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// After the last point that is not judged.
    Early,
    /// After the last point.
    Late,
}

/// Profiles by variant, of its last run.
#[derive(Debug, Default)]
pub(super) struct GrowthProfiles {
    by_variant: BTreeMap<String, Pair>,
}

impl GrowthProfiles {
    /// Adds the needs of its profiler to a program. `None`: the runtime can't be profiled, which is
    /// noted.
    pub(super) fn prepare(
        &mut self,
        variant: &str,
        source: &ProfileSource,
        program: &mut Program,
    ) -> Option<Profiler> {
        self.by_variant.insert(variant.to_owned(), Pair::default());
        match Profiler::prepare(source, program) {
            Ok(profiler) => Some(profiler),
            Err(why) => {
                self.fail(variant, why);
                None
            }
        }
    }

    /// Begins profiling, once the target is ready.
    pub(super) fn begin(&mut self, variant: &str, profiler: &mut Profiler, target: &Target) {
        if let Err(why) = profiler.begin(target) {
            self.fail(variant, why);
        }
    }

    /// Fetches a profile in a moment without load.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn fetch(
        &mut self,
        (variant, moment): (&str, Moment),
        profiler: &mut Profiler,
        target: &Target,
        processes: &[u32],
        client: &MetricClient,
    ) {
        let profile = match profiler.fetch(target, processes, client) {
            Ok(profile) => profile,
            Err(why) => return self.fail(variant, why),
        };
        let pair = self.by_variant.entry(variant.to_owned()).or_default();
        match moment {
            Moment::Early => pair.early = Some(profile),
            Moment::Late => pair.late = Some(profile),
        }
    }

    fn fail(&mut self, variant: &str, why: String) {
        let pair = self.by_variant.entry(variant.to_owned()).or_default();
        pair.failure.get_or_insert(why);
    }

    /// Adds the sites that grew, if the verdict has growth that is not known to stay within its
    /// budget.
    pub(super) fn tell(&self, verdict: &mut VariantVerdict) {
        let Some(Pair {
            early: Some(early),
            late: Some(late),
            ..
        }) = self.by_variant.get(&verdict.name)
        else {
            return;
        };
        if verdict.findings.iter().any(Finding::is_open_growth) {
            verdict.growing = early.grown(late, PLACES_TOLD);
            shorten(&mut verdict.growing);
        }
    }

    /// Notes on the profiles that could not be fetched, by variant.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.by_variant.iter().filter_map(|(variant, pair)| {
            let why = pair.failure.as_ref()?;
            Some(Problem::new(
                ProblemKind::Note,
                format!("no heap profile of {variant}: {why}"),
                "the verdict does not depend on it; see `target.profile` in docs/lab/scenarios.md",
            ))
        })
    }
}

/// Makes paths below the folder that the lab was started in relative to it.
fn shorten(growing: &mut [crate::record::GrowingSite]) {
    let Ok(folder) = std::env::current_dir() else {
        return;
    };
    let folder = format!("{}/", folder.display());
    for site in growing.iter_mut().filter(|_| folder.len() > 1) {
        site.site = site.site.replacen(&folder, "", 1);
    }
}
