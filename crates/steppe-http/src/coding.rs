//! Content codings (RFC 9110 §8.4.1), by number and by name.
//!
//! Non-goals: encoding and decoding.

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Br,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// The number of codings.
    pub const COUNT: usize = 3;

    /// Every coding, in the order of its number.
    pub const ALL: [Self; Self::COUNT] = [Self::Br, Self::Zstd, Self::Gzip];

    /// The coding of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|coding| coding.as_str() == name)
    }

    /// The name in `Content-Encoding`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The extension of files in this coding.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Br => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}
