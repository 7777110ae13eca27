//! Files below a folder, opened and read without blocking a worker.
//!
//! Invariant: no file outside of the folder is opened, even if symbolic links are
//! replaced concurrently: the kernel resolves the path with one `openat2` from the
//! folder's descriptor, and a file's metadata is read from its own descriptor.
//!
//! A path without links is opened as it is. Where one has links, the path that they led to is judged as well: the
//! kernel says what it is (`/proc/self/fd`), and without that nothing is served.
//!
//! Lookups and reads that the dentry and page caches can serve run on the worker
//! (`RESOLVE_CACHED`, `RWF_NOWAIT`); all others run as a [`DiskTask`].
//!
//! Non-goals: character encodings (a path is bytes) and media types.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use steppe_mem::Buffer;

use crate::disk::DiskTask;
use crate::limits::{FOLDER_KEPT, FOLDER_TRIES_MAX};

/// A folder from which one worker serves files.
pub struct Folder {
    path: Arc<Path>,
    /// Reopened after [`FOLDER_KEPT`]: another folder may have been renamed to its path.
    held: RefCell<Option<(Instant, Arc<OwnedFd>)>>,
}

/// An open descriptor of a folder, to look up paths below it.
#[derive(Debug)]
pub struct Root {
    handle: Arc<OwnedFd>,
    lookup: LookupMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookupMode {
    /// From the dentry cache only; never blocks.
    Cached,
    /// From disk if need be; may block.
    Blocking,
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(File),
    /// A folder.
    Folder(FolderHandle),
    /// Nothing that is served: no such file, a path that leaves the folder, or a special file.
    Nothing,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct File {
    handle: OwnedFd,
    /// Metadata when it was opened.
    pub status: FileStatus,
    mode: ReadMode,
}

/// A folder below the one that is served, open for reading.
#[derive(Debug)]
pub struct FolderHandle(OwnedFd);

/// A folder whose entries are read on a blocking thread.
#[derive(Debug)]
pub struct FolderContents {
    handle: OwnedFd,
    root: Root,
    path: CString,
}

/// A file or folder in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderEntry<'a> {
    /// Name in that folder.
    pub name: &'a [u8],
    /// False for a regular file.
    pub is_folder: bool,
    /// Metadata; of a link, that of its target.
    pub status: FileStatus,
}

/// A file's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in nanoseconds since 1970; earlier times count as 0.
    pub modified_ns: u64,
    /// Inode number.
    pub inode: u64,
}

/// The way to read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    /// On the worker with `RWF_NOWAIT`, which fails rather than block.
    NoWait,
    /// On the worker: the file system knows no `RWF_NOWAIT`, but is in memory.
    InMemory,
    /// On a blocking thread: the file system knows no `RWF_NOWAIT`.
    Blocking,
}

/// A read on a blocking thread, which gives back the file and the buffer.
pub type Reading = DiskTask<(File, Buffer, io::Result<usize>)>;

