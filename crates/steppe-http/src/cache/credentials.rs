//! Kinds of credentials of requests. Responses to one kind say nothing about whether those to another may be
//! stored, so that one visitor's private response keeps nobody else's from the store.

/// The credentials that a request came with, as far as they change who its response may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Credentials {
    /// None.
    #[default]
    None,
    /// A `Cookie`, which says nothing to a cache (RFC 9111 §3) and often tells the origin a visitor.
    Cookie,
    /// `Authorization`, a client certificate, or an identity that a filter found (RFC 9111 §3.5).
    Authenticated,
}

impl Credentials {
    /// Whether RFC 9111 §3.5 restricts who the response may be for.
    pub(crate) fn is_authenticated(self) -> bool {
        self == Self::Authenticated
    }
}
