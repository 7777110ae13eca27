//! The file or pipe that a line log writes to.
//!
//! Invariant: after a partial write the line is terminated before the next one is
//! written, so that a failure corrupts one line only.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::fs::OFlags;

use super::counters::LineCounters;
use super::destination::Destination;
use crate::limits::{LINE_PIPE_PAUSE, LINE_REPORT_INTERVAL};

/// Permissions of a new log file: its group may read it.
const MODE: u32 = 0o640;

#[derive(Debug)]
pub(super) struct LineSink {
    /// The log's name in messages.
    name: &'static str,
    destination: Destination,
    file: File,
    /// The last write ended within a line.
    is_within_line: bool,
    reported_at: Option<Instant>,
}

impl LineSink {
    pub(super) fn open(name: &'static str, destination: Destination) -> io::Result<Self> {
        let file = match &destination {
            Destination::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Destination::File(path) => open(path)?,
        };
        Ok(Self {
            name,
            destination,
            file,
            is_within_line: false,
            reported_at: None,
        })
    }

    /// Reopens the file; if that fails, the old one stays in use.
    pub(super) fn reopen(&mut self, counts: &LineCounters) {
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
                let name = self.name;
                tracing::error!(path = %path.display(), %error, "cannot reopen the {name}");
            }
        }
    }

    /// Writes `bytes`, which hold `lines` whole lines.
    pub(super) fn write(&mut self, bytes: &[u8], lines: u64, counts: &LineCounters) {
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
        self.report(&error, lost);
    }

    fn end_line(&mut self) -> Result<(), (usize, io::Error)> {
        if self.is_within_line {
            self.file.write_all(b"\n").map_err(|error| (0, error))?;
            self.is_within_line = false;
        }
        Ok(())
    }

    /// Writes all of `bytes`; an error comes with the number of bytes written before it.
    fn write_all(&mut self, bytes: &[u8], counts: &LineCounters) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A full pipe. Meanwhile workers fill their remaining buffers.
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

    /// Logs the error, rate-limited: on a full disk every write fails.
    fn report(&mut self, error: &io::Error, lost: u64) {
        let now = Instant::now();
        let is_due = self
            .reported_at
            .is_none_or(|at| now.saturating_duration_since(at) >= LINE_REPORT_INTERVAL);
        if is_due {
            self.reported_at = Some(now);
            let destination = match &self.destination {
                Destination::Stdout => Path::new("standard output"),
                Destination::File(path) => path,
            };
            let name = self.name;
            tracing::error!(
                destination = %destination.display(), %error, lost_lines = lost,
                "cannot write the {name}"
            );
        }
    }
}

/// Opens a file or FIFO for appending; `NONBLOCK`, so that it does not wait for a FIFO's reader.
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
