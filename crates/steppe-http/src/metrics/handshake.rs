//! Outcomes of TLS handshakes with clients.

use steppe_net::tls::{Agreed, HandshakeError};

/// The outcome of a handshake: a value of the label `outcome` of
/// `steppe_http_tls_handshakes_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake(usize);

impl Handshake {
    /// Every outcome: the two good ones, then why there is no session.
    pub const OUTCOMES: [&str; 14] = [
        "full",
        "resumed",
        "plain_http",
        "not_tls",
        "hello_too_large",
        "chain_too_large",
        "timeout",
        "evicted",
        "closed",
        "over_budget",
        "client_alert",
        "client_certificate",
        "incompatible",
        "protocol",
    ];

    /// There is a session.
    #[must_use]
    pub fn of(agreed: &Agreed) -> Self {
        Self(usize::from(agreed.is_resumed))
    }

    /// There is none.
    #[must_use]
    pub fn failed(error: &HandshakeError) -> Self {
        let reason = error.reason();
        let index = Self::OUTCOMES.iter().position(|&known| known == reason);
        Self(index.unwrap_or(Self::OUTCOMES.len() - 1))
    }

    pub(super) fn index(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_outcome() {
        let errors = [
            HandshakeError::PlainHttp,
            HandshakeError::NotTls,
            HandshakeError::HelloTooLarge,
            HandshakeError::ChainTooLarge,
            HandshakeError::Timeout,
            HandshakeError::Evicted,
            HandshakeError::Closed,
            HandshakeError::OverBudget,
            HandshakeError::Alert(String::new()),
        ];
        for error in errors {
            let outcome = Handshake::OUTCOMES[Handshake::failed(&error).index()];
            assert_eq!(outcome, error.reason());
        }
    }
}
