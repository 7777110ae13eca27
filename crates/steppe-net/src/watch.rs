//! Detection of changed files, by polling.
//!
//! A poll costs a system call a file every half second and works on every file system,
//! through links that are swapped (Kubernetes) and files that are replaced
//! (editors), where notifications are lost.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files under watch.
#[derive(Debug, Clone, Default)]
pub struct Watch(Vec<Watched>);

#[derive(Debug, Clone)]
struct Watched {
    path: PathBuf,
    seen: Option<FileStamp>,
    /// A state that was seen once: the file may still be written.
    settling: Option<FileStamp>,
    /// Polls in a row that have found no file.
    missed: u32,
}

/// A state of a file, told from others by time, length and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

/// The result of polling a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilePoll {
    /// The file is as it was, or gone: on its way to be replaced.
    Same,
    /// The file has changed, and may still be written.
    Settling,
    /// The file has changed, and has come to rest.
    Changed,
}

impl Watch {
    /// Interval of polls.
    pub const EVERY: Duration = Duration::from_millis(500);

    /// Watches `paths`, from their present states.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watch = Self::default();
        paths.into_iter().for_each(|path| watch.add(path));
        watch
    }

    /// Watches a further path, from its present state; a path that is watched keeps the state that was seen.
    pub fn add(&mut self, path: PathBuf) {
        if self.0.iter().any(|watched| watched.path == path) {
            return;
        }
        self.0.push(Watched {
            seen: stamp(&path),
            settling: None,
            missed: 0,
            path,
        });
    }

    /// True at the poll at which a file that was there has been missing for that many polls.
    #[must_use]
    pub fn has_lost(&self, looks: u32) -> bool {
        let mut watched = self.0.iter();
        watched.any(|watched| watched.seen.is_some() && watched.missed == looks)
    }

    /// True if a file may still be written.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.0.iter().any(|watched| watched.settling.is_some())
    }

    /// True without a file to watch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until a file has changed, and all have come to rest; forever without a file.
    ///
    /// # Cancel safety
    /// Safe: the states that were seen are kept.
    pub async fn changed(&mut self) {
        if self.is_empty() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(Self::EVERY).await;
            if self.look() {
                return;
            }
        }
    }

    /// Follows a file that has been renamed from `from` to `to`, with the state that was seen.
    #[must_use]
    pub fn with_renamed(mut self, from: &Path, to: &Path) -> Self {
        for watched in self.0.iter_mut().filter(|watched| watched.path == from) {
            watched.path = to.to_path_buf();
        }
        self
    }

    /// True if all files are as they were.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.0
            .iter()
            .all(|watched| watched.seen == stamp(&watched.path))
    }

    /// Polls each file; true if one has changed since it was seen, and all have come to rest.
    pub fn look(&mut self) -> bool {
        let looks: Vec<FilePoll> = self.0.iter_mut().map(Watched::look).collect();
        if looks.contains(&FilePoll::Settling) || !looks.contains(&FilePoll::Changed) {
            return false;
        }
        for watched in &mut self.0 {
            if let Some(stamp) = watched.settling.take() {
                watched.seen = Some(stamp);
            }
        }
        true
    }
}

impl Watched {
    fn look(&mut self) -> FilePoll {
        let stamp = stamp(&self.path);
        self.missed = match stamp {
            Some(_) => 0,
            None => self.missed.saturating_add(1),
        };
        if stamp.is_none() || stamp == self.seen {
            self.settling = None;
            return FilePoll::Same;
        }
        if stamp == self.settling {
            return FilePoll::Changed;
        }
        self.settling = stamp;
        FilePoll::Settling
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        changed_at: (metadata.mtime(), metadata.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use steppe_testkit::virtual_time;

    use super::*;

    #[test]
    fn files_are_looked_at_every_half_second() {
        virtual_time::run(async {
            let path = std::env::temp_dir().join(format!("steppe-watched-{}", std::process::id()));
            std::fs::write(&path, "a").expect("writes");
            let mut watch = Watch::new([path.clone()]);
            let watching = tokio::spawn(async move { watch.changed().await });
            virtual_time::pass(Duration::from_secs(5)).await;
            assert!(!watching.is_finished(), "it is as it was");
            std::fs::write(&path, "ab").expect("writes");
            // One look to see it, one to see it at rest.
            virtual_time::pass(2 * Watch::EVERY - Duration::from_millis(10)).await;
            assert!(!watching.is_finished(), "it may still be written");
            virtual_time::pass(Duration::from_millis(20)).await;
            assert!(watching.is_finished());
            std::fs::remove_file(&path).expect("removes");
        });
    }

    #[test]
    fn a_change_is_told_once_when_it_has_come_to_rest() {
        let path = std::env::temp_dir().join(format!("steppe-watch-{}", std::process::id()));
        let other = path.with_extension("other");
        std::fs::write(&path, "a").expect("writes");
        std::fs::write(&other, "a").expect("writes");
        let mut watch = Watch::new([path.clone(), other.clone()]);
        assert!(!watch.look());
        std::fs::write(&path, "ab").expect("writes");
        assert!(!watch.look(), "it may still be written");
        std::fs::write(&path, "abc").expect("writes");
        assert!(!watch.look(), "it was");
        assert!(!watch.is_current());
        assert!(watch.look());
        assert!(!watch.look(), "told once");
        assert!(watch.is_current());
        std::fs::write(&path, "abcd").expect("writes");
        assert!(!watch.look());
        std::fs::write(&other, "ab").expect("writes");
        assert!(!watch.look(), "the other one may still be written");
        assert!(watch.look());
        assert!(!watch.look(), "both are told at once");
        std::fs::remove_file(&path).expect("removes");
        assert!(!watch.look() && !watch.look(), "gone is not changed");
        std::fs::write(&path, "abcd").expect("writes");
        // What counts is its time, which the file system may round, where it has the number of the one before.
        let file = std::fs::File::options().append(true).open(&path);
        let opened = file.expect("it is there");
        opened
            .set_modified(std::time::UNIX_EPOCH)
            .expect("it is ours");
        assert!(!watch.look());
        assert!(watch.look(), "another file of the same length");
        std::fs::remove_file(&path).expect("removes");
        std::fs::remove_file(&other).expect("removes");
    }
}
