//! Memory attribution of the whole process: one test in a process of its own, since it measures all of it.

use steppe_mem::{Budget, Buffer};
use steppe_node::memory::{Attribution, StackMark};

const MIB: u64 = 1 << 20;

fn now() -> Attribution {
    Attribution::now().expect("/proc is mounted")
}

#[track_caller]
fn bytes(attribution: &Attribution, name: &str) -> u64 {
    attribution.bytes(name).expect("a part of every report")
}

#[test]
fn nearly_all_anonymous_memory_is_attributed() {
    const TEST: &str = "nearly_all_anonymous_memory_is_attributed";
    crate::in_own_process(module_path!(), TEST, attribute);
}

fn attribute() {
    let _stack = StackMark::here();
    let heap: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 256 << 10]).collect();
    let lease = Budget::new(64 * MIB).root().lease();
    let mut mapped = Buffer::take(&lease, 8 << 20).expect("there is room");
    mapped.spare_mut().fill(1);

    let full = now();
    assert!(bytes(&full, "allocator_live") >= 16 * MIB, "{full:#?}");
    assert!(bytes(&full, "pool_mapped") >= 8 * MIB, "{full:#?}");
    assert!(bytes(&full, "thread_stacks") > 0, "{full:#?}");
    assert!(bytes(&full, "program_data") > 0, "{full:#?}");
    assert!(full.explained_bytes() <= full.anonymous_bytes);
    assert!(full.explained_ratio() >= 0.95, "{full:#?}");

    drop((heap, mapped));
    let empty = now();
    assert!(bytes(&empty, "allocator_live") < 16 * MIB, "{empty:#?}");
    assert_eq!(bytes(&empty, "pool_mapped"), 0, "{empty:#?}");

    // A leak outside all counters must not be distributed among the categories.
    let mut foreign = memmap2::MmapMut::map_anon(32 << 20).expect("memory");
    foreign.fill(1);
    let leaking = now();
    // If the allocator reports only its total, memory up to that total is attributed to it.
    let unexplained = leaking.unexplained_bytes() - empty.unexplained_bytes();
    let believed = leaking.allocator_resident_bytes - empty.allocator_resident_bytes;
    assert!(
        unexplained + believed >= 31 * MIB,
        "{empty:#?} {leaking:#?}"
    );
    assert!(believed < 16 * MIB, "{empty:#?} {leaking:#?}");
    assert!(leaking.explained_ratio() < 0.75, "{leaking:#?}");
}
