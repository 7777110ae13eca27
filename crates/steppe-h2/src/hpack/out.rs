//! Bytes of field blocks on their way into memory of the caller.

/// A slice that is written from its beginning.
#[derive(Debug)]
pub struct Out<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Out<'a> {
    /// Writes to the beginning of `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Bytes that were written.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Bytes that there is room for.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Adds a byte.
    ///
    /// # Panics
    /// Without room for it, as the functions below.
    pub(super) fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Adds bytes as they are.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.take(bytes.len()).copy_from_slice(bytes);
    }

    /// The next `bytes` bytes, which the caller fills.
    pub(super) fn take(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.len;
        self.len += bytes;
        &mut self.bytes[start..self.len]
    }
}
