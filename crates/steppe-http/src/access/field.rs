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
    /// The query, without the `?`.
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
    /// True when the TLS session was resumed.
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
    /// Every field by its name.
    pub const ALL: [(&'static str, Self); 31] = [
        ("time", Self::Time),
        ("client", Self::Client),
        ("peer", Self::Peer),
        ("method", Self::Method),
        ("target", Self::Target),
        ("path", Self::Path),
        ("query", Self::Query),
        ("protocol", Self::Protocol),
        ("host", Self::Host),
        ("status", Self::Status),
        ("bytes_sent", Self::BytesSent),
        ("bytes_received", Self::BytesReceived),
        ("duration_ms", Self::DurationMs),
        ("route", Self::Route),
        ("upstream", Self::Upstream),
        ("server", Self::Server),
        ("user_agent", Self::UserAgent),
        ("referer", Self::Referer),
        ("request_id", Self::RequestId),
        ("forwarded_for", Self::ForwardedFor),
        ("close_reason", Self::CloseReason),
        ("tls_version", Self::TlsVersion),
        ("tls_cipher", Self::TlsCipher),
        ("tls_group", Self::TlsGroup),
        ("tls_sni", Self::TlsSni),
        ("tls_alpn", Self::TlsAlpn),
        ("tls_resumed", Self::TlsResumed),
        ("client_subject", Self::ClientSubject),
        ("client_fingerprint", Self::ClientFingerprint),
        ("cache", Self::Cache),
        ("filter", Self::Filter),
    ];

    /// Names of the default fields.
    pub const DEFAULT: [&'static str; 19] = [
        "time",
        "client",
        "method",
        "path",
        "query",
        "protocol",
        "host",
        "status",
        "bytes_sent",
        "bytes_received",
        "duration_ms",
        "route",
        "upstream",
        "server",
        "filter",
        "user_agent",
        "referer",
        "request_id",
        "close_reason",
    ];

    /// The field's name in formats.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

// `as_str` finds a name at the field's own index.
const _: () = {
    let mut index = 0;
    while index < AccessField::ALL.len() {
        assert!(AccessField::ALL[index].1 as usize == index);
        index += 1;
    }
};
