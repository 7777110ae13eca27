//! A writer into a buffer of the caller, which never grows.

/// The buffer has no room for what was to be written.
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

    /// Writes into `buf` behind what it has.
    #[must_use]
    pub fn after(buf: &'a mut [u8], at: usize) -> Self {
        Self { buf, at }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// What was written.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.at]
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Full`], and nothing is written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at + bytes.len();
        self.buf
            .get_mut(self.at..end)
            .ok_or(Full)?
            .copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Appends numbers of 16 bits.
    ///
    /// # Errors
    /// [`Full`].
    pub fn numbers<const N: usize>(&mut self, numbers: [u16; N]) -> Result<(), Full> {
        numbers
            .iter()
            .try_for_each(|number| self.bytes(&number.to_be_bytes()))
    }

    /// Appends bytes of zero.
    ///
    /// # Errors
    /// [`Full`].
    pub fn zeros(&mut self, count: usize) -> Result<(), Full> {
        let end = self.at + count;
        self.buf.get_mut(self.at..end).ok_or(Full)?.fill(0);
        self.at = end;
        Ok(())
    }

    /// Writes a number of 16 bits over bytes that were written before.
    pub(super) fn set_number(&mut self, at: usize, number: u16) {
        set_number(&mut self.buf[..self.at], at, number);
    }
}

/// Writes a number of 16 bits into `bytes`; past their end it writes nothing.
pub(super) fn set_number(bytes: &mut [u8], at: usize, number: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

/// A length that fits 16 bits, as all of a message do.
pub(super) fn length(len: usize) -> Result<u16, Full> {
    u16::try_from(len).map_err(|_| Full)
}
