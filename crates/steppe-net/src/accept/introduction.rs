//! One connection on its way through its preamble.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};

use steppe_mem::{Buffer, Lease};

use super::admission::Admission;
use super::preamble::{HeaderLimits, Preamble, TlsPreamble};
use super::refused::Refused;
use super::service::{Accepted, ConnectionEnds, ConnectionService, Established};
use crate::clock;
use crate::deadline::Deadline;
use crate::drain_grace::DrainGrace;
use crate::proxy_protocol::{HeaderRoom, ProxyHeader, poll_header};
use crate::stream::PeerAddress;
use crate::tls::{Accepting, Agreed, HandshakeError};
use crate::transport::Transport;

/// A connection whose preamble is not over.
pub(super) struct Introduction<S: ConnectionService> {
    pub(super) service: Rc<S>,
    pub(super) preamble: Preamble,
    pub(super) connection: Accepted<S::Session>,
}

impl<S: ConnectionService> Introduction<S> {
    /// Has the connection served when its preamble is over.
    pub(super) async fn run(self) {
        let service = Rc::clone(&self.service);
        match self.complete().await {
            Ok(connection) => service.serve(connection),
            Err(reason) => service.refused(&reason),
        }
    }

    async fn complete(mut self) -> Result<Accepted<S::Session>, Refused> {
        if let Some(limits) = self.preamble.header {
            self.read_header(limits).await?;
        }
        match self.preamble.tls.take() {
            Some(tls) => self.secure(tls).await,
            None => Ok(self.connection),
        }
    }

    /// Reads the PROXY header, and has the client that it names take the connection's place among clients.
    async fn read_header(&mut self, limits: HeaderLimits) -> Result<(), Refused> {
        // Nothing is read of another peer: its header would not be believed.
        if !self.service.trusts(self.connection.ends.peer) {
            return Err(Refused::UntrustedProxy);
        }
        let header = self.header(limits).await?;
        let connection = &mut self.connection;
        match header {
            // A client on a socket of the proxy's machine is as far away as the proxy.
            ProxyHeader::Own | ProxyHeader::Unix => {}
            ProxyHeader::For(ends) => {
                connection.ends = ConnectionEnds {
                    peer: PeerAddress::Ip(ends.source),
                    destination: Some(ends.destination),
                };
            }
        }
        let holding = self.service.hold(connection.ends.peer);
        connection.session.as_mut().hold_for(holding);
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the deadline of a PROXY header begins with the connection"
    )]
    async fn header(&mut self, limits: HeaderLimits) -> Result<ProxyHeader, Refused> {
        let Accepted {
            transport,
            pending,
            deadline,
            ..
        } = &mut self.connection;
        let drain = self.service.admission().drain();
        deadline.set(clock::now(), limits.timeout);
        let mut grace = DrainGrace::default();
        poll_fn(|cx| {
            let room = HeaderRoom {
                lease: &self.preamble.lease,
                first_bytes: limits.read_bytes,
            };
            if let Poll::Ready(header) = poll_header(cx, transport, room, pending) {
                return Poll::Ready(header.map_err(Refused::Header));
            }
            grace.apply(drain, deadline);
            ready!(deadline.poll_passed(cx));
            Poll::Ready(Err(match transport.is_starved() {
                true => Refused::OverBudget,
                false => Refused::HeaderTimeout,
            }))
        })
        .await
    }

    /// Agrees with the client on TLS.
    async fn secure(self, tls: TlsPreamble) -> Result<Accepted<S::Session>, Refused> {
        let (service, mut connection) = (self.service, self.connection);
        let pending = connection.pending.take();
        let handshake = TimedHandshake {
            admission: service.admission(),
            tls: &tls,
            lease: &self.preamble.lease,
            deadline: &connection.deadline,
        };
        let client = connection.ends.peer.ip();
        let agreed = handshake.run(client, connection.transport, pending);
        let (mut transport, agreed) = agreed.await?;
        let established = Established {
            agreed,
            tls: tls.tls,
        };
        let session = &mut connection.session;
        service
            .establish(session, established)
            .inspect_err(|_| transport.end_now(self.preamble.no_room))?;
        Ok(Accepted {
            transport,
            ..connection
        })
    }
}

/// A handshake of one connection, among those of its listener.
struct TimedHandshake<'a> {
    admission: &'a Admission,
    tls: &'a TlsPreamble,
    lease: &'a Lease,
    deadline: &'a Deadline,
}

impl TimedHandshake<'_> {
    async fn run(
        self,
        client: IpAddr,
        transport: Transport,
        pending: Option<Buffer>,
    ) -> Result<(Transport, Agreed), HandshakeError> {
        let handshakes = self.admission.handshakes();
        let slot = handshakes.begin(self.tls.handshakes, client);
        let accepting = Accepting {
            tls: &self.tls.tls,
            slot: &slot,
            deadline: self.deadline,
            timeout: self.tls.timeout,
            lease: self.lease,
            to_plain_http: self.tls.to_plain_http,
        };
        // That of a PROXY header is over.
        self.deadline.clear();
        let mut accepting = pin!(accepting.accept(transport, pending));
        let mut grace = DrainGrace::default();
        poll_fn(|cx| {
            // Even one that has not begun, since it waits for others.
            grace.apply(self.admission.drain(), self.deadline);
            accepting.as_mut().poll(cx)
        })
        .await
    }
}
