//! Content whose bytes depend on their offset.

use std::sync::OnceLock;

/// The content of one transfer: any byte follows from its offset.
#[derive(Debug, Clone, Copy)]
pub struct Pattern {
    shift: usize,
}

/// A prime, so that no offset that buffers are likely to have repeats the content.
const PERIOD: usize = 65_521;

impl Pattern {
    /// The content of transfer `id`.
    pub fn new(id: u64) -> Self {
        let shift = id.wrapping_mul(7_919) % PERIOD as u64;
        Self {
            shift: usize::try_from(shift).expect("a remainder fits"),
        }
    }

    /// Writes the content at `offset` over `buffer`.
    pub fn fill(self, offset: u64, buffer: &mut [u8]) {
        let mut at = self.place(offset);
        for part in buffer.chunks_mut(PERIOD) {
            part.copy_from_slice(&table()[at..at + part.len()]);
            at = (at + part.len()) % PERIOD;
        }
    }

    /// True if `bytes` are the content at `offset`.
    pub fn matches(self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = self.place(offset);
        bytes.chunks(PERIOD).all(|part| {
            let same = part == &table()[at..at + part.len()];
            at = (at + part.len()) % PERIOD;
            same
        })
    }

    fn place(self, offset: u64) -> usize {
        let offset = usize::try_from(offset % PERIOD as u64).expect("a remainder fits");
        (offset + self.shift) % PERIOD
    }
}

/// Two periods of noise, so that any period's worth is one slice.
fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let once: Vec<u8> = std::iter::repeat_with(&mut next).take(PERIOD).collect();
        [once.clone(), once].concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_recognized_only_in_its_place() {
        let pattern = Pattern::new(5);
        let mut bytes = vec![0; 200_000];
        pattern.fill(77, &mut bytes);
        assert!(pattern.matches(77, &bytes));
        assert!(pattern.matches(77 + 90_000, &bytes[90_000..]));
        assert!(!pattern.matches(78, &bytes));
        assert!(!Pattern::new(6).matches(77, &bytes));
        assert!(!pattern.matches(77 + 4096, &bytes[..4096]));
        bytes[150_000] ^= 1;
        assert!(!pattern.matches(77, &bytes));
    }
}
