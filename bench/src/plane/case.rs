//! The loads: shape and bytes of a call, and calls at a time.

use std::fmt::{self, Display, Formatter};

use clap::ValueEnum;

/// The shape of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// A body that the worker sends back.
    Unary,
    /// A few bytes, answered by a stream of 1,000 items. An operation is an item.
    Stream,
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub shape: Shape,
    /// Bytes of a body, or of an item.
    pub bytes: u32,
    /// Calls at a time.
    pub concurrency: u32,
}

/// Payload limit of nats-server by default. The largest message that NATS recommends is 8 MB.
pub const NATS_BYTES_MAX: u32 = 1 << 20;

const UNARY_BYTES: [u32; 4] = [128, 1_000, 65_536, 1_000_000];
const UNARY_CONCURRENCY: [u32; 3] = [1, 96, 1_000];
const LARGE_BYTES: u32 = 16_000_000;

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Stream => "stream",
        }
    }
}

impl Case {
    const fn unary(bytes: u32, concurrency: u32) -> Self {
        Self {
            shape: Shape::Unary,
            bytes,
            concurrency,
        }
    }

    const fn stream(bytes: u32, concurrency: u32) -> Self {
        Self {
            shape: Shape::Stream,
            bytes,
            concurrency,
        }
    }

    /// The main loads, which run without `--full`.
    pub fn main() -> Vec<Self> {
        vec![
            Self::unary(1_000, 1),
            Self::unary(1_000, 96),
            Self::unary(65_536, 96),
            Self::unary(1_000_000, 1),
            Self::unary(1_000_000, 96),
            Self::stream(1_000, 96),
        ]
    }

    /// All loads.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for bytes in UNARY_BYTES {
            all.extend(UNARY_CONCURRENCY.map(|calls| Self::unary(bytes, calls)));
        }
        all.extend([1, 96].map(|calls| Self::unary(LARGE_BYTES, calls)));
        for bytes in [128, 1_000] {
            all.extend([1, 96].map(|calls| Self::stream(bytes, calls)));
        }
        all
    }
}

impl Case {
    fn size(self) -> String {
        match self.bytes {
            bytes if bytes >= 1_000_000 => format!("{} MB", bytes / 1_000_000),
            bytes if bytes >= 1_024 && bytes % 1_024 == 0 => format!("{} KiB", bytes / 1_024),
            bytes if bytes >= 1_000 => format!("{} KB", bytes / 1_000),
            bytes => format!("{bytes} B"),
        }
    }

    /// The load in the rows of the page, which names 96 calls at a time once for all.
    pub fn load(self) -> String {
        let size = self.size();
        let load = match self.shape {
            Shape::Unary => size,
            Shape::Stream => format!("stream of 1,000 items of {size}"),
        };
        match self.concurrency {
            96 => load,
            calls => format!("{load}, {calls} at a time"),
        }
    }
}

impl Display for Case {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.size();
        let (shape, calls) = (self.shape.name(), self.concurrency);
        write!(formatter, "{shape}, {bytes}, {calls} at a time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let mut names: Vec<_> = Case::all().iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 18);
        assert!(Case::main().iter().all(|case| Case::all().contains(case)));
        assert!(names.contains(&"unary, 64 KiB, 96 at a time".to_owned()));
        assert!(names.contains(&"stream, 1 KB, 1 at a time".to_owned()));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 18);
        let mut loads: Vec<_> = Case::all().into_iter().map(Case::load).collect();
        assert!(loads.contains(&"1 MB, 1 at a time".to_owned()));
        assert!(loads.contains(&"stream of 1,000 items of 1 KB".to_owned()));
        loads.sort();
        loads.dedup();
        assert_eq!(loads.len(), 18);
    }
}
