//! Lines of a file, one after the other, through a buffer of fixed size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::limits::LIST_LINE_BYTES_MAX;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Calls `each` with the number, from 1, and the text of each line of `file`, until `each` fails. Of a line
/// of more than [`LIST_LINE_BYTES_MAX`] bytes, one byte more than these is passed, so that parsers can refuse
/// it by its length.
///
/// # Errors
/// The file can't be read; and errors of `each`.
pub(crate) fn for_each_line<E: From<io::Error>>(
    mut file: impl Read,
    mut each: impl FnMut(u32, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; READ_BYTES].into_boxed_slice();
    let mut line = Vec::with_capacity(LIST_LINE_BYTES_MAX + 1);
    let mut number: u32 = 1;
    loop {
        let len = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let mut rest = &buffer[..len];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            match line.is_empty() {
                true => each(number, &rest[..end.min(LIST_LINE_BYTES_MAX + 1)])?,
                false => {
                    append(&mut line, &rest[..end]);
                    each(number, &line)?;
                    line.clear();
                }
            }
            rest = &rest[end + 1..];
            number = number.saturating_add(1);
        }
        append(&mut line, rest);
    }
    match line.is_empty() {
        true => Ok(()),
        false => each(number, &line),
    }
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Checked before it is opened: opening a pipe waits for a writer.
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
    }
}

fn append(line: &mut Vec<u8>, bytes: &[u8]) {
    let room = LIST_LINE_BYTES_MAX + 1 - line.len();
    line.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(out.len());
            self.0.read(&mut out[..len])
        }
    }

    #[test]
    fn lines_are_whole_however_they_are_read() {
        let long = "x".repeat(LIST_LINE_BYTES_MAX + 100);
        let text = format!("a\n\nbc\r\n{long}\nlast");
        for step in [1, 2, 3, 1000, 1 << 20] {
            let mut lines = Vec::new();
            let read = for_each_line(Slow(text.as_bytes(), step), |number, line| {
                lines.push((number, line.to_vec()));
                io::Result::Ok(())
            });
            read.expect("memory");
            let lengths: Vec<_> = lines
                .iter()
                .map(|(number, line)| (*number, line.len()))
                .collect();
            let cut = LIST_LINE_BYTES_MAX + 1;
            assert_eq!(
                lengths,
                [(1, 1), (2, 0), (3, 3), (4, cut), (5, 4)],
                "{step}"
            );
            assert_eq!(lines[4].1, b"last");
        }
    }

    #[test]
    fn an_error_ends_it() {
        let mut seen = 0;
        let read = for_each_line(&b"a\nb\nc"[..], |_, _| {
            seen += 1;
            match seen {
                2 => Err(io::Error::from(io::ErrorKind::Other)),
                _ => Ok(()),
            }
        });
        assert_eq!((read.is_err(), seen), (true, 2));
    }
}
