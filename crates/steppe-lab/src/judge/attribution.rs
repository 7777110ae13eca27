//! Whether what grows is a leak or retention.

use crate::record::{Finding, Outcome};

/// What growth of resident memory is put down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribution {
    /// Live bytes grow with it: something is never freed.
    Leak,
    /// Live bytes are flat: it was freed, and did not go back to the system.
    Retention,
    /// The target does not tell its live bytes, or they are not conclusive.
    Unknown,
}

/// Leak or retention: live bytes decide, where they are those of all that is measured.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub(super) fn attribute(findings: &mut [Finding], live_is_whole: bool) {
    let slope = |metric: &str| {
        let finding = findings.iter().find(|finding| finding.metric == metric)?;
        Some((finding.outcome, finding.value?))
    };
    let attribution = match (slope("live_growth"), slope("rss_growth")) {
        (Some((Outcome::Unbounded, _)), _) => Attribution::Leak,
        // Flat beside what is resident, not only beside the budget.
        (Some((Outcome::Stable, live)), Some((_, resident)))
            if live_is_whole && live.upper * 2.0 < resident.lower =>
        {
            Attribution::Retention
        }
        _ => Attribution::Unknown,
    };
    for finding in findings {
        let grows = matches!(finding.outcome, Outcome::Unbounded | Outcome::Growing);
        if finding.metric == "live_growth" && attribution == Attribution::Leak {
            finding.outcome = Outcome::Leak;
            finding
                .notes
                .push("leak: live bytes grow, so memory is never freed".to_owned());
        } else if finding.metric == "rss_growth" && grows {
            finding.notes.push(explanation(attribution).to_owned());
        }
    }
}

fn explanation(attribution: Attribution) -> &'static str {
    match attribution {
        Attribution::Leak => "leak: live bytes grow as well",
        Attribution::Retention => {
            "retention, not a leak: live bytes are flat, so memory was freed but not returned to \
             the system; compare allocators (a [[variant]] with `preload`)"
        }
        Attribution::Unknown => {
            "leak or retention is unknown: set `target.live_bytes` for all growing processes, or \
             find the code with `target.profile` (Go, Node.js, Python, Java) or `steppe-lab leaks` \
             (native code)"
        }
    }
}