impl Folder {
    /// The folder at `path`, which is opened by the first lookup.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let (path, held) = (path.into(), RefCell::default());
        Self { path, held }
    }

    /// Looks up a file below the folder without blocking.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the lookup would block: use [`Folder::find`]. Others
    /// are those of [`Root::open`].
    pub fn try_find<T>(
        &self,
        now: Instant,
        find: impl FnOnce(&Root) -> io::Result<T>,
    ) -> io::Result<T> {
        find(&Root {
            handle: self.root(now)?,
            lookup: LookupMode::Cached,
        })
    }

    /// Looks up a file below the folder on a blocking thread.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if too many disk tasks are queued.
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
            let lookup = LookupMode::Blocking;
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
        // A folder that was removed is not served from its old descriptor.
        *held = None;
        let root = open_root(&self.path, ResolveFlags::CACHED).map_err(cached_lookup_error)?;
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
    /// Opens `path` below the folder. If it leads through links, `is_served` judges the path that they
    /// led to, relative to the folder.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] within [`Folder::try_find`] only;
    /// [`io::ErrorKind::ResourceBusy`] if the process is out of descriptors or memory;
    /// others are the system's.
    pub fn open(&self, path: &CStr, is_served: impl Fn(&[u8]) -> bool) -> io::Result<Opened> {
        let root = self.handle.as_fd();
        let opened = match self.lookup {
            LookupMode::Cached => open_below(root, path, ResolveFlags::CACHED, &is_served),
            LookupMode::Blocking => open_blocking(root, path, &is_served),
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
            Err(error) if self.lookup == LookupMode::Cached => Err(cached_lookup_error(error)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Root {
    /// The entries of `folder`, which was opened at `path` below this.
    #[must_use]
    pub fn contents(&self, FolderHandle(handle): FolderHandle, path: CString) -> FolderContents {
        let root = Self {
            handle: Arc::clone(&self.handle),
            lookup: LookupMode::Blocking,
        };
        FolderContents { handle, root, path }
    }
}

impl FolderContents {
    /// The folder's path below the one that is served.
    #[must_use]
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// Reads it on a blocking thread.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if too many disk tasks are queued.
    pub fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<DiskTask<io::Result<T>>> {
        DiskTask::start(move || read(self))
    }

    /// Calls `each` with every file and folder that can be opened by its name, in no order, until it says to stop.
    /// Links are judged as [`Root::open`] judges them. Names that begin with a dot are left out. Blocks.
    ///
    /// # Errors
    /// The system's.
    pub fn for_each(
        &self,
        is_served: impl Fn(&[u8]) -> bool,
        mut each: impl FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            let Some((is_folder, status)) = self.status_of(name, &is_served) else {
                continue;
            };
            let name = name.to_bytes();
            let entry = FolderEntry {
                name,
                is_folder,
                status,
            };
            if each(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The kind of an entry, true for a folder; `None`: it is neither that nor a file, it is gone, or is not served.
    fn status_of(
        &self,
        name: &CStr,
        is_served: &impl Fn(&[u8]) -> bool,
    ) -> Option<(bool, FileStatus)> {
        let status = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Some((false, FileStatus::of(&status))),
            FileType::Directory => Some((true, FileStatus::of(&status))),
            FileType::Symlink => {
                let path = [self.path.to_bytes(), b"/", name.to_bytes()].concat();
                let path = CString::new(path).ok()?;
                match self.root.open(&path, is_served).ok()? {
                    Opened::File(file) => Some((false, file.status)),
                    Opened::Folder(FolderHandle(handle)) => {
                        let status = rustix::fs::fstat(handle).ok()?;
                        Some((true, FileStatus::of(&status)))
                    }
                    Opened::Nothing => None,
                }
            }
            _ => None,
        }
    }
}

/// Linux before 5.12 has no `RESOLVE_CACHED`, and some sandboxes refuse `openat2`: both need
/// the lookup on a blocking thread.
fn cached_lookup_error(error: Errno) -> io::Error {
    match error {
        Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM => {
            io::ErrorKind::WouldBlock.into()
        }
        error => error.into(),
    }
}

impl File {
    /// Reads up to `bytes` into the spare capacity of `buffer` without blocking; 0 is the
    /// end of the file.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the read would block: use [`File::read`]. Others are
    /// the system's.
    pub fn try_read(
        &mut self,
        buffer: &mut Buffer,
        bytes: usize,
        offset: u64,
    ) -> io::Result<usize> {
        let spare = spare(buffer, bytes);
        if self.mode == ReadMode::NoWait {
            let mut slices = [IoSliceMut::new(&mut *spare)];
            let flags = ReadWriteFlags::NOWAIT;
            match rustix::io::preadv2(&self.handle, &mut slices, offset, flags) {
                Err(Errno::OPNOTSUPP) => self.mode = self.mode_without_flag(),
                read => {
                    let count = read?;
                    buffer.advance(count);
                    return Ok(count);
                }
            }
        }
        if self.mode == ReadMode::Blocking {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rustix::io::pread(&self.handle, spare, offset)?;
        buffer.advance(count);
        Ok(count)
    }

    /// Reads up to `bytes` into the spare capacity of `buffer` on a blocking thread.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if too many disk tasks are queued.
    pub fn read(self, mut buffer: Buffer, bytes: usize, offset: u64) -> io::Result<Reading> {
        DiskTask::start(move || {
            let read = rustix::io::pread(&self.handle, spare(&mut buffer, bytes), offset);
            if let Ok(count) = read {
                buffer.advance(count);
            }
            (self, buffer, read.map_err(io::Error::from))
        })
    }

    /// The way to read from a file system without `RWF_NOWAIT`: network and stacked file systems,
    /// and tmpfs of older kernels.
    fn mode_without_flag(&self) -> ReadMode {
        let system = rustix::fs::fstatfs(&self.handle).map(|system| system.f_type);
        if system.is_ok_and(|system| system == libc::TMPFS_MAGIC) {
            ReadMode::InMemory
        } else {
            ReadMode::Blocking
        }
    }
}

fn spare(buffer: &mut Buffer, bytes: usize) -> &mut [u8] {
    let spare = buffer.spare_mut();
    let bytes = bytes.min(spare.len());
    &mut spare[..bytes]
}

/// `NOCTTY`: a terminal does not become the controlling one; `NONBLOCK`: opening a FIFO does
/// not wait for a writer.
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

/// True of a path that links led to, relative to the folder, if it is served.
type Judge<'a> = dyn Fn(&[u8]) -> bool + 'a;

fn open_blocking(
    root: BorrowedFd<'_>,
    path: &CStr,
    is_served: &Judge<'_>,
) -> Result<Opened, Errno> {
    for _ in 0..FOLDER_TRIES_MAX {
        match open_below(root, path, ResolveFlags::empty(), is_served) {
            // A concurrent rename while `..` of a link was resolved: the kernel asks for a retry.
            Err(Errno::AGAIN) => {}
            // Linux before 5.6, or a sandbox that refuses `openat2`.
            Err(Errno::NOSYS | Errno::PERM) => return opened_as(open_by_steps(root, path)?),
            opened => return opened,
        }
    }
    // So many concurrent renames may be an attack on the path's resolution.
    Ok(Opened::Nothing)
}

/// `BENEATH` rather than `IN_ROOT`: an absolute link to `/etc/motd` names that file, which is
/// outside, and not `etc/motd` below the folder.
fn open_below(
    root: BorrowedFd<'_>,
    path: &CStr,
    further: ResolveFlags,
    is_served: &Judge<'_>,
) -> Result<Opened, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | further;
    let open = |resolve| rustix::fs::openat2(root, path, FLAGS, Mode::empty(), resolve);
    match open(resolve | ResolveFlags::NO_SYMLINKS) {
        Err(Errno::LOOP) => {}
        opened => return opened_as(opened?),
    }
    let opened = open(resolve)?;
    match path_below(root, opened.as_fd()) {
        Some(path) if is_served(&path) => opened_as(opened),
        _ => Ok(Opened::Nothing),
    }
}

/// The path of what is open, relative to the folder that is. `None`: it is not known, or not below it any more.
fn path_below(root: BorrowedFd<'_>, opened: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let path_of = |handle: BorrowedFd<'_>| {
        let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
        let path = rustix::fs::readlink(link, Vec::new());
        path.map(CString::into_bytes).ok()
    };
    let (root, path) = (path_of(root)?, path_of(opened)?);
    let below = path.strip_prefix(root.as_slice())?;
    match below {
        // The folder itself, or a folder that is the root of all.
        [] => Some(Vec::new()),
        below if root.ends_with(b"/") => Some(below.to_vec()),
        below => below.strip_prefix(b"/").map(<[u8]>::to_vec),
    }
}

/// Opens one component after the other and follows no links.
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

/// Classifies what was opened: devices, FIFOs and sockets are not served.
fn opened_as(handle: OwnedFd) -> Result<Opened, Errno> {
    let status = rustix::fs::fstat(&handle)?;
    Ok(match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Opened::File(File {
            handle,
            status: FileStatus::of(&status),
            mode: ReadMode::NoWait,
        }),
        FileType::Directory => Opened::Folder(FolderHandle(handle)),
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
