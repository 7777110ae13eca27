//! Where a retry is decided: what an attempt says of its server, and whether the request is
//! sent again.
//!
//! A request is sent again while [`Replay`] keeps all that was read of it, no byte of a response
//! has reached the client, and either its connection had closed while idle, or its server has not
//! processed it, or the upstream's `retry` says so and its budget allows it; and not where the
//! circuit of the upstream has opened. Where that befalls it
//! again, it is the server's doing: it counts there, and another server is asked. A call of gRPC is
//! sent again after a status of its own alone: of one that was lost, nobody knows what its server has
//! done of it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::{Call, Core, Exchange, Stage};
use crate::config::RetryOn;
use crate::error::{GatewayError, Origin, Resend};
use crate::gateway::attempt::Attempt;
use crate::gateway::client::ClientContext;
use crate::gateway::replay::{Repeats, Replay};
use crate::head::ResponseHead;
use crate::metrics::CloseReason;
use crate::relay::Relayed;
use crate::upstream::{Failure, Pool, PooledStream, TargetState};

/// What a server is to be blamed for in one attempt.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) began_at: Instant,
    pub(super) failure: Option<Failure>,
    /// See [`Core::has_fair_time`].
    pub(super) has_fair_time: bool,
    pub(super) has_answered: bool,
    /// A response was turned down, for the request to be sent again.
    pub(super) is_turned_down: bool,
    /// A final head went on to the client.
    pub(super) has_passed: bool,
    /// The client was late with the content that its head announced when the attempt ended.
    pub(super) is_client_late: bool,
}

impl Exchange {
    /// Counts what the attempt says of its server; begins another where the request may be
    /// sent again, and says whether it did.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn retry(
        &mut self,
        client: &ClientContext,
        mut stream: PooledStream,
        result: &Result<Relayed, GatewayError>,
        now: Instant,
    ) -> Result<bool, GatewayError> {
        let core = &mut self.core;
        // A tunnel has let go of its route: its connection is of no further use.
        let Some(route) = core.route.clone() else {
            stream.state().succeeded();
            return Ok(false);
        };
        let pool = route.pool().expect("it went to a server");
        let (_, state) = stream.split();
        // Once, it may have been the connection alone.
        let is_excused = !core.selection.was_resent();
        core.verdict.is_client_late = self.relay.is_client_late(now);
        let failure = core
            .verdict
            .close(result, (&core.replay, is_excused), pool, state, now);
        let is_resent = matches!(result, Err(error) if core.may_resend(error.resend))
            && pool.admits(&mut core.selection, now);
        let is_again = is_resent
            || match core.replay.repeats() {
                Repeats::Never => false,
                Repeats::AfterWord => core.verdict.is_turned_down,
                Repeats::Always => core.is_retried(failure, result, pool, state, now),
            };
        if !is_again {
            if result.is_err() {
                core.log.set_failed_at(state);
            }
            pool.put_back(stream, now);
            return Ok(false);
        }
        if is_resent && (is_excused || !pool.has_other(&core.selection, state)) {
            let selection = std::mem::take(&mut core.selection);
            let ends = core.log.client.and_then(|ip| client.ends(ip));
            let target = stream.target();
            drop(stream);
            let again = Attempt::reconnect(Rc::clone(pool), target, selection, ends);
            self.stage = Stage::Connecting(again);
        } else {
            core.selection.failed_at(state);
            // It may be in the middle of a response that nobody wants.
            drop(stream);
            self.checkout(client, now)?;
        }
        Ok(true)
    }
}

impl Core {
    /// A server has answered: counts what that says of it, and turns the answer down where
    /// another server is to be asked.
    pub(super) fn answered(
        &mut self,
        target: &Arc<TargetState>,
        head: &mut ResponseHead,
        now: Instant,
    ) -> Result<(), GatewayError> {
        let route = self.route.as_ref().expect("only a tunnel has none");
        let pool = route.pool().expect("it went to a server");
        let verdict = &mut self.verdict;
        let elapsed = now.saturating_duration_since(verdict.began_at);
        verdict.failure = Failure::status(head.status);
        verdict.has_answered = true;
        match verdict.failure {
            Some(failure) => pool.upstream().failed(target, failure, elapsed),
            None => {
                target.answered(elapsed, now);
                pool.upstream().answered_in(elapsed, now);
                pool.succeeded(&mut self.selection, now);
            }
        }
        let on = match self.replay.repeats() {
            Repeats::Never => None,
            Repeats::AfterWord => self
                .call
                .as_ref()
                .and_then(Call::told)
                .and_then(RetryOn::code),
            Repeats::Always => RetryOn::status(head.status),
        };
        verdict.is_turned_down =
            on.is_some_and(|on| pool.may_retry(&mut self.selection, on, target));
        if verdict.is_turned_down {
            return Err(GatewayError::upstream(CloseReason::UpstreamReset, 503));
        }
        pool.set_affinity(&self.selection, target, &mut head.fields)
    }

