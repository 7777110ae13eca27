//! The end of a call of gRPC whose server fails, or whose deadline passes, behind the head of its response: its
//! client is told by a status in trailers, as it would be by its server.
//!
//! A message that was cut stays cut: the status is what its client goes by.

use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease, OverBudget};

use crate::error::GatewayError;
use crate::exchange::{Downstream, Part};
use crate::field::{FieldBlock, FieldList};
use crate::grpc::{self, Code};

/// Trailers that follow what the client has of a response.
#[derive(Debug)]
pub(super) struct Ending {
    /// `None`: they were put.
    code: Option<Code>,
}

impl Ending {
    pub(super) fn new(code: Code) -> Self {
        Self { code: Some(code) }
    }

    /// Ready when the client has been sent the trailers, charged to `lease`.
    ///
    /// # Errors
    /// The client takes no more, or there is no memory for them.
    pub(super) fn poll<D>(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
        down: &mut D,
    ) -> Poll<Result<(), GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        loop {
            if let Some(code) = self.code.filter(|_| down.can_put()) {
                down.put(Part::End(Some(trailers(code, lease)?)))?;
                self.code = None;
            }
            ready!(down.poll_flush(cx))?;
            match self.code {
                None => return Poll::Ready(Ok(())),
                // Content that was in the way is out.
                Some(_) if down.can_put() => {}
                Some(_) => return Poll::Ready(Err(GatewayError::client_gone())),
            }
        }
    }
}

fn trailers(code: Code, lease: &Lease) -> Result<FieldBlock, OverBudget> {
    const BYTES: usize = 128;
    let message = match code {
        Code::DeadlineExceeded => "deadline exceeded behind the gateway",
        _ => "the response was cut behind the gateway",
    };
    let mut trailers = FieldBlock::new(Buffer::take(lease, BYTES)?, FieldList::take());
    trailers.append(grpc::STATUS, code.as_str().as_bytes())?;
    trailers.append(grpc::MESSAGE, message.as_bytes())?;
    Ok(trailers)
}
