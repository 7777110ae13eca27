//! What the gateway asks of a protocol, and which protocols there are.
//!
//! A codec that faces clients turns a connection into requests and hands each to
//! [`run`](crate::gateway::run); one that faces servers gives pools
//! [channels](crate::upstream::channel::Channel). The gateway names none of them.

use std::fmt;
use std::sync::Arc;

use crate::config::ProtocolName;
use crate::gateway::Accepted;
use crate::upstream::channel::{UpstreamCodec, UpstreamCodecs};

/// A protocol that clients speak.
pub trait DownstreamCodec: fmt::Debug + Send + Sync {
    /// Spawns a task on the calling worker that serves a connection until it ends.
    ///
    /// The task waits for requests within the listener's timeouts, charges what it reads
    /// to the listener's lease, gives each request to [`run`](crate::gateway::run), or to
    /// [`reject`](crate::gateway::reject) what can't be read as one, and ends between two
    /// requests once the listener [drains](crate::gateway::ListenerSettings::drain).
    fn serve(&self, connection: Accepted);

    /// What a client is sent whose connection finds no room. It is written once, as far
    /// as one write gets.
    fn no_room(&self) -> &'static [u8];
}

/// The protocols that clients speak, by the names that a configuration gives them.
#[derive(Debug, Clone, Default)]
pub struct DownstreamCodecs(Vec<(ProtocolName, Arc<dyn DownstreamCodec>)>);

/// The protocols that a gateway speaks on either side.
#[derive(Debug, Clone, Default)]
pub struct Codecs {
    /// With clients.
    pub downstream: DownstreamCodecs,
    /// With servers.
    pub upstream: UpstreamCodecs,
}

impl DownstreamCodecs {
    /// The codec of a listener that speaks `names`.
    ///
    /// # Panics
    /// Where it has none: a configuration names only protocols that there are.
    pub(crate) fn of(&self, names: &[ProtocolName]) -> &Arc<dyn DownstreamCodec> {
        let known = self.0.iter().find(|(name, _)| names.contains(name));
        &known.expect("a listener speaks a protocol that there is").1
    }
}

impl Codecs {
    /// Adds a protocol that clients speak.
    #[must_use]
    pub fn with_downstream(mut self, name: ProtocolName, codec: Arc<dyn DownstreamCodec>) -> Self {
        self.downstream.0.push((name, codec));
        self
    }

    /// Adds a protocol that servers speak.
    #[must_use]
    pub fn with_upstream(mut self, name: ProtocolName, codec: Arc<dyn UpstreamCodec>) -> Self {
        self.upstream.add(name, codec);
        self
    }
}
