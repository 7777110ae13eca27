//! RSS of this process, by one system call.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// An open `/proc/self/statm`. proc(5): sizes in pages, of which the second is resident.
#[derive(Debug)]
pub(super) struct Resident {
    statm: File,
    page_bytes: u64,
}

impl Resident {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            statm: File::open("/proc/self/statm")?,
            page_bytes: procfs::page_size(),
        })
    }

    /// Resident bytes, pages of files included.
    pub(super) fn read(&self) -> io::Result<u64> {
        let mut text = [0; 128];
        let len = self.statm.read_at(&mut text, 0)?;
        pages(&text[..len])
            .map(|pages| pages * self.page_bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown form of statm"))
    }
}

fn pages(statm: &[u8]) -> Option<u64> {
    let mut fields = std::str::from_utf8(statm).ok()?.split_ascii_whitespace();
    fields.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_resident() {
        assert_eq!(pages(b"3000 1200 200 5 0 900 0\n"), Some(1200));
        assert_eq!(pages(b"3000"), None);
        assert_eq!(pages(b""), None);
    }

    #[test]
    fn this_process_has_resident_memory() {
        let resident = Resident::open().expect("/proc");
        let before = resident.read().expect("/proc");
        let memory = vec![1_u8; 32 << 20];
        let after = resident.read().expect("/proc");
        assert!(after >= before + (16 << 20), "{before} then {after}");
        drop(memory);
    }
}
