//! Files below a folder, opened and read without holding up a worker.
//!
//! Invariant: nothing outside of the folder is ever opened, whatever links are
//! swapped meanwhile: the kernel resolves the path in one step from a descriptor
//! of the folder, and what is known of a file comes from its own descriptor.
//!
//! What lies in the page cache is opened and read where it is asked for. The rest
//! waits for a disk, as a [`DiskTask`].
//!
//! Leaves out: names of users (a path is bytes), and what a file means.

use std::cell::RefCell;
use std::ffi::CStr;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use steppe_mem::Buffer;

use crate::disk::DiskTask;
use crate::limits::{FOLDER_KEPT, FOLDER_TRIES_MAX};

/// A folder, and what is below it. It belongs to one worker.
pub struct Folder {
    path: Arc<Path>,
    /// Opened again now and then: a folder may be replaced by another of its name.
    held: RefCell<Option<(Instant, Arc<OwnedFd>)>>,
}

/// A folder that stands open.
#[derive(Debug)]
pub struct Root {
    handle: Arc<OwnedFd>,
    lookup: Lookup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    /// In what the kernel remembers of the file system.
    Cached,
    /// Wherever it takes.
    Waiting,
}

/// What a path led to.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(File),
    /// A folder.
    Folder,
    /// Nothing that is served: no such file, one outside of the folder, or no file at all.
    Nothing,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct File {
    handle: OwnedFd,
    /// What it was when it was opened.
    pub status: FileStatus,
    way: Way,
}

/// What a file is, apart from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Bytes in it.
    pub bytes: u64,
    /// Nanoseconds from 1970 to when it was changed last; earlier times count as 0.
    pub modified_ns: u64,
    /// Its number in its file system.
    pub inode: u64,
}

/// How a worker reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The kernel says when it would take a disk.
    NoWait,
    /// It can't tell, and there is no disk.
    Memory,
    /// It can't tell: not here.
    Away,
}

/// A read that waits for a disk, and has what it needs with it.
pub type Reading = DiskTask<(File, Buffer, io::Result<usize>)>;

impl Folder {
    /// The folder at `path`, which is looked at when something in it is asked for.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let (path, held) = (path.into(), RefCell::default());
        Self { path, held }
    }

    /// Looks for something below the folder, if that takes no disk.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where it does: [`Folder::find`] waits. Others as
    /// [`Root::open`] has them.
    pub fn try_find<T>(
        &self,
        now: Instant,
        find: impl FnOnce(&Root) -> io::Result<T>,
    ) -> io::Result<T> {
        find(&Root {
            handle: self.root(now)?,
            lookup: Lookup::Cached,
        })
    }

    /// Looks for something below the folder, on a thread that may wait for it.
    ///
    /// # Errors
    /// Where too many wait already.
    pub fn find<T: Send + 'static>(
        &self,
        now: Instant,
        find: impl FnOnce(&Root) -> io::Result<T> + Send + 'static,
    ) -> io::Result<DiskTask<io::Result<T>>> {
        let held = self.root(now).ok();
        let path = Arc::clone(&self.path);
        DiskTask::start(move || {
            let handle = match held {
                Some(handle) => handle,
                None => Arc::new(open_root(&path, ResolveFlags::empty())?),
            };
            let lookup = Lookup::Waiting;
            find(&Root { handle, lookup })
        })
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
        let root = open_root(&self.path, ResolveFlags::CACHED).map_err(not_here)?;
        let root = Arc::new(root);
        *held = Some((now, Arc::clone(&root)));
        Ok(root)
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({})", self.path.display())
    }
}

