//! Texts of the kernel about control groups: paths, numbers and fields. Bounded, without allocation.

use core::ffi::CStr;

const PATH_BYTES: usize = 512;

/// Mount points of both versions' file systems (systemd, Docker, Kubernetes).
const MOUNT_1: &[u8] = b"/sys/fs/cgroup/memory";
const MOUNT_2: &[u8] = b"/sys/fs/cgroup";

/// A path of at most 511 bytes.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; PATH_BYTES],
    len: usize,
}

impl Path {
    /// Parts one after the other. `None`: they are too long.
    pub fn new(parts: &[&[u8]]) -> Option<Self> {
        let mut path = Self {
            bytes: [0; PATH_BYTES],
            len: 0,
        };
        for part in parts {
            let end = path.len + part.len();
            // A zero follows.
            path.bytes[..PATH_BYTES - 1]
                .get_mut(path.len..end)?
                .copy_from_slice(part);
            path.len = end;
        }
        Some(path)
    }

    pub fn join(&self, file: &CStr) -> Option<Self> {
        Self::new(&[self.as_bytes(), file.to_bytes()])
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }

    /// The path, and the folders above it down to a length of `top` bytes.
    pub fn upwards(self, top: usize) -> impl Iterator<Item = Self> {
        core::iter::successors(Some(self), move |path| {
            let bytes = path.as_bytes();
            let end = bytes.iter().rposition(|&byte| byte == b'/')?;
            (bytes.len() > top && end >= top).then(|| Self::new(&[&bytes[..end]]))?
        })
    }
}

/// The folder of a process's memory group by the text of `/proc/self/cgroup`, whether it is of version 1, and the
/// length of the mount's path. In a container the folder may not be there, and the mount itself is the group.
///
/// cgroups(7): lines `ID:controllers:path`; version 2 is `0::path`.
pub fn folder_of(text: &[u8]) -> Option<(Path, bool, usize)> {
    let lines = || text.split(|&byte| byte == b'\n').filter_map(parts);
    let is_memory = |names: &[u8]| {
        names
            .split(|&byte| byte == b',')
            .any(|name| name == b"memory")
    };
    let version_1 = lines().find(|(names, _)| is_memory(names));
    let (mount, path) = match version_1 {
        Some((_, path)) => (MOUNT_1, path),
        None => (MOUNT_2, lines().find(|(names, _)| names.is_empty())?.1),
    };
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let folder = Path::new(&[mount, path])?;
    Some((folder, version_1.is_some(), mount.len()))
}

/// Controllers and path of a line.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = line.splitn(3, |&byte| byte == b':');
    let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some((names, path))
}

/// A number that a text begins with. `None`: it is none, such as `max`, or too large.
pub fn number(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let digits = text.get(..end.unwrap_or(text.len()))?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// The number behind a name and a separator, where both begin a word.
pub fn field(text: &[u8], name: &[u8], separator: u8) -> Option<usize> {
    let is_name = |(at, window): (usize, &[u8])| {
        let starts_word = at == 0 || matches!(text.get(at - 1), Some(b' ' | b'\n'));
        let is_found = starts_word && window == name;
        (is_found && text.get(at + name.len()) == Some(&separator)).then_some(at)
    };
    let at = text.windows(name.len()).enumerate().find_map(is_name)?;
    number(text.get(at + name.len() + 1..)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> Option<(String, bool)> {
        let (path, is_version_1, _) = folder_of(text.as_bytes())?;
        let path = String::from_utf8(path.as_bytes().to_vec()).expect("text");
        Some((path, is_version_1))
    }

    #[test]
    fn the_folder_of_either_version_is_found() {
        let hybrid = "9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n";
        let expected = |path: &str, is_version_1| Some((path.to_owned(), is_version_1));
        assert_eq!(folder(hybrid), expected("/sys/fs/cgroup/memory/a/b", true));
        assert_eq!(
            folder("3:cpu,memory:/x\n"),
            expected("/sys/fs/cgroup/memory/x", true)
        );
        assert_eq!(
            folder("0::/a.slice\n"),
            expected("/sys/fs/cgroup/a.slice", false)
        );
        assert_eq!(folder("0::/\n"), expected("/sys/fs/cgroup", false));
        assert_eq!(folder("0::/a:b\n"), expected("/sys/fs/cgroup/a:b", false));
        assert_eq!(folder("1:memory_of_none:/x\n"), None);
        assert_eq!(folder(&format!("0::/{}\n", "x".repeat(600))), None);
    }

    #[test]
    fn folders_above_end_with_the_mount() {
        let path = Path::new(&[b"/sys/fs/cgroup", b"/a/b"]).expect("short");
        let all: Vec<_> = path
            .upwards(MOUNT_2.len())
            .map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned())
            .collect();
        assert_eq!(
            all,
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
    }

    #[test]
    fn numbers_and_fields_are_read() {
        assert_eq!(number(b"62914560\n"), Some(62_914_560));
        assert_eq!(number(b"max\n"), None);
        assert_eq!(number(b"99999999999999999999999\n"), None);
        let stat = b"cache 5\ntotal_inactive_file 77\ninactive_file 12\n";
        assert_eq!(field(stat, b"inactive_file", b' '), Some(12));
        assert_eq!(field(stat, b"total_inactive_file", b' '), Some(77));
        assert_eq!(field(stat, b"file", b' '), None);
        let pressure = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1234";
        assert_eq!(field(pressure, b"total", b'='), Some(1234));
    }
}
