//! `/proc/PID/net/tcp` and `tcp6`: one socket a line, of any network namespace.

use std::io;

use super::super::proc_file::{number, words};
use super::{Endpoint, Row, TcpState};
use crate::limits::SOCKET_CHUNK_BYTES;

/// Hands each row to `each`. `buf` is reused, and holds a chunk at a time.
pub(super) fn read(
    mut file: impl io::Read,
    buf: &mut Vec<u8>,
    mut each: impl FnMut(Row),
) -> io::Result<()> {
    buf.resize(SOCKET_CHUNK_BYTES, 0);
    let mut len = 0;
    loop {
        let read = match file.read(&mut buf[len..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        len += read;
        let complete = buf[..len].iter().rposition(|byte| *byte == b'\n');
        let complete = complete.map_or(0, |end| end + 1);
        for line in buf[..complete].split(|byte| *byte == b'\n') {
            if let Some(row) = Row::parse(line) {
                each(row);
            }
        }
        buf.copy_within(complete..len, 0);
        len -= complete;
        if read == 0 {
            return Ok(());
        }
    }
}

impl Row {
    /// Parses a line; `None` for the heading, and for a line that is no row.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = words(line).skip(1);
        let local = Endpoint::parse(words.next()?)?;
        let remote = Endpoint::parse(words.next()?)?;
        let state = u64::try_from(hexadecimal(words.next()?)?).ok()?;
        // Queues, timer, retransmissions, user, timeout.
        let inode = words.nth(5).and_then(number)?;
        Some(Self {
            local,
            remote,
            state: TcpState::from_kernel(state)?,
            inode,
        })
    }
}

impl Endpoint {
    fn parse(text: &[u8]) -> Option<Self> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        Some(Self {
            address: hexadecimal(&text[..colon])?,
            port: u16::try_from(hexadecimal(&text[colon + 1..])?).ok()?,
        })
    }
}

fn hexadecimal(text: &[u8]) -> Option<u128> {
    let fits = !text.is_empty() && text.len() <= 32;
    fits.then_some(())?;
    text.iter().try_fold(0, |value: u128, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(value << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
        retrnsmt   uid  timeout inode\n";

    fn line(local: &str, remote: &str, state: &str, inode: u64) -> String {
        format!(
            "   0: {local} {remote} {state} 00000000:00000000 03:00000013 00000000     0        0 \
             {inode} 1 00000000a238b284 100 0 0 10 0\n"
        )
    }

    /// A reader that hands out a few bytes at a time.
    struct Dribble<'a>(&'a [u8]);

    impl io::Read for Dribble<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(97).min(buf.len());
            let (head, tail) = self.0.split_at(len);
            buf[..len].copy_from_slice(head);
            self.0 = tail;
            Ok(len)
        }
    }

    #[test]
    fn lines_may_be_cut_anywhere() {
        let mut text = HEADING.to_owned();
        let mapped = "0000000000000000FFFF00000100007F";
        for inode in 0..1_000 {
            let (local, remote) = (format!("{mapped}:1F90"), format!("{mapped}:9CD4"));
            text += &line(&local, &remote, "04", inode);
        }
        let mut rows = Vec::new();
        read(Dribble(text.as_bytes()), &mut Vec::new(), |row| {
            rows.push(row)
        })
        .unwrap();
        assert_eq!(rows.len(), 1_000);
        let last = rows[999];
        assert_eq!(last.state, TcpState::FinWait1);
        assert_eq!((last.local.port, last.remote.port), (8080, 40_148));
        assert_eq!(last.inode, 999);
    }

    #[test]
    fn a_row_that_nobody_has_open() {
        let text = line("0100007F:4D44", "0100007F:9CD4", "06", 0);
        let row = Row::parse(text.trim_end().as_bytes()).unwrap();
        assert_eq!((row.state, row.inode), (TcpState::TimeWait, 0));
    }

    #[test]
    fn nonsense_is_no_row() {
        for line in ["", HEADING, "0: 1:2 3:4 FF", "0: G:1 2:3 01 a b c d e 7"] {
            assert_eq!(Row::parse(line.as_bytes()), None, "{line:?}");
        }
    }
}