impl Root {
    /// Opens what is at `path` below the folder.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] within [`Folder::try_find`] only;
    /// [`io::ErrorKind::ResourceBusy`] where there are no descriptors;
    /// others as the system reports them.
    pub fn open(&self, path: &CStr) -> io::Result<Opened> {
        let root = self.handle.as_fd();
        let opened = match self.lookup {
            Lookup::Cached => open_below(root, path, ResolveFlags::CACHED),
            Lookup::Waiting => open_waiting(root, path),
        };
        match opened {
            Ok(opened) => Ok(opened),
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::XDEV
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV,
            ) => Ok(Opened::Nothing),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                Err(io::ErrorKind::ResourceBusy.into())
            }
            Err(error) if self.lookup == Lookup::Cached => Err(not_here(error)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Linux before 5.12 can't tell what takes a disk, and some sandboxes know nothing of
/// the whole call: a thread that may wait can do without.
fn not_here(error: Errno) -> io::Error {
    match error {
        Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM => {
            io::ErrorKind::WouldBlock.into()
        }
        error => error.into(),
    }
}

impl File {
    /// Reads up to `bytes` into the spare room of `buffer`, if that takes no disk; 0 is
    /// the end of the file.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where it does: [`File::read`] waits. Others as
    /// the system reports them.
    pub fn try_read(
        &mut self,
        buffer: &mut Buffer,
        bytes: usize,
        offset: u64,
    ) -> io::Result<usize> {
        let room = room(buffer, bytes);
        if self.way == Way::NoWait {
            let mut rooms = [IoSliceMut::new(&mut *room)];
            let flags = ReadWriteFlags::NOWAIT;
            match rustix::io::preadv2(&self.handle, &mut rooms, offset, flags) {
                Err(Errno::OPNOTSUPP) => self.way = self.way_without_flag(),
                read => {
                    let count = read?;
                    buffer.advance(count);
                    return Ok(count);
                }
            }
        }
        if self.way == Way::Away {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rustix::io::pread(&self.handle, room, offset)?;
        buffer.advance(count);
        Ok(count)
    }

    /// Reads up to `bytes` into the spare room of `buffer`, on a thread that may wait for it.
    ///
    /// # Errors
    /// Where too many wait already.
    pub fn read(self, mut buffer: Buffer, bytes: usize, offset: u64) -> io::Result<Reading> {
        DiskTask::start(move || {
            let read = rustix::io::pread(&self.handle, room(&mut buffer, bytes), offset);
            if let Ok(count) = read {
                buffer.advance(count);
            }
            (self, buffer, read.map_err(io::Error::from))
        })
    }

    /// How to read where the file system does not know the flag: network file systems
    /// and stacked ones don't, and for long tmpfs did not.
    fn way_without_flag(&self) -> Way {
        let system = rustix::fs::fstatfs(&self.handle).map(|system| system.f_type);
        if system.is_ok_and(|system| system == libc::TMPFS_MAGIC) {
            Way::Memory
        } else {
            Way::Away
        }
    }
}

fn room(buffer: &mut Buffer, bytes: usize) -> &mut [u8] {
    let room = buffer.spare_mut();
    let bytes = bytes.min(room.len());
    &mut room[..bytes]
}

/// Without a controlling terminal, and without waiting for the other end of a FIFO.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

fn open_root(path: &Path, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if resolve.is_empty() {
        return rustix::fs::open(path, flags, Mode::empty());
    }
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
}

fn open_waiting(root: BorrowedFd<'_>, path: &CStr) -> Result<Opened, Errno> {
    for _ in 0..FOLDER_TRIES_MAX {
        match open_below(root, path, ResolveFlags::empty()) {
            // A folder was moved while `..` in a link was followed: the kernel asks to look again.
            Err(Errno::AGAIN) => {}
            // Linux before 5.6, and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return opened_as(open_by_steps(root, path)?),
            opened => return opened,
        }
    }
    // Whoever moves folders about for that long may be up to something.
    Ok(Opened::Nothing)
}

/// `BENEATH` and not `IN_ROOT`: a link to `/etc/motd` means that file, which is not in the
/// folder, and none of the same name below it.
fn open_below(root: BorrowedFd<'_>, path: &CStr, further: ResolveFlags) -> Result<Opened, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | further;
    let opened = rustix::fs::openat2(root, path, FLAGS, Mode::empty(), resolve);
    opened_as(opened?)
}

/// One component after the other, following no link at all.
fn open_by_steps(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    const STEP: OFlags = OFlags::PATH
        .union(OFlags::DIRECTORY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    let path = path.to_bytes();
    if path.starts_with(b"/") || path.split(|&byte| byte == b'/').any(|name| name == b"..") {
        return Err(Errno::XDEV);
    }
    let mut names = path
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty());
    let name = names.next_back().unwrap_or(b".");
    let mut folder: Option<OwnedFd> = None;
    for parent in names {
        let from = folder.as_ref().map_or(root, AsFd::as_fd);
        folder = Some(rustix::fs::openat(from, parent, STEP, Mode::empty())?);
    }
    let from = folder.as_ref().map_or(root, AsFd::as_fd);
    rustix::fs::openat(from, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

/// Neither devices nor FIFOs nor sockets are served.
fn opened_as(handle: OwnedFd) -> Result<Opened, Errno> {
    let status = rustix::fs::fstat(&handle)?;
    Ok(match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Opened::File(File {
            handle,
            status: FileStatus::of(&status),
            way: Way::NoWait,
        }),
        FileType::Directory => Opened::Folder,
        _ => Opened::Nothing,
    })
}

impl FileStatus {
    fn of(status: &rustix::fs::Stat) -> Self {
        const NANOSECONDS: u64 = 1_000_000_000;
        let seconds = u64::try_from(status.st_mtime).unwrap_or(0);
        Self {
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            modified_ns: seconds
                .saturating_mul(NANOSECONDS)
                .saturating_add(status.st_mtime_nsec),
            inode: status.st_ino,
        }
    }
}
