//! Attributes anonymous memory to categories.
//!
//! By mapping: the kernel's page counts of mappings that can be identified: those of a file, of a
//! stack, or of the allocator. By counter: mapped pool buffers, which can't be told from other
//! mappings; they get as many bytes as the pool counts, at most the resident bytes of unidentified
//! mappings.

use super::error::ReportError;
use super::mapping::{self, Kind, Mapping};
use super::pooled::pool_mapped_bytes;
use super::stack;
use crate::allocator::AllocatorView;

/// Anonymous memory by category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribution {
    /// Resident memory, shared files included.
    pub rss_bytes: u64,
    /// Resident memory, shared pages divided among their processes.
    pub pss_bytes: u64,
    /// Resident memory that is not backed by a file.
    pub anonymous_bytes: u64,
    /// The part of it in the allocator's mappings.
    pub allocator_resident_bytes: u64,
    /// The categories.
    pub categories: Vec<Category>,
}

/// The memory of one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Category {
    /// The category's name.
    pub name: &'static str,
    /// Resident anonymous bytes.
    pub bytes: u64,
}

/// The program's own counters.
#[derive(Debug, Clone, Copy)]
struct Counted {
    allocator_live_bytes: u64,
    /// Bytes mapped by an allocator that can't identify its mappings.
    allocator_taken_bytes: u64,
    pool_mapped_bytes: u64,
}

/// Anonymous bytes of mappings, by what identifies the mapping.
#[derive(Debug, Default)]
struct Claims {
    program: u64,
    stacks: u64,
    heap: u64,
    allocator: u64,
    unidentified: u64,
}

/// Size below which a mapping can be a stack; a larger mapping around a mark was merged with a
/// neighbor, whose bytes must not be attributed to the stack.
const STACK_BYTES_MAX: usize = 16 << 20;

impl Attribution {
    /// Samples the process.
    ///
    /// # Errors
    /// If its mappings can't be read.
    pub fn now() -> Result<Self, ReportError> {
        let view = AllocatorView;
        // The counters first: reading the mappings takes longer, and allocates.
        let counted = Counted {
            allocator_live_bytes: steppe_mem::alloc::live_bytes(),
            allocator_taken_bytes: view.taken_bytes(),
            pool_mapped_bytes: pool_mapped_bytes(),
        };
        let mappings = mapping::all()?;
        let claims = Claims::of(&mappings, &stack::marked(), view.owns_break(), |mapping| {
            view.owns(mapping.start, mapping.end)
        });
        let total = |bytes: fn(&Mapping) -> u64| mappings.iter().map(bytes).sum();
        let mut attribution = Self::divide(&claims, counted);
        attribution.rss_bytes = total(|mapping| mapping.rss_bytes);
        attribution.pss_bytes = total(|mapping| mapping.pss_bytes);
        Ok(attribution)
    }

    fn divide(claims: &Claims, counted: Counted) -> Self {
        let pool_mapped = counted.pool_mapped_bytes.min(claims.unidentified);
        let unclaimed = claims.unidentified - pool_mapped;
        let allocator = claims.allocator + counted.allocator_taken_bytes.min(unclaimed);
        // Memory that was allocated and never written is not resident.
        let live = counted.allocator_live_bytes.min(allocator);
        let part = |name, bytes| Category { name, bytes };
        Self {
            rss_bytes: 0,
            pss_bytes: 0,
            anonymous_bytes: claims.total(),
            allocator_resident_bytes: allocator,
            categories: vec![
                part("allocator_live", live),
                part("allocator_retained", allocator - live),
                part("pool_mapped", pool_mapped),
                part("thread_stacks", claims.stacks),
                part("program_data", claims.program),
                part("libc_heap", claims.heap),
            ],
        }
    }

    /// Bytes of all categories.
    #[must_use]
    pub fn explained_bytes(&self) -> u64 {
        self.categories.iter().map(|category| category.bytes).sum()
    }

    /// Bytes of no category.
    #[must_use]
    pub fn unexplained_bytes(&self) -> u64 {
        self.anonymous_bytes.saturating_sub(self.explained_bytes())
    }

    /// The explained share of anonymous memory, 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn explained_ratio(&self) -> f64 {
        self.explained_bytes() as f64 / self.anonymous_bytes.max(1) as f64
    }

    /// The bytes of one category.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.categories
            .iter()
            .find(|category| category.name == name)
            .map(|category| category.bytes)
    }
}

