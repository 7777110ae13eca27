//! Places of memory and descriptors: by process, and by mapping, file or peer.
//!
//! Taken twice a run, early and late, in quiet moments: the difference says where something grew.
//! `smaps` is read line by line, so that a process of many mappings costs no memory here. Leaves out
//! the code that allocated: that is for the target's own profile to tell.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use procfs::net::{TcpNetEntry, TcpState};

use super::proc_file::socket_inode;
use crate::limits::{PLACES_FILES_MAX, PLACES_MAX};

/// The quantity that is counted at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Memory that a process or a tmpfs holds, shared pages by share, without the page cache.
    Bytes,
    /// Open files.
    Files,
}

/// A place and its holder, such as `anonymous memory of node (pid 4711)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The quantity that is counted.
    pub unit: Unit,
    /// The name, for people.
    pub name: String,
}

/// The amount at each place. Beyond [`PLACES_MAX`] of them, the rest is left out.
pub type Places = BTreeMap<Place, u64>;

/// Collects the places of some processes.
pub(super) fn places(processes: impl Iterator<Item = u32>) -> Places {
    let mut places = Places::new();
    let peers = peers();
    for pid in processes {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let whose = format!("{} (pid {pid})", name.trim_end());
        if let Ok(file) = File::open(format!("/proc/{pid}/smaps")) {
            let each = |kind: &str, bytes| {
                add(
                    &mut places,
                    Unit::Bytes,
                    format!("{kind} of {whose}"),
                    bytes,
                );
            };
            mappings(BufReader::new(file), each);
        }
        files(pid, &whose, &peers, &mut places);
    }
    tmpfs(&mut places);
    places
}

/// Growth between two looks by place, most first: memory by bytes, files by number.
pub fn grown(early: &Places, late: &Places, unit: Unit) -> Vec<(String, u64)> {
    let of_unit = late.iter().filter(|(place, _)| place.unit == unit);
    let mut grown: Vec<(String, u64)> = of_unit
        .filter_map(|(place, now)| {
            let before = early.get(place).copied().unwrap_or_default();
            Some((place.name.clone(), now.checked_sub(before)?))
        })
        .filter(|(_, more)| *more > 0)
        .collect();
    grown.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    grown
}

fn add(places: &mut Places, unit: Unit, name: String, amount: u64) {
    let place = Place { unit, name };
    if places.len() < PLACES_MAX || places.contains_key(&place) {
        *places.entry(place).or_default() += amount;
    }
}

/// The fields of a mapping in `smaps`, in KiB.
#[derive(Debug, Default)]
struct MappingKib {
    /// Pages that are resident, shared ones by share.
    pss: u64,
    /// Pages of no file that are resident.
    anonymous: u64,
    /// Pages that are swapped out, shared ones by share.
    swapped: u64,
}

impl MappingKib {
    /// Memory that the process can give back, in KiB: pages of a file belong to the page cache, which
    /// the kernel reclaims at will, unless the file lies in memory.
    fn held(&self, kind: &str) -> u64 {
        let in_memory = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
        let is_in_memory = in_memory.iter().any(|start| kind.starts_with(start));
        let resident = if is_in_memory {
            self.pss
        } else {
            self.anonymous.min(self.pss)
        };
        resident.saturating_add(self.swapped)
    }
}

/// Calls `each` with the kind of each mapping and the bytes that its processes hold.
fn mappings(mut smaps: impl BufRead, mut each: impl FnMut(&str, u64)) {
    let (mut line, mut kind, mut kib) = (String::new(), String::new(), MappingKib::default());
    let mut hand_over = |kind: &str, kib: &mut MappingKib| {
        let held = std::mem::take(kib).held(kind);
        if held > 0 {
            each(kind, held.saturating_mul(1024));
        }
    };
    while smaps.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if line.starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase()) {
            hand_over(&kind, &mut kib);
            kind = kind_of(&line);
        } else if let Some((field, value)) = line.split_once(':') {
            let value = value.trim().strip_suffix(" kB").unwrap_or_default();
            let place = match field {
                "Pss" => Some(&mut kib.pss),
                "Anonymous" => Some(&mut kib.anonymous),
                "SwapPss" => Some(&mut kib.swapped),
                _ => None,
            };
            if let Some(place) = place {
                *place = value.parse().unwrap_or_default();
            }
        }
        line.clear();
    }
    hand_over(&kind, &mut kib);
}

/// The kind of a mapping, from its first line: `START-END PERMISSIONS OFFSET DEVICE INODE PATH`.
fn kind_of(line: &str) -> String {
    let mut rest = line.trim_end();
    for _ in 0..5 {
        rest = rest
            .split_once(' ')
            .map_or("", |(_, rest)| rest.trim_start());
    }
    match rest {
        "" => "anonymous memory".to_owned(),
        "[heap]" => "the heap (brk)".to_owned(),
        "[stack]" => "the main thread's stack".to_owned(),
        other => pattern(other),
    }
}

/// A name with its numbers as `N`, so that a thousand files of one kind are one place.
fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    for part in name.trim_end_matches(" (deleted)").chars() {
        if !part.is_ascii_digit() {
            pattern.push(part);
        } else if !pattern.ends_with('N') {
            pattern.push('N');
        }
    }
    pattern
}

