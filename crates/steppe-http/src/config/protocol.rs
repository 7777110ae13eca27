//! Names of protocols.

/// A protocol, as a configuration names it.
pub type ProtocolName = &'static str;

/// HTTP/1.1, with HTTP/1.0 below it.
pub const H1: ProtocolName = "h1";

/// HTTP/2: over TLS with clients, who agree on it by ALPN; with servers over TLS or without.
pub const H2: ProtocolName = "h2";

/// HTTP/2 with clients that know beforehand that it is spoken here, without TLS (RFC 9113 §3.3).
pub const H2C: ProtocolName = "h2c";
