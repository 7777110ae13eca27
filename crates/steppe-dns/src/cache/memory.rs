//! The memory of records, whose offsets are multiples of eight. Numbers are in native byte order.

/// Sizes and offsets of records are multiples of this.
const ALIGNMENT: usize = 8;

/// Rounds a size up to a multiple of eight.
pub(super) fn round_up(size: usize) -> usize {
    size.next_multiple_of(ALIGNMENT)
}

/// A block of bytes that never moves or grows.
#[derive(Debug)]
pub(super) struct Memory(Box<[u8]>);

impl Memory {
    /// A block of `bytes`, rounded down to whole words. Its pages are not resident before they are written.
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes / ALIGNMENT * ALIGNMENT].into_boxed_slice())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self, at: usize, len: usize) -> &[u8] {
        &self.0[at..at + len]
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn copy_within(&mut self, from: usize, len: usize, to: usize) {
        self.0.copy_within(from..from + len, to);
    }

    pub(super) fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn set_u8(&mut self, at: usize, number: u8) {
        self.0[at] = number;
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.0[at..].first_chunk();
        *bytes.expect("numbers stand inside of records")
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }

    pub(super) fn set_u16(&mut self, at: usize, number: u16) {
        self.write(at, &number.to_ne_bytes());
    }

    pub(super) fn seconds(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    pub(super) fn set_seconds(&mut self, at: usize, number: u32) {
        self.write(at, &number.to_ne_bytes());
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    pub(super) fn set_u64(&mut self, at: usize, number: u64) {
        self.write(at, &number.to_ne_bytes());
    }

    /// A size, stored in four bytes.
    pub(super) fn u32(&self, at: usize) -> usize {
        self.seconds(at) as usize
    }

    pub(super) fn set_u32(&mut self, at: usize, size: usize) {
        let size = u32::try_from(size).expect("a record has less than 4 GiB");
        self.set_seconds(at, size);
    }
}
