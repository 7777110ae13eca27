//! Responses to failed calls: statuses of the plane as statuses of HTTP.

use std::time::Duration;

use steppe_http::config::Respond;
use steppe_plane::{Failure, Status};

/// The side that refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// This node, or its relay: no worker was asked.
    Node,
    /// A worker.
    Worker,
}

/// The response to a client for `failure`, as long as no part of an answer has come.
pub(super) fn respond(failure: &Failure, by: By) -> Respond {
    let status = match (failure.status, by) {
        (Status::Invalid | Status::Unsupported, _) => 400,
        (Status::Denied, _) => 403,
        (Status::TooLarge, _) => 413,
        // The worker is at its limit: another request is one too many.
        (Status::Overloaded, By::Worker) => 429,
        // The node could not serve the request: the client did not name the service.
        (Status::Ok | Status::Internal | Status::UnknownService | Status::Cancelled, _) => 502,
        (Status::Overloaded, By::Node) | (Status::Unavailable | Status::Draining, _) => 503,
        (Status::DeadlineExceeded, _) => 504,
    };
    let text = match by {
        // A worker's message is for its operator.
        By::Worker => failure.status.name().to_owned(),
        By::Node => failure.to_string(),
    };
    let mut respond = words(status, text);
    if matches!(status, 429 | 503) {
        let after = failure.retry_after.unwrap_or_default();
        let seconds = after
            .div_duration_f64(Duration::from_secs(1))
            .ceil()
            .max(1.0);
        let field = ("retry-after".to_owned(), format!("{seconds}"));
        respond.fields.push(field);
    }
    respond
}

/// A response with a status, and a short text.
pub(super) fn words(status: u16, text: String) -> Respond {
    let media_type = "text/plain; charset=utf-8".to_owned();
    Respond {
        status,
        body: (text + "\n").into_bytes(),
        fields: vec![("content-type".to_owned(), media_type)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own() {
        let told = [
            (Status::Cancelled, 502),
            (Status::Invalid, 400),
            (Status::DeadlineExceeded, 504),
            (Status::UnknownService, 502),
            (Status::Unavailable, 503),
            (Status::Overloaded, 503),
            (Status::TooLarge, 413),
            (Status::Unsupported, 400),
            (Status::Denied, 403),
            (Status::Internal, 502),
            (Status::Draining, 503),
        ];
        for (status, expected) in told {
            let failure = Failure::new(status, "why");
            let answer = respond(&failure, By::Node);
            assert_eq!(answer.status, expected, "{status:?}");
            let is_told_when = answer.fields.iter().any(|(name, _)| name == "retry-after");
            assert_eq!(is_told_when, expected == 503, "{status:?}");
        }
        let mut failure = Failure::new(Status::Overloaded, "inner workings");
        failure.retry_after = Some(Duration::from_millis(1_200));
        let answer = respond(&failure, By::Worker);
        let after = ("retry-after".to_owned(), "2".to_owned());
        assert_eq!((answer.status, answer.fields.last()), (429, Some(&after)));
        assert_eq!(answer.body, b"overloaded\n");
    }
}
