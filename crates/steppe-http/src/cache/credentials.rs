//! Kinds of credentials of requests. A private response to one kind says nothing about responses to the others, which
//! may be stored all the same.

use crate::field::FieldBlock;

/// The credentials of a request, as far as they restrict the use of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// A `Cookie`, which means nothing to a cache (RFC 9111 §3), and by which the origin often knows a visitor.
    Cookie,
    /// `Authorization`, a client certificate, or an identity that a filter found (RFC 9111 §3.5).
    Authenticated,
}

/// The parts of a request that decide on the fetch that it joins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presented<'a> {
    pub(crate) fields: &'a FieldBlock,
    pub(crate) credentials: Credentials,
}

impl Credentials {
    /// True if RFC 9111 §3.5 restricts the use of the response.
    pub(crate) fn is_authenticated(self) -> bool {
        self == Self::Authenticated
    }
}