impl Claims {
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn of(
        mappings: &[Mapping],
        stacks: &[usize],
        allocator_owns_break: bool,
        allocator_owns: impl Fn(&Mapping) -> bool,
    ) -> Self {
        let mut claims = Self::default();
        let mut after_data = None;
        for mapping in mappings {
            let follows_data = after_data == Some(mapping.start);
            let is_data = mapping.kind == Kind::File && mapping.writable;
            after_data = is_data.then_some(mapping.end);
            if mapping.anonymous_bytes == 0 {
                continue;
            }
            let category = match mapping.kind {
                Kind::File => &mut claims.program,
                Kind::Stack => &mut claims.stacks,
                Kind::Break if allocator_owns_break => &mut claims.allocator,
                Kind::Break => &mut claims.heap,
                Kind::Mimalloc => &mut claims.allocator,
                Kind::Anonymous if allocator_owns(mapping) => &mut claims.allocator,
                Kind::Anonymous if mapping.holds_any(stacks) => &mut claims.stacks,
                // The loader maps `.bss` right behind the file's data.
                Kind::Anonymous if follows_data => &mut claims.program,
                Kind::Anonymous => &mut claims.unidentified,
            };
            *category += mapping.anonymous_bytes;
        }
        claims
    }

    fn total(&self) -> u64 {
        self.program + self.stacks + self.heap + self.allocator + self.unidentified
    }
}

impl Mapping {
    fn holds_any(&self, stacks: &[usize]) -> bool {
        let is_stack_sized = self.end - self.start <= STACK_BYTES_MAX;
        is_stack_sized
            && stacks
                .iter()
                .any(|stack| (self.start..self.end).contains(stack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: usize, end: usize, kind: Kind, anonymous_bytes: u64) -> Mapping {
        Mapping {
            start,
            end,
            kind,
            writable: true,
            rss_bytes: anonymous_bytes,
            pss_bytes: anonymous_bytes,
            anonymous_bytes,
        }
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn claims(allocator_owns_break: bool) -> Claims {
        let mappings = [
            mapping(0x1000, 0x2000, Kind::File, 1),
            mapping(0x2000, 0x3000, Kind::Anonymous, 20),
            mapping(0x4000, 0x5000, Kind::Break, 300),
            mapping(0x6000, 0x7000, Kind::Anonymous, 4_000),
            mapping(0x8000, 0x9000, Kind::Anonymous, 50_000),
            mapping(0xa000, 0xb000, Kind::Anonymous, 600_000),
            mapping(0xc000, 0xd000, Kind::Mimalloc, 7_000_000),
            mapping(0xe000, 0xf000, Kind::Stack, 80_000_000),
            // A stack that the kernel merged with a neighbor.
            mapping(
                0x1000_0000,
                0x1000_0000 + 2 * STACK_BYTES_MAX,
                Kind::Anonymous,
                900_000_000,
            ),
        ];
        Claims::of(
            &mappings,
            &[0x6800, 0x1000_1000],
            allocator_owns_break,
            |mapping| mapping.start == 0x8000,
        )
    }

    #[test]
    fn each_mapping_is_attributed_to_one_category() {
        let claims = claims(false);
        assert_eq!(claims.program, 21);
        assert_eq!(claims.heap, 300);
        assert_eq!(claims.stacks, 80_004_000);
        assert_eq!(claims.allocator, 7_050_000);
        assert_eq!(claims.unidentified, 900_600_000);
        assert_eq!(claims.total(), 987_654_321);
    }

    #[test]
    fn the_break_is_the_allocators_where_it_says_so() {
        let claims = claims(true);
        assert_eq!((claims.heap, claims.allocator), (0, 7_050_300));
    }

    #[test]
    fn counts_never_exceed_what_is_resident() {
        let counted = Counted {
            allocator_live_bytes: 1_000,
            allocator_taken_bytes: 0,
            pool_mapped_bytes: 1_000,
        };
        let claims = Claims {
            allocator: 600,
            unidentified: 300,
            ..Claims::default()
        };
        let attribution = Attribution::divide(&claims, counted);
        assert_eq!(attribution.bytes("allocator_live"), Some(600));
        assert_eq!(attribution.bytes("allocator_retained"), Some(0));
        assert_eq!(attribution.bytes("pool_mapped"), Some(300));
        assert_eq!(
            (
                attribution.explained_bytes(),
                attribution.unexplained_bytes()
            ),
            (900, 0)
        );
    }

    #[test]
    fn what_the_allocator_keeps_is_named_apart() {
        let counted = Counted {
            allocator_live_bytes: 400,
            allocator_taken_bytes: 0,
            pool_mapped_bytes: 100,
        };
        let claims = Claims {
            allocator: 600,
            unidentified: 300,
            ..Claims::default()
        };
        let attribution = Attribution::divide(&claims, counted);
        assert_eq!(attribution.bytes("allocator_live"), Some(400));
        assert_eq!(attribution.bytes("allocator_retained"), Some(200));
        assert_eq!(attribution.unexplained_bytes(), 200);
    }

    #[test]
    fn an_allocator_that_tells_only_its_total_is_believed_up_to_what_is_unclaimed() {
        let counted = Counted {
            allocator_live_bytes: 100,
            allocator_taken_bytes: 10_000,
            pool_mapped_bytes: 50,
        };
        let claims = Claims {
            unidentified: 300,
            ..Claims::default()
        };
        let attribution = Attribution::divide(&claims, counted);
        assert_eq!(attribution.allocator_resident_bytes, 250);
        assert_eq!(attribution.unexplained_bytes(), 0);
    }
}
