//! TCP sockets of a target by state.
//!
//! A row belongs to the target when one of its processes has the socket open. A row that no process
//! has open (TIME_WAIT, a socket that is being closed, or is not accepted yet) belongs to it when
//! its local port is one that the target listens on, or its remote address one that the target is or
//! was connected to. Each network namespace of the tree is read once: the lab's own by netlink
//! ([`diag`]), another one by `/proc/PID/net/tcp` and `tcp6` ([`table`]), which takes ten times as
//! long where the kernel's hash table is large.
//!
//! Leaves out UDP and Unix sockets, which have no state to get stuck in.

mod diag;
mod table;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use crate::limits::PEERS_MAX;
use diag::Diag;

/// Counts of TCP sockets by state.
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

    /// The name in RFC 9293.
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

    /// The state with the kernel's number; 12 is a request that is not a socket yet.
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
    #[cfg(test)]
    pub(crate) fn of(state: TcpState, count: u64) -> Self {
        let mut sockets = Self::default();
        sockets.counts[state as usize] = count;
        sockets
    }

    /// The number of sockets in a state.
    pub fn count(&self, state: TcpState) -> u64 {
        self.counts[state as usize]
    }

    /// The number of sockets in states that have no column of their own.
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

/// Counts sockets, and remembers the target's peers and listening ports.
#[derive(Debug, Default)]
pub(super) struct Counter {
    ownership: Ownership,
    buf: Vec<u8>,
    diag: Source,
}

/// Peers and listening ports, which tell the target's sockets from others.
#[derive(Debug, Default)]
struct Ownership {
    /// Remote ends of connections that the target opened.
    peers: BTreeSet<Endpoint>,
    listening: BTreeSet<u16>,
}

/// The netlink socket, which reads the lab's own network namespace faster.
#[derive(Debug, Default)]
enum Source {
    #[default]
    Untried,
    Open(Diag),
    /// The kernel was built without `sock_diag`, or refuses it.
    Unusable,
}

/// A network namespace, and a process that is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) inode: u64,
    pub(super) pid: u32,
    pub(super) is_ours: bool,
}

/// Address (as the source writes it, which is not read further) and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Endpoint {
    address: u128,
    port: u16,
}

/// The fields of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    local: Endpoint,
    remote: Endpoint,
    state: TcpState,
    /// 0 where no process has the socket open.
    inode: u64,
}

impl Counter {
    /// Counts the sockets in each of `namespaces`. `inodes` are those of the target's open sockets,
    /// sorted.
    pub(super) fn count(
        &mut self,
        namespaces: &[Namespace],
        inodes: &[u64],
    ) -> io::Result<Sockets> {
        let mut sockets = Sockets::default();
        self.ownership.listening.clear();
        for namespace in namespaces {
            if namespace.is_ours && self.count_by_diag(inodes, &mut sockets) {
                continue;
            }
            self.count_by_table(namespace.pid, inodes, &mut sockets)?;
        }
        Ok(sockets)
    }

    /// Ports that the target listened on when it was last counted, lowest first.
    pub(super) fn listening(&self) -> Vec<u16> {
        self.ownership.listening.iter().copied().collect()
    }

    /// Counts by netlink. False where netlink does not work, and nothing was counted.
    fn count_by_diag(&mut self, inodes: &[u64], sockets: &mut Sockets) -> bool {
        if matches!(self.diag, Source::Untried) {
            self.diag = Diag::open().map_or(Source::Unusable, Source::Open);
        }
        let Source::Open(diag) = &mut self.diag else {
            return false;
        };
        let mut found = Sockets::default();
        let ownership = &mut self.ownership;
        let dumped = diag.dump(&mut self.buf, |row| {
            ownership.count(row, inodes, &mut found)
        });
        if dumped.is_err() {
            self.diag = Source::Unusable;
            return false;
        }
        for (total, found) in sockets.counts.iter_mut().zip(found.counts) {
            *total += found;
        }
        true
    }

