//! Files of the system: statistics, heap profiles, messages on standard error.
//!
//! Invariant: calls go by number, since the C library's own are places where a thread may be cancelled,
//! and `free` is none; none allocates, and none changes `errno`. A descriptor that stays open is used
//! again only while it is still open for the same file ([`Witness`]).

use core::ffi::{CStr, c_int, c_long};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::errno::{errno, keeping_errno};

/// Bytes of the longest path that Linux takes (`PATH_MAX`), its nul included.
pub const PATH_BYTES_MAX: usize = 4096;
/// Permissions of a new file, less the process's mask.
const MODE: c_int = 0o644;
/// The lowest number of a descriptor that stays open: those below are the standard streams.
const DESCRIPTOR_MIN: c_int = 3;

/// An open file, closed when dropped.
pub struct File(c_int);

impl File {
    /// Opens a file for writing, emptied. `None`: it can't be.
    pub fn create(path: &CStr) -> Option<Self> {
        open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC).ok()
    }

    /// Makes a file that does not exist yet.
    ///
    /// # Errors
    /// The error number: `EEXIST` where it does.
    pub fn create_new(path: &CStr) -> Result<Self, c_int> {
        open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)
    }

    /// Opens a file to append to it. `None`: it can't be opened.
    pub fn append(path: &CStr) -> Option<Self> {
        open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND).ok()
    }
}

impl Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(self.0, text.as_bytes())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Opens a file without becoming its controlling terminal, and not for programs that are executed.
fn open(path: &CStr, flags: c_int) -> Result<File, c_int> {
    let (path, flags) = (path.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NOCTTY);
    keeping_errno(|| {
        // SAFETY: the path ends with a nul.
        let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, MODE) };
        match c_int::try_from(file) {
            Ok(file @ 0..) => Ok(File(file)),
            _ => Err(errno()),
        }
    })
}

/// True if a file can be written to, or could be created; it is not created. The answer may be
/// outdated at the write.
pub fn is_writable(path: &CStr) -> bool {
    // Without waiting for a pipe's reader.
    match open(path, libc::O_WRONLY | libc::O_NONBLOCK) {
        Ok(_) | Err(libc::ENXIO) => true,
        Err(number) => number == libc::ENOENT && can_be_made(path),
    }
}

/// True if the folder of a path that does not exist takes new files.
fn can_be_made(path: &CStr) -> bool {
    let bytes = path.to_bytes();
    let mut folder = [0; PATH_BYTES_MAX];
    let len = bytes.iter().rposition(|&byte| byte == b'/');
    let named = match len {
        // "/file" is in "/".
        Some(len) => &bytes[..len.max(1)],
        None => b".",
    };
    let is_name = len.is_none_or(|len| len + 1 < bytes.len());
    let Some(room) = folder.get_mut(..named.len()) else {
        return false;
    };
    room.copy_from_slice(named);
    let mode = libc::W_OK | libc::X_OK;
    let (at, folder) = (libc::AT_FDCWD, folder.as_ptr());
    // SAFETY: zeros follow the folder's name, one at least since a path is longer than its folder.
    is_name
        && keeping_errno(|| unsafe { libc::syscall(libc::SYS_faccessat, at, folder, mode) }) == 0
}

/// Writes the calling process's folder to `room`, with a nul. `None`: it has no name, or a longer one.
pub fn current_folder(room: &mut [u8]) -> Option<&CStr> {
    let (to, len) = (room.as_mut_ptr(), room.len());
    // SAFETY: `room` has as many bytes.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_getcwd, to, len) });
    // A folder that the process can't reach is "(unreachable)/…".
    let folder = CStr::from_bytes_until_nul(room).ok()?;
    folder.to_bytes().starts_with(b"/").then_some(folder)
}

/// Reads a file of text part by part. It ends at a part that is no text or can't be read.
///
/// # Errors
/// Those of `take`.
pub fn read_text(path: &CStr, mut take: impl FnMut(&str) -> fmt::Result) -> fmt::Result {
    let Ok(file) = open(path, libc::O_RDONLY) else {
        return Ok(());
    };
    let mut part = [0_u8; 4096];
    loop {
        let (to, len) = (part.as_mut_ptr(), part.len());
        // SAFETY: the bytes are there and outlive the call.
        let count = keeping_errno(|| unsafe { libc::syscall(libc::SYS_read, file.0, to, len) });
        let count = usize::try_from(count).unwrap_or(0);
        match core::str::from_utf8(&part[..count]) {
            Ok("") | Err(_) => return Ok(()),
            Ok(text) => take(text)?,
        }
    }
}

