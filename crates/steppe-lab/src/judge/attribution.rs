//! Attribution of growth to a leak or to retention.

use crate::record::{Finding, Outcome};

/// Cause of growth of resident memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribution {
    /// Live bytes grow as well: memory is never freed.
    Leak,
    /// Live bytes are flat: memory was freed, and not returned to the system.
    Retention,
    /// The target does not expose its live bytes, or they are not conclusive.
    Unknown,
}

/// Marks growth as a leak if live bytes grow, and as retention if they are flat and cover all measured processes.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub(super) fn attribute(findings: &mut [Finding], live_is_whole: bool) {
    let slope = |metric: &str| {
        let finding = findings.iter().find(|finding| finding.metric == metric)?;
        Some((finding.outcome, finding.value?))
    };
    let attribution = match (slope("live_growth"), slope("rss_growth")) {
        (Some((Outcome::Unbounded, _)), _) => Attribution::Leak,
        // Flat compared with the growth of resident memory, not only with the budget.
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
