//! Domain lists: every rule that is read is found again, by the index and by its line.

#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use steppe_dns::rules::{Builder, Origin, PlainScope, Reader, Scope, Verdict, explain};
use steppe_dns::siphash::SipKey;

fuzz_target!(|text: &[u8]| {
    let (mut builder, mut rules) = (Builder::new(SipKey([1, 2])), Vec::new());
    let mut reader = Reader::new(PlainScope::Suffix);
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line_number = u32::try_from(index + 1).expect("short");
        reader.line(line, |rule| {
            let origin = Origin {
                list: 0,
                file: 0,
                line: line_number,
            };
            builder.add(&rule, origin).expect("few");
            rules.push((rule, line_number));
        });
    }
    let mut file = Vec::new();
    let index = builder.finish(&mut file).expect("memory");
    for (rule, line) in &rules {
        if rule.scope == Scope::Below || rule.name.labels().next().is_none() {
            continue;
        }
        let matches = index.matches(&rule.name);
        let lists = match rule.verdict {
            Verdict::Block => matches.blocked,
            Verdict::Allow => matches.allowed,
        };
        assert!(lists.has(0), "{rule:?}");
        let read_at = |at: u64, out: &mut [u8]| {
            let at = usize::try_from(at).expect("small");
            let bytes = file
                .get(at..at + out.len())
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            out.copy_from_slice(bytes);
            Ok(())
        };
        let (mut is_found, mut shown) = (false, 0);
        explain(&index, &rule.name, read_at, |found| {
            is_found |= found.origin.line == *line;
            shown += 1;
        })
        .expect("its own file");
        assert!(is_found || shown >= 256, "{rule:?}");
    }
});
