//! Bytes that wait to be written, charged by the memory that they have and not by their number.

use steppe_mem::{OverBudget, Reservation};

use crate::limits::OUT_BYTES_KEPT;

/// Adds a message, its length before it (RFC 1035 §4.2.2). Growth of `bytes` beyond [`OUT_BYTES_KEPT`] is added to
/// `charge`.
pub(super) fn push(
    bytes: &mut Vec<u8>,
    charge: &mut Reservation,
    message: &[u8],
) -> Result<(), OverBudget> {
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let needed = bytes.len() + 2 + message.len();
    if needed > bytes.capacity() {
        let capacity = needed.next_power_of_two().max(OUT_BYTES_KEPT);
        charge.try_grow(capacity - bytes.capacity().max(OUT_BYTES_KEPT))?;
        bytes.reserve_exact(capacity - bytes.len());
    }
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(message);
    Ok(())
}

/// Removes all messages, and releases the part of `charge` that was added for them.
pub(super) fn clear(bytes: &mut Vec<u8>, charge: &mut Reservation) {
    let beyond = bytes.capacity().saturating_sub(OUT_BYTES_KEPT);
    bytes.clear();
    bytes.shrink_to(OUT_BYTES_KEPT);
    charge.shrink(beyond);
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    #[test]
    fn what_is_charged_is_the_capacity_beyond_what_is_kept() {
        let lease = Budget::new(1 << 20).root().lease();
        let mut charge = lease.try_reserve(1).expect("room");
        let mut bytes = Vec::new();
        push(&mut bytes, &mut charge, &[7; 500]).expect("room");
        push(&mut bytes, &mut charge, &[7; 500]).expect("room");
        assert_eq!((bytes.capacity(), charge.bytes()), (OUT_BYTES_KEPT, 1));
        push(&mut bytes, &mut charge, &[7; 30_000]).expect("room");
        assert_eq!(charge.bytes(), 1 + bytes.capacity() - OUT_BYTES_KEPT);
        assert_eq!(
            bytes[..3],
            [500_u16.to_be_bytes()[0], 500_u16.to_be_bytes()[1], 7]
        );
        let _others = lease.try_reserve(900 << 10).expect("room");
        push(&mut bytes, &mut charge, &[7; 65_000]).expect_err("there is none");
        assert_eq!(bytes.len(), 1004 + 30_002);
        clear(&mut bytes, &mut charge);
        assert_eq!((bytes.capacity(), charge.bytes()), (OUT_BYTES_KEPT, 1));
    }
}
