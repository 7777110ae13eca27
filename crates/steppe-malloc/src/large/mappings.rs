//! Blocks above 1 MiB: a mapping each, which is retained, emptied or unmapped when the block is freed.

use core::sync::atomic::Ordering;

use super::{BYTES_MAX, Block, Large, RUN_BYTES_MAX, tails};
use crate::chunk::{CHUNK_BYTES, UNIT_BYTES};
use crate::chunk_map::{CHUNK_MAP, ChunkMap};
use crate::deadline;
use crate::held::{self, REFUSED_BYTES, RETAINED_BYTES};
use crate::huge::{Huge, LIVE, PLACE, RETAINED, SPARE};
use crate::list::List;
use crate::meta::META;
use crate::places::{self, SHARING_BYTES_MAX};
use crate::profile;
use crate::report;
use crate::sys;

/// Retained mappings that are looked at for a request.
const LOOKS_MAX: usize = 64;

impl Large {
    /// A block of `bytes` at a multiple of `align`, a power of two. `None`: no memory.
    pub fn allocate(&self, bytes: usize, align: usize) -> Option<Block> {
        if bytes > BYTES_MAX || align > BYTES_MAX / 2 {
            return None;
        }
        if bytes <= RUN_BYTES_MAX && align <= RUN_BYTES_MAX {
            let units = bytes.div_ceil(UNIT_BYTES).max(1);
            if let Some(block) = self.allocate_run(units, align.div_ceil(UNIT_BYTES).max(1)) {
                return Some(block);
            }
        }
        self.allocate_huge(bytes, align)
    }

    fn allocate_huge(&self, bytes: usize, align: usize) -> Option<Block> {
        let bytes = bytes.max(1).checked_next_multiple_of(sys::page_bytes())?;
        if let Some(huge) = self.take_retained(bytes, align) {
            if huge.block_bytes.get() == bytes || self.remap(huge, bytes) {
                return Some(self.hand_out(huge));
            }
            self.give_up(huge);
        }
        if !held::take(bytes) {
            return None;
        }
        let huge = self
            .take_place(bytes, align)
            .or_else(|| self.map(bytes, align))
            .or_else(|| self.unmap_places().then(|| self.map(bytes, align))?);
        let Some(huge) = huge else {
            held::give(bytes);
            return None;
        };
        self.mappings.fetch_add(1, Ordering::Relaxed);
        let alone = usize::from(!huge.shares.get());
        self.alone.fetch_add(alone, Ordering::Relaxed);
        Some(self.hand_out(huge))
    }

