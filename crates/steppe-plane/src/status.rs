//! How streams end: a status, and the rest of the reason.

use std::time::Duration;

use crate::limits::DETAIL_BYTES_MAX;

/// How a stream ended. The numbers are those of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Status {
    /// As it should.
    Ok = 0,
    /// The other side no longer wants it.
    Cancelled = 1,
    /// The handler does not accept the request.
    Invalid = 2,
    /// Its time is over.
    DeadlineExceeded = 3,
    /// Nobody serves the service that it names.
    UnknownService = 4,
    /// Whoever serves it can't be reached now.
    Unavailable = 5,
    /// There is no room for it now.
    Overloaded = 6,
    /// There is never room for so much; the detail has the limit.
    TooLarge = 7,
    /// It needs what the receiver does not know.
    Unsupported = 8,
    /// The peer may not ask for it.
    Denied = 9,
    /// The handler failed.
    Internal = 10,
    /// The receiver goes away.
    Draining = 11,
}

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason<'a> {
    /// How it ended.
    pub status: Status,
    /// When another try may succeed; to the microsecond, zero for none.
    pub retry_after: Option<Duration>,
    /// A text for people; at most [`DETAIL_BYTES_MAX`] bytes of it are sent.
    pub detail: &'a str,
}

impl Status {
    /// All of them, by their numbers.
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

    /// Its name, as `docs/plane/protocol.md` §7 has it.
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

    /// The status of a number; one that a newer version has counts as [`Status::Internal`].
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
    /// What was received in a frame of END or RESET. Text that is not UTF-8 is left out.
    pub(crate) fn read(code: u32, aux: u64, payload: &'a [u8]) -> Self {
        Self {
            status: Status::of_code(code),
            retry_after: (aux > 0).then(|| Duration::from_micros(aux)),
            detail: std::str::from_utf8(payload).map_or("", cut),
        }
    }

    /// The detail, as much of it as is sent.
    pub(crate) fn detail_sent(&self) -> &'a str {
        cut(self.detail)
    }

    /// The time until another try, as it is sent.
    pub(crate) fn retry_micros(&self) -> u64 {
        let micros = self.retry_after.map_or(0, |after| after.as_micros());
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

/// At most [`DETAIL_BYTES_MAX`] bytes, up to the end of a character.
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
