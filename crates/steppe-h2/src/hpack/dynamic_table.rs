//! The dynamic table (RFC 7541 §2.3.2 and §4).
//!
//! Names and values stand one behind another in a ring of bytes, oldest first; a ring of entries says where each
//! begins. So an insertion moves no other entry, and a string that goes over the end of the ring is two slices.
//!
//! Invariant: the sizes of the entries, of 32 bytes more than name and value each, sum up to the maximum size at most.
//! Both rings grow by doubling, to what that maximum can fill ([`DynamicTable::memory_bytes_max`]) and no further.

use std::collections::VecDeque;

/// RFC 9113 §6.5.2: the maximum size before SETTINGS say otherwise.
pub const TABLE_BYTES_INITIAL: u32 = 4096;

/// RFC 7541 §4.1: what an entry is counted for beside its name and value.
const ENTRY_OVERHEAD: u32 = 32;

/// Two or three field lines of a common kind, or ten entries: less would be grown at once.
const RING_BYTES_MIN: usize = 128;

/// The entries that field lines made, newest first.
#[derive(Debug, Default)]
pub struct DynamicTable {
    bytes: VecDeque<u8>,
    entries: VecDeque<Entry>,
    /// Place of the next byte, counted since the table began; it wraps around.
    next: u32,
    size: u32,
    size_max: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Place of its first byte, counted as [`DynamicTable::next`].
    start: u32,
    name: u32,
    value: u32,
}

/// A string of an entry: one slice, or two where it goes over the end of the ring.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a>(pub [&'a [u8]; 2]);

impl Pieces<'_> {
    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0[0].len() + self.0[1].len()
    }

    /// Copies it to a place of its length.
    ///
    /// # Panics
    /// The place has another length.
    pub fn copy_to(&self, place: &mut [u8]) {
        let [front, back] = self.0;
        if back.is_empty() {
            return place.copy_from_slice(front);
        }
        let (of_front, of_back) = place.split_at_mut(front.len());
        of_front.copy_from_slice(front);
        of_back.copy_from_slice(back);
    }

    /// Compares with a string.
    #[must_use]
    pub fn is(&self, string: &[u8]) -> bool {
        let [front, back] = self.0;
        match back.is_empty() {
            true => string == front,
            false => {
                string.len() == self.bytes() && string.starts_with(front) && string.ends_with(back)
            }
        }
    }
}

impl DynamicTable {
    pub(super) fn new(size_max: u32) -> Self {
        Self {
            size_max,
            ..Self::default()
        }
    }

    /// Entries in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Without an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// RFC 7541 §4.1: the sum of the sizes of its entries.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// RFC 7541 §4.2: the maximum size.
    #[must_use]
    pub fn size_max(&self) -> u32 {
        self.size_max
    }

    /// Name and value of an entry; the newest is at 0.
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<(Pieces<'_>, Pieces<'_>)> {
        let at = self.entries.len().checked_sub(at + 1)?;
        let entry = self.entries.get(at)?;
        // What is behind it, back from the end of the ring.
        let from_end = self.next.wrapping_sub(entry.start) as usize;
        let name = self.bytes.len() - from_end;
        let value = name + entry.name as usize;
        let end = value + entry.value as usize;
        let (front, back) = self.bytes.as_slices();
        // All but one lie in one piece.
        let whole = match name.checked_sub(front.len()) {
            Some(name) => back.get(name..end - front.len()),
            None => front.get(name..end),
        };
        let Some(whole) = whole else {
            return Some((self.pieces(name, value), self.pieces(value, end)));
        };
        let (name, value) = whole.split_at(entry.name as usize);
        Some((Pieces([name, &[]]), Pieces([value, &[]])))
    }

    /// True when the entry at a place has this name and value.
    pub(super) fn is_entry(&self, at: usize, name: &[u8], value: &[u8]) -> bool {
        let entry = self.entry(at);
        entry.is_some_and(|(of_name, of_value)| of_name.is(name) && of_value.is(value))
    }

    fn pieces(&self, start: usize, end: usize) -> Pieces<'_> {
        let (front, back) = self.bytes.as_slices();
        let of_front = &front[start.min(front.len())..end.min(front.len())];
        let of_back = &back[start.saturating_sub(front.len())..end.saturating_sub(front.len())];
        Pieces([of_front, of_back])
    }

    /// Changes the maximum size; evicts what is above it (RFC 7541 §4.3).
    pub(super) fn set_size_max(&mut self, size_max: u32) {
        self.size_max = size_max;
        self.evict_down_to(size_max);
    }

    /// RFC 7541 §4.4: inserts an entry, or empties the table where the entry is larger than that.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let entry = Entry::of(name, value).filter(|entry| entry.size() <= self.size_max);
        let Some(mut entry) = entry else {
            return self.clear();
        };
        self.evict_down_to(self.size_max - entry.size());
        self.make_room(entry.name + entry.value);
        self.size += entry.size();
        entry.start = self.next;
        self.next = self.next.wrapping_add(entry.name + entry.value);
        self.entries.push_back(entry);
        self.bytes.extend(name);
        self.bytes.extend(value);
    }

    /// Evicts all entries.
    pub(super) fn clear(&mut self) {
        self.evict_down_to(0);
    }

    fn evict_down_to(&mut self, size: u32) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
            self.bytes.drain(..(entry.name + entry.value) as usize);
        }
    }

    /// Makes room for an entry of so many bytes.
    fn make_room(&mut self, bytes: u32) {
        let bytes_max = (self.size_max - ENTRY_OVERHEAD) as usize;
        grow(&mut self.bytes, bytes as usize, bytes_max);
        grow(&mut self.entries, 1, entries_max(self.size_max));
    }

    /// Bytes that its rings have allocated.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The most that its rings allocate for a maximum size.
    #[must_use]
    pub const fn memory_bytes_max(size_max: u32) -> usize {
        let bytes = size_max.saturating_sub(ENTRY_OVERHEAD) as usize;
        bytes + entries_max(size_max) * size_of::<Entry>()
    }
}