    fn map(&self, bytes: usize, align: usize) -> Option<&'static Huge> {
        let huge = self.spare_record()?;
        let padding = places::padding(bytes, self.alone.load(Ordering::Relaxed));
        let shares = padding.is_some_and(|padding| Self::map_padded(huge, align, (bytes, padding)));
        huge.shares.set(shares);
        if !shares && !Self::map_as(huge, align, (bytes, 0)) {
            let _guard = self.lock.lock();
            self.spare.push_front(huge);
            return None;
        }
        // A huge page of a short block would reach into its padding.
        let wants_huge_pages = profile::huge_pages() && !huge.shares.get();
        sys::advise_huge_pages(huge.base.get(), huge.mapped_bytes(), wants_huge_pages);
        huge.is_clean.set(true);
        Some(huge)
    }

    /// The same as [`Large::map_as`], with padding. False: refused, or padding would cost memory (mlockall(2) with
    /// `MCL_FUTURE`).
    fn map_padded(huge: &'static Huge, align: usize, (bytes, padding): (usize, usize)) -> bool {
        if !Self::map_as(huge, align, (bytes, padding)) {
            return false;
        }
        let is_locked = padding > 0 && sys::is_resident(huge.base.get().wrapping_add(bytes));
        if is_locked {
            // SAFETY: just mapped; no other thread has the address.
            unsafe { CHUNK_MAP.unmap(huge.base.get(), bytes + padding) };
        }
        !is_locked
    }

    /// Maps a block of `bytes` and as much `padding`. False: refused.
    fn map_as(huge: &'static Huge, align: usize, (bytes, padding): (usize, usize)) -> bool {
        huge.block_bytes.set(bytes);
        huge.padding_bytes.set(padding);
        let mapped = CHUNK_MAP.map(bytes + padding, align, |base| {
            huge.base.set(base);
            ChunkMap::huge_entry(huge)
        });
        mapped.is_some()
    }

    /// Takes a place: a mapping whose memory went back and whose address range did not.
    fn take_place(&self, bytes: usize, align: usize) -> Option<&'static Huge> {
        if bytes > SHARING_BYTES_MAX || align > CHUNK_BYTES {
            return None;
        }
        let guard = self.lock.lock();
        let huge = self.places.take(bytes)?;
        drop(guard);
        huge.set_block_bytes(bytes);
        Some(huge)
    }

    fn hand_out(&self, huge: &'static Huge) -> Block {
        huge.state.store(LIVE, Ordering::Relaxed);
        self.huge_bytes
            .fetch_add(huge.block_bytes.get(), Ordering::Relaxed);
        Block {
            pointer: huge.base.get(),
            is_clean: huge.is_clean.replace(false),
        }
    }

    /// Takes the retained mapping that fits best: the smallest that is large enough and not too large, whose rest
    /// becomes its tail, or else the largest that is at least a quarter as large, to be grown. Its pages are resident
    /// already.
    fn take_retained(&self, bytes: usize, align: usize) -> Option<&'static Huge> {
        let slack = (bytes / 16).saturating_mul(profile::current().numbers().huge_slack_16ths);
        let _guard = self.lock.lock();
        let mut best: Option<&'static Huge> = None;
        let mut next = self.retained.first();
        for _ in 0..LOOKS_MAX {
            let Some(huge) = next else { break };
            next = <List<Huge, 0>>::next(huge);
            let mapped = huge.block_bytes.get();
            let fits = mapped >= bytes / 4 && mapped <= bytes.saturating_add(slack);
            // All lie at multiples of a chunk's size; a mapping that moves to grow is aligned to no more than that.
            let is_aligned = align <= CHUNK_BYTES
                || mapped >= bytes && huge.base.get().addr().is_multiple_of(align);
            let is_better = best.is_none_or(|best| {
                let best = best.block_bytes.get();
                match mapped >= bytes {
                    true => best < bytes || mapped < best,
                    false => best < bytes && mapped > best,
                }
            });
            if fits && is_aligned && is_better {
                best = Some(huge);
            }
        }
        let best = best?;
        self.retained.remove(best);
        let mapped = best.block_bytes.get();
        RETAINED_BYTES.fetch_sub(mapped, Ordering::Relaxed);
        if mapped > bytes {
            best.set_block_bytes(bytes);
            self.put_tail(best, mapped - bytes);
        }
        Some(best)
    }

    /// Makes a block `bytes` long, in whole pages. False: nothing changed.
    fn remap(&self, huge: &'static Huge, bytes: usize) -> bool {
        let tail_lock = huge.tail_lock.lock();
        let guard = self.lock.lock();
        let stamp = huge.stamp.get();
        let tail = self.take_tail(huge);
        drop(guard);
        let old = huge.block_bytes.get() + tail;
        let growth = bytes.saturating_sub(old);
        let resized = held::take(growth).then(|| {
            let left = self.remap_counted(huge, bytes, tail);
            held::give(left.map_or(growth, |left| old.saturating_sub(bytes + left)));
            left
        });
        let left = resized.flatten();
        let guard = self.lock.lock();
        let left_behind = left.unwrap_or(tail);
        match tail {
            0 => self.put_tail(huge, left_behind),
            _ => self.keep_tail(huge, left_behind, stamp),
        }
        // In this order: a child of a fork between the two would find the record in a list, and locked for ever.
        drop(tail_lock);
        drop(guard);
        left.is_some()
    }

    /// Returns the bytes behind the block that may be resident then; `None`: nothing changed.
    fn remap_counted(&self, huge: &'static Huge, bytes: usize, tail: usize) -> Option<usize> {
        let mapped = huge.mapped_bytes();
        let shares = huge.shares.get();
        let grows_within = (huge.block_bytes.get()..=mapped).contains(&bytes);
        let may_move =
            bytes > SHARING_BYTES_MAX || self.alone.load(Ordering::Relaxed) < places::ALONE_MAX;
        if !grows_within && (!shares || bytes > mapped && may_move) {
            // SAFETY: the record's own mapping; the program gave its block up for the result.
            let base = unsafe { CHUNK_MAP.resize(huge.base.get(), mapped, bytes, huge) };
            if let Some(base) = base {
                huge.base.set(base);
                huge.block_bytes.set(bytes);
                huge.padding_bytes.set(0);
                huge.shares.set(false);
                self.alone.fetch_add(usize::from(shares), Ordering::Relaxed);
                return Some(0);
            }
        }
        (bytes <= mapped).then(|| Self::resize_within(huge, bytes, tail))
    }

    /// Makes a block `bytes` long, no longer than its mapping. Returns the bytes behind it that may be resident.
    fn resize_within(huge: &'static Huge, bytes: usize, tail: usize) -> usize {
        let old = huge.block_bytes.get();
        huge.set_block_bytes(bytes);
        let left = (old + tail).saturating_sub(bytes);
        let is_gone = bytes < old && tails::purge_behind(huge, left);
        if is_gone { 0 } else { left }
    }

    fn spare_record(&self) -> Option<&'static Huge> {
        let guard = self.lock.lock();
        if let Some(huge) = self.spare.pop_front() {
            return Some(huge);
        }
        drop(guard);
        let record = META.allocate(size_of::<Huge>())?;
        // SAFETY: zeroed, large enough, never unmapped; all-zero is a spare record.
        Some(unsafe { &*record.cast::<Huge>() })
    }

    /// Takes a mapping back. `pointer` is the pointer that the program frees.
    pub fn free_huge(&self, huge: &'static Huge, pointer: *mut u8) {
        if pointer != huge.base.get() {
            report::misuse("free of a pointer into a block", pointer, 0);
            return;
        }
        let claim =
            huge.state
                .compare_exchange(LIVE, RETAINED, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_err() {
            report::misuse("double free", pointer, 0);
            return;
        }
        let bytes = huge.block_bytes.get();
        self.huge_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let limit = profile::current().numbers().huge_retained_bytes;
        let now = sys::now_ms();
        let tail_lock = huge.tail_lock.lock();
        let guard = self.lock.lock();
        let resident = bytes + self.take_tail(huge);
        huge.set_block_bytes(resident);
        // Before the record is in a list that a fork copies: in the child the lock would stay closed.
        drop(tail_lock);
        if RETAINED_BYTES.load(Ordering::Relaxed) + resident > limit {
            drop(guard);
            self.give_up(huge);
            return;
        }
        huge.stamp.set(now);
        self.retained.push_front(huge);
        RETAINED_BYTES.fetch_add(resident, Ordering::Relaxed);
        drop(guard);
        deadline::note(now);
        held::note_free(bytes);
    }

    /// Makes a mapping `bytes` long. Returns its address then; `None`: nothing changed.
    pub fn resize_huge(&self, huge: &'static Huge, bytes: usize) -> Option<*mut u8> {
        let page = sys::page_bytes();
        let old = huge.block_bytes.get();
        let exact = bytes.checked_next_multiple_of(page)?;
        // A block that grows grows again: an eighth more costs address space, and
        // memory only where the last huge page is.
        let generous = (bytes + bytes / 8).checked_next_multiple_of(page)?;
        let wanted = if exact > old { generous } else { exact };
        if !self.remap(huge, wanted) && !self.remap(huge, exact) {
            return None;
        }
        let new = huge.block_bytes.get();
        self.huge_bytes.fetch_add(new, Ordering::Relaxed);
        self.huge_bytes.fetch_sub(old, Ordering::Relaxed);
        Some(huge.base.get())
    }

    /// Gives back mappings that have been retained for `decay_ms`. Returns the bytes.
    pub fn purge(&self, now: u32, decay_ms: u32) -> usize {
        let purged = self.purge_some(now, decay_ms, usize::MAX);
        if !places::is_crowded(self.mappings.load(Ordering::Relaxed)) {
            self.unmap_places();
        }
        purged + self.offer_refused()
    }

    /// Gives back `enough` bytes, or a mapping's more, of those retained for `decay_ms`. Returns the bytes.
    pub fn purge_some(&self, now: u32, decay_ms: u32, enough: usize) -> usize {
        let mut purged = self.purge_tails(now, decay_ms, enough);
        while purged < enough {
            let guard = self.lock.lock();
            let Some(oldest) = self.retained.last() else {
                break;
            };
            if !deadline::has_passed(oldest.stamp.get(), now, decay_ms) {
                break;
            }
            self.retained.remove(oldest);
            RETAINED_BYTES.fetch_sub(oldest.block_bytes.get(), Ordering::Relaxed);
            drop(guard);
            purged += self.give_up(oldest);
        }
        purged
    }

    /// Gives a mapping back. Its place stays where there are many, or where it can't be had otherwise. Returns the
    /// bytes that went back: none, or all.
    fn give_up(&self, huge: &'static Huge) -> usize {
        self.mappings.fetch_sub(1, Ordering::Relaxed);
        let alone = usize::from(!huge.shares.get());
        self.alone.fetch_sub(alone, Ordering::Relaxed);
        let purged = self.empty(huge);
        if self.places.count() > 0 || self.refused_bytes() > 0 {
            deadline::note(sys::now_ms());
        }
        purged
    }

    /// Gives back the mapping, or else its memory. Returns the bytes that went back: none where the kernel refuses, and
    /// they stay counted.
    fn empty(&self, huge: &'static Huge) -> usize {
        let bytes = huge.block_bytes.get();
        let is_crowded = places::is_crowded(self.mappings.load(Ordering::Relaxed));
        let stays = huge.shares.get() && is_crowded;
        if !stays && self.unmap(huge) {
            held::give(bytes);
            return bytes;
        }
        // SAFETY: the record is in no list and not live: no pointer into its mapping is used.
        let is_gone = unsafe { sys::purge(huge.base.get(), huge.mapped_bytes()) };
        huge.is_clean.set(is_gone);
        huge.state.store(PLACE, Ordering::Relaxed);
        let _guard = self.lock.lock();
        if is_gone {
            self.places.put(huge);
            held::give(bytes);
            return bytes;
        }
        self.refused.push_back(huge);
        REFUSED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        0
    }

    /// Offers the kernel again the memory that it did not take (locked pages). Returns the bytes that went back.
    fn offer_refused(&self) -> usize {
        let mut purged = 0;
        let mut left = self.refused_bytes();
        while left > 0 {
            let guard = self.lock.lock();
            let Some(huge) = self.refused.pop_front() else {
                break;
            };
            let bytes = huge.block_bytes.get();
            REFUSED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
            drop(guard);
            left = left.saturating_sub(bytes);
            purged += self.empty(huge);
        }
        purged
    }

    /// Unmaps a record's mapping. False: the process has as many mappings as it may, and this would cut one in two.
    fn unmap(&self, huge: &'static Huge) -> bool {
        // SAFETY: the record is in no list and not live: no pointer into its mapping is used.
        let is_gone = unsafe { CHUNK_MAP.unmap(huge.base.get(), huge.mapped_bytes()) };
        if is_gone {
            huge.state.store(SPARE, Ordering::Relaxed);
            let _guard = self.lock.lock();
            self.spare.push_front(huge);
        }
        is_gone
    }

    /// Unmaps places that wait for a block. True when there were any.
    pub fn unmap_places(&self) -> bool {
        let count = self.places.count();
        for _ in 0..count {
            let guard = self.lock.lock();
            let Some(huge) = self.places.pop() else { break };
            drop(guard);
            if !self.unmap(huge) {
                let _guard = self.lock.lock();
                self.places.put(huge);
            }
        }
        count > 0
    }
}
