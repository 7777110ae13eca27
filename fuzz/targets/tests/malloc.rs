//! Replays the committed seeds of the allocator's target, which wants the allocator for itself.
//!
//! The library links the node, whose global allocator it is; so the target is compiled again here, and is the
//! only test of the program.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "../src/malloc.rs"]
mod target;

#[test]
fn malloc() {
    corpus::replay("malloc", target::run);
}
