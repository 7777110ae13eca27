//! The judgment of a filter on a request that is only asked about, for `steppe explain`.

use super::{About, Filter, Step};
use crate::error::GatewayError;
use crate::head::RequestHead;
use crate::respond::Respond;

/// The judgment of a filter on a request, with its reason.
#[derive(Debug)]
pub struct Judgment {
    /// The verdict.
    pub verdict: FilterVerdict,
    /// The reason, for people; may be empty.
    pub reason: String,
    /// The rule that decides, of a filter with rules, by its index.
    pub rule: Option<usize>,
}

/// A filter's verdict on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterVerdict {
    /// The request passes.
    Passes,
    /// The filter may answer; the request is taken to pass.
    Depends,
    /// The filter answers with this status.
    Answers(u16),
}

impl Judgment {
    /// The filter goes by what no command can know.
    #[must_use]
    pub fn depends(reason: impl Into<String>) -> Self {
        Self {
            verdict: FilterVerdict::Depends,
            reason: reason.into(),
            rule: None,
        }
    }

    /// The request passes.
    #[must_use]
    pub fn passes(reason: impl Into<String>) -> Self {
        Self {
            verdict: FilterVerdict::Passes,
            ..Self::depends(reason)
        }
    }

    /// The filter answers with `status`.
    #[must_use]
    pub fn answers(status: u16, reason: impl Into<String>) -> Self {
        Self {
            verdict: FilterVerdict::Answers(status),
            ..Self::depends(reason)
        }
    }
}

/// The judgment of a filter that sees the request as a gateway would show it.
///
/// # Errors
/// The error that the client is refused with.
pub fn by_beginning(
    filter: &dyn Filter,
    about: &About<'_>,
    head: &mut RequestHead,
) -> Result<Judgment, GatewayError> {
    judge(filter, about, head, None)
}

/// The same of a filter that decides later where it attaches a state; `reason` says what that depends on.
///
/// # Errors
/// As [`by_beginning`].
pub(super) fn unless_attached(
    filter: &dyn Filter,
    about: &About<'_>,
    head: &mut RequestHead,
    reason: &str,
) -> Result<Judgment, GatewayError> {
    judge(filter, about, head, Some(reason))
}

fn judge(
    filter: &dyn Filter,
    about: &About<'_>,
    head: &mut RequestHead,
    attached: Option<&str>,
) -> Result<Judgment, GatewayError> {
    let before = target_of(head);
    let step = filter.begin(about, head)?;
    let after = target_of(head);
    let passes = || match before == after {
        true => Judgment::passes(""),
        false => Judgment::passes(format!("changes the target to {after}")),
    };
    Ok(match step {
        Step::Respond(respond) => Judgment::answers(respond.status, reason_of(&respond)),
        Step::Serve(_) => Judgment::depends("depends on the cached responses"),
        Step::Attach(_) => attached.map_or_else(passes, Judgment::depends),
        Step::Continue => passes(),
    })
}

/// The reason that a response of a filter gives.
fn reason_of(respond: &Respond) -> String {
    let told = respond.fields.iter().find_map(|(name, value)| {
        let is_reason = matches!(name.as_str(), "www-authenticate" | "location");
        is_reason.then(|| format!("{name}: {value}"))
    });
    let text = String::from_utf8_lossy(&respond.body);
    told.unwrap_or_else(|| text.trim_end().to_owned())
}

/// Path and query.
pub(crate) fn target_of(head: &RequestHead) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match head.query() {
        Some(query) => format!("{}?{}", text(head.path()), text(query)),
        None => text(head.path()),
    }
}
