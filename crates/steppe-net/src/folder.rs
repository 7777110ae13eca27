//! Files below a folder, opened and read without holding up a worker.
//!
//! Invariant: nothing outside of the folder is ever opened, whatever links are
//! swapped meanwhile: the kernel resolves the path in one step from a descriptor
//! of the folder, and what is known of a file comes from its own descriptor.
//!
//! What lies in the page cache is opened and read where it is asked for. The rest
//! waits for a disk, and does so on a thread of its own; there are at most
//! [`BLOCKING_THREADS_MAX`](crate::limits::BLOCKING_THREADS_MAX) a worker.
//!
//! Leaves out: names of users (a path is bytes), and what a file means.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::time::ClockId;
use steppe_mem::Buffer;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::limits::{FOLDER_KEPT, FOLDER_TRIES_MAX};

/// A folder, and what is below it. It belongs to one worker.
pub struct Folder {
    path: PathBuf,
    /// Opened again now and then: a folder may be replaced by another of its name.
    held: RefCell<Option<(Instant, Arc<OwnedFd>)>>,
}

/// What a path led to.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(File),
    /// A folder.
    Folder,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct File {
    handle: OwnedFd,
    /// What it was when it was opened.
    pub status: FileStatus,
}

/// What a file is, apart from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Bytes in it.
    pub bytes: u64,
    /// Nanoseconds from 1970 to when it was changed last; earlier times count as 0.
    pub modified_ns: u64,
    /// The same to when this was looked up.
    pub seen_ns: u64,
    /// Its number in its file system.
    pub inode: u64,
}

/// A path that is opened by a thread that may wait for a disk.
#[derive(Debug)]
pub struct Opening(JoinHandle<io::Result<Opened>>);

/// A read that waits for a disk, and has what it needs with it.
#[derive(Debug)]
pub struct Reading(JoinHandle<(File, Buffer, io::Result<usize>)>);

impl Folder {
    /// Whether `path` leads to a folder now.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn look(path: &Path) -> io::Result<()> {
        rustix::fs::open(path, ROOT_FLAGS, Mode::empty())?;
        Ok(())
    }

    /// The folder at `path`, which is looked at when something in it is asked for.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let (path, held) = (path.to_owned(), RefCell::default());
        Self { path, held }
    }

    /// Opens what is at `path` below the folder, if that takes no disk.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where it does: [`Folder::open`] waits. Others
    /// as the system reports them; a link that leads out of the folder is one.
    pub fn try_open(&self, path: &CStr, now: Instant) -> io::Result<Opened> {
        let root = self.root(now)?;
        match open_below(root.as_fd(), path, ResolveFlags::CACHED) {
            // Linux before 5.12 can't tell.
            Err(Errno::INVAL) => open_waiting(root.as_fd(), path),
            opened => Ok(opened?),
        }
    }

    /// Opens what is at `path` below the folder, on a thread that may wait for it. What nobody
    /// waits for any more is closed again.
    ///
    /// # Errors
    /// Where the folder is gone.
    pub fn open(&self, path: CString, now: Instant) -> io::Result<Opening> {
        let root = self.root(now)?;
        let open = move || open_waiting(root.as_fd(), &path);
        Ok(Opening(spawn_blocking(open)))
    }

    fn root(&self, now: Instant) -> io::Result<Arc<OwnedFd>> {
        let mut held = self.held.borrow_mut();
        if let Some((opened_at, root)) = &*held
            && now.saturating_duration_since(*opened_at) < FOLDER_KEPT
        {
            return Ok(Arc::clone(root));
        }
        // One that is gone is not served from its last descriptor.
        *held = None;
        let root = Arc::new(rustix::fs::open(&self.path, ROOT_FLAGS, Mode::empty())?);
        *held = Some((now, Arc::clone(&root)));
        Ok(root)
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({})", self.path.display())
    }
}

impl File {
    /// Reads `bytes` at most into the spare room of `buffer`, if that takes no disk; 0 is the end
    /// of the file.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where it does: [`File::read`] waits. Others as
    /// the system reports them.
    pub fn try_read(&self, buffer: &mut Buffer, bytes: usize, offset: u64) -> io::Result<usize> {
        let room = buffer.spare_mut();
        let end = room.len().min(bytes);
        let mut room = [IoSliceMut::new(&mut room[..end])];
        let read = rustix::io::preadv2(&self.handle, &mut room, offset, ReadWriteFlags::NOWAIT);
        let count = match read {
            // Not every file system can tell; a network file system is one.
            Err(Errno::OPNOTSUPP) => Err(Errno::AGAIN),
            read => read,
        }?;
        buffer.advance(count);
        Ok(count)
    }

