//! Domain rules: which lists a name is on, where its rules stand, and what a million of them take.
//!
//! A binary of its own: the allocator counts for the whole process.

use std::alloc::System;
use std::io::{self, Write};
use std::sync::Mutex;

use proptest::prelude::*;
use steppe_dns::rules::{
    BuildError, Builder, Found, Index, Line, LineRule, Origin, PlainScope, Reader, Scope,
    SourcesError, Verdict, explain,
};
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::Name;
use steppe_mem::alloc::{Counted, live_bytes, thread_allocations};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// Live bytes are those of the process: tests that count them take turns with all others.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

const KEY: SipKey = SipKey([11, 12]);

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// An index of lists given as text, and the file of their sources.
fn built(lists: &[&str]) -> (Index, Vec<u8>) {
    let (mut builder, mut file) = (Builder::new(KEY), Vec::new());
    for (list, text) in lists.iter().enumerate() {
        let list = u8::try_from(list).expect("few");
        let mut reader = Reader::new(PlainScope::Suffix);
        for (line, text) in text.lines().enumerate() {
            let line = u32::try_from(line + 1).expect("few");
            let origin = Origin {
                list,
                file: 100 + u16::from(list),
                line,
            };
            reader.line(text.as_bytes(), |rule| {
                builder.add(&rule, origin).expect("few")
            });
        }
    }
    let index = builder.finish(&mut file).expect("memory");
    (index, file)
}

fn listed(index: &Index, text: &str) -> u64 {
    index.matches(&name(text)).listed().0
}

#[test]
fn names_are_on_the_lists_that_have_rules_for_them() {
    let _turn = turn();
    let (index, _) = built(&[
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
        // An exception counts for all names below it, whatever other rules its list has.
        ("bad.good.ads.example", 0b100),
        ("other.example", 0b010),
        ("x.other.example", 0),
        ("wild.example", 0),
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
    let (empty, _) = built(&[]);
    assert!(empty.is_empty() && listed(&empty, "ads.example") == 0);
}

fn explained(index: &Index, file: &[u8], text: &str) -> Result<Vec<Found>, SourcesError> {
    let mut found = Vec::new();
    let read_at = |at: u64, out: &mut [u8]| {
        let at = usize::try_from(at).expect("small");
        let bytes = file
            .get(at..at + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    };
    explain(index, &name(text), read_at, |rule| found.push(rule))?;
    Ok(found)
}

#[test]
fn rules_are_found_again_by_list_and_line() {
    let _turn = turn();
    let (index, file) = built(&[
        "! comment\n||ads.example^\n@@||good.ads.example^\n",
        "0.0.0.0 ads.example good.ads.example\n*.ads.example\n0.0.0.0 ads.example\n",
    ]);
    let found = |text| {
        let found = explained(&index, &file, text).expect("its own file");
        let line = |rule: &Found| {
            (
                rule.origin.list,
                rule.origin.file,
                rule.origin.line,
                rule.labels,
            )
        };
        found.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        found("ads.example"),
        [(1, 101, 1, 2), (0, 100, 2, 2), (1, 101, 3, 2)]
    );
    assert_eq!(
        found("good.ads.example"),
        [
            (0, 100, 2, 2),
            (1, 101, 2, 2),
            (1, 101, 1, 3),
            (0, 100, 3, 3)
        ]
    );
    assert_eq!(found("example"), []);
    let of = explained(&index, &file, "x.good.ads.example").expect("its own file");
    assert_eq!(
        (of[2].verdict, of[2].scope),
        (Verdict::Allow, Scope::Suffix)
    );
    // Another index's file, another kind of file, and one that is cut.
    let other = Builder::new(SipKey([1, 1]))
        .finish(&mut io::sink())
        .expect("nothing to write");
    let error = explained(&other, &file, "ads.example").expect_err("another key");
    assert!(matches!(error, SourcesError::OtherIndex));
    let error = explained(&index, &[0; 64], "ads.example").expect_err("zeros");
    assert!(matches!(error, SourcesError::Magic));
    let error = explained(&index, &file[..40], "ads.example").expect_err("cut");
    assert!(matches!(error, SourcesError::Io(_)));
}

#[test]
fn a_list_has_a_bit() {
    let _turn = turn();
    let rule = LineRule {
        name: name("a.example"),
        scope: Scope::Exact,
        verdict: Verdict::Block,
    };
    let mut builder = Builder::new(KEY);
    let origin = |list| Origin {
        list,
        file: 0,
        line: 1,
    };
    assert!(builder.add(&rule, origin(63)).is_ok());
    assert!(matches!(
        builder.add(&rule, origin(64)),
        Err(BuildError::List(64))
    ));
    let index = builder.finish(&mut io::sink()).expect("one");
    assert_eq!(listed(&index, "a.example"), 1 << 63);
}

/// Notes the most bytes that were live whenever something was written.
struct Peak {
    written: usize,
    live_bytes: u64,
}

impl Write for Peak {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written += bytes.len();
        self.live_bytes = self.live_bytes.max(live_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_million_rules_take_less_than_ten_megabytes() {
    const RULES: u64 = 1_000_000;
    let _turn = turn();
    let before = live_bytes();
    let (mut builder, mut reader) = (Builder::new(KEY), Reader::new(PlainScope::Suffix));
    for number in 0..RULES {
        let text = format!("n{number}.d{}.example", number % 5000);
        let line = u32::try_from(number).expect("small");
        let list = u8::try_from(number % 3).expect("small");
        let origin = Origin {
            list,
            file: 0,
            line,
        };
        let line = reader.line(text.as_bytes(), |rule| {
            builder.add(&rule, origin).expect("room")
        });
        assert_eq!(line, Line::Rules);
    }
    let collected = live_bytes() - before;
    let mut peak = Peak {
        written: 0,
        live_bytes: 0,
    };
    let index = builder.finish(&mut peak).expect("written nowhere");
    let (kept, peak_bytes) = (live_bytes() - before, peak.live_bytes - before);
    println!(
        "{} rules: index {} bytes, live {kept}, while collecting {collected}, peak {peak_bytes}, \
         file {}",
        index.len(),
        index.bytes(),
        peak.written
    );
    assert_eq!(index.len() as u64, RULES);
    assert!(index.bytes() < 10_000_000 && kept < 10_000_000, "{kept}");
    // With an index of before, a reload takes less than 2.5 times twenty megabytes.
    assert!(peak_bytes + kept < 50_000_000, "{peak_bytes}");
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

/// `www.n1.d2.example`, without an allocation.
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
    /// Beside a list that is gone through rule by rule.
    #[test]
    fn the_index_says_what_its_rules_say(
        rules in prop::collection::vec(
            (prop::collection::vec(0..3_u8, 1..5), 0..4_u8, 0..3_u8, any::<bool>()), 0..40),
        asked in prop::collection::vec(prop::collection::vec(0..3_u8, 1..6), 1..20),
    ) {
        let _turn = turn();
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
            builder.add(&rule, Origin { list: *list, file: 0, line: 1 }).unwrap();
        }
        let index = builder.finish(&mut io::sink()).unwrap();
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
