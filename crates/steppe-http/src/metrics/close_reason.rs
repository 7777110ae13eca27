//! Why an exchange or a connection ended before its time.

/// A deadline, a limit or a peer's doing. Each is a value of the label `reason`
/// of `steppe_http_closed_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// A request's head did not end in time: 408.
    HeaderTimeout,
    /// Nothing came between requests.
    IdleTimeout,
    /// Nothing came within a request's body: 408.
    BodyTimeout,
    /// A client took nothing of its response.
    WriteStall,
    /// No connection to a server in time: 504.
    ConnectTimeout,
    /// No response from a server in time: 504.
    FirstByteTimeout,
    /// A server stopped in the middle of a message.
    UpstreamIdleTimeout,
    /// The exchange took longer than its route allows: 504.
    TotalTimeout,
    /// Nothing moved through a tunnel.
    TunnelIdleTimeout,
    /// Content above `body_bytes`: 413.
    BodyTooLarge,
    /// A head above `header_bytes` or `header_count`: 431.
    HeaderTooLarge,
    /// A request line above `header_bytes`: 414.
    UriTooLong,
    /// More clients than `connections`: 503.
    ConnectionLimit,
    /// The memory budget had nothing left: 503, or a cut where a response had begun.
    OverBudget,
    /// A request with two readings, or none: 400.
    BadRequest,
    /// A method, version or coding that is not served: 417, 501, 505.
    Unsupported,
    /// The client left before its response was whole.
    ClientGone,
    /// No server took the connection: 502.
    ConnectFailed,
    /// A server closed in the middle of an exchange.
    UpstreamReset,
    /// A server's response could not be read in one way only: 502.
    BadResponse,
    /// No header of the PROXY protocol came first, or not from a trusted proxy.
    ProxyProtocol,
    /// A file could not be opened or read, or got shorter while it was sent: 500, or 503
    /// where descriptors or disk are short.
    FileFailed,
    /// The node stopped, and `drain_timeout` was over.
    Drain,
}

impl CloseReason {
    /// Every reason, in the order of its index.
    pub const ALL: [Self; 23] = [
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
        Self::UpstreamReset,
        Self::BadResponse,
        Self::ProxyProtocol,
        Self::FileFailed,
        Self::Drain,
    ];

    /// Its place among the cells.
    #[inline]
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// Its word in metrics and logs.
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
            Self::UpstreamReset => "upstream_reset",
            Self::BadResponse => "bad_response",
            Self::ProxyProtocol => "proxy_protocol",
            Self::FileFailed => "file_failed",
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
