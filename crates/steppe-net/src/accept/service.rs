//! The trait of a service that serves connections, and what it is handed.

use std::net::SocketAddr;
use std::sync::Arc;

use steppe_mem::{Buffer, Holding};

use super::admission::{Admission, Admitted};
use super::preamble::Preamble;
use super::refused::Refused;
use crate::deadline::Deadline;
use crate::stream::PeerAddress;
use crate::tls::{Agreed, ListenerTls};
use crate::transport::Transport;

/// A service as one of its listeners on one worker, whatever its sessions are.
pub trait SessionService {
    /// The admission that [`ListenerSet`](super::ListenerSet) gave it.
    fn admission(&self) -> &Admission;
}

/// A service whose sessions are connections that are accepted.
///
/// For each connection that is accepted:
///
/// 1. [`admit`](Self::admit) charges it, and counts it unless a TLS handshake comes first.
/// 2. [`preamble`](Self::preamble) is asked in the same turn, so that both follow one configuration.
/// 3. Where the preamble has a PROXY header, [`trusts`](Self::trusts) is asked for its sender, and
///    [`hold`](Self::hold) for the client that it names.
/// 4. Where the preamble has TLS, [`establish`](Self::establish) is given the result of the handshake, and counts the
///    connection.
/// 5. [`serve`](Self::serve) takes the connection over; or [`refused`](Self::refused) is told why it was closed, at
///    whichever step that was.
pub trait ConnectionService: SessionService + 'static {
    /// An admitted connection with what the service counts of it, until it is dropped.
    type Session: AsMut<Admitted>;

    /// Admits a connection.
    ///
    /// # Errors
    /// Why it is refused; [`no_room`](Self::no_room) is sent then.
    fn admit(&self, peer: PeerAddress, transport: &Transport) -> Result<Self::Session, Refused>;

    /// The beginning of connections that are accepted now; `None`: their protocol begins at once.
    fn preamble(&self, session: &Self::Session) -> Option<Preamble>;

    /// True if a PROXY header of `peer` is believed.
    fn trusts(&self, peer: PeerAddress) -> bool;

    /// Enters a connection of `client`, which a PROXY header named, among those of all clients.
    fn hold(&self, client: PeerAddress) -> Holding;

    /// Takes the result of a handshake, and counts the connection.
    ///
    /// # Errors
    /// Why it is refused.
    fn establish(&self, session: &mut Self::Session, tls: Established) -> Result<(), Refused>;

    /// Spawns a task that serves a connection until it ends, or [drains](Admission::drain).
    fn serve(&self, connection: Accepted<Self::Session>);

    /// Counts or logs a connection that is not served.
    fn refused(&self, reason: &Refused);

    /// Sent to a client that is not admitted, as far as one write gets. `None`: its connection is closed without a word.
    fn no_room(&self) -> Option<&'static [u8]>;
}

/// A connection at the beginning of its protocol.
#[derive(Debug)]
pub struct Accepted<S> {
    /// Its bytes.
    pub transport: Transport,
    /// Bytes that were read already, never empty.
    pub pending: Option<Buffer>,
    /// Both ends.
    pub ends: ConnectionEnds,
    /// Deadline of the task that serves it.
    pub deadline: Deadline,
    /// Its admission.
    pub session: S,
}

/// Both ends of a connection, as a PROXY header names them where there is one.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionEnds {
    /// The client.
    pub peer: PeerAddress,
    /// The address that it connected to; `None`: a Unix socket.
    pub destination: Option<SocketAddr>,
}

/// The result of a handshake with a client.
#[derive(Debug)]
pub struct Established {
    /// Version, cipher suite, protocol and identities.
    pub agreed: Agreed,
    /// Certificates and policy that the handshake followed.
    pub tls: Arc<ListenerTls>,
}

impl<S> Accepted<S> {
    /// A connection that nothing was read of.
    pub(super) fn new(
        transport: Transport,
        peer: PeerAddress,
        deadline: Deadline,
        session: S,
    ) -> Self {
        let destination = transport.local_address();
        Self {
            transport,
            pending: None,
            ends: ConnectionEnds { peer, destination },
            deadline,
            session,
        }
    }
}
