//! Why content was not compressed where a `compress` filter stood.

/// Each is a value of the label `reason` of `steppe_http_uncompressed_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncompressed {
    /// The response has no content.
    NoContent,
    /// The server has encoded the content.
    Encoded,
    /// `Cache-Control: no-transform`, of the request or the response.
    NoTransform,
    /// The media type is not configured.
    Type,
    /// The content is short.
    Small,
    /// The content is a part of a representation.
    Range,
    /// The content may vary by a secret.
    Secret,
    /// The client accepts no coding that is offered.
    NotAccepted,
    /// The budget had no room for an encoder.
    NoRoom,
}

impl Uncompressed {
    /// Every reason, in the order of its index.
    pub const ALL: [Self; 9] = [
        Self::NoContent,
        Self::Encoded,
        Self::NoTransform,
        Self::Type,
        Self::Small,
        Self::Range,
        Self::Secret,
        Self::NotAccepted,
        Self::NoRoom,
    ];

    /// The reason's index among the cells.
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// The reason's label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoContent => "no_content",
            Self::Encoded => "encoded",
            Self::NoTransform => "no_transform",
            Self::Type => "type",
            Self::Small => "small",
            Self::Range => "range",
            Self::Secret => "secret",
            Self::NotAccepted => "not_accepted",
            Self::NoRoom => "no_room",
        }
    }
}