impl Entry {
    /// None: it is larger than any table.
    fn of(name: &[u8], value: &[u8]) -> Option<Self> {
        let bytes = name.len().checked_add(value.len())?;
        u32::try_from(bytes).ok()?.checked_add(ENTRY_OVERHEAD)?;
        Some(Self {
            start: 0,
            name: u32::try_from(name.len()).ok()?,
            value: u32::try_from(value.len()).ok()?,
        })
    }

    /// RFC 7541 §4.1.
    fn size(&self) -> u32 {
        self.name + self.value + ENTRY_OVERHEAD
    }
}

/// RFC 7541 §4.1: the size of an entry whose name and value have so many bytes together.
pub(super) fn entry_size(bytes: usize) -> usize {
    bytes.saturating_add(ENTRY_OVERHEAD as usize)
}

/// The most entries that a table has.
pub(super) const fn entries_max(size_max: u32) -> usize {
    (size_max / ENTRY_OVERHEAD) as usize
}

/// Doubles a ring until it has room for `more` elements, up to `most`.
pub(super) fn grow<T>(ring: &mut VecDeque<T>, more: usize, most: usize) {
    let needed = ring.len() + more;
    if needed > ring.capacity() {
        let doubled = RING_BYTES_MIN / size_of::<T>();
        let doubled = doubled.max(2 * ring.capacity());
        ring.reserve_exact(needed.max(doubled).min(most) - ring.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(Vec<u8>, Vec<u8>),
        SetSizeMax(u32),
        Clear,
    }

    /// The table as RFC 7541 §4 describes it.
    #[derive(Default)]
    struct Model {
        /// Newest first.
        entries: Vec<(Vec<u8>, Vec<u8>)>,
        size_max: usize,
    }

    impl Model {
        fn size(&self) -> usize {
            let sizes = self
                .entries
                .iter()
                .map(|(name, value)| name.len() + value.len() + 32);
            sizes.sum()
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Insert(name, value) => self.entries.insert(0, (name, value)),
                Step::SetSizeMax(size_max) => self.size_max = size_max as usize,
                Step::Clear => self.entries.clear(),
            }
            while self.size() > self.size_max {
                self.entries.pop();
            }
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        let string = || vec(any::<u8>(), 0..60);
        let insert = (string(), string()).prop_map(|(name, value)| Step::Insert(name, value));
        prop_oneof![
            40 => insert,
            3 => (0..700_u32).prop_map(Step::SetSizeMax),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        #[test]
        fn a_table_is_as_its_model(steps in vec(step(), 0..100), next in any::<u32>()) {
            let mut table = DynamicTable::new(300);
            // Places that wrap around.
            table.next = next | 0xffff_f000;
            let mut model = Model { size_max: 300, ..Model::default() };
            for step in steps {
                match &step {
                    Step::Insert(name, value) => table.insert(name, value),
                    Step::SetSizeMax(size_max) => table.set_size_max(*size_max),
                    Step::Clear => table.clear(),
                }
                model.step(step);
                prop_assert_eq!(table.size() as usize, model.size());
                prop_assert_eq!(table.len(), model.entries.len());
                prop_assert!(table.entry(table.len()).is_none());
                for (at, (name, value)) in model.entries.iter().enumerate() {
                    let (of_name, of_value) = table.entry(at).expect("it is there");
                    prop_assert_eq!(&of_name.0.concat(), name);
                    prop_assert_eq!(&of_value.0.concat(), value);
                    prop_assert!(of_name.is(name) && of_value.is(value));
                }
                prop_assert!(table.memory_bytes() <= DynamicTable::memory_bytes_max(700));
            }
        }
    }

    #[test]
    fn a_string_is_compared_and_copied_over_both_pieces() {
        let string = Pieces([b"ab", b"cd"]);
        assert!(string.is(b"abcd"));
        for other in [&b"abc"[..], b"abcde", b"bbcd", b"abce", b"", b"cdab"] {
            assert!(!string.is(other));
        }
        let mut place = [0; 4];
        string.copy_to(&mut place);
        assert_eq!(&place, b"abcd");
    }

    #[test]
    fn memory_grows_with_the_entries() {
        let mut table = DynamicTable::new(4096);
        assert_eq!(table.memory_bytes(), 0);
        table.insert(b"name", b"value");
        assert!(table.memory_bytes() < 300, "{} bytes", table.memory_bytes());
        (0..1000).for_each(|_| table.insert(b"", b""));
        assert_eq!(table.len(), 128);
        table.insert(&[b'n'; 4000], &[b'v'; 64]);
        assert_eq!(table.len(), 1);
        assert_eq!(table.memory_bytes(), DynamicTable::memory_bytes_max(4096));
    }
}
