//! Text to files, without allocating.

use core::fmt::{self, Write};

use crate::sys;

/// A longer path is not a path of Linux.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// Text to a file, as it comes.
pub(crate) struct File(pub i32);

impl Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match text.is_empty() || sys::write(self.0, text.as_bytes()) {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

/// Creates a file. `None`: it can't be, or its path is too long.
pub(crate) fn create(path: &[u8]) -> Option<i32> {
    let mut terminated = [0; PATH_BYTES_MAX];
    let len = path.len();
    if len + 1 >= PATH_BYTES_MAX {
        return None;
    }
    for (to, from) in terminated.iter_mut().zip(path) {
        *to = *from;
    }
    sys::create(&terminated[..=len])
}
