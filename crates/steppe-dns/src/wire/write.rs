//! A writer into a buffer of fixed size.

/// The buffer has no room for the bytes to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room in the buffer")]
pub struct Full;

/// Writes from the front of a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Writes into `buf` from its front.
    #[must_use]
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, at: 0 }
    }

    /// Continues to write into `buf` at offset `at`.
    #[must_use]
    pub fn after(buf: &'a mut [u8], at: usize) -> Self {
        Self { buf, at }
    }

    /// The number of bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// True if nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// The bytes written so far.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.at]
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Full`]; nothing is written then.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at + bytes.len();
        self.buf
            .get_mut(self.at..end)
            .ok_or(Full)?
            .copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Appends 16-bit numbers in network byte order.
    ///
    /// # Errors
    /// [`Full`].
    pub fn numbers<const N: usize>(&mut self, numbers: [u16; N]) -> Result<(), Full> {
        numbers
            .iter()
            .try_for_each(|number| self.bytes(&number.to_be_bytes()))
    }

    /// Appends zero bytes.
    ///
    /// # Errors
    /// [`Full`].
    pub fn zeros(&mut self, count: usize) -> Result<(), Full> {
        let end = self.at + count;
        self.buf.get_mut(self.at..end).ok_or(Full)?.fill(0);
        self.at = end;
        Ok(())
    }

    /// Overwrites a 16-bit number in the bytes written so far.
    pub(super) fn set_number(&mut self, at: usize, number: u16) {
        set_number(&mut self.buf[..self.at], at, number);
    }
}

/// Writes a 16-bit number at offset `at` of `bytes`, or nothing past their end.
pub(super) fn set_number(bytes: &mut [u8], at: usize, number: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

/// A length as 16 bits, as all lengths in a message are.
pub(super) fn length(len: usize) -> Result<u16, Full> {
    u16::try_from(len).map_err(|_| Full)
}
