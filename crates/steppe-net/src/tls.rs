//! TLS (RFC 8446, RFC 5246) on either side of a connection, on rustls.
//!
//! A session is a [`Driver`](crate::Driver) below a [`Transport`](crate::Transport): codecs learn
//! the peer's identity and the protocol of it, and no more.
//!
//! Non-goals: early data, renegotiation, compression, versions before 1.2.

mod accept;
mod agreed;
mod client;
pub mod config;
mod handshakes;
mod identity;
mod load;
mod outdated;
pub mod record;
mod reread;
mod server;
mod session;
mod tickets;
pub mod x509;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use accept::{Accepting, HandshakeError};
pub use agreed::{Agreed, ClientCertificate};
pub use client::{ConnectError, ConnectErrorKind, ServerTls};
pub use handshakes::{
    Evicted, HandshakeLimits, HandshakeScheduler, Handshakes, InProgress, NotBegun,
};
pub use load::{LoadError, read};
pub use outdated::Outdated;
pub use reread::keep_current;
pub use server::{ListenerTls, Reread, RereadCounts};

/// Suites and groups in rustls' order, which prefers X25519MLKEM768.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())))
}

fn versions(min: config::MinVersion) -> &'static [&'static SupportedProtocolVersion] {
    use rustls::version::{TLS12, TLS13};
    static FROM_12: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match min {
        config::MinVersion::Tls12 => &FROM_12,
        config::MinVersion::Tls13 => &FROM_12[..1],
    }
}
