//! The server's side of a handshake.
//!
//! Invariants: rustls sees a ClientHello only when all of it is there and small enough, so that a
//! client that sends one byte a second costs a buffer and no session; what a client sends in all
//! until it is established is bounded; and everything that computes takes a turn.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::server::{Accepted, Acceptor};
use rustls::{CertificateError, Connection, ServerConnection};
use steppe_mem::{Buffer, Lease, Reservation, measured};

use super::agreed::{self, Agreed};
use super::handshakes::{Evicted, InProgress, NotBegun};
use super::record::{self, HelloError, HelloReader};
use super::server::{InForce, ListenerTls};
use super::session::{self, Session, SessionMemory, Unwhole};
use crate::clock;
use crate::deadline::Deadline;
use crate::limits::{
    CLIENT_FLIGHT_BYTES_MAX, CLIENT_HELLO_BYTES_MAX, HELLO_READ_BYTES, HELLO_RECORDS_BYTES_MAX,
    TLS_HANDSHAKE_BYTES, TLS_MESSAGE_BYTES, TLS_SESSION_BYTES,
};
use crate::transport::{ReadRoom, Transport};

/// RFC 8446 §6.2.
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;

/// A reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client speaks HTTP without TLS, and was told so.
    #[error("plain HTTP request on a TLS listener")]
    PlainHttp,
    /// The first bytes begin no handshake of TLS.
    #[error("not a TLS handshake")]
    NotTls,
    /// The ClientHello is larger than it may be.
    #[error("ClientHello too large")]
    HelloTooLarge,
    /// The client's certificates are larger than they may be.
    #[error("client's certificates too large")]
    ChainTooLarge,
    /// The handshake was not complete in time.
    #[error("handshake timed out")]
    Timeout,
    /// Evicted, for younger ones.
    #[error("too many handshakes")]
    Evicted,
    /// The client left.
    #[error("closed by the client")]
    Closed,
    /// The budget has no room.
    #[error("over budget")]
    OverBudget,
    /// The client gave up, and said why.
    #[error("TLS alert from the client: {0}")]
    Alert(String),
    /// Client and listener don't agree, or the client's certificate is not valid.
    #[error("{0}")]
    Refused(rustls::Error),
}

impl HandshakeError {
    /// One word, for counting: of a few that there are.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        use rustls::Error;
        match self {
            Self::PlainHttp => "plain_http",
            Self::NotTls => "not_tls",
            Self::HelloTooLarge => "hello_too_large",
            Self::ChainTooLarge => "chain_too_large",
            Self::Timeout => "timeout",
            Self::Evicted => "evicted",
            Self::Closed => "closed",
            Self::OverBudget => "over_budget",
            Self::Alert(_) => "client_alert",
            Self::Refused(error) => match error {
                Error::InvalidCertificate(_) | Error::NoCertificatesPresented => {
                    "client_certificate"
                }
                Error::PeerIncompatible(_) | Error::NoApplicationProtocol => "incompatible",
                _ => "protocol",
            },
        }
    }
}

impl From<NotBegun> for HandshakeError {
    fn from(reason: NotBegun) -> Self {
        match reason {
            NotBegun::Evicted => Self::Evicted,
            NotBegun::Left => Self::Closed,
            NotBegun::Late => Self::Timeout,
        }
    }
}

impl From<Evicted> for HandshakeError {
    fn from(Evicted: Evicted) -> Self {
        Self::Evicted
    }
}

/// A handshake with one client, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Accepting<'a> {
    /// TLS of the listener.
    pub tls: &'a ListenerTls,
    /// Place among the listener's handshakes.
    pub slot: &'a InProgress,
    /// Deadline of the calling task: clear, or set to a time at which the handshake must be over even if it still
    /// waits for others. The caller may set it meanwhile, as a drain does. Where it is clear when the handshake begins,
    /// it is set to `timeout` from then on.
    pub deadline: &'a Deadline,
    /// From its begin to its end at most.
    pub timeout: Duration,
    /// Charged with the handshake and its session.
    pub lease: &'a Lease,
    /// Sent to a client that speaks HTTP without TLS.
    pub to_plain_http: &'a [u8],
}

