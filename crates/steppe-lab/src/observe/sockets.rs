//! TCP sockets of a target by state, from `/proc/PID/net/tcp` and `tcp6`.
//!
//! A row belongs to the target when one of its processes has the socket open. Rows that nobody has
//! open (TIME_WAIT, what is still being closed, what is not accepted yet) belong to it when their
//! local port is one that it listens on, or their remote address one that it is or was connected
//! to. Reads each network namespace of the tree once.
//!
//! Leaves out UDP and Unix sockets, which have no state to get stuck in.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use super::proc_file::number;
use crate::limits::{PEERS_MAX, SOCKET_CHUNK_BYTES};

/// How many TCP sockets are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sockets {
    counts: [u64; TcpState::ALL.len()],
}

/// A state of RFC 9293 §3.3.2, in the order of the kernel's numbers from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "RFC 9293 explains them")]
pub enum TcpState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
}

impl TcpState {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynReceived,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Closed,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// As RFC 9293 writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
        }
    }

    /// From the kernel's number; 12 is a request that is not a socket yet.
    fn from_kernel(number: u64) -> Option<Self> {
        match number {
            12 => Some(Self::SynReceived),
            _ => Self::ALL
                .get(usize::try_from(number).ok()?.checked_sub(1)?)
                .copied(),
        }
    }
}

impl Sockets {
    /// How many are in a state.
    pub fn count(&self, state: TcpState) -> u64 {
        self.counts[state as usize]
    }

    /// How many are in a state that has no column of its own.
    pub fn other(&self) -> u64 {
        let named = [
            TcpState::Established,
            TcpState::CloseWait,
            TcpState::TimeWait,
            TcpState::Listen,
        ];
        let named: u64 = named.into_iter().map(|state| self.count(state)).sum();
        self.counts.iter().sum::<u64>() - named
    }
}

/// Counts, and remembers whom the target talks to.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// Remote ends of connections that the target opened.
    peers: BTreeSet<Endpoint>,
    listening: BTreeSet<u16>,
    buf: Vec<u8>,
}

/// Address (in the kernel's hexadecimal, which is not read further) and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Endpoint {
    address: u128,
    port: u16,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    local: Endpoint,
    remote: Endpoint,
    state: TcpState,
    /// 0 where nobody has it open.
    inode: u64,
}

