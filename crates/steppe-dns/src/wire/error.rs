//! Errors of parsing messages.

/// The reason why bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end within the message.
    #[error("message ends early")]
    Short,
    /// The message exceeds 65,535 bytes.
    #[error("message over 65,535 bytes")]
    TooLong,
    /// Bytes follow the last record.
    #[error("bytes after the last record")]
    Trailing,
    /// The number of questions is not one.
    #[error("{0} questions instead of one")]
    QuestionCount(u16),
    /// A label of more than 63 bytes, or of an obsolete type (RFC 6891 §5).
    #[error("label longer than 63 bytes or of an unknown type")]
    Label,
    /// A name exceeds 255 bytes.
    #[error("name over 255 bytes")]
    NameTooLong,
    /// A compression pointer that does not lead to an earlier name, is in a name that must not be
    /// compressed, or is one of too many.
    #[error("compression pointer that does not lead backwards, or too many of them")]
    Pointer,
    /// The names take more steps to read than the size of the message allows.
    #[error("names need too many steps to decompress")]
    Steps,
    /// More than one OPT record, one with an owner, or one outside of the additional section.
    #[error("malformed OPT record")]
    Opt,
    /// Record data is malformed for its type.
    #[error("malformed record data")]
    Rdata,
    /// Aliases form a loop, or exceed the maximum.
    #[error("CNAME loop, or too many CNAMEs")]
    Aliases,
}
