//! Kinds of credentials of requests. Responses to one kind say nothing about whether those to another may be
//! stored, so that one visitor's private response keeps nobody else's from the store.

use crate::field::FieldBlock;

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

/// The parts of a request that decide which fetch it may wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presented<'a> {
    pub(crate) fields: &'a FieldBlock,
    pub(crate) credentials: Credentials,
}

impl Credentials {
    /// True if RFC 9111 §3.5 restricts the clients that the response is for.
    pub(crate) fn is_authenticated(self) -> bool {
        self == Self::Authenticated
    }
}
