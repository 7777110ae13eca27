//! Messages on standard error: misuse, and invalid settings.
//!
//! Invariant: one write a message, no allocation, and no more than [`REPORTS_MAX`] of them: a program
//! that goes on with its mistake fills no disk.

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::size_class::BLOCK_BYTES;
use crate::sys;

const REPORTS_MAX: usize = 16;
const LINE_BYTES: usize = 256;

static REPORTS: AtomicUsize = AtomicUsize::new(0);

/// A line in the making, cut at its end.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    pub const fn new() -> Self {
        Self {
            bytes: [0; LINE_BYTES],
            len: 0,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(LINE_BYTES)]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (to, from) in self.bytes.iter_mut().skip(self.len).zip(text.as_bytes()) {
            *to = *from;
        }
        self.len = (self.len + text.len()).min(LINE_BYTES);
        Ok(())
    }
}

/// Reports a misuse and its pointer. The hardened build ends the process; otherwise the call is as
/// if it had not been made.
#[cold]
pub(crate) fn misuse(what: &str, pointer: *const u8, class: usize) {
    let mut line = Line::new();
    let _ = write!(line, "steppe-malloc: {what}: pointer {pointer:p}");
    let _ = match BLOCK_BYTES.get(class) {
        Some(&bytes) if bytes > 0 => writeln!(line, ", class {class} ({bytes} bytes)"),
        _ => writeln!(line, ", class none (not a small block)"),
    };
    say(&line);
    if cfg!(feature = "hardened") {
        sys::abort();
    }
}

/// Reports a setting that is not understood, and is ignored.
pub(crate) fn setting(name: &CStr, value: &[u8], known: &str) {
    let mut line = Line::new();
    let name = name.to_str().unwrap_or("?");
    let _ = write!(line, "steppe-malloc: {name}=");
    escape(&mut line, value);
    let _ = writeln!(line, " is ignored; expected: {known}");
    say(&line);
}

/// Reports a file that could not be written.
pub(crate) fn unwritten(path: &CStr) {
    let mut line = Line::new();
    let _ = line.write_str("steppe-malloc: can't write ");
    escape(&mut line, path.to_bytes());
    let _ = line.write_str("\n");
    say(&line);
}

/// Appends the beginning of bytes that may not be text, escaped.
fn escape(line: &mut Line, bytes: &[u8]) {
    for &byte in bytes.iter().take(64) {
        let _ = write!(line, "{}", core::ascii::escape_default(byte));
    }
}

fn say(line: &Line) {
    if REPORTS.fetch_add(1, Ordering::Relaxed) < REPORTS_MAX {
        sys::file::write_error(line.as_bytes());
    }
}
