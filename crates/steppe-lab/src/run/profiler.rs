//! Fetches the profile of the target's runtime, by the runtime's own means.
//!
//! Two fetches a run, after the point of the last epoch of warm-up and after that of the last epoch: no point
//! that is judged has their cost. A run that goes on until it is decided has one before each look, and its
//! cost in the points that follow. The needs of a runtime from its start on (Node.js a sampler, Python its
//! tracer) are there during the whole run, warm-up included.
//!
//! Invariant: a fetch is bounded in bytes and time, and a failed one is a note for people and nothing else.
//! Leaves out the profiles of allocators.

mod class_histogram;
mod inspector;
mod tracer;

use std::path::Path;
use std::time::Instant;

use self::inspector::Inspectors;
use self::tracer::Tracer;
use super::environment::Target;
use crate::limits::{PROFILE_BYTES_MAX, PROFILE_PATIENCE};
use crate::profile::{Profile, go};
use crate::scenario::{ProfileSource, Program};
use crate::target::MetricClient;

/// The profiler of one run of a target.
pub(super) enum Profiler {
    Go { url: String },
    Node(Inspectors),
    Python(Tracer),
    Java,
}

impl Profiler {
    /// Adds the settings for profiling to the environment of a program. A target that runs already can't get
    /// any; scenarios refuse runtimes that would need them.
    pub(super) fn prepare(source: &ProfileSource, program: &mut Program) -> Result<Self, String> {
        Ok(match source {
            ProfileSource::Go { url } => Self::Go {
                url: url.trim_end_matches('/').to_owned(),
            },
            ProfileSource::Node => Self::Node(Inspectors::prepare(program)),
            ProfileSource::Python => Self::Python(Tracer::prepare(program)?),
            ProfileSource::Java => Self::Java,
        })
    }

    /// Begins profiling, once the target is ready.
    pub(super) fn begin(&mut self, target: &Target) -> Result<(), String> {
        match self {
            Self::Node(inspectors) => {
                inspectors.attach(log(target)?, Instant::now() + PROFILE_PATIENCE)
            }
            Self::Go { .. } | Self::Python(_) | Self::Java => Ok(()),
        }
    }

    /// The profile of the target's heap now, after a collection. In a moment without load.
    pub(super) fn fetch(
        &mut self,
        target: &Target,
        processes: &[u32],
        client: &MetricClient,
    ) -> Result<Profile, String> {
        let deadline = Instant::now() + PROFILE_PATIENCE;
        let mut profile = Profile::default();
        match self {
            Self::Go { url } => fetch_go(url, client, &mut profile)?,
            Self::Node(inspectors) => inspectors.fetch(log(target)?, deadline, &mut profile)?,
            Self::Python(tracer) => tracer.fetch(processes, deadline, &mut profile)?,
            Self::Java => class_histogram::fetch(processes, deadline, &mut profile)?,
        }
        Ok(profile)
    }
}

/// The file of the target's output, which has the address of its inspector.
fn log(target: &Target) -> Result<&Path, String> {
    match target {
        Target::Started(process) => Ok(process.log()),
        Target::Running(_) => Err("a running target prints no address".to_owned()),
    }
}

fn fetch_go(url: &str, client: &MetricClient, profile: &mut Profile) -> Result<(), String> {
    let get = |what: &str| {
        let url = format!("{url}/{what}");
        let answer = client.get_up_to(&url, PROFILE_PATIENCE, PROFILE_BYTES_MAX);
        let (status, content) = answer.map_err(|error| error.to_string())?;
        if status != 200 {
            return Err(format!(
                "{url}: status {status}; is net/http/pprof imported?"
            ));
        }
        Ok((url, String::from_utf8_lossy(&content).into_owned()))
    };
    let (from, text) = get("heap?gc=1&debug=1")?;
    go::heap(&text, profile).map_err(|error| format!("{from}: {error}"))?;
    let (from, text) = get("goroutine?debug=1")?;
    go::goroutines(&text, profile).map_err(|error| format!("{from}: {error}"))
}
