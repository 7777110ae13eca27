//! The C-shaped interface: pointers and sizes, null when there is no memory.
//!
//! Null comes with `errno` set to `ENOMEM`.
//!
//! Invariant: the fast paths of [`allocate`] and [`free`], taken when a bin has a block, or room, take no lock, make no
//! call and touch nothing that another thread writes.

use core::ops::Range;
use core::ptr;

use crate::chunk::{CHUNK_BYTES, Kind, UNIT_BYTES};
use crate::chunk_map::{self, CHUNK_MAP, Owner, class_at, class_in_window};
use crate::control_group::GROUP;
use crate::decay;
use crate::depot::{self, Place};
use crate::heap::threads;
use crate::heap_profile;
use crate::large::{BYTES_MAX, Block, LARGE};
use crate::pressure;
use crate::report;
use crate::size_class::{BLOCK_BYTES, CLASSES, SMALL_BYTES_MAX, TABLE_BYTES_MAX, class_of};
use crate::{foreign, start, sys, tls};

/// Every block is aligned to this, in bytes.
pub const ALIGN: usize = 16;

/// Bytes at the end of each block of a class that the hardened build keeps for its fence.
const FENCE_BYTES: usize = if cfg!(feature = "hardened") { 8 } else { 0 };
/// The report of a `free` of a pointer without an owner.
const NOBODYS: &str = "free of a pointer not from this allocator, or freed long ago";

/// Requests above this have no class.
const SMALL_REQUEST_MAX: usize = SMALL_BYTES_MAX - FENCE_BYTES;

/// At least `size` bytes, aligned to [`ALIGN`]; null when there is no memory. 0 bytes are a block
/// like any other.
#[inline(always)]
#[must_use]
pub fn allocate(size: usize) -> *mut u8 {
    if size > TABLE_BYTES_MAX - FENCE_BYTES {
        return allocate_medium(size);
    }
    let heap = tls::heap();
    let class = heap.class_of(size + FENCE_BYTES);
    hand_out(heap.pop(class), class, size)
}

#[inline(never)]
fn allocate_medium(size: usize) -> *mut u8 {
    if size > SMALL_REQUEST_MAX {
        return allocate_large(size, ALIGN).map_or(ptr::null_mut(), |block| block.pointer);
    }
    let class = class_of(size + FENCE_BYTES);
    hand_out(tls::heap().pop_announced(class), class, size)
}

/// A block that came out of a bin, or else one of the slow path.
#[inline(always)]
#[cfg_attr(
    not(feature = "hardened"),
    expect(unused_variables, reason = "the class is for marks")
)]
fn hand_out(block: *mut u8, class: usize, size: usize) -> *mut u8 {
    if block.is_null() {
        return allocate_slowly(size);
    }
    #[cfg(feature = "hardened")]
    crate::hardened::on_allocate(block, class);
    block
}

#[cold]
#[inline(never)]
fn allocate_slowly(size: usize) -> *mut u8 {
    let class = class_of(size + FENCE_BYTES);
    let heap = start::heap();
    if let Some(block) = heap_profile::on_small(size, long_ways) {
        return block;
    }
    let take = || match heap {
        Some(heap) => heap.take(class),
        None => give_one(class),
    };
    let mut block = take();
    pressure::start_if_wanted();
    if block.is_null() {
        pressure::make_room();
        block = take();
    }
    if block.is_null() {
        return refuse();
    }
    #[cfg(feature = "hardened")]
    crate::hardened::on_allocate(block, class);
    block
}

/// Sets `ENOMEM` and returns null. A function of its own, since code after a call costs the path without one too:
/// `malloc` would have to keep a frame for it.
fn refuse() -> *mut u8 {
    sys::set_errno(libc::ENOMEM);
    ptr::null_mut()
}

/// A block for a thread without bins.
fn give_one(class: usize) -> *mut u8 {
    let mut given = ptr::null_mut();
    depot::of(0, class).give((0, class), 1, |block| given = block);
    given
}

#[cold]
fn allocate_large(size: usize, align: usize) -> Option<Block> {
    // Reads the environment, if this is the first block of the process.
    start::heap();
    let block = LARGE.allocate(size, align).or_else(|| {
        pressure::make_room();
        LARGE.allocate(size, align)
    });
    pressure::tick();
    pressure::start_if_wanted();
    match block {
        Some(block) => heap_profile::on_large(block.pointer, size, long_ways),
        None => _ = refuse(),
    }
    block
}

/// The same as [`allocate`], zeroed.
#[must_use]
pub fn allocate_zeroed(size: usize) -> *mut u8 {
    if size > SMALL_REQUEST_MAX {
        let Some(block) = allocate_large(size, ALIGN) else {
            return ptr::null_mut();
        };
        if !block.is_clean {
            // SAFETY: the block was just handed out and has `size` bytes.
            unsafe { ptr::write_bytes(block.pointer, 0, size) };
        }
        return block.pointer;
    }
    let block = allocate(size);
    if !block.is_null() {
        // SAFETY: the block was just handed out and has `size` bytes.
        unsafe { ptr::write_bytes(block, 0, size) };
    }
    block
}

