//! Kernel memory of this process's socket buffers.
//!
//! Socket buffers are not part of RSS, but a container's memory limit includes
//! them. `SO_MEMINFO` (Linux 4.12) reports them for each socket.
#![expect(unsafe_code, reason = "no safe crate wraps SO_MEMINFO")]

use std::io;
use std::os::fd::RawFd;

/// Kernel memory of sockets, summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketMemory {
    /// Sockets that support `SO_MEMINFO`.
    pub sockets: u64,
    /// Received and not read yet, with the kernel's overhead (`RMEM_ALLOC`, `BACKLOG`).
    pub receive_bytes: u64,
    /// Written and not acknowledged yet, with forward-allocated memory (`FWD_ALLOC`).
    pub send_bytes: u64,
}

/// The entries of `SO_MEMINFO` up to `DROPS`, the last one that is known here.
type MemInfo = [u32; libc::SK_MEMINFO_DROPS as usize + 1];

/// Sums the memory of every socket among this process's descriptors.
///
/// Takes a system call for each descriptor: for reports, not for the request path.
///
/// # Errors
/// When the list of descriptors can't be read.
pub fn socket_memory() -> io::Result<SocketMemory> {
    let mut sum = SocketMemory::default();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        // Every entry is a descriptor's number; anything else is skipped.
        let descriptor = name.to_str().and_then(|name| name.parse().ok());
        if let Some(info) = descriptor.and_then(memory_info) {
            sum.add(&info);
        }
    }
    Ok(sum)
}

impl SocketMemory {
    fn add(&mut self, info: &MemInfo) {
        let bytes = |entry: libc::c_int| {
            let index = usize::try_from(entry).expect("entries are numbered from 0");
            u64::from(info[index])
        };
        self.sockets += 1;
        self.receive_bytes += bytes(libc::SK_MEMINFO_RMEM_ALLOC) + bytes(libc::SK_MEMINFO_BACKLOG);
        // TCP counts queued data in WMEM_QUEUED; Unix sockets, which have no send
        // queue, count it in WMEM_ALLOC.
        let queued = bytes(libc::SK_MEMINFO_WMEM_QUEUED).max(bytes(libc::SK_MEMINFO_WMEM_ALLOC));
        self.send_bytes += queued + bytes(libc::SK_MEMINFO_FWD_ALLOC);
    }
}

/// `None` if `descriptor` is not a socket or was closed meanwhile.
fn memory_info(descriptor: RawFd) -> Option<MemInfo> {
    let mut info = MemInfo::default();
    let mut length = libc::socklen_t::try_from(size_of::<MemInfo>()).expect("36 bytes");
    // SAFETY: `info` is writable for `length` bytes, which `getsockopt` never
    // exceeds, and any bit pattern is a valid u32. A descriptor that was closed,
    // or reused by another socket, since it was listed is only read from.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn of(sockets: &[&dyn AsRawFd]) -> SocketMemory {
        let mut sum = SocketMemory::default();
        for socket in sockets {
            sum.add(&memory_info(socket.as_raw_fd()).expect("a socket"));
        }
        sum
    }

    #[test]
    fn bytes_that_nobody_reads_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("bound")).expect("listens");
        let (server, _) = listener.accept().expect("connected");
        let before = of(&[&client, &server]);
        client.write_all(&[1; 20_000]).expect("fits the buffers");
        let after = of(&[&client, &server]);
        let held = |memory: SocketMemory| memory.receive_bytes + memory.send_bytes;
        assert!(held(after) >= held(before) + 20_000, "{before:?} {after:?}");
        let all = socket_memory().expect("/proc is mounted");
        assert!(all.sockets >= 3, "{all:?}");
    }

    #[test]
    fn unix_sockets_are_counted() {
        let (mut one, other) = UnixStream::pair().expect("descriptors");
        let before = of(&[&one, &other]);
        one.write_all(&[1; 20_000]).expect("fits the buffers");
        let after = of(&[&one, &other]);
        assert!(after.send_bytes >= before.send_bytes + 20_000, "{after:?}");
    }

    #[test]
    fn files_are_no_sockets() {
        let file = std::fs::File::open("/proc/self/status").expect("/proc is mounted");
        assert_eq!(memory_info(file.as_raw_fd()), None);
    }
}
