//! Choice of a representation (RFC 7541 §6) for field lines of clients that share a connection.

use super::field_line::{FieldLine, Indexing};

/// Ways to send a field line that no table has as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// RFC 7541 §6.2.3: as a literal, here and on every hop behind this one.
    Never,
    /// RFC 7541 §6.2.2: as a literal.
    Literal,
    /// RFC 7541 §6.2.1: as a literal, which becomes an entry where it repeats.
    Insert,
}

/// Names of secrets. Clients share a connection to an origin: one that can make requests, and sees how long they are,
/// could find out a secret of another by guessing it, if a right guess were an index (RFC 7541 §7.1.1).
const SECRETS: [&[u8]; 4] = [
    b"authorization",
    b"cookie",
    b"proxy-authorization",
    b"set-cookie",
];

/// Names whose values differ from message to message, or from resource to resource: as entries they evict what
/// repeats. Left to what is seen to repeat are `date`, which lasts for a second of messages, and names of identity
/// (`user-agent`, `:authority`, `referer`), which last for a client.
const VARYING: [&[u8]; 17] = [
    // One a resource.
    b":path",
    b"content-disposition",
    b"content-length",
    b"content-location",
    b"content-md5",
    b"etag",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"last-modified",
    b"location",
    // One a message.
    b"age",
    b"content-range",
    b"range",
    b"traceparent",
    b"x-request-id",
];

impl Policy {
    /// The policy of a field line, whose name is in lower case.
    pub(super) fn of(line: &FieldLine<'_>) -> Self {
        if line.indexing == Indexing::Never || SECRETS.contains(&line.name) {
            Self::Never
        } else if VARYING.contains(&line.name) {
            Self::Literal
        } else {
            Self::Insert
        }
    }
}
