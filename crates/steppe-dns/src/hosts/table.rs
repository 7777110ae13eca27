//! The table of local names.
//!
//! ```text
//!  entries: 64 bits of a keyed hash, and a place in `bytes`; in the order of hashes
//!  bytes:   for each name its length (1 byte), its wire form, the length of its records (2), records
//! ```
//! After the hash, the whole name is compared, so no other name is ever taken for a local one.

use std::collections::BTreeMap;

use super::record_data::{RecordData, RecordSet, Records};
use crate::rules::hash_name;
use crate::siphash::SipKey;
use crate::wire::Name;

/// Names with their records.
#[derive(Debug)]
pub struct HostTable {
    key: SipKey,
    entries: Box<[(u64, u32)]>,
    bytes: Box<[u8]>,
}

impl HostTable {
    pub(super) fn new(key: SipKey, names: BTreeMap<Box<[u8]>, Vec<RecordData>>) -> Self {
        let mut entries = Vec::with_capacity(names.len());
        let mut bytes = Vec::new();
        for (wire, records) in names {
            let place = u32::try_from(bytes.len());
            let (Ok(name), Ok(place), Ok(len)) =
                (Name::from_wire(&wire), place, u8::try_from(wire.len()))
            else {
                continue;
            };
            let records = RecordSet::new(&records);
            let records_len = u16::try_from(records.as_bytes().len()).unwrap_or_default();
            entries.push((hash_name(&key, &name).0, place));
            bytes.push(len);
            bytes.extend_from_slice(&wire);
            bytes.extend_from_slice(&records_len.to_be_bytes());
            bytes.extend_from_slice(&records.as_bytes()[..records_len.into()]);
        }
        entries.sort_unstable();
        Self {
            key,
            entries: entries.into_boxed_slice(),
            bytes: bytes.into_boxed_slice(),
        }
    }

    /// The records of a name; `None`: the table does not have the name.
    #[must_use]
    pub fn find(&self, name: &Name) -> Option<Records<'_>> {
        if self.entries.is_empty() {
            return None;
        }
        let (hash, _) = hash_name(&self.key, name);
        let start = self.entries.partition_point(|entry| entry.0 < hash);
        let mut same = self.entries[start..]
            .iter()
            .take_while(|entry| entry.0 == hash);
        same.find_map(|(_, place)| {
            let rest = self.bytes.get(*place as usize..)?;
            let (len, rest) = rest.split_first()?;
            let (wire, rest) = rest.split_at_checked(usize::from(*len))?;
            if !wire.eq_ignore_ascii_case(name.wire()) {
                return None;
            }
            let (records_len, rest) = rest.split_first_chunk()?;
            Some(Records::new(
                rest.get(..usize::from(u16::from_be_bytes(*records_len)))?,
            ))
        })
    }

    /// The number of names, those of addresses included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the table has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the table.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.entries) + self.bytes.len()
    }
}

impl Default for HostTable {
    fn default() -> Self {
        Self::new(SipKey([0, 0]), BTreeMap::new())
    }
}