    /// Whether a request may be sent again on another connection; counts it if so. A server that
    /// refuses again and again is not asked for ever.
    fn may_resend(&mut self, resend: Resend) -> bool {
        let may = match resend {
            Resend::No => false,
            Resend::IfIdempotent => self.replay.repeats() == Repeats::Always,
            Resend::Any => self.replay.is_kept(),
        };
        may && self.selection.count_resend()
    }

    /// Whether an attempt that begins now has at least half of the time that the exchange may
    /// take: otherwise it is not the server that made it late.
    pub(super) fn has_fair_time(&self, now: Instant) -> bool {
        let Some(ends_at) = self.timeouts.total_at else {
            return true;
        };
        let whole = ends_at.saturating_duration_since(self.began_at);
        2 * ends_at.saturating_duration_since(now) >= whole
    }

    /// Whether a request whose attempt failed before the client saw any of its response is
    /// sent again: not once its time is over.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn is_retried(
        &mut self,
        failure: Option<Failure>,
        result: &Result<Relayed, GatewayError>,
        pool: &Pool,
        state: &Arc<TargetState>,
        now: Instant,
    ) -> bool {
        if self.verdict.is_turned_down {
            return true;
        }
        let ends_at = self.timeouts.total_at;
        if ends_at.is_some_and(|ends_at| now >= ends_at) {
            return false;
        }
        let on = match failure {
            Some(Failure::Reset | Failure::Garbage) => RetryOn::RESET,
            Some(Failure::Timeout) => RetryOn::TIMEOUT,
            _ => return false,
        };
        let is_unseen = result.is_err() && !self.verdict.has_passed;
        is_unseen && pool.may_retry(&mut self.selection, on, state)
    }
}

impl Verdict {
    pub(super) fn new(began_at: Instant) -> Self {
        Self {
            began_at,
            failure: None,
            has_fair_time: false,
            has_answered: false,
            is_turned_down: false,
            has_passed: false,
            is_client_late: false,
        }
    }

    /// The attempt is over: what its server failed with, counted there.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn close(
        &self,
        result: &Result<Relayed, GatewayError>,
        (replay, is_excused): (&Replay, bool),
        pool: &Pool,
        state: &Arc<TargetState>,
        now: Instant,
    ) -> Option<Failure> {
        // What it answered was counted when it came.
        if self.failure.is_some() || self.is_turned_down {
            return self.failure;
        }
        let Err(error) = result else {
            state.succeeded();
            return None;
        };
        let failure = self.blame(error, replay, is_excused)?;
        // A server need not wait for content that its client is late with: it may be asked again, not blamed.
        let is_late = failure == Failure::Reset && self.is_client_late;
        if !is_late {
            let elapsed = now.saturating_duration_since(self.began_at);
            pool.upstream().failed(state, failure, elapsed);
        }
        Some(failure)
    }

    /// What an error says of the server. A client that is slow, or leaves, says nothing, nor does
    /// what `is_excused`: a connection that closed while it was idle.
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn blame(&self, error: &GatewayError, replay: &Replay, is_excused: bool) -> Option<Failure> {
        match error.reason {
            _ if error.origin == Origin::Internal => None,
            CloseReason::UpstreamReset if is_excused && error.resend != Resend::No => None,
            CloseReason::UpstreamReset => Some(Failure::Reset),
            CloseReason::BadResponse => Some(Failure::Garbage),
            CloseReason::FirstByteTimeout | CloseReason::UpstreamIdleTimeout => {
                Some(Failure::Timeout)
            }
            // With content, or once the response has begun, the client may be what took so long.
            CloseReason::TotalTimeout
                if self.has_fair_time && !self.has_answered && replay.has_no_content() =>
            {
                Some(Failure::Timeout)
            }
            _ => None,
        }
    }
}
