//! The stacks of threads.
//!
//! The kernel names only the main thread's stack, so every other thread marks its stack once to
//! have it attributed.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

static MARKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Marks the calling thread's stack until it is dropped. Stays on its thread.
#[derive(Debug)]
pub struct StackMark {
    address: usize,
    not_send: PhantomData<*const ()>,
}

impl StackMark {
    /// Marks the calling thread's stack.
    #[must_use]
    #[inline(never)]
    pub fn here() -> Self {
        // The address of a local lies within the stack, in an async function too: this
        // call has a frame of its own.
        let local = 0_u8;
        let address = std::ptr::from_ref(std::hint::black_box(&local)).addr();
        MARKED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(address);
        Self {
            address,
            not_send: PhantomData,
        }
    }
}

impl Drop for StackMark {
    fn drop(&mut self) {
        let mut marked = MARKED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = marked.iter().position(|address| *address == self.address) {
            marked.swap_remove(index);
        }
    }
}

/// An address within each marked stack.
pub(super) fn marked() -> Vec<usize> {
    MARKED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lives_as_long_as_its_guard() {
        let (address, within) = std::thread::spawn(|| {
            let mark = StackMark::here();
            let local = 0_u8;
            let distance = std::ptr::from_ref(&local).addr().abs_diff(mark.address);
            assert!(marked().contains(&mark.address));
            (mark.address, distance)
        })
        .join()
        .expect("the thread's asserts hold");
        assert!(within < 1 << 20, "{within}");
        assert!(!marked().contains(&address));
    }
}
