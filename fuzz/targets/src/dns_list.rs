//! Domain lists: every rule that is read is found again by the index.

use steppe_dns::rules::{Builder, PlainScope, Reader, Scope, Verdict};
use steppe_dns::siphash::SipKey;

/// Checks one input; panics where a property fails.
pub fn run(text: &[u8]) {
    let (mut builder, mut rules) = (Builder::new(SipKey([1, 2])), Vec::new());
    let mut reader = Reader::new(PlainScope::Suffix);
    for line in text.split(|&byte| byte == b'\n') {
        reader.line(line, |rule| {
            builder.add(&rule, 0).expect("few");
            rules.push(rule);
        });
    }
    let index = builder.finish().expect("one list");
    for rule in &rules {
        if rule.scope == Scope::Below || rule.name.labels().next().is_none() {
            continue;
        }
        let matches = index.matches(&rule.name);
        let lists = match rule.verdict {
            Verdict::NoData => matches.no_data,
            Verdict::Block => matches.blocked,
            Verdict::Allow => matches.allowed,
            Verdict::BlockImportant => matches.blocked_important,
            Verdict::AllowImportant => matches.allowed_important,
        };
        assert!(lists.has(0), "{rule:?}");
    }
}
