//! The protocol of servers, as a pool sees it: connections to servers, and streams on them.

use std::fmt;
use std::sync::Arc;
use std::task::Context;

use steppe_mem::{Lease, Reservation};
use steppe_net::Transport;

use crate::config::ProtocolName;
use crate::exchange::Upstream;
use crate::metrics::Traffic;

/// A protocol that servers speak.
pub trait UpstreamCodec: fmt::Debug + Send + Sync {
    /// Takes over a connection that was just established. Called on a worker or on
    /// the control thread, where tasks may be spawned; it must not block.
    fn open(&self, connection: Established) -> Box<dyn Channel>;

    /// Bytes that a connection takes beside its streams: they are reserved before it is established.
    fn connection_bytes(&self) -> usize {
        0
    }

    /// True when a connection carries several exchanges at a time: then whoever needs one waits
    /// for one that is being established, and a stream that ends says whether its request was
    /// processed ([`Resend::Any`](crate::error::Resend)).
    fn is_shared(&self) -> bool {
        false
    }
}

/// The protocols that servers speak, by the names that a configuration gives them.
#[derive(Debug, Clone, Default)]
pub struct UpstreamCodecs(Vec<(ProtocolName, Arc<dyn UpstreamCodec>)>);

impl UpstreamCodecs {
    pub(crate) fn add(&mut self, name: ProtocolName, codec: Arc<dyn UpstreamCodec>) {
        self.0.push((name, codec));
    }

    /// The codec of servers that speak `name`.
    ///
    /// # Panics
    /// Where there is none: a configuration names only protocols that there are.
    pub(crate) fn of(&self, name: ProtocolName) -> &Arc<dyn UpstreamCodec> {
        let known = self.0.iter().find(|(known, _)| *known == name);
        &known.expect("servers speak a protocol that there is").1
    }
}

/// A connection that was just established, TLS included.
#[derive(Debug)]
pub struct Established {
    /// The bytes.
    pub transport: Transport,
    /// TLS is below it.
    pub is_secure: bool,
    /// The lease for memory that belongs to no exchange.
    pub lease: Lease,
    /// Of [`UpstreamCodec::connection_bytes`], of the same lease.
    pub charge: Reservation,
    /// Counts its bytes.
    pub traffic: Traffic,
}

/// A connection to a server, while a pool keeps it.
///
/// Order of calls:
/// 1. [`Channel::is_quiet`], [`Channel::capacity`] and [`Channel::knows_capacity`] at any time.
/// 2. [`Channel::open_stream`] only while `capacity` is not 0.
///
/// Dropping it closes the connection, once its streams have ended.
pub trait Channel: fmt::Debug {
    /// The number of streams that may still be opened on it now.
    fn capacity(&self) -> usize;

    /// True once the server has said how many streams it takes. The task of [`Channel::is_quiet`] is woken then.
    fn knows_capacity(&self) -> bool {
        true
    }

    /// True when it can still be used: nothing has come that nobody asked for, and
    /// the server has not ended it. The task of `cx` is woken when that changes.
    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool;

    /// Opens a stream. A connection that carries one exchange at a time becomes the
    /// stream; one that is shared stays with the pool.
    fn open_stream(self: Box<Self>) -> (Box<dyn UpstreamStream>, Option<Box<dyn Channel>>);
}

/// A stream of a connection: one exchange with a server.
///
/// Order of calls: as for [`Upstream`]; [`UpstreamStream::finish`] last, whatever
/// became of the exchange. Dropping it cancels the exchange.
pub trait UpstreamStream: Upstream + fmt::Debug {
    /// The exchange is over. A stream that was a whole connection gives it back, if
    /// another exchange may follow on it.
    fn finish(self: Box<Self>) -> Option<Box<dyn Channel>>;
}
