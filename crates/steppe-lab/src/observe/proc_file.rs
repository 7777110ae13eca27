//! Files below `/proc`, read into buffers that are used again.
//!
//! A sampler that allocates for every file of every thread would show up in its own measurement.
//! The paths and contents live in buffers of a [`Reader`]; numbers are taken out of bytes by hand.
//! Leaves out the meaning of the files.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, openat, readlinkat_raw, statat};
use rustix::io::Errno;

use crate::limits::{DIRECTORY_CHUNK_BYTES, PROC_FILE_BYTES_MAX};

/// Reads files of processes.
#[derive(Debug, Default)]
pub(super) struct Reader {
    path: String,
    buf: Vec<u8>,
    entries: Vec<u8>,
}

impl Reader {
    /// The whole of `/proc/PID/NAME`.
    pub(super) fn process(&mut self, pid: u32, name: &str) -> io::Result<&[u8]> {
        self.path.clear();
        let _ = write!(self.path, "/proc/{pid}/{name}");
        self.whole()
    }

    /// The whole of `/proc/PID/task/TID/NAME`.
    pub(super) fn thread(&mut self, pid: u32, tid: u32, name: &str) -> io::Result<&[u8]> {
        self.path.clear();
        let _ = write!(self.path, "/proc/{pid}/task/{tid}/{name}");
        self.whole()
    }

    /// The whole of any small file.
    pub(super) fn file(&mut self, path: &str) -> io::Result<&[u8]> {
        self.path.clear();
        self.path.push_str(path);
        self.whole()
    }

    /// The inode that `/proc/PID/NAME` links to: it identifies a namespace.
    pub(super) fn inode(&mut self, pid: u32, name: &str) -> io::Result<u64> {
        self.path.clear();
        let _ = write!(self.path, "/proc/{pid}/{name}");
        Ok(statat(CWD, self.path.as_str(), AtFlags::empty())?.st_ino)
    }

    /// The names in `/proc/PID/NAME` (of `/proc` itself without a pid) that are numbers.
    pub(super) fn numbers(
        &mut self,
        pid: Option<u32>,
        name: &str,
        mut each: impl FnMut(u32),
    ) -> io::Result<()> {
        self.directory(pid, name, |_, entry| {
            if let Some(number) = number(entry.to_bytes()) {
                each(u32::try_from(number).unwrap_or_default());
            }
        })
    }

    /// Counts the open files of a process and collects the inodes of those that are sockets.
    pub(super) fn open_files(&mut self, pid: u32, sockets: &mut Vec<u64>) -> io::Result<u64> {
        let mut count = 0;
        self.directory(Some(pid), "fd", |directory, entry| {
            if number(entry.to_bytes()).is_none() {
                return;
            }
            count += 1;
            let mut link = [MaybeUninit::uninit(); SOCKET_LINK_BYTES];
            if let Ok((target, _)) = readlinkat_raw(directory, entry, &mut link) {
                sockets.extend(socket_inode(target));
            }
        })?;
        Ok(count)
    }

    fn directory(
        &mut self,
        pid: Option<u32>,
        name: &str,
        mut each: impl FnMut(&rustix::fd::OwnedFd, &std::ffi::CStr),
    ) -> io::Result<()> {
        self.path.clear();
        let _ = match pid {
            Some(pid) => write!(self.path, "/proc/{pid}/{name}"),
            None => write!(self.path, "/proc"),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, self.path.as_str(), flags, Mode::empty())?;
        self.entries.clear();
        self.entries.reserve(DIRECTORY_CHUNK_BYTES);
        let mut entries = RawDir::new(&directory, self.entries.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            each(&directory, entry?.file_name());
        }
        Ok(())
    }

    fn whole(&mut self) -> io::Result<&[u8]> {
        let mut file = File::open(&self.path)?;
        if self.buf.is_empty() {
            self.buf.resize(FIRST_BYTES, 0);
        }
        let mut len = 0;
        loop {
            if len == self.buf.len() {
                if len >= PROC_FILE_BYTES_MAX {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                self.buf.resize(len * 2, 0);
            }
            match file.read(&mut self.buf[len..]) {
                Ok(0) => return Ok(&self.buf[..len]),
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// True if an error means that the process has ended, rather than that it may not be looked at.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let has_no_such_process = Errno::from_io_error(error) == Some(Errno::SRCH);
    has_no_such_process || error.kind() == io::ErrorKind::NotFound
}

/// Parses a decimal number; `None` if the text has anything else.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The words between spaces, tabs and line ends.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The number after `name` in lines like `VmHWM:   1784 kB` or `sock 4096`.
pub(super) fn field(text: &[u8], name: &str) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let rest = line.strip_prefix(name.as_bytes())?;
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        let is_whole_name = rest.first().is_some_and(u8::is_ascii_whitespace);
        is_whole_name.then(|| words(rest).next().and_then(number))?
    })
}

/// The inode in a link such as `socket:[12345]`.
pub(super) fn socket_inode(link: &[u8]) -> Option<u64> {
    number(link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

/// First size of the buffer; most files that are read are smaller.
const FIRST_BYTES: usize = 4 << 10;
/// Bytes of `socket:[` and the digits of a `u64`; other links may be cut.
const SOCKET_LINK_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_nothing() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "1a", " 1", "18446744073709551616"] {
            assert_eq!(number(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = b"Pss_Dirty:  9 kB\nPss:   261 kB\nsock 4096\nsocks 1\n";
        assert_eq!(field(text, "Pss"), Some(261));
        assert_eq!(field(text, "sock"), Some(4096));
        assert_eq!(field(text, "Rss"), None);
    }

    #[test]
    fn only_sockets_have_an_inode() {
        assert_eq!(socket_inode(b"socket:[5263489]"), Some(5_263_489));
        assert_eq!(socket_inode(b"pipe:[5263489]"), None);
    }

    #[test]
    fn a_file_longer_than_the_buffer_comes_whole() {
        let mut reader = Reader::default();
        reader.buf.resize(8, 0);
        let expected = std::fs::read("/proc/self/cmdline").unwrap();
        let pid = std::process::id();
        assert_eq!(reader.process(pid, "cmdline").unwrap(), expected);
        assert!(reader.buf.len() > 8);
    }

    #[test]
    fn open_files_and_sockets_of_this_process() {
        let mut reader = Reader::default();
        let _socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sockets = Vec::new();
        let count = reader.open_files(std::process::id(), &mut sockets).unwrap();
        assert!(count >= 3);
        assert!(!sockets.is_empty());
    }
}