/// At least `size` bytes at a multiple of `align`, a power of two; null when there is no memory.
#[must_use]
pub fn allocate_aligned(align: usize, size: usize) -> *mut u8 {
    debug_assert!(align.is_power_of_two());
    if align <= ALIGN {
        return allocate(size);
    }
    match aligned_class(align, size) {
        Some(class) => allocate(BLOCK_BYTES[class % CLASSES] - FENCE_BYTES),
        None => allocate_large(size, align).map_or(ptr::null_mut(), |block| block.pointer),
    }
}

/// The smallest class whose blocks hold `size` bytes and all lie at multiples of `align`: slabs start at multiples of
/// 64 KiB, so those whose block size is a multiple of `align`.
fn aligned_class(align: usize, size: usize) -> Option<usize> {
    if size > SMALL_REQUEST_MAX || align > SMALL_BYTES_MAX {
        return None;
    }
    (class_of(align.max(size + FENCE_BYTES))..CLASSES)
        .find(|&class| BLOCK_BYTES[class % CLASSES].is_multiple_of(align))
}

/// Takes a block back; null does nothing. Does not change `errno`.
///
/// A pointer that is no block's is reported on standard error and otherwise ignored; the hardened
/// build ends the process. Not every wrong pointer is noticed.
///
/// # Safety
/// `pointer` is null or came from this module, was not taken back yet, and is not used again.
#[inline(always)]
pub unsafe fn free(pointer: *mut u8) {
    let Some(class) = class_in_window(pointer.addr()) else {
        return free_slowly(pointer);
    };
    #[cfg(feature = "hardened")]
    if class != 0 && !crate::hardened::on_free(pointer, class) {
        return;
    }
    if !tls::heap().push(class, pointer) {
        free_slowly(pointer);
    }
}

#[cold]
#[inline(never)]
fn free_slowly(pointer: *mut u8) {
    if pointer.is_null() {
        return;
    }
    sys::keeping_errno(|| {
        let class = class_at(pointer.addr());
        if class != 0 {
            free_small(pointer, class);
        } else {
            free_other(pointer);
        }
        pressure::tick();
    });
}

fn free_small(pointer: *mut u8, class: usize) {
    match start::heap_to_free() {
        Some(heap) if heap.push(class, pointer) => {}
        Some(heap) => heap.overflow(class, pointer),
        None => depot::take_all(class, &mut [pointer], Place::Slabs),
    }
}

/// Frees a pointer that is no block of a slab in the window.
fn free_other(pointer: *mut u8) {
    match chunk_map::owner(pointer.addr()) {
        Owner::Chunk(chunk) => {
            let unit = chunk.unit_at(pointer.addr());
            match unit.kind() {
                Kind::Slab => {
                    let class = unit.class();
                    #[cfg(feature = "hardened")]
                    if !crate::hardened::on_free(pointer, class) {
                        return;
                    }
                    free_small(pointer, class);
                }
                Kind::Run if pointer == unit.base() => {
                    heap_profile::on_free(&unit.sample);
                    LARGE.free_run(unit);
                }
                Kind::Run => report::misuse("free of a pointer into a block", pointer, 0),
                Kind::None => {
                    report::misuse("double free, or free of a pointer into a block", pointer, 0);
                }
            }
        }
        Owner::Huge(huge) => {
            if huge.usable_bytes(pointer) > 0 {
                heap_profile::on_free(&huge.sample);
            }
            LARGE.free_huge(huge, pointer);
        }
        Owner::Nobody if foreign::free(pointer) => {}
        Owner::Nobody => report::misuse(NOBODYS, pointer, 0),
    }
}

/// Moves or grows a block to `size` bytes and keeps its content; null when there is no memory, and
/// then the block is as it was. A null `pointer` allocates.
///
/// # Safety
/// As [`free`], unless null is returned for a `size` that is not 0.
#[must_use]
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return allocate(size);
    }
    let class = class_at(pointer.addr());
    let usable = match BLOCK_BYTES.get(class) {
        Some(&bytes) if bytes > 0 => bytes - FENCE_BYTES,
        _ => {
            if let Some(resized) = resize_in_place(pointer, size) {
                return resized;
            }
            // SAFETY: promised by the caller.
            unsafe { usable_size(pointer) }
        }
    };
    if usable == 0 {
        report::misuse("realloc of a pointer not from this allocator", pointer, 0);
        return ptr::null_mut();
    }
    let fits = size <= usable && size > usable / 2;
    if fits || (class == 1 && size <= usable) {
        return pointer;
    }
    let new = allocate(size);
    if new.is_null() {
        // A smaller block is the same block.
        return if size <= usable { pointer } else { new };
    }
    // SAFETY: both have as many bytes, and the new block is this call's alone.
    unsafe { ptr::copy_nonoverlapping(pointer, new, usable.min(size)) };
    // SAFETY: promised by the caller.
    unsafe { free(pointer) };
    new
}

