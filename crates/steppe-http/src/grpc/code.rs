//! Codes of a call's status. Spec: "Status codes and their use in gRPC".

use crate::metrics::CloseReason;

/// The status code of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the code of that name")]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// Every code: each stands at its number.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Numbers, as values of `grpc-status`, and names, by number.
    const TEXTS: [(&'static str, &'static str); Self::ALL.len()] = [
        ("0", "OK"),
        ("1", "CANCELLED"),
        ("2", "UNKNOWN"),
        ("3", "INVALID_ARGUMENT"),
        ("4", "DEADLINE_EXCEEDED"),
        ("5", "NOT_FOUND"),
        ("6", "ALREADY_EXISTS"),
        ("7", "PERMISSION_DENIED"),
        ("8", "RESOURCE_EXHAUSTED"),
        ("9", "FAILED_PRECONDITION"),
        ("10", "ABORTED"),
        ("11", "OUT_OF_RANGE"),
        ("12", "UNIMPLEMENTED"),
        ("13", "INTERNAL"),
        ("14", "UNAVAILABLE"),
        ("15", "DATA_LOSS"),
        ("16", "UNAUTHENTICATED"),
    ];

    /// The code for an error of the gateway, or for an HTTP status alone.
    #[must_use]
    pub fn of(status: u16, reason: Option<CloseReason>) -> Self {
        match (reason, status) {
            (Some(CloseReason::TotalTimeout | CloseReason::FirstByteTimeout), _) => {
                Self::DeadlineExceeded
            }
            (Some(CloseReason::OverBudget | CloseReason::BodyTooLarge), _) | (_, 413) => {
                Self::ResourceExhausted
            }
            // As clients take statuses that no server of gRPC has sent.
            (_, 401) => Self::Unauthenticated,
            (_, 403) => Self::PermissionDenied,
            (_, 404 | 405 | 501) => Self::Unimplemented,
            (_, 429 | 502..=504) => Self::Unavailable,
            (_, 400 | 431) => Self::Internal,
            _ => Self::Unknown,
        }
    }

    /// The code of a call whose response was cut for `reason`; `None`: its connection ended.
    #[must_use]
    pub fn of_cut(reason: Option<CloseReason>) -> Self {
        match reason {
            None | Some(CloseReason::ClientGone | CloseReason::WriteStall) => Self::Cancelled,
            Some(CloseReason::TotalTimeout) => Self::DeadlineExceeded,
            // RST_STREAM with INTERNAL_ERROR (PROTOCOL-HTTP2.md, "Errors").
            Some(_) => Self::Internal,
        }
    }

    /// The value of `grpc-status`. What is no code is [`Code::Unknown`], as clients have it.
    #[must_use]
    pub fn read(value: &[u8]) -> Self {
        let known = |(number, _): &(&str, &str)| number.as_bytes() == value;
        let at = Self::TEXTS.iter().position(known);
        at.map_or(Self::Unknown, |at| Self::ALL[at])
    }

    /// As the value of `grpc-status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::TEXTS[self.index()].0
    }

    /// The code's name in the specification.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TEXTS[self.index()].1
    }

    /// The code's index in [`Code::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// True when a server that answers so has the requested method. Servers and proxies send the
    /// other codes
    /// for unknown methods too.
    #[must_use]
    pub fn tells_of_method(self) -> bool {
        !matches!(
            self,
            Self::PermissionDenied
                | Self::ResourceExhausted
                | Self::Unimplemented
                | Self::Unavailable
                | Self::Unauthenticated
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_they_are() {
        let timeout = Code::of(504, Some(CloseReason::TotalTimeout));
        assert_eq!((timeout, timeout.as_str()), (Code::DeadlineExceeded, "4"));
        assert_eq!(
            Code::of(503, Some(CloseReason::ConnectFailed)).as_str(),
            "14"
        );
        assert_eq!(Code::of(503, Some(CloseReason::OverBudget)).as_str(), "8");
        assert_eq!(Code::of(404, None).as_str(), "12");
        assert_eq!(Code::of(200, None), Code::Unknown);
        assert_eq!(Code::of_cut(None), Code::Cancelled);
        assert_eq!(
            Code::of_cut(Some(CloseReason::UpstreamReset)),
            Code::Internal
        );
    }

    #[test]
    fn every_code_stands_at_its_number_and_is_read_as_written() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(
                (code.index(), code.as_str()),
                (number, &*number.to_string())
            );
            assert_eq!(Code::read(code.as_str().as_bytes()), code);
            // `DATA_LOSS` is `DataLoss`.
            let name = code.name().replace('_', "").to_lowercase();
            assert_eq!(name, format!("{code:?}").to_lowercase());
        }
        for wrong in ["", "17", "-1", "00", "0 ", "OK", "999999999999"] {
            assert_eq!(Code::read(wrong.as_bytes()), Code::Unknown, "{wrong}");
        }
    }
}
