//! The protocols that there are, by the names that a configuration gives them.

mod choice;

use std::sync::Arc;

use crate::codec::DownstreamCodec;
use crate::config::ProtocolName;
use crate::upstream::channel::{UpstreamCodec, UpstreamCodecs};
use choice::Choice;

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
    pub(crate) fn of(&self, names: &[ProtocolName]) -> Arc<dyn DownstreamCodec> {
        let known = self.0.iter().filter(|(name, _)| names.contains(name));
        let mut codecs: Vec<_> = known.map(|(_, codec)| Arc::clone(codec)).collect();
        if codecs.len() > 1 {
            return Arc::new(Choice::new(codecs));
        }
        codecs
            .pop()
            .expect("a listener speaks a protocol that there is")
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