fn files(pid: u32, whose: &str, peers: &BTreeMap<u64, String>, places: &mut Places) {
    let folder = format!("/proc/{pid}/fd");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    for entry in entries.take(PLACES_FILES_MAX) {
        let path = entry.path();
        let Ok(link) = fs::read_link(&path) else {
            continue;
        };
        let link = link.to_string_lossy();
        let kind = match socket_inode(link.as_bytes()).map(|inode| peers.get(&inode)) {
            Some(Some(peer)) => peer.clone(),
            Some(None) => "socket that is not TCP".to_owned(),
            None if link.starts_with("pipe:") => "pipe".to_owned(),
            None => pattern(&link),
        };
        add(places, Unit::Files, format!("{kind} of {whose}"), 1);
        if link.starts_with("/memfd:") {
            add(
                places,
                Unit::Bytes,
                format!("{kind} of {whose}"),
                stored(&path),
            );
        }
    }
}

/// Bytes that a file in memory takes.
fn stored(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.blocks().saturating_mul(512))
}

/// Descriptions of TCP sockets and their peers, by inode. A server's port stands for all of its
/// clients.
fn peers() -> BTreeMap<u64, String> {
    let tables = [procfs::net::tcp(), procfs::net::tcp6()];
    let entries: Vec<TcpNetEntry> = tables.into_iter().flatten().flatten().collect();
    let listening: Vec<u16> = entries
        .iter()
        .filter(|entry| entry.state == TcpState::Listen)
        .map(|entry| entry.local_address.port())
        .collect();
    let told = |entry: &TcpNetEntry| {
        let port = entry.local_address.port();
        let state = format!("{:?}", entry.state);
        match entry.state {
            TcpState::Listen => format!("listening TCP socket at port {port}"),
            _ if listening.contains(&port) => {
                format!("TCP socket of clients at port {port} ({state})")
            }
            _ => format!("TCP socket to {} ({state})", entry.remote_address),
        }
    };
    entries
        .iter()
        .take(PLACES_FILES_MAX)
        .map(|entry| (entry.inode, told(entry)))
        .collect()
}

/// Adds the bytes of files in memory by tmpfs, open or not: of all processes, since none is known to
/// own them.
fn tmpfs(places: &mut Places) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (_, folder, kind) = (fields.next(), fields.next(), fields.next());
        let (Some(folder), Some("tmpfs")) = (folder, kind) else {
            continue;
        };
        if let Ok(system) = rustix::fs::statvfs(folder) {
            let used = system.f_blocks.saturating_sub(system.f_bfree);
            let bytes = used.saturating_mul(system.f_frsize);
            add(
                places,
                Unit::Bytes,
                format!("files in {folder} (tmpfs)"),
                bytes,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_told_apart() {
        let smaps = "55d0-55d1 rw-p 00000000 00:00 0                          [heap]\n\
                     Rss:                 100 kB\nPss:                  96 kB\nPss_Dirty: 90 kB\n\
                     Anonymous:            96 kB\nSwapPss:               4 kB\nVmFlags: rd wr\n\
                     7f00-7f01 rw-p 00000000 00:00 0 \nPss: 8 kB\nAnonymous: 16 kB\n\
                     7f02-7f03 rw-s 00000000 00:01 77      /memfd:ring 12 (deleted)\nPss: 4 kB\n\
                     7f04-7f05 r--p 00000000 00:01 78      /usr/bin/text\nPss: 900 kB\nAnonymous: 0 kB\n\
                     7f06-7f07 rw-p 00000000 00:01 78      /usr/bin/data\nPss: 9 kB\nAnonymous: 8 kB\n";
        let mut found = Vec::new();
        mappings(smaps.as_bytes(), |kind, bytes| {
            found.push((kind.to_owned(), bytes));
        });
        let place = |name: &str, kib: u64| (name.to_owned(), kib * 1024);
        let wanted = [
            place("the heap (brk)", 100),
            place("anonymous memory", 8),
            place("/memfd:ring N", 4),
            place("/usr/bin/data", 8),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_grew_is_told_most_first() {
        let place = |name: &str| Place {
            unit: Unit::Files,
            name: name.to_owned(),
        };
        let early = Places::from([(place("a"), 5), (place("b"), 1), (place("c"), 9)]);
        let late = Places::from([
            (place("a"), 7),
            (place("b"), 9),
            (place("c"), 2),
            (place("d"), 1),
        ]);
        let told = |name: &str, more| (name.to_owned(), more);
        assert_eq!(
            grown(&early, &late, Unit::Files),
            [told("b", 8), told("a", 2), told("d", 1)]
        );
        assert!(grown(&early, &late, Unit::Bytes).is_empty());
    }

    #[test]
    fn this_process_has_places() {
        let places = places(std::iter::once(std::process::id()));
        let has = |unit, part: &str| {
            let mut all = places.keys();
            all.any(|place| place.unit == unit && place.name.contains(part))
        };
        assert!(has(Unit::Bytes, "anonymous memory of "), "{places:?}");
        assert!(has(Unit::Files, &format!("(pid {})", std::process::id())));
    }
}
