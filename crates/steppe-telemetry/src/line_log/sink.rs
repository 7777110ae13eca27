//! The file that lines end in.
//!
//! Invariant: a line that is not whole in the file is ended before the next one
//! begins, so that one failure spoils one line.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::fs::OFlags;

use super::{Counts, Destination};
use crate::limits::{LINE_PIPE_PAUSE, LINE_TROUBLE_EVERY};

/// What others may do with a log: those of its group read it.
const MODE: u32 = 0o640;

#[derive(Debug)]
pub(super) struct Sink {
    destination: Destination,
    file: File,
    /// The last write ended within a line.
    is_within_line: bool,
    spoken_at: Option<Instant>,
}

impl Sink {
    pub(super) fn open(destination: Destination) -> io::Result<Self> {
        let file = match &destination {
            Destination::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Destination::File(path) => open(path)?,
        };
        Ok(Self {
            destination,
            file,
            is_within_line: false,
            spoken_at: None,
        })
    }

    /// Opens the file again; where that fails the old one stays.
    pub(super) fn reopen(&mut self, counts: &Counts) {
        let Destination::File(path) = &self.destination else {
            return;
        };
        match open(path) {
            Ok(file) => {
                self.file = file;
                self.is_within_line = false;
            }
            Err(error) => {
                counts.write_errors.fetch_add(1, Ordering::Relaxed);
                tracing::error!(path = %path.display(), %error, "cannot open the access log again");
            }
        }
    }

    /// Writes `bytes`, which are `lines` whole lines.
    pub(super) fn write(&mut self, bytes: &[u8], lines: u64, counts: &Counts) {
        let result = self.end_line().and_then(|()| self.write_all(bytes, counts));
        let Err((written, error)) = result else {
            counts.written.fetch_add(lines, Ordering::Relaxed);
            return;
        };
        let whole = &bytes[..written];
        self.is_within_line |= whole.last().is_some_and(|&last| last != b'\n');
        let whole = lines_in(whole);
        counts.written.fetch_add(whole, Ordering::Relaxed);
        let lost = lines.saturating_sub(whole);
        counts.dropped.fetch_add(lost, Ordering::Relaxed);
        counts.write_errors.fetch_add(1, Ordering::Relaxed);
        self.speak(&error, lost);
    }

    fn end_line(&mut self) -> Result<(), (usize, io::Error)> {
        if self.is_within_line {
            self.file.write_all(b"\n").map_err(|error| (0, error))?;
            self.is_within_line = false;
        }
        Ok(())
    }

    /// On an error, how many bytes were written before.
    fn write_all(&mut self, bytes: &[u8], counts: &Counts) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A pipe whose reader is slow. Meanwhile workers fill the buffers they have.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if counts.is_ending.load(Ordering::Relaxed) {
                        return Err((written, error));
                    }
                    std::thread::sleep(LINE_PIPE_PAUSE);
                }
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }

    /// Once in a while: a full disk fails every write.
    fn speak(&mut self, error: &io::Error, lost: u64) {
        let now = Instant::now();
        let is_due = self
            .spoken_at
            .is_none_or(|at| now.saturating_duration_since(at) >= LINE_TROUBLE_EVERY);
        if is_due {
            self.spoken_at = Some(now);
            let destination = match &self.destination {
                Destination::Stdout => Path::new("standard output"),
                Destination::File(path) => path,
            };
            tracing::error!(
                destination = %destination.display(), %error, lost_lines = lost,
                "cannot write the access log"
            );
        }
    }
}

/// A pipe is opened too, without waiting for its reader.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("one bit of the lower ones");
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(MODE)
        .custom_flags(flags)
        .open(path)
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
