//! Sees that a file was changed, by looking at it.
//!
//! Looking costs a system call every half second and works on every file system,
//! through links that are swapped (Kubernetes) and files that are replaced
//! (editors), where notifications are lost.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);

/// A file under watch.
#[derive(Debug)]
pub struct Watch {
    /// `None`: there is nothing to watch.
    path: Option<PathBuf>,
    seen: Option<Stamp>,
    /// Seen once: it may still be written.
    settling: Option<Stamp>,
}

/// What tells two states of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

impl Watch {
    /// Watches `path`, as it is now.
    #[must_use]
    pub fn new(path: Option<PathBuf>) -> Self {
        let mut watch = Self {
            path,
            seen: None,
            settling: None,
        };
        watch.seen = watch.stamp();
        watch
    }

    /// Waits until the file is another one and has come to rest.
    ///
    /// # Cancel safety
    /// Safe: what was seen is kept.
    pub async fn changed(&mut self) {
        loop {
            tokio::time::sleep(EVERY).await;
            if self.look() {
                return;
            }
        }
    }

    /// Takes the file as it is now for known.
    pub fn forget(&mut self) {
        self.seen = self.stamp();
        self.settling = None;
    }

    fn look(&mut self) -> bool {
        let stamp = self.stamp();
        // A file that is gone is on its way to be replaced.
        if stamp.is_none() || stamp == self.seen {
            self.settling = None;
            return false;
        }
        if stamp == self.settling {
            self.seen = stamp;
            self.settling = None;
            return true;
        }
        self.settling = stamp;
        false
    }

    fn stamp(&self) -> Option<Stamp> {
        let metadata = std::fs::metadata(self.path.as_ref()?).ok()?;
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            changed_at: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_when_it_has_come_to_rest() {
        let path = std::env::temp_dir().join(format!("steppe-watch-{}", std::process::id()));
        std::fs::write(&path, "a").expect("writes");
        let mut watch = Watch::new(Some(path.clone()));
        assert!(!watch.look());
        std::fs::write(&path, "ab").expect("writes");
        assert!(!watch.look(), "it may still be written");
        std::fs::write(&path, "abc").expect("writes");
        assert!(!watch.look(), "it was");
        assert!(watch.look());
        assert!(!watch.look(), "told once");
        std::fs::remove_file(&path).expect("removes");
        assert!(!watch.look() && !watch.look(), "gone is not changed");
        std::fs::write(&path, "abc").expect("writes");
        assert!(!watch.look());
        assert!(watch.look(), "another file of the same length");
        std::fs::remove_file(&path).expect("removes");
    }
}
