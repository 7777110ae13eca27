//! The decision on another attempt, after one is over.
//!
//! A request is sent again while [`Replay`] keeps all that was read of it, no byte of a response has reached the
//! client, and either its connection had closed while idle, or its server has not processed it, or the upstream's
//! `retry` says so and its budget allows it; and not where the circuit of the upstream has opened. If a request that was
//! sent again loses its connection again, the server is blamed, and another server is asked. A call of gRPC is sent
//! again after a status of its own alone: of one that was lost, it is unknown what its server has done of it.

use std::rc::Rc;
use std::time::Instant;

use super::hedging::SecondConnect;
use super::log::Log;
use super::routed::Routed;
use super::standing::Standing;
use crate::config::RetryOn;
use crate::error::{GatewayError, Resend};
use crate::gateway::replay::{Repeats, Replay};
use crate::grpc::Code;
use crate::head::{RequestHead, ResponseHead};
use crate::relay::Relayed;
use crate::upstream::{Call, Failure, Fault, FinishedCall, Outcome, Pool, Reconnect};

/// A call whose relay is over.
pub(super) struct Ended<'a> {
    pub(super) call: Call,
    pub(super) relayed: &'a Result<Relayed, GatewayError>,
    pub(super) standing: Standing,
    /// The client was late with content that its head announced when the attempt ended.
    pub(super) is_client_late: bool,
    /// A connection to a second server that goes on alone.
    pub(super) second: Option<Box<SecondConnect>>,
    pub(super) now: Instant,
}

/// Another attempt.
pub(super) enum NextAttempt {
    /// At the same server, on another connection.
    Same(RequestHead, Reconnect),
    /// At the server of the pool whose turn it is.
    Another(RequestHead, Rc<Pool>),
    /// At the second server, to which a connection is being established.
    Second(RequestHead, Box<SecondConnect>),
}

/// Ends a call, and decides if the request is sent again; `None`: it is not.
pub(super) fn next(ended: Ended<'_>, routed: &mut Routed, log: &mut Log) -> Option<NextAttempt> {
    let Ended {
        call,
        relayed,
        standing,
        is_client_late,
        second,
        now,
    } = ended;
    // Once, the connection alone may have been at fault.
    let is_excused = !routed.selection.was_resent();
    let outcome = match relayed {
        _ if standing.is_turned_down => Outcome::TurnedDown,
        Ok(_) => Outcome::Complete,
        Err(error) => Outcome::Failed(Fault {
            error,
            is_excused,
            is_timely: standing.is_timely,
            is_client_late,
        }),
    };
    let finished = call.finish(outcome, now);
    if let Some(second) = second
        // Nothing was sent to it yet, and the circuit may have opened.
        && (standing.is_turned_down || finished.pool().admits(&mut routed.selection, now))
        && let Some(head) = routed.replay.take_head()
    {
        routed.selection.failed_at(finished.server());
        return Some(NextAttempt::Second(head, second));
    }
    let is_resent = matches!(relayed, Err(error) if try_spend_resend(error.resend, routed))
        && finished.pool().admits(&mut routed.selection, now);
    let is_again = is_resent
        || match routed.replay.repeats() {
            Repeats::Never => false,
            Repeats::OnServerStatement => standing.is_turned_down,
            Repeats::Always => {
                standing.is_turned_down
                    || (relayed.is_err() && !standing.has_passed)
                        && try_spend_retry(&finished, routed, now)
            }
        };
    let head = match is_again {
        true => routed.replay.take_head(),
        false => None,
    };
    let Some(head) = head else {
        if relayed.is_err() {
            log.set_failed_at(finished.server());
        }
        finished.put_back(now);
        return None;
    };
    let pool = finished.pool();
    let is_alone = || !pool.has_other(&routed.selection, finished.server());
    if is_resent && (is_excused || is_alone()) {
        return Some(NextAttempt::Same(head, finished.again()));
    }
    let pool = Rc::clone(pool);
    // Its connection is closed: it may be in the middle of a response.
    routed.selection.failed_at(finished.server());
    Some(NextAttempt::Another(head, pool))
}

/// True when a request may be sent again on another connection; counts it if so. A server that refuses again and
/// again is not asked for ever.
fn try_spend_resend(resend: Resend, routed: &mut Routed) -> bool {
    let may = match resend {
        Resend::No => false,
        Resend::IfIdempotent => routed.replay.repeats() == Repeats::Always,
        Resend::Any => routed.replay.is_kept(),
    };
    may && routed.selection.count_resend()
}

/// True when the upstream's `retry` lets a request be sent again whose attempt failed before the client saw any of its
/// response: not once its time is over.
fn try_spend_retry(finished: &FinishedCall, routed: &mut Routed, now: Instant) -> bool {
    if routed.check_time(now).is_err() {
        return false;
    }
    let on = match finished.failure {
        Some(Failure::Reset | Failure::MalformedResponse) => RetryOn::RESET,
        Some(Failure::Timeout) => RetryOn::TIMEOUT,
        _ => return false,
    };
    let pool = finished.pool();
    pool.try_spend_retry(&mut routed.selection, on, finished.server())
}

/// The condition of `retry` on which a response is turned down, for the request to be sent again. `code` is the status
/// of gRPC in it.
pub(super) fn turned_down_on(
    head: &ResponseHead,
    code: Option<Code>,
    replay: &Replay,
) -> Option<RetryOn> {
    match replay.repeats() {
        Repeats::Never => None,
        Repeats::OnServerStatement => code.and_then(RetryOn::code),
        Repeats::Always => RetryOn::status(head.status),
    }
}
