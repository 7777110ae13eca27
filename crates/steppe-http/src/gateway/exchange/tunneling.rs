//! The stage of a tunnel: bytes go both ways, until each end has come.
//!
//! Invariant: it holds neither route nor snapshot nor pool, so that a tunnel of hours keeps none alive.

use std::task::{Poll, ready};
use std::time::Instant;

use super::env::Env;
use super::log::Log;
use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part};
use crate::head::ResponseHead;
use crate::relay::{Continue, Relay, RelayEnv, Tap};
use crate::upstream::PooledStream;

/// A tunnel between the client and a server.
pub(super) struct Tunneling {
    relay: Relay,
    stream: PooledStream,
}

impl Tunneling {
    /// The tunnel that `relay` has begun.
    pub(super) fn new(relay: Relay, stream: PooledStream) -> Self {
        Self { relay, stream }
    }

    /// The moment at which it ends if nothing moves.
    pub(super) fn due(&self) -> Option<Due> {
        self.relay.due()
    }

    /// Ready when it is closed.
    pub(super) fn poll<D>(&mut self, env: &mut Env<'_, '_, D>) -> Poll<Result<(), GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        let (stream, server) = self.stream.split();
        let mut counts = TunnelCounts(&mut env.journal.log);
        let relayed = ready!(self.relay.poll(&mut RelayEnv {
            cx: env.cx,
            now: env.now,
            down: env.down,
            up: stream,
            tap: &mut counts,
        }));
        if relayed.is_ok() {
            server.succeeded();
        }
        Poll::Ready(relayed.map(|_| ()))
    }
}

/// Counts the bytes of a tunnel.
struct TunnelCounts<'a>(&'a mut Log);

impl Tap for TunnelCounts<'_> {
    fn request_part(&mut self, part: &mut Part) -> Result<(), GatewayError> {
        if let Part::Chunk(chunk) = part {
            self.0.received_bytes += chunk.len() as u64;
        }
        Ok(())
    }

    fn response_head(
        &mut self,
        _: &mut ResponseHead,
        _: Instant,
    ) -> Result<Continue, GatewayError> {
        Ok(Continue::Bounded)
    }

    fn response_part(&mut self, part: &mut Part) -> Result<(), GatewayError> {
        if let Part::Chunk(chunk) = part {
            self.0.sent_bytes += chunk.len() as u64;
        }
        Ok(())
    }
}
