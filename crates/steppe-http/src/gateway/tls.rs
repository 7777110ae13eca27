//! The files of a configuration, read before it is served, and the TLS session of a connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use steppe_mem::alloc::block_bytes;
use steppe_net::ListenAddress;
use steppe_net::tls::{Agreed, ListenerTls, Outdated, ServerTls};

use crate::config::{self, UpstreamKind};
use crate::filter::{FileError, FilterFiles, factory};

/// The content of the files that a configuration names: of each listener, upstream and filter, in their order.
#[derive(Debug, Default)]
pub struct LoadedFiles {
    pub(super) listeners: Vec<Option<Arc<ListenerTls>>>,
    pub(super) upstreams: Vec<Option<Arc<ServerTls>>>,
    pub(super) filters: Vec<FilterFiles>,
}

impl LoadedFiles {
    /// Reads all files that `config` names. Returns the certificates of listeners that clients refuse by their dates.
    ///
    /// # Errors
    /// What is wrong with a file, and which key names it.
    pub fn check(config: &config::Gateway, now: Instant) -> Result<Vec<Outdated>, FileError> {
        let loaded = Self::load(config, |_| None, now)?;
        let listeners = loaded.listeners.iter().flatten();
        Ok(listeners.flat_map(|tls| tls.outdated()).collect())
    }

    /// Reads the files that `config` names. Listeners that `last` has keep their tickets.
    ///
    /// # Errors
    /// What is wrong with a file, and which key names it.
    pub(super) fn load(
        config: &config::Gateway,
        last: impl Fn(&ListenAddress) -> Option<Arc<ListenerTls>>,
        now: Instant,
    ) -> Result<Self, FileError> {
        let listener = |listener: &config::Listener| {
            let Some(tls) = &listener.tls else {
                return Ok(None);
            };
            let last = last(&listener.address);
            let address = listener.address.to_string();
            let loaded = ListenerTls::load(&tls.session, &address, last.as_deref(), now);
            let key = listener.keys.tls;
            let loaded = loaded.map_err(FileError::at(key));
            loaded.map(|tls| Some(Arc::new(tls)))
        };
        let upstream = |upstream: &config::Upstream| match &upstream.kind {
            UpstreamKind::Servers(servers) => {
                let tls = servers.tls.as_ref().map(ServerTls::load).transpose();
                tls.map(|tls| tls.map(Arc::new))
            }
            UpstreamKind::Respond(_) | UpstreamKind::Guest(_) => Ok(None),
        };
        let listeners: Result<_, FileError> = config.listeners.iter().map(listener).collect();
        let upstreams: Result<_, _> = config.upstreams.iter().map(upstream).collect();
        let filters = config.filters.iter();
        let filters = filters.map(|filter| factory(&filter.kind).load(&filter.name));
        let key = "http.upstream.tls";
        Ok(Self {
            listeners: listeners?,
            upstreams: upstreams.map_err(FileError::at(key))?,
            filters: filters.collect::<Result<_, _>>()?,
        })
    }
}

/// The session of a client's connection, as its exchanges see it.
#[derive(Debug)]
pub(super) struct ClientSession {
    pub(super) agreed: Agreed,
    tls: Arc<ListenerTls>,
    /// The value of `Client-Cert` (RFC 9440), where the client showed a certificate.
    pub(super) client_cert: Option<Box<str>>,
}

impl ClientSession {
    pub(super) fn new(agreed: Agreed, tls: Arc<ListenerTls>) -> Self {
        let client = agreed.client.as_ref();
        let client_cert = client.map(|client| format!(":{}:", STANDARD.encode(&client.der)).into());
        Self {
            agreed,
            tls,
            client_cert,
        }
    }

    /// Bytes held beside the TLS session, which has the agreed details.
    pub(super) fn bytes(&self) -> usize {
        let cert = self.client_cert.as_ref();
        block_bytes(size_of::<Self>()) + cert.map_or(0, |cert| block_bytes(cert.len()))
    }

    /// True if the client was shown another certificate than it would have been for `host` (RFC 9110 §7.4,
    /// §15.5.20): what it was verified for says nothing about that one then.
    ///
    /// A client that connects to an address sends no name (RFC 6066 §3), and is shown the first certificate by every
    /// connection. A 421 for that address would tell it to use another one.
    pub(super) fn is_misdirected(&self, host: &[u8]) -> bool {
        let has_no_name = || self.agreed.server_name.is_none() && is_address(host);
        self.tls.is_misdirected(self.agreed.identity, host) && !has_no_name()
    }
}

/// True for an IP address, in brackets or without.
fn is_address(host: &[u8]) -> bool {
    let text = std::str::from_utf8(host).unwrap_or_default();
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    inner.unwrap_or(text).parse::<IpAddr>().is_ok()
}