impl Counter {
    /// Counts the sockets in the network namespace of each of `processes`. `inodes` are those that
    /// the target has open, sorted.
    pub(super) fn count(&mut self, processes: &[u32], inodes: &[u64]) -> io::Result<Sockets> {
        let mut sockets = Sockets::default();
        self.listening.clear();
        for pid in processes {
            for table in ["tcp", "tcp6"] {
                match File::open(format!("/proc/{pid}/net/{table}")) {
                    Ok(file) => self.count_rows(file, inodes, &mut sockets)?,
                    // A kernel without IPv6 has no such sockets.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(sockets)
    }

    fn count_rows(
        &mut self,
        mut file: impl io::Read,
        inodes: &[u64],
        sockets: &mut Sockets,
    ) -> io::Result<()> {
        let mut buf = std::mem::take(&mut self.buf);
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
                self.count_row(line, inodes, sockets);
            }
            buf.copy_within(complete..len, 0);
            len -= complete;
            if read == 0 {
                self.buf = buf;
                return Ok(());
            }
        }
    }

    fn count_row(&mut self, line: &[u8], inodes: &[u64], sockets: &mut Sockets) {
        let Some(row) = Row::parse(line) else {
            return;
        };
        let is_open_in_target = row.inode != 0 && inodes.binary_search(&row.inode).is_ok();
        if is_open_in_target {
            if row.state == TcpState::Listen {
                self.listening.insert(row.local.port);
            } else if !self.listening.contains(&row.local.port) && self.peers.len() < PEERS_MAX {
                self.peers.insert(row.remote);
            }
        }
        let has_no_owner = row.inode == 0
            && (self.listening.contains(&row.local.port) || self.peers.contains(&row.remote));
        if is_open_in_target || has_no_owner {
            sockets.counts[row.state as usize] += 1;
        }
    }
}

impl Row {
    /// `None` for the heading, and what is no row.
    fn parse(line: &[u8]) -> Option<Self> {
        // Bytes before the inode are in fixed columns, and by far most rows are not the target's;
        // splitting at spaces would still take longer than reading them.
        let mut words = super::proc_file::words(line).skip(1);
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

    fn row(local: &str, remote: &str, state: &str, inode: u64) -> String {
        format!(
            "   0: {local} {remote} {state} 00000000:00000000 03:00000013 00000000     0        0 \
             {inode} 1 00000000a238b284 100 0 0 10 0\n"
        )
    }

    fn count(counter: &mut Counter, text: &str, inodes: &[u64]) -> Sockets {
        let mut sockets = Sockets::default();
        counter.listening.clear();
        counter
            .count_rows(text.as_bytes(), inodes, &mut sockets)
            .unwrap();
        sockets
    }

    #[test]
    fn a_row_belongs_to_who_has_it_open() {
        let text = [
            HEADING.to_owned(),
            row("0100007F:1F90", "00000000:0000", "0A", 11),
            row("0100007F:1F90", "0100007F:9CD4", "01", 12),
            row("0100007F:1F90", "0100007F:9CD5", "08", 13),
            row("0100007F:9CD4", "0100007F:1F90", "01", 99),
        ]
        .concat();
        let sockets = count(&mut Counter::default(), &text, &[11, 12, 13]);
        assert_eq!(sockets.count(TcpState::Listen), 1);
        assert_eq!(sockets.count(TcpState::Established), 1);
        assert_eq!(sockets.count(TcpState::CloseWait), 1);
        assert_eq!(sockets.other(), 0);
    }

    #[test]
    fn a_row_without_an_owner_belongs_to_the_port_or_the_peer() {
        let listening = row("00000000:1F90", "00000000:0000", "0A", 11);
        let upstream = row("0100007F:8000", "0200007F:0050", "01", 12);
        let downstream = row("0100007F:1F90", "0100007F:9CD4", "06", 0);
        let to_upstream = row("0100007F:8001", "0200007F:0050", "06", 0);
        let of_the_load = row("0100007F:9CD5", "0100007F:1F90", "06", 0);
        let mut counter = Counter::default();
        let text = [&*listening, &upstream, &downstream, &of_the_load].concat();
        let sockets = count(&mut counter, &text, &[11, 12]);
        assert_eq!(sockets.count(TcpState::TimeWait), 1);
        // The connection is closed meanwhile: its peer is remembered.
        let text = [&*listening, &to_upstream, &downstream, &of_the_load].concat();
        let sockets = count(&mut counter, &text, &[11]);
        assert_eq!(sockets.count(TcpState::TimeWait), 2);
    }

    #[test]
    fn rows_may_be_cut_anywhere() {
        let mut text = HEADING.to_owned();
        let address = "00000000000000000000000001000000";
        for _ in 0..1_000 {
            text += &row(
                &format!("{address}:1F90"),
                &format!("{address}:9CD4"),
                "04",
                5,
            );
        }
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
        let mut sockets = Sockets::default();
        Counter::default()
            .count_rows(Dribble(text.as_bytes()), &[5], &mut sockets)
            .unwrap();
        assert_eq!(sockets.count(TcpState::FinWait1), 1_000);
        assert_eq!(sockets.other(), 1_000);
    }

    #[test]
    fn nonsense_is_no_row() {
        for line in ["", HEADING, "0: 1:2 3:4 FF", "0: G:1 2:3 01 a b c d e 7"] {
            assert_eq!(Row::parse(line.as_bytes()), None, "{line:?}");
        }
    }
}
