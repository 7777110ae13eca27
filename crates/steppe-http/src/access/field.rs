//! The fields of the JSON format.

/// One member of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessField {
    /// When the exchange ended, RFC 3339 in UTC, with milliseconds.
    Time,
    /// The client's address, by trusted proxies' forwarding fields.
    Client,
    /// The address of the connection's peer, or the one of its PROXY protocol header.
    Peer,
    /// The method.
    Method,
    /// The request target, as it was sent.
    Target,
    /// The target up to its `?`.
    Path,
    /// What follows the `?`.
    Query,
    /// `HTTP/1.0` or `HTTP/1.1`.
    Protocol,
    /// The `Host` field.
    Host,
    /// The status that was sent; 499 where the client left first.
    Status,
    /// Content sent to the client.
    BytesSent,
    /// Content read from the client.
    BytesReceived,
    /// From the request's first byte to the end, in milliseconds.
    DurationMs,
    /// The route's name.
    Route,
    /// The name of the route's upstream.
    Upstream,
    /// The server of the last attempt.
    Server,
    /// The `User-Agent` field.
    UserAgent,
    /// The `Referer` field.
    Referer,
    /// The `X-Request-Id` field.
    RequestId,
    /// The `X-Forwarded-For` field, as it was sent, whoever sent it.
    ForwardedFor,
    /// Why the exchange was aborted: a `reason` of `steppe_http_closed_total`.
    CloseReason,
    /// The version of TLS, such as `TLSv1.3`. Like all that follow, only of connections with TLS.
    TlsVersion,
    /// The cipher suite.
    TlsCipher,
    /// The group of the key exchange.
    TlsGroup,
    /// The name that the client asked for (SNI).
    TlsSni,
    /// The protocol that was agreed on by ALPN.
    TlsAlpn,
    /// Whether an earlier session was resumed.
    TlsResumed,
    /// The subject of the client's certificate.
    ClientSubject,
    /// The SHA-256 digest of the client's certificate.
    ClientFingerprint,
    /// Where a cache had the response from: `hit`, `stale`, `revalidated`, `miss`.
    Cache,
    /// The name of the filter that answered, where one did.
    Filter,
}

impl AccessField {
    /// Every field, and its name.
    pub const ALL: [(Self, &'static str); 31] = [
        (Self::Time, "time"),
        (Self::Client, "client"),
        (Self::Peer, "peer"),
        (Self::Method, "method"),
        (Self::Target, "target"),
        (Self::Path, "path"),
        (Self::Query, "query"),
        (Self::Protocol, "protocol"),
        (Self::Host, "host"),
        (Self::Status, "status"),
        (Self::BytesSent, "bytes_sent"),
        (Self::BytesReceived, "bytes_received"),
        (Self::DurationMs, "duration_ms"),
        (Self::Route, "route"),
        (Self::Upstream, "upstream"),
        (Self::Server, "server"),
        (Self::UserAgent, "user_agent"),
        (Self::Referer, "referer"),
        (Self::RequestId, "request_id"),
        (Self::ForwardedFor, "forwarded_for"),
        (Self::CloseReason, "close_reason"),
        (Self::TlsVersion, "tls_version"),
        (Self::TlsCipher, "tls_cipher"),
        (Self::TlsGroup, "tls_group"),
        (Self::TlsSni, "tls_sni"),
        (Self::TlsAlpn, "tls_alpn"),
        (Self::TlsResumed, "tls_resumed"),
        (Self::ClientSubject, "client_subject"),
        (Self::ClientFingerprint, "client_fingerprint"),
        (Self::Cache, "cache"),
        (Self::Filter, "filter"),
    ];

    /// The default fields.
    pub const DEFAULT: [Self; 19] = [
        Self::Time,
        Self::Client,
        Self::Method,
        Self::Path,
        Self::Query,
        Self::Protocol,
        Self::Host,
        Self::Status,
        Self::BytesSent,
        Self::BytesReceived,
        Self::DurationMs,
        Self::Route,
        Self::Upstream,
        Self::Server,
        Self::Filter,
        Self::UserAgent,
        Self::Referer,
        Self::RequestId,
        Self::CloseReason,
    ];

    /// The field of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name)?;
        Some(known.0)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

// `as_str` finds a name at the field's own index.
const _: () = {
    let mut index = 0;
    while index < AccessField::ALL.len() {
        assert!(AccessField::ALL[index].0 as usize == index);
        index += 1;
    }
};