    /// The same on a thread that may wait for it.
    #[must_use]
    pub fn read(self, mut buffer: Buffer, bytes: usize, offset: u64) -> Reading {
        Reading(spawn_blocking(move || {
            let room = buffer.spare_mut();
            let end = room.len().min(bytes);
            let read = rustix::io::pread(&self.handle, &mut room[..end], offset);
            let count = read.map_err(io::Error::from);
            if let Ok(count) = count {
                buffer.advance(count);
            }
            (self, buffer, count)
        }))
    }
}

impl Opening {
    /// Ready when the disk has answered.
    ///
    /// # Errors
    /// As the system reports them; when the thread ended without an answer.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Opened>> {
        let opened = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(opened.map_err(io::Error::other)?)
    }
}

impl Reading {
    /// Ready when the disk has answered: gives back what the read took along.
    ///
    /// # Errors
    /// When the thread ended without an answer.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(File, Buffer, io::Result<usize>)>> {
        Pin::new(&mut self.0).poll(cx).map_err(io::Error::other)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

const ROOT_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Without a controlling terminal, and without waiting for the other end of a FIFO.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

fn open_waiting(root: BorrowedFd<'_>, path: &CStr) -> io::Result<Opened> {
    for _ in 0..FOLDER_TRIES_MAX {
        match open_below(root, path, ResolveFlags::empty()) {
            // A folder was moved while `..` in a link was followed: the kernel asks to look again.
            Err(Errno::AGAIN) => {}
            opened => return Ok(opened?),
        }
    }
    // Whoever moves folders about for that long may be up to something.
    Err(io::ErrorKind::NotFound.into())
}

/// `BENEATH` and not `IN_ROOT`: a link to `/etc/motd` means that file, which is not in the
/// folder, and none of the same name below it.
fn open_below(root: BorrowedFd<'_>, path: &CStr, further: ResolveFlags) -> Result<Opened, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | further;
    let opened = match rustix::fs::openat2(root, path, FLAGS, Mode::empty(), resolve) {
        // Linux before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_by_steps(root, path),
        opened => opened,
    };
    match opened {
        // What a link out of the folder leads to is not in the folder.
        Err(Errno::XDEV | Errno::LOOP) => Err(Errno::NOENT),
        opened => opened_as(opened?),
    }
}

/// One component after the other, following no link at all.
fn open_by_steps(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    const STEP: OFlags = OFlags::PATH
        .union(OFlags::DIRECTORY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    let path = path.to_bytes();
    if path.split(|&byte| byte == b'/').any(|name| name == b"..") || path.starts_with(b"/") {
        return Err(Errno::XDEV);
    }
    let (parents, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    };
    let mut folder = None;
    let names = parents.split(|&byte| byte == b'/');
    for parent in names.filter(|name| !name.is_empty()) {
        let from = folder.as_ref().map_or(root, OwnedFd::as_fd);
        folder = Some(rustix::fs::openat(from, parent, STEP, Mode::empty())?);
    }
    let from = folder.as_ref().map_or(root, OwnedFd::as_fd);
    let name = if name.is_empty() { b"." } else { name };
    rustix::fs::openat(from, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

/// Neither devices nor FIFOs nor sockets are served.
fn opened_as(handle: OwnedFd) -> Result<Opened, Errno> {
    let status = rustix::fs::fstat(&handle)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(Opened::File(File {
            handle,
            status: FileStatus::of(&status),
        })),
        FileType::Directory => Ok(Opened::Folder),
        _ => Err(Errno::NOENT),
    }
}

impl FileStatus {
    fn of(status: &rustix::fs::Stat) -> Self {
        let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        let nanoseconds = |seconds: i64, further: u64| {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(further)
        };
        Self {
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            modified_ns: nanoseconds(status.st_mtime, status.st_mtime_nsec),
            seen_ns: nanoseconds(now.tv_sec, u64::try_from(now.tv_nsec).unwrap_or(0)),
            inode: status.st_ino,
        }
    }
}