impl Accepting<'_> {
    /// Agrees with the client on `socket`, of which `pending` was read already.
    ///
    /// # Errors
    /// The reason why there is no session. An alert or response about it was sent as far as one
    /// write gets.
    ///
    /// # Cancel safety
    /// The connection closes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the deadline counts from where it begins"
    )]
    pub async fn accept(
        &self,
        mut socket: Transport,
        pending: Option<Buffer>,
    ) -> Result<(Transport, Agreed), HandshakeError> {
        let given_up = |cx: &mut Context<'_>| match socket.poll_closed(cx) {
            Poll::Ready(()) => Poll::Ready(NotBegun::Left),
            Poll::Pending => self.deadline.poll_passed(cx).map(|()| NotBegun::Late),
        };
        self.slot.begun(given_up).await?;
        if self.deadline.at().is_none() {
            self.deadline.set(clock::now(), self.timeout);
        }
        let (hello, end) = match self.read_hello(&mut socket, pending).await {
            Ok(read) => read,
            Err(error) => {
                self.explain(&mut socket, &error);
                return Err(error);
            }
        };
        let reserve = |bytes| {
            self.lease
                .try_reserve(bytes)
                .map_err(|_| HandshakeError::OverBudget)
        };
        let mut session = reserve(TLS_SESSION_BYTES)?;
        let mut handshake: Reservation = reserve(TLS_HANDSHAKE_BYTES)?;
        // What a client sends of a message without its end is its own choice.
        let unwhole = Unwhole::beside(&mut handshake, TLS_MESSAGE_BYTES);
        let in_force = self.tls.in_force();
        let begun = self
            .slot
            .step(|| begin(&in_force, &hello.filled()[..end]))
            .await?;
        let mut begun = begun.map_err(|(error, alert)| {
            socket.write_now(&alert);
            error
        })?;
        let mut hello = hello;
        hello.consume(end);
        let mut flight = ClientFlight {
            pending: Some(hello).filter(|rest| !rest.is_empty()),
            unwhole,
        };
        self.finish(&mut socket, &mut begun.tls, &mut flight)
            .await?;
        let agreed = measured(self.lease, agreed::bytes_max(&begun.tls), || {
            Agreed::new(&begun.tls, begun.identity, begun.server_name)
        });
        self.slot.complete();
        let (agreed, details) = agreed.map_err(|_| HandshakeError::OverBudget)?;
        let agreed = agreed.map_err(|_| refused(CertificateError::BadEncoding.into()))?;
        session.join(details);
        let chain = session.try_grow(agreed::chain_bytes(&begun.tls));
        chain.map_err(|_| HandshakeError::OverBudget)?;
        let memory = SessionMemory {
            lease: self.lease.clone(),
            charge: session,
        };
        let driver = Session::new(socket, begun.tls, flight.pending, memory);
        Ok((Transport::with_driver(Box::new(driver)), agreed))
    }

    /// Waits for `ready`, for as long as the handshake may take.
    async fn wait<T>(
        &self,
        mut ready: impl FnMut(&mut Context<'_>) -> Poll<Result<T, HandshakeError>>,
    ) -> Result<T, HandshakeError> {
        let waited = self.slot.unless_evicted(|cx| {
            if let Poll::Ready(done) = ready(cx) {
                return Poll::Ready(done);
            }
            ready!(self.deadline.poll_passed(cx));
            Poll::Ready(Err(HandshakeError::Timeout))
        });
        waited.await?
    }

    /// The buffer that the ClientHello is in, and where its last record ends.
    async fn read_hello(
        &self,
        socket: &mut Transport,
        pending: Option<Buffer>,
    ) -> Result<(Buffer, usize), HandshakeError> {
        let mut reader = HelloReader::default();
        let mut read = pending;
        loop {
            if let Some(bytes) = read.take() {
                match reader.read(bytes.filled(), CLIENT_HELLO_BYTES_MAX) {
                    Ok(Some(end)) => return Ok((bytes, end)),
                    Ok(None) if bytes.len() < HELLO_RECORDS_BYTES_MAX => read = Some(bytes),
                    Ok(None) | Err(HelloError::TooLarge) => {
                        return Err(HandshakeError::HelloTooLarge);
                    }
                    Err(HelloError::NoHello) => return Err(HandshakeError::NotTls),
                    Err(HelloError::PlainHttp) => return Err(HandshakeError::PlainHttp),
                }
            }
            let fill = self.wait(|cx| poll_fill(cx, socket, self.lease, &mut read));
            fill.await?;
        }
    }

    /// Says why there is no session, before rustls knows of the client.
    fn explain(&self, socket: &mut Transport, error: &HandshakeError) {
        // RFC 8446 §6: a fatal alert.
        let alert = |description| [21, 3, 3, 0, 2, 2, description];
        match error {
            HandshakeError::PlainHttp => socket.end_now(self.to_plain_http),
            HandshakeError::NotTls => socket.write_now(&alert(UNEXPECTED_MESSAGE)),
            HandshakeError::HelloTooLarge => socket.write_now(&alert(DECODE_ERROR)),
            _ => {}
        }
    }

    /// Says why there is no session, and reads on until the client has heard it: what it sent
    /// meanwhile would reset the connection, and the alert with it.
    async fn linger(&self, socket: &mut Transport, tls: &mut Connection) {
        session::send_now(socket, tls);
        socket.end_now(&[]);
        let mut left = CLIENT_FLIGHT_BYTES_MAX;
        let heard = self.wait(|cx| {
            let mut thrown_away = [0; 1024];
            loop {
                match ready!(socket.poll_read_into(cx, &mut thrown_away)) {
                    Ok(count @ 1..) if count < left => left -= count,
                    _ => return Poll::Ready(Ok(())),
                }
            }
        });
        // It may have to give way, as any handshake.
        let _ = heard.await;
    }

    /// Goes on until both sides are done.
    async fn finish(
        &self,
        socket: &mut Transport,
        tls: &mut Connection,
        flight: &mut ClientFlight,
    ) -> Result<(), HandshakeError> {
        let ClientFlight { pending, unwhole } = flight;
        let mut left = CLIENT_FLIGHT_BYTES_MAX;
        loop {
            self.wait(|cx| session::poll_send(cx, socket, tls).map_err(|_| HandshakeError::Closed))
                .await?;
            if !tls.is_handshaking() {
                return Ok(());
            }
            let record = pending.as_ref();
            let Some(record) = record.and_then(|bytes| record::next(bytes.filled())) else {
                self.wait(|cx| poll_fill(cx, socket, self.lease, pending))
                    .await?;
                continue;
            };
            left = left
                .checked_sub(record)
                .ok_or(HandshakeError::ChainTooLarge)?;
            let bytes = pending.as_mut().expect("a record is there");
            if record::is_close_notify(&bytes.filled()[..record]) {
                return Err(HandshakeError::Closed);
            }
            let fed = self
                .slot
                .step(|| unwhole.feed(tls, &bytes.filled()[..record]))
                .await?;
            let fed = fed.map_err(|_| HandshakeError::OverBudget)?;
            bytes.consume(record);
            if bytes.is_empty() {
                *pending = None;
            }
            if let Err(error) = fed {
                self.linger(socket, tls).await;
                return Err(refused(error));
            }
        }
    }
}

