//! A connection that a proxy makes for somebody else: the header of the PROXY protocol,
//! before the first request.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::{Age, ServerConnection};
use crate::limits::{FIRST_REQUEST_GRACE, PROXY_V2_BYTES_MAX, REQUEST_READ_BYTES};
use crate::metrics::CloseReason;
use crate::proxy_protocol::{self, ProxyHeader};

impl ServerConnection {
    /// Reads the header, within the time that a request's head may take. What follows it
    /// is the first request's.
    ///
    /// # Errors
    /// Why there is none; `None`: the peer closed.
    pub async fn proxy_header(&mut self) -> Result<ProxyHeader, Option<CloseReason>> {
        self.deadline
            .set(Instant::now(), self.settings.timeouts.header);
        poll_fn(|cx| self.poll_proxy_header(cx)).await
    }

    fn poll_proxy_header(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ProxyHeader, Option<CloseReason>>> {
        loop {
            if let Some(header) = self.parse_proxy_header() {
                return Poll::Ready(header);
            }
            let filled = match &self.wire.pending {
                None => self
                    .wire
                    .poll_fill(cx, &self.settings.lease, REQUEST_READ_BYTES),
                Some(_) => self.wire.poll_fill_more(cx, PROXY_V2_BYTES_MAX),
            };
            match filled {
                Poll::Ready(Ok(1..)) => continue,
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(None)),
                Poll::Pending => {}
            }
            // As for a first request: a drain does not wait for it long.
            if self.settings.drain.is_draining() && self.age == Age::New {
                self.age = Age::Hurried;
                self.deadline.set(Instant::now(), FIRST_REQUEST_GRACE);
            }
            ready!(self.deadline.poll_passed(cx));
            let reason = if self.wire.is_starved {
                CloseReason::OverBudget
            } else {
                CloseReason::HeaderTimeout
            };
            return Poll::Ready(Err(Some(reason)));
        }
    }

    /// `None` while more is needed.
    fn parse_proxy_header(&mut self) -> Option<Result<ProxyHeader, Option<CloseReason>>> {
        let pending = self.wire.pending.as_mut()?;
        match proxy_protocol::parse(pending.filled()) {
            Ok(None) => None,
            Ok(Some((header, bytes))) => {
                pending.consume(bytes);
                pending.compact();
                if pending.is_empty() {
                    self.wire.pending = None;
                }
                Some(Ok(header))
            }
            Err(_) => Some(Err(Some(CloseReason::ProxyProtocol))),
        }
    }
}
