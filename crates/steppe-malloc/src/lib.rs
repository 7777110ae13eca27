//! A general-purpose allocator: fast, lean, and it returns memory to the system while the program is idle.
//!
//! [`SteppeMalloc`] is its `#[global_allocator]`; `steppe-malloc-abi` builds the library that C programs link or
//! preload. `docs/malloc/README.md` is the guide for users; this page is for contributors.
//!
//! # The path of a block
//! ```text
//!   thread A              thread B                      shared, each behind a lock of its own
//!  ┌─────────┐           ┌─────────┐
//!  │ heap    │           │ heap    │                one depot a class and shard
//!  │ 16  ▮▮▯ │           │ 16  ▮▯▯ │   batches     ┌─────────────────────┐  units   ┌───────────┐
//!  │ 32  ▮▯▯ │ ◀───────▶ │ 32  ▯▯▯ │ ◀───────────▶ │ store ▮▮▮▮▯▯        │ ◀──────▶ │ pool      │
//!  │ …       │           │ …       │               │ slabs 0110… 1111…   │          │ of free   │
//!  │ 112 ▮▮▮ │           │ 112 ▮▯▯ │               └─────────────────────┘          │ units     │
//!  └─────────┘           └─────────┘                                                └─────┬─────┘
//!   a bin a class: an array of pointers, last in, first out             4 MiB chunks      │ decay
//!   no lock, no call, no shared line                                                the system
//! ```
//!
//! # Map of files
//! From the fast path to the slow path; read them in this order. A folder has the submodules and tests of the file
//! beside it.
//!
//! - `size_class.rs`: size classes; request size to class, class to block size
//! - `tls.rs`: thread-local pointer to the thread's heap
//! - `heap.rs`, `heap/`: heap of a thread, a bin for each size class; the fast paths of `malloc` and `free`; batches
//!   between bins and depots (`batches.rs`), the heaps of all threads (`threads.rs`), sweeping the bins of threads that
//!   sleep (`sweep.rs`)
//! - `depot.rs`, `depot/`: depot of a size class and shard: its store of blocks, its slabs, purging of pages
//!   (`pages.rs`)
//! - `chunk.rs`, `chunk/`: chunk metadata: the units of a 4 MiB chunk, the bitmap of each slab; pages of metadata that
//!   need no memory (`book_pages.rs`)
//! - `pool.rs`, `pool/`: free units of the process and their decay
//! - `chunk_map.rs`: address to chunk, and address to size class
//! - `large.rs`, `large/`: blocks above 32 KiB: runs of units up to 1 MiB, mappings above that, and the rest that a
//!   shorter block leaves of a mapping (`tails.rs`)
//! - `huge.rs`: record of a mapping that is one block
//! - `places.rs`: mappings of thousands of large blocks, which share the kernel's
//! - `decay.rs`: purging of free memory after the decay time, and the background thread
//! - `deadline.rs`: time of the next purge
//! - `held.rs`: bytes held from the system, and the bounds on them
//! - `pressure.rs`, `pressure/`: answers where a bound is passed: soft limit, watermark, control group, too much free
//!   memory
//! - `control_group.rs`, `control_group/`: memory of the control group: limit, usage, pressure
//! - `profile.rs`: profiles (`speed`, `balanced`, `lean`) as numbers: sizes of bins and depots, decay time
//! - `start.rs`: initialization at the first allocation of the process
//! - `settings.rs`: settings from environment variables
//! - `stats.rs`: statistics, summed from the metadata
//! - `heap_profile.rs`, `heap_profile/`: heap profiler: sampling, stack traces, the file that it writes
//! - `hardened.rs`: hardened build: fences, live bits and guard units that detect misuse
//! - `fork.rs`, `fork/`: fork handlers, and the order of all locks
//! - `list.rs`: intrusive doubly linked lists
//! - `meta.rs`: memory for the allocator's own records, never unmapped
//! - `sync.rs`, `sync/`: atomics and the futex lock; loom's under `--cfg loom`
//! - `report.rs`: messages on standard error: misuse, invalid settings
//! - `foreign.rs`: blocks of glibc's own `malloc`, which are handed to its `free`
//! - `probe.rs`: reads of memory that may not be there
//! - `file.rs`: files that settings name: paths, and which process writes them
//! - `sys.rs`, `sys/`: system calls and libc: mappings, sleep, clock, threads, files
//! - `errno.rs`: the calling thread's error number
//! - `global.rs`: `#[global_allocator]` of Rust programs
//! - `raw.rs`: the entry points: `allocate`, `free` and `reallocate` on raw pointers
//!
//! # Example: 100 bytes that another thread frees
//! The drawings call metadata "books".
//!
//! 1. Thread A calls `malloc(100)`. Seven granules of 16 bytes: class 7, blocks of 112 bytes. The top of A's bin of
//!    class 7 is the block, and the top steps down: 16 instructions (`heap`, `pop`).
//! 2. The bin had been filled before: A's first request found it empty, so the depot of class 7 in A's shard gave a
//!    batch: two blocks, then four, up to half a bin. The depot's store was empty, so the blocks came from its fullest
//!    slab, the lowest addresses first:
//!    ```text
//!    unit of 64 KiB: 585 blocks of 112 bytes                    its books, at the chunk's start
//!    ┌─────┬─────┬─────┬─────┬─────┬─ ─ ─┬─────┬──────┐         class 7, shard 0, used 4
//!    │  0  │  1  │  2  │  3  │  4  │     │ 584 │ rest │         dirty pages 0000000000000001
//!    └─────┴─────┴─────┴─────┴─────┴─ ─ ─┴─────┴──────┘         bits 00001111…1  (1: free)
//!    ```
//! 3. A passes the block to thread B, and B calls `free`. The address minus the start of the window, divided by
//!    64 KiB, is the index of the unit; the byte of this unit in `CLASS_OF_UNIT` is its class, 7. The top of *B's* bin
//!    of class 7 steps up and holds the pointer: 17 instructions, which touch neither the block nor its metadata. B's
//!    next `malloc(100)` gets this block.
//! 4. If B only frees, its bin fills up (128 blocks here). The older half is flushed: each block goes to the depot of
//!    the shard that owns its slab, which a byte of the chunk's metadata names. The depot keeps it in its store, from
//!    which A's next batch takes it: one lock for 64 blocks on either side.
//! 5. If A does not allocate, the store fills up too, and the block's bit in its slab is set: the slab has one used
//!    block less. After a second in which the slab was not used, the pages with free blocks only are returned to the
//!    system. A slab without used blocks becomes a free unit of the pool, where any class or run may take it; after
//!    another second its memory is returned to the system.
//! 6. If the bit is already set, the free is a double free: it is reported, and has no other effect.
//!
//! # Invariants of the whole
//! - A block is in exactly one place: with the program, in one bin, in one store, or a set bit.
//! - Nothing is written into free blocks, so free pages can be purged and read as zeros afterwards. (The hardened
//!   build does write into free blocks of bins and stores.)
//! - All growth is bounded by a peak: heaps by the threads that lived at once, metadata by the memory that was mapped
//!   at once. Nothing grows with the number of calls.
//! - The fast paths read no clock, take no lock and touch no cache line that another thread writes.
//!
//! # Limits
//! A sleeping thread keeps a block of each class up to 1 KiB once its bins are swept, and without the background thread
//! all of its bins (at most 64 KiB a class in the default profile, see [`profile`]; `raw::on_idle` empties them). The normal
//! build does not detect a program that writes to freed memory, or frees a block that was allocated again.
#![cfg_attr(not(any(miri, loom, test)), no_std)]
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

mod chunk;
mod chunk_map;
mod control_group;
mod deadline;
mod decay;
mod depot;
mod errno;
mod file;
pub mod foreign;
mod fork;
mod global;
#[cfg(feature = "hardened")]
mod hardened;
mod heap;
pub mod heap_profile;
mod held;
mod huge;
mod large;
mod list;
mod meta;
mod places;
mod pool;
pub mod pressure;
mod probe;
pub mod profile;
pub mod raw;
mod report;
mod settings;
pub mod size_class;
pub mod start;
pub mod stats;
mod sync;
mod sys;
mod tls;

pub use global::SteppeMalloc;
