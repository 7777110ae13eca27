//! The status of a stream's end, and the reason around it.

use std::time::Duration;

use crate::limits::DETAIL_BYTES_MAX;

/// The status of a stream's end. The numbers are those on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Status {
    /// The stream ended as intended.
    Ok = 0,
    /// The peer cancelled the call.
    Cancelled = 1,
    /// The handler does not accept the request.
    Invalid = 2,
    /// The deadline has passed.
    DeadlineExceeded = 3,
    /// No worker offers this service.
    UnknownService = 4,
    /// The workers of this service can't be reached now.
    Unavailable = 5,
    /// No room now.
    Overloaded = 6,
    /// Larger than the receiver's limit, which the text names.
    TooLarge = 7,
    /// The request needs a feature that the receiver does not know.
    Unsupported = 8,
    /// The peer is not permitted to make this request.
    Denied = 9,
    /// The handler failed.
    Internal = 10,
    /// The receiver is shutting down.
    Draining = 11,
}

/// The reason of a stream's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason<'a> {
    /// Status of the end.
    pub status: Status,
    /// Time until another try may succeed, in microseconds on the wire; `None` if unspecified.
    pub retry_after: Option<Duration>,
    /// A text for people; its first [`DETAIL_BYTES_MAX`] bytes are sent.
    pub detail: &'a str,
}

impl Status {
    /// All statuses, by number.
    pub(crate) const ALL: [Self; 12] = [
        Self::Ok,
        Self::Cancelled,
        Self::Invalid,
        Self::DeadlineExceeded,
        Self::UnknownService,
        Self::Unavailable,
        Self::Overloaded,
        Self::TooLarge,
        Self::Unsupported,
        Self::Denied,
        Self::Internal,
        Self::Draining,
    ];

    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Name of the status in `docs/plane/protocol.md` §7.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Cancelled => "cancelled",
            Self::Invalid => "invalid",
            Self::DeadlineExceeded => "deadline exceeded",
            Self::UnknownService => "unknown service",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::TooLarge => "too large",
            Self::Unsupported => "unsupported",
            Self::Denied => "denied",
            Self::Internal => "internal",
            Self::Draining => "draining",
        }
    }

    /// The status of a number; unknown numbers, of newer versions, are [`Status::Internal`].
    #[must_use]
    pub fn of_code(code: u32) -> Self {
        usize::try_from(code)
            .ok()
            .and_then(|code| Self::ALL.get(code).copied())
            .unwrap_or(Self::Internal)
    }
}

impl From<Status> for Reason<'_> {
    fn from(status: Status) -> Self {
        Self {
            status,
            retry_after: None,
            detail: "",
        }
    }
}

impl<'a> Reason<'a> {
    /// Reads the reason in an END or RESET frame. A text that is not UTF-8 is ignored.
    pub(crate) fn read(code: u32, aux: u64, payload: &'a [u8]) -> Self {
        Self {
            status: Status::of_code(code),
            retry_after: (aux > 0).then(|| Duration::from_micros(aux)),
            detail: std::str::from_utf8(payload).map_or("", cut),
        }
    }

    /// The part of the text that is sent.
    pub(crate) fn detail_sent(&self) -> &'a str {
        cut(self.detail)
    }

    /// The time until another try in microseconds, 0 if unspecified.
    pub(crate) fn retry_micros(&self) -> u64 {
        let micros = self.retry_after.map_or(0, |after| after.as_micros());
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

/// Truncates a text to [`DETAIL_BYTES_MAX`] bytes, at a character boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(DETAIL_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions() {
        for (at, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status.code() as usize, at);
            assert_eq!(Status::of_code(status.code()), status);
        }
        assert_eq!(Status::of_code(12), Status::Internal);
        assert_eq!(Status::of_code(u32::MAX), Status::Internal);
    }

    #[test]
    fn details_are_cut_at_characters() {
        let long = "ä".repeat(DETAIL_BYTES_MAX);
        let reason = Reason {
            detail: &long,
            ..Status::Invalid.into()
        };
        assert_eq!(reason.detail_sent().len(), DETAIL_BYTES_MAX);
        let odd = format!("x{long}");
        let reason = Reason {
            detail: &odd,
            ..reason
        };
        assert_eq!(reason.detail_sent().len(), DETAIL_BYTES_MAX - 1);
        assert_eq!(Reason::read(2, 0, b"\xff").detail, "");
        let after = Reason::read(6, 1500, b"full");
        assert_eq!(after.retry_after, Some(Duration::from_micros(1500)));
        assert_eq!((after.detail, after.retry_micros()), ("full", 1500));
    }
}
