//! The protocols that there are, by the names that a configuration gives them.

mod choice;

use std::sync::Arc;

use steppe_net::SocketKind;

use crate::codec::{DatagramCodec, DownstreamCodec};
use crate::config::ProtocolName;
use crate::upstream::channel::{UpstreamCodec, UpstreamCodecs};
use choice::Choice;

/// The protocols that clients speak, by the names that a configuration gives them.
#[derive(Debug, Clone, Default)]
pub struct DownstreamCodecs {
    streams: Vec<(ProtocolName, Arc<dyn DownstreamCodec>)>,
    datagrams: Vec<(ProtocolName, Arc<dyn DatagramCodec>)>,
}

/// The protocols that a gateway speaks on either side.
#[derive(Debug, Clone, Default)]
pub struct Codecs {
    /// With clients.
    pub downstream: DownstreamCodecs,
    /// With servers.
    pub upstream: UpstreamCodecs,
}

impl DownstreamCodecs {
    /// The codec of connections to a listener that speaks `names`; `None`: it speaks over datagrams alone.
    pub(crate) fn of_streams(&self, names: &[ProtocolName]) -> Option<Arc<dyn DownstreamCodec>> {
        let known = self.streams.iter();
        let known = known.filter(|(name, _)| names.contains(name));
        let mut codecs: Vec<_> = known.map(|(_, codec)| Arc::clone(codec)).collect();
        if codecs.len() > 1 {
            return Some(Arc::new(Choice::new(codecs)));
        }
        codecs.pop()
    }

    /// Kinds of the sockets of a listener that speaks `names`.
    pub(crate) fn socket_kinds(&self, names: &[ProtocolName]) -> impl Iterator<Item = SocketKind> {
        let has_streams = self.streams.iter().any(|(name, _)| names.contains(name));
        let has_datagrams = self.of_datagrams(names).is_some();
        let streams = has_streams.then_some(SocketKind::Stream);
        streams
            .into_iter()
            .chain(has_datagrams.then_some(SocketKind::Datagram))
    }

    /// The codec of sessions over datagrams, the first of those that a listener names; `None`: it names none.
    pub(crate) fn of_datagrams(&self, names: &[ProtocolName]) -> Option<&Arc<dyn DatagramCodec>> {
        let mut known = self.datagrams.iter();
        let known = known.find(|(name, _)| names.contains(name));
        known.map(|(_, codec)| codec)
    }
}

impl Codecs {
    /// Adds a protocol that clients speak.
    #[must_use]
    pub fn with_downstream(mut self, name: ProtocolName, codec: Arc<dyn DownstreamCodec>) -> Self {
        self.downstream.streams.push((name, codec));
        self
    }

    /// Adds a protocol that clients speak over datagrams.
    #[must_use]
    pub fn with_datagrams(mut self, name: ProtocolName, codec: Arc<dyn DatagramCodec>) -> Self {
        self.downstream.datagrams.push((name, codec));
        self
    }

    /// Adds a protocol that servers speak.
    #[must_use]
    pub fn with_upstream(mut self, name: ProtocolName, codec: Arc<dyn UpstreamCodec>) -> Self {
        self.upstream.add(name, codec);
        self
    }
}
