//! Stream of JSON lines, split into messages.

use bytes::Buf;

use crate::limits::ANSWER_BYTES_MAX;

/// Splits received bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Number of bytes at the start that contain no line feed.
    searched: usize,
}

/// A line exceeds [`ANSWER_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    pub(crate) fn add(&mut self, mut bytes: impl Buf) -> Result<(), TooLong> {
        while bytes.has_remaining() {
            let chunk = bytes.chunk();
            if self.bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(TooLong);
            }
            self.bytes.extend_from_slice(chunk);
            bytes.advance(chunk.len());
        }
        Ok(())
    }

    /// The next complete line, without its line feed.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes[self.searched..]
            .iter()
            .position(|&byte| byte == b'\n');
        let Some(end) = end else {
            self.searched = self.bytes.len();
            return None;
        };
        let rest = self.bytes.split_off(self.searched + end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_however_they_are_split() {
        let sent = b"{\"a\":1}\n\n{\"b\":\"c\"}\nrest";
        for size in 1..=sent.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for part in sent.chunks(size) {
                lines.add(part).expect("it is short");
                while let Some(line) = lines.next() {
                    found.push(String::from_utf8(line).expect("text"));
                }
            }
            assert_eq!(found, ["{\"a\":1}", "", "{\"b\":\"c\"}"]);
        }
    }

    #[test]
    fn one_that_never_ends_is_refused() {
        let mut lines = Lines::default();
        let part = [b'x'; 1 << 16];
        let took = (0..).take_while(|_| lines.add(&part[..]).is_ok() && lines.next().is_none());
        assert_eq!(took.count(), ANSWER_BYTES_MAX / part.len());
    }
}