    fn count_by_table(
        &mut self,
        pid: u32,
        inodes: &[u64],
        sockets: &mut Sockets,
    ) -> io::Result<()> {
        for table in ["tcp", "tcp6"] {
            match File::open(format!("/proc/{pid}/net/{table}")) {
                Ok(file) => {
                    let ownership = &mut self.ownership;
                    let each = |row| ownership.count(row, inodes, sockets);
                    table::read(file, &mut self.buf, each)?;
                }
                // A kernel without IPv6 has no such sockets.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Ownership {
    fn count(&mut self, row: Row, inodes: &[u64], sockets: &mut Sockets) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16) -> Endpoint {
        Endpoint { address: 1, port }
    }

    fn row(local: u16, remote: u16, state: TcpState, inode: u64) -> Row {
        Row {
            local: endpoint(local),
            remote: endpoint(remote),
            state,
            inode,
        }
    }

    fn count(ownership: &mut Ownership, rows: &[Row], inodes: &[u64]) -> Sockets {
        let mut sockets = Sockets::default();
        for row in rows {
            ownership.count(*row, inodes, &mut sockets);
        }
        sockets
    }

    #[test]
    fn a_row_belongs_to_who_has_it_open() {
        let rows = [
            row(80, 0, TcpState::Listen, 11),
            row(80, 4000, TcpState::Established, 12),
            row(80, 4001, TcpState::CloseWait, 13),
            row(4000, 80, TcpState::Established, 99),
        ];
        let sockets = count(&mut Ownership::default(), &rows, &[11, 12, 13]);
        assert_eq!(sockets.count(TcpState::Listen), 1);
        assert_eq!(sockets.count(TcpState::Established), 1);
        assert_eq!(sockets.count(TcpState::CloseWait), 1);
        assert_eq!(sockets.other(), 0);
    }

    #[test]
    fn a_row_without_an_owner_belongs_to_the_port_or_the_peer() {
        let listening = row(80, 0, TcpState::Listen, 11);
        let upstream = row(5000, 9000, TcpState::Established, 12);
        let downstream = row(80, 4000, TcpState::TimeWait, 0);
        let to_upstream = row(5001, 9000, TcpState::TimeWait, 0);
        let of_the_load = row(4001, 80, TcpState::TimeWait, 0);
        let mut ownership = Ownership::default();
        let rows = [listening, upstream, downstream, of_the_load];
        let sockets = count(&mut ownership, &rows, &[11, 12]);
        assert_eq!(sockets.count(TcpState::TimeWait), 1);
        // The connection is closed meanwhile: its peer is remembered.
        let rows = [listening, to_upstream, downstream, of_the_load];
        let sockets = count(&mut ownership, &rows, &[11]);
        assert_eq!(sockets.count(TcpState::TimeWait), 2);
    }

    #[test]
    fn both_sources_say_the_same() {
        // A port that no other connection uses.
        let held = steppe_testkit::Port::free();
        let port = held.number();
        let _listener = std::net::TcpListener::bind(held.address()).unwrap();
        let _client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut buf = Vec::new();
        let mut by_table = Vec::new();
        for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            if let Ok(file) = File::open(table) {
                table::read(file, &mut buf, |row| by_table.push(row)).unwrap();
            }
        }
        let ours = |row: &&Row| {
            let is_open = row.state != TcpState::TimeWait;
            is_open && (row.local.port == port || row.remote.port == port)
        };
        let short = |row: &Row| (row.local.port, row.remote.port, row.state as u8, row.inode);
        let mut by_table: Vec<_> = by_table.iter().filter(ours).map(short).collect();
        by_table.sort_unstable();
        // The listener, and both ends of a connection that is not accepted yet.
        assert_eq!(by_table.len(), 3);
        // A kernel without `sock_diag` is read by the tables alone.
        if let Ok(mut diag) = Diag::open() {
            let mut by_diag = Vec::new();
            if diag.dump(&mut buf, |row| by_diag.push(row)).is_ok() {
                let mut by_diag: Vec<_> = by_diag.iter().filter(ours).map(short).collect();
                by_diag.sort_unstable();
                assert_eq!(by_diag, by_table);
            }
        }
    }
}
