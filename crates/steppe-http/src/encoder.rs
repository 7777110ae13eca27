//! Writes text of heads and field values into memory that is there already.

use steppe_mem::{Buffer, Lease, OverBudget};

use crate::status;

/// Takes the bytes of a field value, piece by piece.
pub trait Put {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes into some room; notes where there is not enough.
pub struct Encoder<'a> {
    room: &'a mut [u8],
    at: usize,
    is_full: bool,
}

impl Put for Encoder<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.room.get_mut(self.at..self.at + bytes.len()) {
            Some(here) => {
                here.copy_from_slice(bytes);
                self.at += bytes.len();
            }
            None => self.is_full = true,
        }
    }
}

impl<'a> Encoder<'a> {
    /// Writes into `room`.
    pub fn new(room: &'a mut [u8]) -> Self {
        Self {
            room,
            at: 0,
            is_full: false,
        }
    }

    /// Runs `write` on a buffer of `bytes`, and on larger ones until everything fits.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn encode(
        lease: &Lease,
        bytes: usize,
        write: impl Fn(&mut Encoder<'_>),
    ) -> Result<Buffer, OverBudget> {
        let mut bytes = bytes;
        loop {
            let mut buffer = Buffer::take(lease, bytes)?;
            let mut encoder = Encoder::new(buffer.spare_mut());
            write(&mut encoder);
            if let Some(written) = encoder.finish() {
                buffer.advance(written);
                return Ok(buffer);
            }
            bytes = buffer.capacity() * 2;
        }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.at
    }

    /// Bytes written in all, if there was room for every one.
    #[must_use]
    pub fn finish(self) -> Option<usize> {
        (!self.is_full).then_some(self.at)
    }

    /// A field line of HTTP/1 (RFC 9112 §5).
    pub(crate) fn line(&mut self, name: &[u8], value: &[u8]) {
        self.put(name);
        self.put(b": ");
        self.put(value);
        self.put(b"\r\n");
    }

    /// In decimal. By hand: formatting machinery costs ten times as much.
    pub(crate) fn number(&mut self, number: u64) {
        const DIGITS_MAX: usize = 20;
        let (mut digits, mut at, mut left) = ([b'0'; DIGITS_MAX], DIGITS_MAX - 1, number);
        loop {
            digits[at] += u8::try_from(left % 10).expect("a digit");
            left /= 10;
            if left == 0 {
                return self.put(&digits[at..]);
            }
            at -= 1;
        }
    }

    /// The content of a [`refusal`].
    pub(crate) fn refusal_content(&mut self, status: u16) {
        self.number(status.into());
        self.put(b" ");
        self.put(status::reason(status).as_bytes());
        self.put(b"\n");
    }
}

/// Bytes of what [`Encoder::refusal_content`] writes: `404 Not Found` and a line end.
pub(crate) fn refusal_bytes(status: u16) -> u64 {
    status::reason(status).len() as u64 + 5
}
