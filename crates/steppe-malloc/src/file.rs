//! Files that the environment names: their paths, the processes that write them, and text in whole lines.
//!
//! Invariant: nothing is opened until there is something to write, so the program's own descriptors keep
//! their numbers. Without `%p` in its path a file has one writer, the process that read the setting: a
//! child of a fork would write what its parent writes too.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::sys::file::{PATH_BYTES_MAX, current_folder, is_writable};

/// Stands for the process's number in a path.
const NUMBER: &[u8] = b"%p";

/// A path in the making; a nul follows it.
pub(crate) struct Path {
    bytes: [u8; PATH_BYTES_MAX],
    len: usize,
}

impl Path {
    /// A pattern with the process's number for each `%p`. `None`: too long, or it has a nul.
    pub fn of(pattern: &[u8], process: u32) -> Option<Self> {
        let mut path = Self {
            bytes: [0; PATH_BYTES_MAX],
            len: 0,
        };
        let mut rest = pattern;
        while let Some((&first, after)) = rest.split_first() {
            rest = match rest.strip_prefix(NUMBER) {
                Some(after) => {
                    write!(path, "{process}").ok()?;
                    after
                }
                None => {
                    path.push(&[first]).ok()?;
                    after
                }
            };
        }
        (path.as_c_str().count_bytes() == path.len).then_some(path)
    }

    /// The path for the system.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    fn push(&mut self, part: &[u8]) -> fmt::Result {
        let end = self.len + part.len();
        // A nul follows the path.
        if end >= self.bytes.len() {
            return Err(fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(part);
        self.len = end;
        Ok(())
    }
}

impl Write for Path {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.push(part.as_bytes())
    }
}

/// A file of a setting: its path, kept since the environment is the program's to change, and the
/// process that read it.
pub(crate) struct Output {
    pattern: UnsafeCell<[u8; PATH_BYTES_MAX]>,
    /// 0: none.
    len: AtomicUsize,
    process: AtomicU32,
}

// SAFETY: the pattern is written once, by `keep`, before `len` says that it is there.
unsafe impl Sync for Output {}

impl Output {
    pub const fn none() -> Self {
        Self {
            pattern: UnsafeCell::new([0; PATH_BYTES_MAX]),
            len: AtomicUsize::new(0),
            process: AtomicU32::new(0),
        }
    }

    /// Keeps a path, absolute, since programs change their folder. False: it is too long, or the
    /// process `process` could not write to it.
    ///
    /// To be called once.
    pub fn keep(&self, pattern: &[u8], process: u32) -> bool {
        debug_assert_eq!(self.len.load(Ordering::Relaxed), 0, "it is kept once");
        // SAFETY: no other thread reads or writes it before `len` is set.
        let room = unsafe { &mut *self.pattern.get() };
        let folder = match pattern {
            [] => return false,
            [b'/', ..] => 0,
            _ => current_folder(room).map_or(0, CStr::count_bytes),
        };
        let separator: &[u8] = if folder == 0 { b"" } else { b"/" };
        let len = folder + separator.len() + pattern.len();
        let Some(rest) = room.get_mut(folder..len) else {
            return false;
        };
        let (slash, name) = rest.split_at_mut(separator.len());
        slash.copy_from_slice(separator);
        name.copy_from_slice(pattern);
        let path = Path::of(&room[..len], process);
        if !path.is_some_and(|path| is_writable(path.as_c_str())) {
            return false;
        }
        self.process.store(process, Ordering::Relaxed);
        self.len.store(len, Ordering::Release);
        true
    }

    /// The path for a process. `None`: there is none, or its file is another process's.
    pub fn path(&self, process: u32) -> Option<Path> {
        let len = self.len.load(Ordering::Acquire);
        // SAFETY: not written any more once `len` is set; before, nothing of it is read.
        let pattern = unsafe { core::slice::from_raw_parts(self.pattern.get().cast::<u8>(), len) };
        let tells_apart = pattern.windows(NUMBER.len()).any(|part| part == NUMBER);
        let is_ours = tells_apart || process == self.process.load(Ordering::Relaxed);
        (len > 0 && is_ours).then(|| Path::of(pattern, process))?
    }
}

/// Text buffered on its way to a sink, so that short pieces are not a system call each.
pub(crate) struct Gathered<'text> {
    sink: &'text mut dyn Write,
    bytes: &'text mut [u8],
    len: usize,
}

impl<'text> Gathered<'text> {
    pub fn new(sink: &'text mut dyn Write, bytes: &'text mut [u8]) -> Self {
        Self {
            sink,
            bytes,
            len: 0,
        }
    }

    /// Writes the buffered text to the sink.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn flush(&mut self) -> fmt::Result {
        let text = core::str::from_utf8(&self.bytes[..self.len]).map_err(|_| fmt::Error)?;
        self.len = 0;
        self.sink.write_str(text)
    }
}

impl Write for Gathered<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.bytes.len() - self.len {
            self.flush()?;
        }
        if text.len() > self.bytes.len() {
            return self.sink.write_str(text);
        }
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &[u8]) -> Option<Vec<u8>> {
        Some(Path::of(pattern, 47)?.as_c_str().to_bytes().to_vec())
    }

    #[test]
    fn paths_take_the_number_of_the_process() {
        assert_eq!(expanded(b"/a.%p/%p").as_deref(), Some(&b"/a.47/47"[..]));
        assert_eq!(expanded(b"/100%").as_deref(), Some(&b"/100%"[..]));
        assert_eq!(expanded(b"/%%p").as_deref(), Some(&b"/%47"[..]));
        assert_eq!(expanded(&[b'a'; PATH_BYTES_MAX]), None);
        assert!(expanded(&[b'a'; PATH_BYTES_MAX - 1]).is_some());
    }

    #[test]
    #[cfg(not(miri))]
    fn a_file_without_the_number_is_of_one_process() {
        let (one, each) = (Output::none(), Output::none());
        assert!(one.path(1).is_none());
        assert!(one.keep(b"/tmp/one", 1));
        assert!(one.path(1).is_some());
        assert!(one.path(2).is_none());
        assert!(each.keep(b"each.%p", 1));
        let path = each.path(2).expect("%p tells it apart");
        let path = path.as_c_str().to_bytes();
        assert!(
            path.starts_with(b"/") && path.ends_with(b"/each.2"),
            "{path:?}"
        );
        let refused = [&b""[..], b"/", b"/no/such/folder/x", b"/tmp"];
        assert!(refused.iter().all(|path| !Output::none().keep(path, 1)));
    }
}
