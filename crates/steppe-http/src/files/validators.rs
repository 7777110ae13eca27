//! Validators of a file: `ETag` and `Last-Modified`. Spec: RFC 9110 §8.8.
//!
//! The entity tag consists of the modification time in nanoseconds, the size and the inode: a
//! replaced file has another inode, one written in place another time. The kernel's coarse
//! clock advances in ticks, and some file systems store whole or even seconds, so a file may
//! be modified twice within one timestamp: until it has [settled](FILE_SETTLES), its tag is
//! weak, and its ranges are not combined with those that a client has.
//!
//! Non-goals: hashes of content, which would need to read the whole file first, and files
//! whose modification time was set back by hand.

use std::io::Write;
use std::time::Duration;

use steppe_net::FileStatus;

use crate::conditional;
use crate::date::{self, DATE_BYTES};
use crate::limits::FILE_SETTLES;

/// `W/"`, three numbers of 16 digits, two dashes, `"`.
const TAG_BYTES_MAX: usize = 54;

/// The validators of a file at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileValidators {
    tag: [u8; TAG_BYTES_MAX],
    tag_end: usize,
    /// Unix time in seconds.
    modified: u64,
    is_strong: bool,
}

impl FileValidators {
    /// The validators of a file with `status`, at `now` since the Unix epoch.
    pub(super) fn of(status: FileStatus, now: Duration) -> Self {
        let modified = Duration::from_nanos(status.modified_ns);
        let age = now.checked_sub(modified);
        let is_strong = age.is_some_and(|age| age >= FILE_SETTLES);
        let mut tag = [0; TAG_BYTES_MAX];
        let mut room = &mut tag[..];
        let prefix = if is_strong { "" } else { "W/" };
        let (time, bytes, inode) = (status.modified_ns, status.bytes, status.inode);
        write!(room, "{prefix}\"{time:x}-{bytes:x}-{inode:x}\"").expect("54 bytes hold any");
        let tag_end = TAG_BYTES_MAX - room.len();
        Self {
            tag,
            tag_end,
            // RFC 9110 §8.8.2.1: never later than `Date`.
            modified: modified.min(now).as_secs(),
            is_strong,
        }
    }

    /// The value of `ETag`.
    pub(super) fn tag(&self) -> &[u8] {
        &self.tag[..self.tag_end]
    }

    /// The value of `Last-Modified`.
    pub(super) fn last_modified(&self) -> [u8; DATE_BYTES] {
        date::of(self.modified)
    }

    /// The validators, for the preconditions of a request.
    pub(super) fn as_validators(&self) -> conditional::Validators<'_> {
        conditional::Validators {
            tag: Some(self.tag()),
            modified: Some(self.modified),
            is_date_strong: self.is_strong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: FileStatus = FileStatus {
        bytes: 255,
        modified_ns: 1_000_000_000_000,
        inode: 16,
    };

    fn at(seconds: u64) -> FileValidators {
        FileValidators::of(STATUS, Duration::from_secs(seconds))
    }

    #[test]
    fn a_tag_is_weak_until_the_file_has_settled() {
        assert_eq!(at(1001).tag(), b"W/\"e8d4a51000-ff-10\"");
        assert_eq!(at(1002).tag(), b"\"e8d4a51000-ff-10\"");
        // Changed in the future.
        assert_eq!(at(999).tag(), b"W/\"e8d4a51000-ff-10\"");
        assert_eq!(&at(999).last_modified(), b"Thu, 01 Jan 1970 00:16:39 GMT");
        assert_eq!(&at(1002).last_modified(), b"Thu, 01 Jan 1970 00:16:40 GMT");
    }

    #[test]
    fn every_number_fits() {
        let status = FileStatus {
            bytes: u64::MAX,
            modified_ns: u64::MAX,
            inode: u64::MAX,
        };
        assert_eq!(FileValidators::of(status, Duration::ZERO).tag().len(), 54);
    }

    #[test]
    fn tags_compare() {
        let (young, old) = (at(1001), at(1002));
        let (young, old) = (young.as_validators(), old.as_validators());
        let [young_tag, old_tag] = [young, old].map(|own| own.tag.expect("a file has a tag"));
        assert!(old.is_strongly(old_tag) && !old.is_strongly(young_tag));
        assert!(!young.is_strongly(young_tag) && !young.is_strongly(old_tag));
        assert!(old.is_weakly(young_tag) && young.is_weakly(old_tag));
        assert!(!old.is_weakly(b"\"e8d4a51000-fe-10\""));
        // The file may change again within the second.
        assert!(old.is_date_strong && !young.is_date_strong);
        assert_eq!((young.modified, old.modified), (Some(1000), Some(1000)));
    }
}
