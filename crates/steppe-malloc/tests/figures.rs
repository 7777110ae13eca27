//! Statistics of the allocator, step by step: each field follows the program's requests.
#![expect(unsafe_code, reason = "raw blocks")]

use std::alloc::{GlobalAlloc, Layout};

use steppe_malloc::{SteppeMalloc, raw, stats};

/// A block that is freed when the test says so.
struct Block(*mut u8, Layout);

impl Block {
    fn of(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, 16).expect("a layout");
        // SAFETY: the size is not zero.
        let block = unsafe { SteppeMalloc.alloc(layout) };
        assert!(!block.is_null());
        Self(block, layout)
    }

    fn free(self) {
        // SAFETY: the block is this allocator's, of this layout, and freed once.
        unsafe { SteppeMalloc.dealloc(self.0, self.1) };
    }
}

const RUN: usize = 200 << 10;
const HUGE: usize = 8 << 20;

#[test]
fn each_figure_follows_what_the_program_did() {
    let (small, run, huge) = (Block::of(100), Block::of(RUN), Block::of(HUGE));
    let held = stats::read();
    assert!((HUGE..2 * HUGE).contains(&held.huge_bytes), "{held:?}");
    assert!((RUN..2 * RUN).contains(&held.run_bytes), "{held:?}");
    let large = held.huge_bytes + held.run_bytes;
    assert!(
        (large + 100..large + (1 << 20)).contains(&held.live_bytes),
        "{held:?}"
    );
    assert!(
        held.meta_bytes > 0 && held.mapped_bytes > held.meta_bytes + held.live_bytes,
        "{held:?}"
    );
    assert!(held.mapped_bytes_peak >= held.mapped_bytes, "{held:?}");
    assert!(held.chunks >= 1 && held.heaps >= 1, "{held:?}");

    huge.free();
    let kept = stats::read();
    assert_eq!(kept.huge_bytes, 0, "{kept:?}");
    // The mapping is kept until it has decayed.
    assert!(
        kept.dirty_bytes >= held.dirty_bytes + HUGE,
        "{held:?} {kept:?}"
    );
    run.free();
    let kept_too = stats::read();
    assert_eq!(kept_too.run_bytes, 0, "{kept_too:?}");
    assert!(
        kept_too.dirty_bytes >= kept.dirty_bytes + RUN,
        "{kept_too:?}"
    );

    raw::trim();
    let trimmed = stats::read();
    assert_eq!(trimmed.dirty_bytes, 0, "{trimmed:?}");
    let purged = trimmed.purged_bytes - kept_too.purged_bytes;
    assert!(purged >= (HUGE + RUN) as u64, "{trimmed:?}");
    assert!(trimmed.purges > kept_too.purges, "{trimmed:?}");
    assert!(trimmed.mapped_bytes < held.mapped_bytes, "{trimmed:?}");
    assert_eq!(
        trimmed.mapped_bytes_peak, held.mapped_bytes_peak,
        "{trimmed:?}"
    );
    small.free();
}
