//! TLS sessions with servers, shared by all workers for resumption.

use std::path::PathBuf;
use std::sync::Arc;

use steppe_net::tls::config::{MinVersion, ServerTrust};
use steppe_net::tls::{LoadError, ServerTls};

use crate::config::{Server, Transport, Trust, Upstream};

/// ALPN identifiers of the protocols over TLS. RFC 7858 §3.2 (IANA's registry), RFC 9113 §3.1.
const DOT: &[u8] = b"dot";
const HTTP_2: &[u8] = b"h2";

/// TLS settings for the servers of an upstream, by protocol.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    dot: Option<Arc<ServerTls>>,
    https: Option<Arc<ServerTls>>,
}

impl Sessions {
    /// Loads the settings of each upstream. Upstreams with the same trust share them: the system's authorities are some
    /// hundred certificates.
    ///
    /// # Errors
    /// [`LoadError`] of a file.
    pub(crate) fn load(upstreams: &[Upstream]) -> Result<Vec<Self>, LoadError> {
        let mut known: Vec<(ServerTrust, Arc<ServerTls>)> = Vec::new();
        let mut load = |upstream: &Upstream, transport, alpn| {
            let mut servers = upstream.servers.iter();
            if !servers.any(|server| server.transport == transport) {
                return Ok(None);
            }
            let trust = server_trust(&upstream.trust, alpn);
            if let Some((_, tls)) = known.iter().find(|(known, _)| *known == trust) {
                return Ok(Some(Arc::clone(tls)));
            }
            let tls = Arc::new(ServerTls::load(&trust)?);
            known.push((trust, Arc::clone(&tls)));
            Ok(Some(tls))
        };
        let upstreams = upstreams.iter().map(|upstream| {
            Ok(Self {
                dot: load(upstream, Transport::Tls, DOT)?,
                https: load(upstream, Transport::Https, HTTP_2)?,
            })
        });
        upstreams.collect()
    }

    /// The files of certificate authorities that the settings depend on.
    pub(crate) fn files(upstreams: &[Upstream]) -> Vec<PathBuf> {
        let secure = upstreams
            .iter()
            .filter(|upstream| upstream.servers.iter().any(Server::is_secure));
        secure
            .filter_map(|upstream| upstream.trust.ca.clone())
            .collect()
    }

    /// The settings for a transport; `None` for those without TLS.
    pub(crate) fn of(&self, transport: Transport) -> Option<Arc<ServerTls>> {
        match transport {
            Transport::Udp | Transport::Tcp => None,
            Transport::Tls => self.dot.clone(),
            Transport::Https => self.https.clone(),
        }
    }
}

fn server_trust(trust: &Trust, alpn: &[u8]) -> ServerTrust {
    ServerTrust {
        ca: trust.ca.clone(),
        // Set for each server.
        server_name: None,
        identity: None,
        verify: trust.verify,
        pins: trust.pins.clone(),
        min_version: MinVersion::Tls12,
        alpn: vec![alpn.to_vec()],
    }
}
