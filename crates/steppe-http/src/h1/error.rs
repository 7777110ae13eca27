//! Errors of parsing and framing HTTP/1.1, as errors of the exchange.

use super::framing::FramingError;
use super::parse::ParseError;
use crate::error::GatewayError;
use crate::metrics::CloseReason;

/// For requests; responses are answered with 502 whatever is wrong with them.
impl From<ParseError> for GatewayError {
    fn from(error: ParseError) -> Self {
        let (reason, status) = match error {
            ParseError::OverBudget => return Self::over_budget(),
            ParseError::Version => (CloseReason::Unsupported, 505),
            ParseError::TargetTooLong => (CloseReason::UriTooLong, 414),
            ParseError::TooLarge | ParseError::TooManyFields => (CloseReason::HeaderTooLarge, 431),
            ParseError::FirstLine
            | ParseError::Field
            | ParseError::LineEnd
            | ParseError::Folding => (CloseReason::BadRequest, 400),
        };
        Self::downstream(reason, status)
    }
}

/// For requests, as above.
impl From<FramingError> for GatewayError {
    fn from(error: FramingError) -> Self {
        match error {
            FramingError::Unsupported => Self::downstream(CloseReason::Unsupported, 501),
            FramingError::Expectation => Self::downstream(CloseReason::Unsupported, 417),
            FramingError::ContentLength
            | FramingError::Ambiguous
            | FramingError::TransferEncoding => Self::downstream(CloseReason::BadRequest, 400),
        }
    }
}
