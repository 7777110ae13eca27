//! Large blocks: 1 to 16 MiB, eight at a time, every page written.

use crate::meter::Meter;
use crate::random::Random;
use crate::sys::Body;

/// One block allocated, written and freed is one operation.
pub fn run(meter: &mut Meter, operations: u64) {
    let mut random = Random::new(SEED);
    let mut bodies: [Option<Body>; TOGETHER] = [const { None }; TOGETHER];
    meter.start();
    for _ in 0..operations {
        let body = &mut bodies[random.below(TOGETHER)];
        *body = None;
        // Not whole MiB: lengths repeat seldom, as those of files do.
        *body = Some(Body::new(BYTES_MIN + random.below(BYTES_MAX - BYTES_MIN)));
    }
    meter.stop(operations);
    meter.mark("live");
    bodies = [const { None }; TOGETHER];
    meter.mark_after_pause("idle");
    drop(bodies);
}

const SEED: u32 = 7;
const TOGETHER: usize = 8;
const BYTES_MIN: usize = 1024 * 1024;
const BYTES_MAX: usize = 16 * 1024 * 1024;
