//! Names of protocols.

/// A protocol, as a configuration names it.
pub type ProtocolName = &'static str;

/// HTTP/1.1, with HTTP/1.0 below it.
pub const H1: ProtocolName = "h1";
