//! What is wrong with bytes that should be a message.

/// Why bytes are not read as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the message does.
    #[error("message ends early")]
    Short,
    /// More than 64 KiB.
    #[error("message over 65,535 bytes")]
    TooLong,
    /// Bytes follow the last record.
    #[error("bytes after the last record")]
    Trailing,
    /// Not one question.
    #[error("{0} questions instead of one")]
    QuestionCount(u16),
    /// A label of more than 63 bytes, or of a type that RFC 6891 §5 withdrew.
    #[error("label longer than 63 bytes or of an unknown type")]
    Label,
    /// A name of more than 255 bytes.
    #[error("name over 255 bytes")]
    NameTooLong,
    /// A compression pointer that does not lead to an earlier name, stands where none may, or is one of
    /// too many.
    #[error("compression pointer that does not lead backwards, or too many of them")]
    Pointer,
    /// The names of the message take more steps to read than its size allows.
    #[error("names need too many steps to decompress")]
    Steps,
    /// More than one OPT record, one with an owner, or one outside of the additional section.
    #[error("malformed OPT record")]
    Opt,
    /// Record data that does not have the form of its type.
    #[error("malformed record data")]
    Rdata,
    /// Aliases that lead back to themselves, or more of them than are followed.
    #[error("CNAME loop, or too many CNAMEs")]
    Aliases,
}
