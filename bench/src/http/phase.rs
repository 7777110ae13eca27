//! The phases of a round of `steppe-bench http`.

use clap::ValueEnum;

use crate::peer::{Proxy, Transport};

/// A phase of a round, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    Saturation,
    /// At half of the rate of saturation, which it needs unless `--rate` names one.
    OpenLoop,
    Download,
    Upload,
    /// As saturation, over TLS.
    TlsSaturation,
    /// Full handshakes: P-256 and RSA-2048 with X25519, then P-256 with X25519MLKEM768.
    TlsHandshakes,
    /// Handshakes with a ticket.
    TlsResumed,
    /// Download and upload over TLS.
    TlsBodies,
    /// As saturation, with TLS between proxy and origin.
    TlsUpstream,
    /// HTTP/2 over TLS, 10 and 100 streams on each of 32 connections; HTTP/1.1 to the origin, and
    /// HTTP/2 without TLS.
    H2Tls,
    /// The same without TLS.
    H2Clear,
    /// Download and upload by HTTP/2 over TLS.
    H2Bodies,
    /// As saturation, with HTTP/1.1 to the origin and with HTTP/2, of proxies that have both.
    H2Upstream,
    /// Unary calls of gRPC.
    H2Grpc,
    /// As saturation, out of a cache, of proxies that have one.
    Cached,
    /// CPU a gigabyte by coding, level and ratio, with processes of its own; beside nginx alone.
    Compression,
    /// The cost that tokens, limits, rules and routes add to a request, with processes of its own; Steppe alone.
    Costs,
}

impl Phase {
    /// The phases in which two builds are compared: figures of CPU that differ in what they exercise.
    pub const OF_BUILDS: [Self; 7] = [
        Self::Saturation,
        Self::Download,
        Self::Upload,
        Self::TlsSaturation,
        Self::TlsHandshakes,
        Self::H2Clear,
        Self::Cached,
    ];

    /// Proxies with what it needs; none where it starts its own.
    pub const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Saturation | Self::OpenLoop | Self::Download | Self::Upload => {
                &[Transport::Plain]
            }
            Self::TlsSaturation | Self::TlsHandshakes | Self::TlsResumed | Self::TlsBodies => {
                &[Transport::TlsDownstream]
            }
            Self::TlsUpstream => &[Transport::TlsUpstream],
            Self::H2Tls | Self::H2Clear | Self::H2Upstream => {
                &[Transport::Http2, Transport::H2cUpstream]
            }
            Self::H2Bodies => &[Transport::Http2],
            Self::H2Grpc => &[Transport::Grpc],
            Self::Cached => &[Transport::Cached],
            Self::Compression | Self::Costs => &[],
        }
    }

    /// It measures this proxy with this transport.
    pub fn takes(self, proxy: Proxy, transport: Transport) -> bool {
        let to = Transport::H2cUpstream;
        let has_both = proxy.speaks(to) && proxy.lacks(to).is_none();
        // Clients of this phase speak HTTP/1.1, which this floor lacks.
        let has_both = has_both && proxy != Proxy::FloorSteppeH2;
        let is_meant = has_both || self != Self::H2Upstream;
        is_meant && self.transports().contains(&transport)
    }
}
