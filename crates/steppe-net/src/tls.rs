//! TLS (RFC 8446, RFC 5246) on either side of a connection, on rustls.

pub mod config;
pub mod x509;
