//! The header of a message. Spec: RFC 1035 §4.1.1; AD and CD: RFC 4035 §3.2.

use super::code::{Opcode, Rcode};
use super::error::WireError;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;

/// The second 16 bits of a header: QR, opcode, flags, response code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

#[expect(missing_docs, reason = "each is the bit of that name")]
impl Flags {
    pub const QR: u16 = 1 << 15;
    pub const AA: u16 = 1 << 10;
    pub const TC: u16 = 1 << 9;
    pub const RD: u16 = 1 << 8;
    pub const RA: u16 = 1 << 7;
    pub const AD: u16 = 1 << 5;
    pub const CD: u16 = 1 << 4;
}

impl Flags {
    /// True if any of these bits is set.
    #[must_use]
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// The purpose of the message.
    #[must_use]
    pub fn opcode(self) -> Opcode {
        Opcode((self.0 >> 11).to_be_bytes()[1] & 0x0f)
    }

    /// The response code, without the extended bits of EDNS.
    #[must_use]
    pub fn rcode(self) -> Rcode {
        Rcode(self.0 & 0x0f)
    }
}

/// A parsed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Id of the message.
    pub id: u16,
    /// Flags, opcode and response code.
    pub flags: Flags,
    /// Entries in the question, answer, authority and additional sections.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header of a message.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn read(bytes: &[u8]) -> Result<Self, WireError> {
        let &[i0, i1, f0, f1, q0, q1, a0, a1, n0, n1, d0, d1] = bytes
            .first_chunk::<HEADER_BYTES>()
            .ok_or(WireError::Short)?;
        let number = |high, low| u16::from_be_bytes([high, low]);
        Ok(Self {
            id: number(i0, i1),
            flags: Flags(number(f0, f1)),
            counts: [
                number(q0, q1),
                number(a0, a1),
                number(n0, n1),
                number(d0, d1),
            ],
        })
    }
}