/// The start of a file, as much as `room` takes. `None`: it can't be opened.
pub fn read_start<'room>(path: &CStr, room: &'room mut [u8]) -> Option<&'room [u8]> {
    // Miri has no files of the kernel's.
    if cfg!(miri) {
        return None;
    }
    let file = open(path, libc::O_RDONLY).ok()?;
    let mut read = 0;
    while let Some(rest) = room.get_mut(read..).filter(|rest| !rest.is_empty()) {
        let (to, len) = (rest.as_mut_ptr(), rest.len());
        // SAFETY: the bytes are there and outlive the call.
        let count = keeping_errno(|| unsafe { libc::syscall(libc::SYS_read, file.0, to, len) });
        match usize::try_from(count) {
            Ok(count @ 1..) => read += count,
            _ => break,
        }
    }
    room.get(..read)
}

/// Writes to standard error, as much as the system takes.
pub fn write_error(text: &[u8]) {
    let _ = write(libc::STDERR_FILENO, text);
}

/// Writes all of it.
///
/// # Errors
/// The system takes no more.
pub fn write(file: c_int, mut text: &[u8]) -> fmt::Result {
    while !text.is_empty() {
        let (from, len) = (text.as_ptr(), text.len());
        // SAFETY: the bytes outlive the call.
        let count = keeping_errno(|| unsafe { libc::syscall(libc::SYS_write, file, from, len) });
        match usize::try_from(count) {
            Ok(bytes @ 1..) => text = text.get(bytes..).unwrap_or_default(),
            _ => return Err(fmt::Error),
        }
    }
    Ok(())
}

/// The standard error of the start, in a copy, since programs close theirs before they end.
///
/// A program may as well close a copy that it knows nothing of, and open a file of its own, which gets
/// the same number.
pub struct Witness {
    copy: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

/// An open file that this library must not close.
pub struct Borrowed(c_int);

impl Witness {
    /// A witness without standard error.
    pub const fn none() -> Self {
        Self {
            copy: AtomicI32::new(-1),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    /// Makes the copy. False: there is no standard error.
    pub fn keep(&self) -> bool {
        let copy = duplicate(libc::STDERR_FILENO).unwrap_or(-1);
        let Some((device, inode)) = identity(copy) else {
            return false;
        };
        self.device.store(device, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        self.copy.store(copy, Ordering::Release);
        true
    }

    /// The copy, or standard error itself, while it is the file of the start. `None`: both are closed,
    /// or other files.
    pub fn file(&self) -> Option<Borrowed> {
        let copy = self.copy.load(Ordering::Acquire);
        let device = self.device.load(Ordering::Relaxed);
        let known = (copy >= 0).then(|| (device, self.inode.load(Ordering::Relaxed)))?;
        let mut descriptors = [copy, libc::STDERR_FILENO].into_iter();
        let is_known = |file: &c_int| identity(*file) == Some(known);
        descriptors.find(is_known).map(Borrowed)
    }
}

impl Write for Borrowed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(self.0, text.as_bytes())
    }
}

/// A further descriptor of an open file, not for programs that are executed. `None`: there is none.
pub fn duplicate(file: c_int) -> Option<c_int> {
    let command = libc::F_DUPFD_CLOEXEC;
    // SAFETY: numbers only.
    let copy =
        keeping_errno(|| unsafe { libc::syscall(libc::SYS_fcntl, file, command, DESCRIPTOR_MIN) });
    c_int::try_from(copy).ok().filter(|&copy| copy >= 0)
}

/// Closes a descriptor that [`duplicate`] made.
pub fn close(file: c_int) {
    // SAFETY: a number.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_close, file) });
}

/// The device and the number of an open file, which no other file has while it is open (stat(3type)).
pub fn identity(file: c_int) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // By number also since the C library's `fstat` is younger than glibc 2.28.
    // SAFETY: the kernel's structure is the C library's on these machines, all of 64 bits.
    let refused: c_long =
        keeping_errno(|| unsafe { libc::syscall(libc::SYS_fstat, file, status.as_mut_ptr()) });
    // SAFETY: written by the call above.
    let status = (refused == 0).then(|| unsafe { status.assume_init() })?;
    Some((status.st_dev, status.st_ino))
}
