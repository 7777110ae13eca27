//! Certificates that clients refuse by their dates.

use std::fmt;
use std::path::PathBuf;

use super::x509::{Dates, Summary, unix_now};

/// A certificate that clients refuse by its dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outdated {
    file: PathBuf,
    subject: String,
    /// Distinguishes certificates of one subject.
    fingerprint: [u8; 32],
    dates: Dates,
}

impl Outdated {
    /// The certificate of `file`; `None`: it is valid now.
    pub(super) fn of(file: PathBuf, summary: Summary) -> Option<Self> {
        let dates = summary.dates(unix_now());
        let (subject, fingerprint) = (summary.subject, summary.fingerprint);
        (dates != Dates::Valid).then_some(Self {
            file,
            subject,
            fingerprint,
            dates,
        })
    }

    /// Logs that `listener` shows it.
    pub(super) fn warn(&self, listener: &str) {
        let (file, subject) = (self.file.display(), &self.subject);
        match self.dates {
            Dates::NotYetValid => {
                tracing::warn!(listener, %file, subject, "certificate is not valid yet: clients refuse it");
            }
            Dates::Expired | Dates::Valid => {
                tracing::warn!(listener, %file, subject, "certificate has expired: clients refuse it");
            }
        }
    }
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.dates {
            Dates::NotYetValid => "is not valid yet",
            Dates::Expired | Dates::Valid => "has expired",
        };
        let (file, subject) = (self.file.display(), &self.subject);
        write!(
            f,
            "{file}: certificate {subject} {state}: clients refuse it"
        )
    }
}
