//! One field line: offsets of its name and its value, and the names that the gateway knows.

/// Offsets of some bytes within their block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub(super) start: u32,
    len: u32,
}

/// One field line.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name's id, where the gateway knows it.
    pub id: FieldId,
    pub(super) name: Span,
    pub(super) value: Span,
    pub(super) is_dropped: bool,
    pub(super) has_underscore: bool,
    pub(super) is_never_indexed: bool,
}

/// Names that mean something to a gateway; everything else is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of that name")]
pub enum FieldId {
    /// `X-Real-IP`, `X-Client-IP` or `True-Client-IP`: the client's address, to those who
    /// believe it.
    ClientIp,
    /// `Client-Cert` or `Client-Cert-Chain` (RFC 9440).
    ClientCert,
    Connection,
    ContentLength,
    ContentType,
    Date,
    Expect,
    Forwarded,
    Host,
    Http2Settings,
    KeepAlive,
    ProxyConnection,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    Via,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
    /// Every other `X-Forwarded-*`: port, prefix, server, whatever comes up.
    XForwardedOther,
    Other,
}

impl Span {
    /// From `start` up to `end`.
    ///
    /// # Panics
    /// Where the bytes are not those of a head, which is far below 4 GiB.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let small = |offset: usize| u32::try_from(offset).expect("heads are bounded");
        Self {
            start: small(start),
            len: small(end - start),
        }
    }

    /// The bytes that it stands for.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start()..self.end()]
    }

    /// First byte.
    #[must_use]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Past the last byte.
    #[must_use]
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// The span of the same bytes in a block that they are moved into, `by` bytes further on.
    pub(super) fn moved(self, by: u32) -> Self {
        Self {
            start: self.start + by,
            ..self
        }
    }
}

impl Field {
    /// A field line whose parts lie at `name` and `value` of `bytes`.
    #[must_use]
    pub fn new(bytes: &[u8], name: Span, value: Span) -> Self {
        Self {
            id: FieldId::of(name.of(bytes)),
            name,
            value,
            is_dropped: false,
            has_underscore: false,
            is_never_indexed: false,
        }
    }

    /// A line whose name has an underscore in it.
    pub(crate) fn with_underscore(self) -> Self {
        Self {
            has_underscore: true,
            ..self
        }
    }

    /// A line that no hop makes an entry of its HPACK table (RFC 7541 §6.2.3).
    pub(crate) fn never_indexed(self) -> Self {
        Self {
            is_never_indexed: true,
            ..self
        }
    }

    pub(crate) fn is_never_indexed(self) -> bool {
        self.is_never_indexed
    }

    /// Where its name and its value lie.
    pub(crate) fn spans(self) -> (Span, Span) {
        (self.name, self.value)
    }

    /// The name in `bytes`, in the case that was sent.
    #[must_use]
    pub fn name(self, bytes: &[u8]) -> &[u8] {
        self.name.of(bytes)
    }

    /// The value in `bytes`, without the white space around it.
    #[must_use]
    pub fn value(self, bytes: &[u8]) -> &[u8] {
        self.value.of(bytes)
    }
}

impl FieldId {
    /// The id of `name`, in any case.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        // The last byte tells most names apart before all of them are compared.
        let last = name.last().map_or(0, u8::to_ascii_lowercase);
        let is = |known: &str, id| {
            let known = known.as_bytes();
            let is_same = known.last() == Some(&last) && name.eq_ignore_ascii_case(known);
            is_same.then_some(id)
        };
        let id = match name.len() {
            2 => is("te", Self::Te),
            3 => is("via", Self::Via),
            4 => is("host", Self::Host).or_else(|| is("date", Self::Date)),
            6 => is("expect", Self::Expect),
            7 => is("upgrade", Self::Upgrade).or_else(|| is("trailer", Self::Trailer)),
            9 => is("forwarded", Self::Forwarded).or_else(|| is("x-real-ip", Self::ClientIp)),
            10 => is("connection", Self::Connection).or_else(|| is("keep-alive", Self::KeepAlive)),
            11 => is("x-client-ip", Self::ClientIp).or_else(|| is("client-cert", Self::ClientCert)),
            12 => is("content-type", Self::ContentType),
            14 => is("content-length", Self::ContentLength)
                .or_else(|| is("http2-settings", Self::Http2Settings))
                .or_else(|| is("true-client-ip", Self::ClientIp)),
            15 => is("x-forwarded-for", Self::XForwardedFor),
            16 => is("proxy-connection", Self::ProxyConnection)
                .or_else(|| is("x-forwarded-host", Self::XForwardedHost)),
            17 => is("transfer-encoding", Self::TransferEncoding)
                .or_else(|| is("x-forwarded-proto", Self::XForwardedProto))
                .or_else(|| is("client-cert-chain", Self::ClientCert)),
            _ => None,
        };
        id.unwrap_or_else(|| {
            if is_x_forwarded(name) {
                Self::XForwardedOther
            } else {
                Self::Other
            }
        })
    }

    /// Fields that end at the next hop, whatever `Connection` names (RFC 9110 §7.6.1).
    #[must_use]
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::Http2Settings
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
        )
    }

    /// Fields that `Connection` can't take away: those that frame and route a
    /// message, and those that the gateway itself vouches for.
    #[must_use]
    pub fn is_kept_from_connection(self) -> bool {
        self.tells_of_client() || matches!(self, Self::ContentLength | Self::Host | Self::Via)
    }

    /// Fields that say who the client is and what it asked the first proxy for: worth what the
    /// peer is trusted with.
    #[must_use]
    pub fn tells_of_client(self) -> bool {
        matches!(
            self,
            Self::ClientIp
                | Self::ClientCert
                | Self::Forwarded
                | Self::XForwardedFor
                | Self::XForwardedHost
                | Self::XForwardedProto
                | Self::XForwardedOther
        )
    }

    /// True when trailers must not have this `name`: it would frame, route, modify or authorize a
    /// message, or describe its content (RFC 9110 §6.5.1).
    #[must_use]
    pub fn is_refused_as_trailer(self, name: &[u8]) -> bool {
        const REFUSED: [&str; 14] = [
            "age",
            "authorization",
            "cache-control",
            "content-encoding",
            "content-range",
            "cookie",
            "expires",
            "location",
            "max-forwards",
            "proxy-authorization",
            "range",
            "retry-after",
            "set-cookie",
            "vary",
        ];
        let is_known = matches!(
            self,
            Self::ContentType | Self::Date | Self::Expect | Self::Trailer
        );
        let is_named = |refused: &&str| name.eq_ignore_ascii_case(refused.as_bytes());
        is_known
            || self.is_hop_by_hop()
            || self.is_kept_from_connection()
            || REFUSED.iter().any(is_named)
    }
}

/// True when `name` begins with `X-Forwarded-`. Its first byte tells most others apart.
fn is_x_forwarded(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    matches!(name.first(), Some(b'x' | b'X'))
        && name
            .get(..PREFIX.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}
