//! Heaps that change hands, in every order of threads' steps.

use std::sync::{Mutex, PoisonError};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::sync::modeled::explore;

/// Heaps of earlier runs of a model: they are never unmapped, so they are used again.
static KEPT: Mutex<Option<&'static Heap>> = Mutex::new(None);

/// The heaps of one run. The right to use the first heap is modeled by a cell.
struct Shared {
    heaps: Heaps,
    first: &'static Heap,
    cell: UnsafeCell<u32>,
}

// SAFETY: the heaps' cells are under their lock; loom checks the other one.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// One heap that has no thread.
    fn new() -> Arc<Self> {
        let heaps = Heaps {
            lock: Lock::modeled(),
            first: AtomicPtr::new(ptr::null_mut()),
            free: Cell::new(None),
            count: AtomicUsize::new(0),
            key: Cell::new(None),
            frees: Cell::new(None),
        };
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let heap = *kept.get_or_insert_with(|| Heap::new(profile::current()).expect("memory"));
        heaps.add(heap);
        heaps.put(heap);
        Arc::new(Self {
            heaps,
            first: heap,
            cell: UnsafeCell::new(0),
        })
    }

    /// Takes a heap and gives it back, as a thread does. Returns true if it was the first one.
    fn live(&self) -> bool {
        let heap = self.heaps.take().expect("memory");
        let is_first = ptr::eq(heap, self.first);
        if is_first {
            self.cell.with_mut(|count| {
                // SAFETY: the thread that has the heap has this cell; loom checks.
                unsafe { *count += 1 };
            });
        }
        assert!(heap.has_thread.load(Ordering::Relaxed));
        self.heaps.put(heap);
        is_first
    }
}

#[test]
fn a_heap_has_one_thread() {
    explore(4, || {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let other = loom::thread::spawn(move || u32::from(other.live()));
        let own = u32::from(shared.live()) + u32::from(shared.live());
        let uses = own + other.join().expect("lives only");
        let count = shared.cell.with(|count| {
            // SAFETY: the other ended.
            unsafe { *count }
        });
        assert_eq!(count, uses);
        assert!(uses > 0, "the free heap was never used");
        assert!(shared.heaps.count() <= 2, "more heaps than threads at once");
        let all = shared.heaps.all().count();
        assert_eq!(all, shared.heaps.count());
        let is_free = |heap: &Heap| !heap.has_thread.load(Ordering::Relaxed);
        assert!(shared.heaps.all().all(is_free));
    });
}