/// A large block that stays large, where it stands or moved as a mapping.
#[cold]
fn resize_in_place(pointer: *mut u8, size: usize) -> Option<*mut u8> {
    if size <= SMALL_REQUEST_MAX || size > BYTES_MAX {
        return None;
    }
    match chunk_map::owner(pointer.addr()) {
        Owner::Chunk(chunk) => {
            let unit = chunk.unit_at(pointer.addr());
            let is_run = unit.kind() == Kind::Run && pointer == unit.base();
            let old = usize::from(unit.run_units.get()) * UNIT_BYTES;
            // A small block that is a sample belongs among the small ones again.
            let stays = is_run && unit.sample.get() == 0 && LARGE.resize_run(unit, size);
            stays.then(|| {
                pressure::start_if_wanted();
                heap_profile::on_resize(&unit.sample, (old, size), long_ways);
                pointer
            })
        }
        Owner::Huge(huge) => {
            let usable = huge.usable_bytes(pointer);
            // A block that shrinks to a run's size moves to a run.
            if usable == 0 || size <= crate::large::RUN_BYTES_MAX {
                return None;
            }
            if size <= usable && size > usable - usable / 8 {
                return Some(pointer);
            }
            let resized = pressure::with_room(|| LARGE.resize_huge(huge, size))?;
            decay::start_if_wanted();
            heap_profile::on_resize(&huge.sample, (usable, size), long_ways);
            Some(resized)
        }
        Owner::Nobody => None,
    }
}

/// Bytes that may be used at `pointer`; 0 for null or a pointer that is no block's start.
///
/// # Safety
/// As [`free`], but the block stays.
#[must_use]
pub unsafe fn usable_size(pointer: *mut u8) -> usize {
    let class = class_at(pointer.addr());
    if let Some(&bytes) = BLOCK_BYTES.get(class)
        && bytes > 0
    {
        return bytes - FENCE_BYTES;
    }
    match chunk_map::owner(pointer.addr()) {
        Owner::Chunk(chunk) => {
            let unit = chunk.unit_at(pointer.addr());
            match unit.kind() {
                Kind::Slab => BLOCK_BYTES[unit.class() % CLASSES] - FENCE_BYTES,
                Kind::Run if pointer == unit.base() => {
                    usize::from(unit.run_units.get()) * UNIT_BYTES
                }
                _ => 0,
            }
        }
        Owner::Huge(huge) => huge.usable_bytes(pointer),
        Owner::Nobody => foreign::usable_bytes(pointer),
    }
}

/// True if an address is in memory that this allocator hands blocks out of.
#[must_use]
pub fn owns(pointer: *const u8) -> bool {
    CHUNK_MAP.contains(pointer.addr())
}

/// True if memory that this allocator hands blocks out of lies in a range of addresses that is a mapping of the
/// process, or several. A look for each 4 MiB of it.
#[must_use]
pub fn owns_any(mapping: Range<usize>) -> bool {
    let chunks = mapping.start.next_multiple_of(CHUNK_BYTES)..mapping.end;
    core::iter::once(mapping.start)
        .chain(chunks.step_by(CHUNK_BYTES))
        .any(|address| CHUNK_MAP.contains(address))
}

/// Gives free memory back to the system now, including the calling thread's bins. True if any went back.
pub fn trim() -> bool {
    if let Some(heap) = threads::current() {
        heap.flush_all();
    }
    decay::purge_all() > 0
}

/// Flushes the calling thread's bins to the depots, so that the blocks decay while it sleeps, and gives back what is
/// due. For an event loop that is about to sleep. Cheap when there is nothing to do.
pub fn on_idle() {
    if let Some(heap) = threads::current() {
        heap.flush_all();
    }
    pressure::tick();
    pressure::start_if_wanted();
}

/// Ends the library's own thread, and has none started from now on, for a program that must be single-threaded. True
/// when there was one: the kernel may count it for a moment after this.
#[must_use]
pub fn stop_thread() -> bool {
    decay::stop()
}

/// Starts no thread and reads no file of the control group from now on, unless already done. For a program that is
/// about to forbid system calls (seccomp(2)).
pub fn expect_filters() {
    decay::forbid_thread();
    GROUP.ignore();
}

/// Functions between a request and the heap profile.
fn long_ways() -> [usize; 7] {
    [
        allocate_slowly as *const () as usize,
        allocate_medium as *const () as usize,
        allocate_large as *const () as usize,
        allocate_zeroed as *const () as usize,
        allocate_aligned as *const () as usize,
        reallocate as *const () as usize,
        resize_in_place as *const () as usize,
    ]
}