/// A client's bytes behind its ClientHello.
struct ClientFlight {
    /// Read, and not given to rustls. Never empty.
    pending: Option<Buffer>,
    unwhole: Unwhole,
}

/// A handshake whose ClientHello was answered.
struct BegunHandshake {
    tls: Connection,
    identity: usize,
    server_name: Option<Box<str>>,
}

fn begin(
    in_force: &InForce,
    mut hello: &[u8],
) -> Result<BegunHandshake, (HandshakeError, Vec<u8>)> {
    let failed = |(error, mut alert): (rustls::Error, rustls::server::AcceptedAlert)| {
        let mut bytes = Vec::new();
        let _ = alert.write_all(&mut bytes);
        (refused(error), bytes)
    };
    let mut acceptor = Acceptor::default();
    let mut accepted: Option<Accepted> = None;
    while accepted.is_none() && !hello.is_empty() {
        let read = acceptor.read_tls(&mut hello);
        if !matches!(read, Ok(1..)) {
            return Err((HandshakeError::NotTls, Vec::new()));
        }
        accepted = acceptor.accept().map_err(failed)?;
    }
    let accepted = accepted.ok_or((HandshakeError::NotTls, Vec::new()))?;
    let client = accepted.client_hello();
    let name = client.server_name();
    let identity = in_force.identities.choose(name, client.signature_schemes());
    let server_name = name.map(Box::from);
    let config = Arc::clone(in_force.config(identity));
    let tls: ServerConnection = accepted.into_connection(config).map_err(failed)?;
    Ok(BegunHandshake {
        tls: Connection::Server(tls),
        identity,
        server_name,
    })
}

fn refused(error: rustls::Error) -> HandshakeError {
    match error {
        rustls::Error::AlertReceived(alert) => HandshakeError::Alert(format!("{alert:?}")),
        other => HandshakeError::Refused(other),
    }
}

/// Reads once, behind what is there.
fn poll_fill(
    cx: &mut Context<'_>,
    socket: &mut Transport,
    lease: &Lease,
    read: &mut Option<Buffer>,
) -> Poll<Result<(), HandshakeError>> {
    let room = ReadRoom {
        lease,
        first_bytes: HELLO_READ_BYTES,
        bytes_max: HELLO_RECORDS_BYTES_MAX,
    };
    Poll::Ready(match ready!(socket.poll_fill(cx, room, read)) {
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => Err(HandshakeError::Closed),
    })
}
