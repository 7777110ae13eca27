//! Pooled buffers that are mappings of their own, and their bytes.

use steppe_mem::{SizeClass, pool};

/// True if buffers of this class are mapped rather than allocated.
pub(super) fn is_mapped(class_bytes: usize) -> bool {
    SizeClass::holding(class_bytes).is_mapped()
}

/// Bytes of pooled buffers that are mappings of their own.
pub(super) fn pool_mapped_bytes() -> u64 {
    let mapped = |class: &pool::ClassReport| {
        let count = class.in_use_count + class.idle_count;
        is_mapped(class.class_bytes).then_some((class.class_bytes * count) as u64)
    };
    pool::report().classes.iter().filter_map(mapped).sum()
}
