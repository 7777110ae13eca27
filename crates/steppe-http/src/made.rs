//! The server's side of an exchange that has no server: its response is made here.
//!
//! Leaves out what the response is: `respond` has one from the configuration, `files` one of a
//! folder.

use std::task::{Context, Poll};

use crate::error::GatewayError;
use crate::exchange::{Part, Sink, Source, Upstream};
use crate::head::ResponseHead;

/// A response on its way. It is never 101.
pub trait Make {
    /// As [`Upstream::poll_head`].
    ///
    /// # Errors
    /// As there.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>>;

    /// As [`Source::poll_part`].
    ///
    /// # Errors
    /// As there.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>>;

    /// As [`Source::is_starved`].
    fn is_starved(&self) -> bool;
}

/// What stands where a server would.
#[derive(Debug)]
pub struct Made<M>(pub M);

/// Whatever the client sends is thrown away.
impl<M> Sink for Made<M> {
    fn can_put(&self) -> bool {
        true
    }

    fn put(&mut self, _: Part) -> Result<(), GatewayError> {
        Ok(())
    }

    fn written(&self) -> u64 {
        0
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        Poll::Ready(Ok(()))
    }
}

impl<M: Make> Source for Made<M> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.0.poll_part(cx)
    }

    fn is_starved(&self) -> bool {
        self.0.is_starved()
    }
}

impl<M: Make> Upstream for Made<M> {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        self.0.poll_head(cx)
    }

    fn take_back(&mut self, _: ResponseHead) {}

    fn start_tunnel(&mut self) {
        unreachable!("what is made here is never 101");
    }
}
