//! Locks between test programs, so that several run at a time.
//!
//! Each [`Resource`] is a file that its holder locks with `flock`. The kernel releases the lock when
//! the holder's process ends, killed or not. All checkouts of one user share the files, since they
//! share the machine.
//!
//! Invariant: a test waits for a resource only while it holds none of the same or a later place in
//! the order of [`Resource`]. So tests never wait for each other in a circle. A test that breaks this
//! order panics instead of waiting.
//!
//! Leaves out: other users of the machine, and threads that a test starts: the thread that took a
//! lock gives it back.

use std::cell::RefCell;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// A part of the machine that tests share; the order is the one in which a test takes several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Held alone by a test that loads processors or memory to their limits, as [`heavy`] says.
    Heavy,
    /// Held alone by a measured test, and shared by tests that soak real processes for seconds.
    ///
    /// It serves `cargo test` without the runner: `cargo xtask test` runs measured tests in a phase
    /// of their own.
    Machine,
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Self::Heavy => "heavy",
            Self::Machine => "machine",
        }
    }
}

/// Lets one heavy test of this machine's user run at a time, over all test programs.
pub fn heavy() -> FileLock {
    FileLock::exclusive(Resource::Heavy)
}

/// A [`Resource`] of this machine, held until dropped.
#[must_use = "the resource is released when the lock is dropped"]
#[derive(Debug)]
pub struct FileLock {
    resource: Resource,
    mode: Mode,
    file: File,
    /// Not `Send`: [`HELD`] is the list of one thread.
    _thread: PhantomData<*const ()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Exclusive,
    Shared,
}

impl FileLock {
    /// Waits until no other test holds the resource.
    ///
    /// # Panics
    /// When this thread holds the same or a later resource, and after ten minutes.
    #[track_caller]
    pub fn exclusive(resource: Resource) -> Self {
        Self::take(resource, Mode::Exclusive)
    }

    /// Waits until no test holds the resource alone.
    ///
    /// # Panics
    /// When this thread holds the same or a later resource, and after ten minutes.
    #[track_caller]
    pub fn shared(resource: Resource) -> Self {
        Self::take(resource, Mode::Shared)
    }

    #[track_caller]
    fn take(resource: Resource, mode: Mode) -> Self {
        check_order(resource);
        let path = directory().join(resource.name());
        // `flock` lets sharers overtake a waiting exclusive holder. All wait at the gate in turn.
        let gate = wait_for(&path.with_extension("gate"), mode);
        let mut file = wait_for(&path, mode);
        drop(gate);
        if mode == Mode::Exclusive {
            let _ = write!(file, "{}", this_test());
        }
        HELD.with_borrow_mut(|held| held.push(resource));
        Self {
            resource,
            mode,
            file,
            _thread: PhantomData,
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.mode == Mode::Exclusive {
            let _ = self.file.set_len(0);
        }
        // A child that another thread has forked holds a copy until it calls `exec`: closing the file
        // would leave it locked as long.
        let _ = self.file.unlock();
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let last = held.iter().rposition(|held| *held == self.resource);
            last.map(|index| held.remove(index));
        });
    }
}

thread_local! {
    static HELD: RefCell<Vec<Resource>> = const { RefCell::new(Vec::new()) };
}

#[track_caller]
fn check_order(resource: Resource) {
    let last = HELD.with_borrow(|held| held.iter().copied().max());
    if let Some(last) = last {
        assert!(
            last < resource,
            "{resource:?} is taken before {last:?}, which this test holds"
        );
    }
}

/// Longer than any test holds a resource; one that waits longer fails and names the holder.
const PATIENCE: Duration = Duration::from_secs(600);

