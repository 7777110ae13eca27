//! Domain rules: the lists that a name is on, and the memory of a million rules.

use std::io::Write;

use proptest::prelude::*;
use steppe_dns::rules::{
    BuildError, Builder, Index, Line, LineRule, PlainScope, Reader, Scope, Verdict,
};
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::Name;
use steppe_mem::alloc::{thread_allocations, thread_live_bytes};

const KEY: SipKey = SipKey([11, 12]);

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Builds an index from the text of lists.
fn built(lists: &[&str]) -> Index {
    let mut builder = Builder::new(KEY);
    for (list, text) in lists.iter().enumerate() {
        let list = u8::try_from(list).expect("few");
        let mut reader = Reader::new(PlainScope::Suffix);
        for text in text.lines() {
            reader.line(text.as_bytes(), |rule| {
                builder.add(&rule, list).expect("few")
            });
        }
    }
    builder.finish().expect("few combinations")
}

fn listed(index: &Index, text: &str) -> u64 {
    index.matches(&name(text)).listed().0
}

#[test]
fn names_are_on_the_lists_that_have_rules_for_them() {
    let index = built(&[
        "||ads.example^\n@@||good.ads.example^\n||bad.good.ads.example^\n",
        "0.0.0.0 www.ads.example\n0.0.0.0 Other.Example\n",
        "*.wild.example\nads.example\n",
    ]);
    for (text, expected) in [
        ("ads.example", 0b101),
        ("ADS.example", 0b101),
        ("www.ads.example", 0b111),
        ("x.www.ads.example", 0b101),
        ("good.ads.example", 0b100),
        ("x.good.ads.example", 0b100),
        // An exception applies to all names below it, in spite of other rules of its list.
        ("bad.good.ads.example", 0b100),
        ("other.example", 0b010),
        ("x.other.example", 0),
        ("wild.example", 0b100),
        ("a.wild.example", 0b100),
        ("a.b.wild.example", 0b100),
        ("nads.example", 0),
        ("example", 0),
        (".", 0),
    ] {
        assert_eq!(listed(&index, text), expected, "{text}");
    }
    let matches = index.matches(&name("good.ads.example"));
    assert!(matches.blocked.has(0) && matches.allowed.has(0) && !matches.listed().has(0));
    // ads, good.ads, bad.good.ads, www.ads, other, wild.
    assert_eq!(index.len(), 6);
    let empty = built(&[]);
    assert!(empty.is_empty() && listed(&empty, "ads.example") == 0);
}

#[test]
fn a_list_has_a_bit() {
    let rule = LineRule {
        name: name("a.example"),
        scope: Scope::Exact,
        verdict: Verdict::Block,
    };
    let mut builder = Builder::new(KEY);
    assert!(builder.add(&rule, 63).is_ok());
    assert_eq!(builder.add(&rule, 64), Err(BuildError::List(64)));
    let index = builder.finish().expect("one");
    assert_eq!(listed(&index, "a.example"), 1 << 63);
}

#[test]
fn a_million_rules_take_less_than_ten_megabytes() {
    const RULES: u64 = 1_000_000;
    // Live bytes of this thread alone: the harness's thread allocates meanwhile.
    let before = thread_live_bytes();
    let live = || u64::try_from(thread_live_bytes() - before).expect("what was there before stays");
    let (mut builder, mut reader) = (Builder::new(KEY), Reader::new(PlainScope::Suffix));
    for number in 0..RULES {
        let text = format!("n{number}.d{}.example", number % 5000);
        let list = u8::try_from(number % 3).expect("small");
        let line = reader.line(text.as_bytes(), |rule| {
            builder.add(&rule, list).expect("room")
        });
        assert_eq!(line, Line::Rules);
    }
    let (collected, said) = (live(), builder.bytes() as u64);
    assert!(
        said <= collected && collected < said + said / 20,
        "{said} of {collected}"
    );
    let index_max = Index::bytes_max(builder.len()) as u64;
    let index = builder.finish().expect("three combinations");
    let kept = live();
    println!(
        "{} rules: index {} bytes, live {kept}, while collecting {collected}",
        index.len(),
        index.bytes(),
    );
    assert_eq!(index.len() as u64, RULES);
    assert!(index.bytes() < 10_000_000 && kept < 10_000_000, "{kept}");
    // Beside the index: three masks, and the table to find them.
    assert!(kept <= index_max + 4096, "{kept} of {index_max}");
    // Together with the previous index, a reload takes less than 2.5 times twenty megabytes.
    assert!(collected + index_max + kept < 50_000_000, "{collected}");
    let allocations = thread_allocations();
    for number in (0..RULES).step_by(37) {
        let on = stack_name(number, number % 5000);
        assert_eq!(index.matches(&on).listed().0, 1 << (number % 3));
        let off = stack_name(number, number % 5000 + 1);
        assert_eq!(index.matches(&off).listed().0, 0);
    }
    assert_eq!(
        thread_allocations(),
        allocations,
        "a lookup allocates nothing"
    );
}

/// Makes the name `www.n1.d2.example` without an allocation.
fn stack_name(number: u64, part: u64) -> Name {
    let mut buf = [0_u8; 64];
    let mut cursor = &mut buf[..];
    write!(cursor, "www.n{number}.d{part}.example").expect("room");
    let left = cursor.len();
    let len = buf.len() - left;
    std::str::from_utf8(&buf[..len])
        .expect("ASCII")
        .parse()
        .expect("a name")
}

proptest! {
    /// Compares the index with a linear search of its rules.
    #[test]
    fn the_index_says_what_its_rules_say(
        rules in prop::collection::vec(
            (prop::collection::vec(0..3_u8, 1..5), 0..4_u8, 0..3_u8, any::<bool>()), 0..40),
        asked in prop::collection::vec(prop::collection::vec(0..3_u8, 1..6), 1..20),
    ) {
        let text = |labels: &[u8]| {
            labels.iter().map(|label| char::from(b'a' + label).to_string()).collect::<Vec<_>>().join(".")
        };
        let mut builder = Builder::new(KEY);
        let rules: Vec<(Name, u8, Scope, Verdict)> = rules
            .iter()
            .map(|(labels, list, scope, is_block)| {
                let scope = [Scope::Exact, Scope::Below, Scope::Suffix][usize::from(*scope)];
                let verdict = if *is_block { Verdict::Block } else { Verdict::Allow };
                (name(&text(labels)), *list, scope, verdict)
            })
            .collect();
        for (name, list, scope, verdict) in &rules {
            let rule = LineRule { name: *name, scope: *scope, verdict: *verdict };
            builder.add(&rule, *list).unwrap();
        }
        let index = builder.finish().unwrap();
        for labels in asked {
            let asked = name(&text(&labels));
            let mut expected = [0_u64; 2];
            for (name, list, scope, verdict) in &rules {
                let is_for_it = match scope {
                    Scope::Exact => asked == *name,
                    Scope::Below => asked != *name && asked.is_at_or_below(name),
                    Scope::Suffix => asked.is_at_or_below(name),
                };
                expected[usize::from(*verdict == Verdict::Allow)] |= u64::from(is_for_it) << list;
            }
            let matches = index.matches(&asked);
            prop_assert_eq!([matches.blocked.0, matches.allowed.0], expected);
        }
    }
}
