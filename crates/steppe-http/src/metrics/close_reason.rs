//! Why an exchange or a connection was aborted.

/// A deadline, a limit or a peer's failure. Each is a value of the label `reason` of
/// `steppe_http_closed_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// A request's head was not complete in time: 408.
    HeaderTimeout,
    /// No request came on an idle connection.
    IdleTimeout,
    /// A request's body stalled: 408.
    BodyTimeout,
    /// A client did not read its response.
    WriteStall,
    /// No connection to a server in time: 504.
    ConnectTimeout,
    /// No response from a server in time: 504.
    FirstByteTimeout,
    /// A server's response stalled.
    UpstreamIdleTimeout,
    /// The exchange took longer than its route allows: 504.
    TotalTimeout,
    /// A tunnel was idle.
    TunnelIdleTimeout,
    /// Content above `body_bytes`: 413.
    BodyTooLarge,
    /// A head above `header_bytes` or `header_count`: 431.
    HeaderTooLarge,
    /// A request line above `header_bytes`: 414.
    UriTooLong,
    /// More clients than `connections`: 503.
    ConnectionLimit,
    /// The memory budget was exhausted: 503, or an aborted response if its head was sent.
    OverBudget,
    /// A malformed or ambiguous request: 400.
    BadRequest,
    /// An unsupported method, version, coding or expectation: 417, 501, 505.
    Unsupported,
    /// The client disconnected before its response was complete.
    ClientGone,
    /// No connection to a server could be established: 502.
    ConnectFailed,
    /// The upstream's circuit breaker is open: 503.
    CircuitOpen,
    /// A server closed its connection during an exchange.
    UpstreamReset,
    /// A server's response was malformed or ambiguous: 502.
    BadResponse,
    /// The PROXY protocol header is missing or malformed, or its sender is not trusted.
    ProxyProtocol,
    /// There was no TLS session with a client.
    Handshake,
    /// A file could not be opened or read, or was truncated while it was sent: 500, or 503
    /// if descriptors or disk tasks ran out.
    FileFailed,
    /// A peer of HTTP/2 overdid resets, or frames that are cheap to send.
    Flood,
    /// The node's `drain_timeout` expired.
    Drain,
}

impl CloseReason {
    /// Every reason, in the order of its index.
    pub const ALL: [Self; 26] = [
        Self::HeaderTimeout,
        Self::IdleTimeout,
        Self::BodyTimeout,
        Self::WriteStall,
        Self::ConnectTimeout,
        Self::FirstByteTimeout,
        Self::UpstreamIdleTimeout,
        Self::TotalTimeout,
        Self::TunnelIdleTimeout,
        Self::BodyTooLarge,
        Self::HeaderTooLarge,
        Self::UriTooLong,
        Self::ConnectionLimit,
        Self::OverBudget,
        Self::BadRequest,
        Self::Unsupported,
        Self::ClientGone,
        Self::ConnectFailed,
        Self::CircuitOpen,
        Self::UpstreamReset,
        Self::BadResponse,
        Self::ProxyProtocol,
        Self::Handshake,
        Self::FileFailed,
        Self::Flood,
        Self::Drain,
    ];

    /// The reason's index among the cells.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The reason's label in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HeaderTimeout => "header_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::WriteStall => "write_stall",
            Self::ConnectTimeout => "connect_timeout",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::UpstreamIdleTimeout => "upstream_idle_timeout",
            Self::TotalTimeout => "total_timeout",
            Self::TunnelIdleTimeout => "tunnel_idle_timeout",
            Self::BodyTooLarge => "body_too_large",
            Self::HeaderTooLarge => "header_too_large",
            Self::UriTooLong => "uri_too_long",
            Self::ConnectionLimit => "connection_limit",
            Self::OverBudget => "over_budget",
            Self::BadRequest => "bad_request",
            Self::Unsupported => "unsupported",
            Self::ClientGone => "client_gone",
            Self::ConnectFailed => "connect_failed",
            Self::CircuitOpen => "circuit_open",
            Self::UpstreamReset => "upstream_reset",
            Self::BadResponse => "bad_response",
            Self::ProxyProtocol => "proxy_protocol",
            Self::Handshake => "tls_handshake",
            Self::FileFailed => "file_failed",
            Self::Flood => "flood",
            Self::Drain => "drain",
        }
    }
}

// `ALL` must list each reason at its own index, or counts land on a neighbor.
const _: () = {
    let mut index = 0;
    while index < CloseReason::ALL.len() {
        assert!(CloseReason::ALL[index].index() == index);
        index += 1;
    }
    assert!(CloseReason::Drain.index() + 1 == CloseReason::ALL.len());
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn words_differ() {
        let words: HashSet<&str> = CloseReason::ALL
            .iter()
            .map(|reason| reason.as_str())
            .collect();
        assert_eq!(words.len(), CloseReason::ALL.len());
    }
}