/// Opens a file and locks it.
#[track_caller]
fn wait_for(path: &Path, mode: Mode) -> File {
    let file = open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let at_once = match mode {
        Mode::Exclusive => file.try_lock(),
        Mode::Shared => file.try_lock_shared(),
    };
    match at_once {
        Ok(()) => return file,
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => panic!("{}: {error}", path.display()),
    }
    let (locked, is_locked) = sync_channel(1);
    // The kernel wakes waiters in turn and has no time limit; the receiver has one.
    std::thread::spawn(move || {
        let done = lock(&file, mode);
        let _ = locked.send(done.map(|()| file));
    });
    match is_locked.recv_timeout(PATIENCE) {
        Ok(file) => file.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        Err(_) => panic!(
            "{} is held for {} s by {}",
            path.display(),
            PATIENCE.as_secs(),
            holder(path)
        ),
    }
}

fn lock(file: &File, mode: Mode) -> io::Result<()> {
    loop {
        let done = match mode {
            Mode::Exclusive => file.lock(),
            Mode::Shared => file.lock_shared(),
        };
        match done {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// The test that holds a file alone, as it wrote there.
fn holder(path: &Path) -> String {
    let name = std::fs::read_to_string(path.with_extension("")).unwrap_or_default();
    if name.is_empty() {
        "tests that share it".to_owned()
    } else {
        name
    }
}

fn this_test() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread without a name");
    format!("{test} of {program}, process {}", std::process::id())
}

/// Locks a file of this name unless another test holds it; released when the file is closed.
pub(crate) fn try_lock(name: &str) -> Option<File> {
    let file = open(&directory().join(name)).ok()?;
    file.try_lock().ok().map(|()| file)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true).open(path)
}

/// The directory of the locks, which no other user can write to.
///
/// # Panics
/// When there is another user's, or one that others can write to.
fn directory() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("steppe-tests-{user}"));
    let made = DirBuilder::new().mode(0o700).create(&path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    }
    let found = std::fs::symlink_metadata(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_own = found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0;
    assert!(
        is_own,
        "{} is not a directory that only user {user} can write to: remove it",
        path.display()
    );
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::mpsc::{Receiver, RecvTimeoutError};

    /// Takes a lock on another thread; received once it has it.
    fn elsewhere(name: &'static str, mode: Mode) -> Receiver<File> {
        let (locked, is_locked) = sync_channel(1);
        std::thread::spawn(move || {
            let file = wait_for(&directory().join(name), mode);
            let _ = locked.send(file);
        });
        is_locked
    }

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn one_holds_it_alone_and_others_share_it() {
        let name = "of-its-tests";
        let path = directory().join(name);
        let shared = [Mode::Shared; 2].map(|mode| wait_for(&path, mode));
        assert!(try_lock(name).is_none());
        let alone = elsewhere(name, Mode::Exclusive);
        assert_eq!(
            alone.recv_timeout(SHORT).err(),
            Some(RecvTimeoutError::Timeout)
        );
        drop(shared);
        let held = alone.recv_timeout(LONG).expect("it is free");
        let sharer = elsewhere(name, Mode::Shared);
        assert_eq!(
            sharer.recv_timeout(SHORT).err(),
            Some(RecvTimeoutError::Timeout)
        );
        drop(held);
        sharer.recv_timeout(LONG).expect("it is free");
    }

    #[test]
    fn the_order_is_kept() {
        let _machine = FileLock::shared(Resource::Machine);
        for resource in [Resource::Heavy, Resource::Machine] {
            let refused = catch_unwind(|| check_order(resource));
            let said = refused.expect_err("it is out of order");
            let said = said.downcast::<String>().expect("a message");
            assert!(said.contains("before Machine"), "{said}");
        }
    }

    #[test]
    fn a_lock_that_was_released_can_be_taken_again() {
        drop(heavy());
        let _heavy = heavy();
        let _machine = FileLock::shared(Resource::Machine);
    }

    /// As after a panic or a kill: the holder's text is left, and the lock is free.
    #[test]
    fn a_waiting_test_names_the_holder() {
        let path = directory().join("of-its-test-of-names");
        let mut file = open(&path).expect("it can be written");
        file.set_len(0).expect("it can be written");
        assert_eq!(holder(&path), "tests that share it");
        write!(file, "{}", this_test()).expect("it can be written");
        let said = holder(&path.with_extension("gate"));
        assert!(
            said.contains("a_waiting_test_names_the_holder of "),
            "{said}"
        );
    }
}
