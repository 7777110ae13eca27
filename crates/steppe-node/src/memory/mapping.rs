//! The process's memory mappings, from `/proc/self/smaps`.

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use super::error::ReportError;

/// A mapping of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
    pub(super) writable: bool,
    pub(super) rss_bytes: u64,
    pub(super) pss_bytes: u64,
    /// Resident pages without a file behind them: heap, stacks, and pages of
    /// private file mappings that were written to.
    pub(super) anonymous_bytes: u64,
}

/// The backing of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Stack,
    Break,
    /// A mapping that mimalloc named, if the kernel keeps such names.
    Mimalloc,
    Anonymous,
}

/// Every mapping, by address.
///
/// The kernel walks the page tables: some milliseconds for a large process, so for reports only.
pub(super) fn all() -> Result<Vec<Mapping>, ReportError> {
    let smaps = Process::myself().and_then(|process| process.smaps());
    let smaps = smaps.map_err(|source| ReportError::Proc {
        file: "smaps",
        source,
    })?;
    Ok(smaps.into_iter().map(mapping).collect())
}

fn mapping(map: MemoryMap) -> Mapping {
    let bytes = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
    let address = |address: u64| usize::try_from(address).expect("an address of this process");
    Mapping {
        start: address(map.address.0),
        end: address(map.address.1),
        kind: kind(&map.pathname),
        writable: map.perms.contains(MMPermissions::WRITE),
        rss_bytes: bytes("Rss"),
        pss_bytes: bytes("Pss"),
        anonymous_bytes: bytes("Anonymous"),
    }
}

fn kind(path: &MMapPath) -> Kind {
    match path {
        MMapPath::Path(_) => Kind::File,
        MMapPath::Stack | MMapPath::TStack(_) => Kind::Stack,
        MMapPath::Heap => Kind::Break,
        MMapPath::Other(name) if name.contains("anon:mimalloc") => Kind::Mimalloc,
        _ => Kind::Anonymous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_files_a_stack_and_anonymous_memory() {
        let all = all().expect("/proc is mounted");
        for kind in [Kind::File, Kind::Stack, Kind::Anonymous] {
            assert!(
                all.iter()
                    .any(|mapping| mapping.kind == kind && mapping.rss_bytes > 0)
            );
        }
        assert!(all.is_sorted_by_key(|mapping| mapping.start));
        let anonymous: u64 = all.iter().map(|mapping| mapping.anonymous_bytes).sum();
        let rss: u64 = all.iter().map(|mapping| mapping.rss_bytes).sum();
        assert!(0 < anonymous && anonymous < rss);
    }
}
