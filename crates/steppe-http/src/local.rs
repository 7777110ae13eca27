//! The server's side of an exchange that has no server: the gateway answers itself.
//!
//! Non-goals: what the response is. `respond` takes it from the configuration or a
//! filter, `files` from a folder.

use std::task::{Context, Poll};

use crate::error::GatewayError;
use crate::exchange::{Outgoing, Part, Sink, Source, Upstream};
use crate::head::ResponseHead;

/// A source of one response, whose head is never 101.
pub trait Responder {
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

impl<R: Responder + ?Sized> Responder for Box<R> {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        (**self).poll_head(cx)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        (**self).poll_part(cx)
    }

    fn is_starved(&self) -> bool {
        (**self).is_starved()
    }
}

/// A local response in place of a server's; what the client sends is thrown away.
#[derive(Debug)]
pub struct Local<R>(pub R);

impl<R> Sink for Local<R> {
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

impl<R: Responder> Source for Local<R> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.0.poll_part(cx)
    }

    fn is_starved(&self) -> bool {
        self.0.is_starved()
    }
}

impl<R: Responder> Upstream for Local<R> {
    fn start(&mut self, _: &Outgoing<'_>) -> Result<(), GatewayError> {
        Ok(())
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        self.0.poll_head(cx)
    }

    fn start_tunnel(&mut self) {
        unreachable!("a local response is never 101");
    }
}
