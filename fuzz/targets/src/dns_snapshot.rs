//! Snapshots of a cache: a file of any responses is read without harm, and its entries are written and
//! read again.
//!
//! The input is the responses of a file, two bytes of length before each; checksums are put on here, which
//! a mutation would never get right.

use std::time::Instant;

use steppe_dns::cache::snapshot::{self, Context, View};
use steppe_dns::cache::{Cache, ServePolicy};
use steppe_dns::siphash::{SipHash24, SipKey};
use steppe_dns::wire::TtlPolicy;

const VIEW: View = View {
    number: 3,
    ttl: TtlPolicy {
        min: 0,
        max: 86_400,
        negative_max: 3600,
    },
    serve: ServePolicy {
        stale_positive: 3600,
        stale_negative: 3600,
        prefetch_percent: 0,
    },
};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let now = Instant::now();
    let context = Context {
        now,
        unix_seconds: 1000,
        tag: 1,
        views: &[VIEW; 4],
    };
    let cache = Cache::new(0, SipKey([1, 2]), now);
    // As it is, which ends at the header nearly always.
    let _ = snapshot::read(&cache, &context, &mut &bytes[..]);
    let file = file_of(bytes);
    let restored = snapshot::read(&cache, &context, &mut &file[..]);
    let restored = restored.expect("its header is right");
    let mut again = Vec::new();
    let written = snapshot::write(&cache, &context, &mut again).expect("memory");
    assert!(written <= restored.entries);
    let next = Cache::new(0, SipKey([3, 4]), now);
    let restored = snapshot::read(&next, &context, &mut &again[..]);
    let restored = restored.expect("written here");
    assert!(restored.is_whole);
    assert_eq!((restored.entries, restored.skipped), (written, 0));
}

fn sum(bytes: &[u8]) -> [u8; 8] {
    SipHash24::of(&SipKey([0, 0]), bytes).to_le_bytes()
}

fn file_of(mut rest: &[u8]) -> Vec<u8> {
    let mut file = b"steppeDC\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    file.extend(990_u64.to_le_bytes());
    file.extend(sum(&file));
    while let Some((&[high, low], after)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes([high, low])).min(after.len());
        let (payload, after) = after.split_at(len);
        if !payload.is_empty() {
            file.extend(u32::try_from(len).expect("16 bits").to_le_bytes());
            file.extend(sum(payload));
            file.extend(payload);
        }
        rest = after;
    }
    file
}
