//! Reasons for which a connection or session is not served.

use crate::proxy_protocol::NoHeader;
use crate::tls::HandshakeError;

/// Why a connection or session is not served.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its listener has as many as it may.
    #[error("too many connections")]
    ConnectionLimit,
    /// The budget, or its client's share of it, has no room.
    #[error("over budget")]
    OverBudget,
    /// The listener asks for a PROXY header, and would not believe that of this peer.
    #[error("peer is not a trusted proxy")]
    UntrustedProxy,
    /// There is no PROXY header.
    #[error(transparent)]
    Header(#[from] NoHeader),
    /// The PROXY header was not complete in time.
    #[error("no PROXY protocol header in time")]
    HeaderTimeout,
    /// Client and listener have not agreed on TLS.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}
