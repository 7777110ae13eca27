//! Buffers that grow by realloc: a text by 16 bytes at a time, and a body that doubles.
//!
//! Four are grown by turns, so that none can always stay where it is.

use crate::meter::Meter;
use crate::sys::Body;

/// One realloc is one operation.
pub fn run(meter: &mut Meter, operations: u64) {
    let rounds = (operations / operations_a_round()).max(1);
    meter.start();
    for _ in 0..rounds {
        grow_together(TEXT_BYTES_STEP, TEXT_BYTES_MAX, |bytes| {
            bytes + TEXT_BYTES_STEP
        });
        grow_together(BODY_BYTES_MIN, BODY_BYTES_MAX, |bytes| bytes * 2);
    }
    meter.stop(rounds * operations_a_round());
    meter.mark("live");
    meter.mark_after_pause("idle");
}

fn grow_together(first: usize, last: usize, next: fn(usize) -> usize) {
    let mut bodies = [(); TOGETHER].map(|()| Body::new(first));
    let mut bytes = first;
    while bytes < last {
        bytes = next(bytes);
        for body in &mut bodies {
            body.grow(bytes);
        }
    }
}

const fn operations_a_round() -> u64 {
    let texts = TEXT_BYTES_MAX / TEXT_BYTES_STEP - 1;
    let bodies = (BODY_BYTES_MAX / BODY_BYTES_MIN).ilog2() as usize;
    ((texts + bodies) * TOGETHER) as u64
}

const TOGETHER: usize = 4;
const TEXT_BYTES_STEP: usize = 16;
const TEXT_BYTES_MAX: usize = 2_048;
const BODY_BYTES_MIN: usize = 1_024;
const BODY_BYTES_MAX: usize = 1_024 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_counts_every_realloc() {
        assert_eq!(operations_a_round(), 4 * (127 + 10));
    }
}
