//! The rule that decides about a query, and the reason: by the configuration and its files, as a node that
//! starts with them decides.
//!
//! Files are read line by line, since an index keeps neither names nor lines. Non-goals: the cache, and the
//! answers of servers.

use std::io;
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::config::{Action, Forwarder, List};
use crate::files::{FilesError, for_each_line, open};
use crate::hosts::{HostsBuilder, RecordData};
use crate::limits::EXPLAINED_LINES_MAX;
use crate::rules::{
    Asked, ListSet, Matches, Program, Reader, Rewriting, Scope, Settings, Verdict, Why as RuleWhy,
};
use crate::siphash::SipKey;
use crate::special_use::{SpecialUse, special_use};
use crate::wire::{Name, Rtype};

/// The decisions about a query: one, and a second one if the first rewrites its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation<'a> {
    /// Decisions in the order in which they are made.
    pub decisions: Vec<Decision<'a>>,
}

/// The decision about a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<'a> {
    /// The name.
    pub name: Name,
    /// Source of the decision.
    pub by: By<'a>,
    /// Rules whose settings apply. Those for the target of a rewrite leave out settings of the first decision.
    pub settings: Settings,
    /// Lines of lists that are for the name, whether they decide or not.
    pub lines: Vec<ListLine>,
}

/// The source of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum By<'a> {
    /// The client is refused: `dns.access` does not have its address.
    Access,
    /// The name is answered with records of hosts.
    Hosts(Vec<HostLine>),
    /// The name is one of special use.
    SpecialUse(SpecialUse),
    /// A rule.
    Rule {
        /// Number of the rule, from 0.
        number: usize,
        /// Action of the rule.
        action: &'a Action,
        /// Condition by which the rule matches the name.
        why: Why,
    },
    /// No rule with an action matches: the query is refused.
    Nothing,
}

/// The condition by which a rule matches a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The rule has no condition on names.
    Any,
    /// The rule has the name, or a suffix of it.
    Name,
    /// A regular expression of the rule matches the name.
    Pattern,
    /// The name is on the lists with these names.
    Lists(Vec<String>),
}

/// A line of a list that is for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListLine {
    /// The list's name.
    pub list: String,
    /// The file of the line.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// Text of the line without control characters, cut to 200 characters.
    pub text: String,
    /// Effect of the line: it blocks, or makes an exception.
    pub verdict: Verdict,
}

/// A record of hosts, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLine {
    /// File and line, from 1; `None`: `dns.hosts.records`.
    pub place: Option<(PathBuf, u32)>,
    /// The record.
    pub record: RecordData,
}

/// Explains the decisions about a query of class IN.
///
/// # Errors
/// When a file of the configuration can't be read.
pub fn explain<'a>(
    config: &'a Forwarder,
    client: &Client,
    (qname, qtype): (&Name, Rtype),
) -> Result<Explanation<'a>, FilesError> {
    let is_allowed = |network: &ipnet::IpNet| network.contains(&client.address);
    if !config.access.iter().any(is_allowed) {
        let refused = Decision {
            name: *qname,
            by: By::Access,
            settings: Settings::default(),
            lines: Vec::new(),
        };
        return Ok(Explanation {
            decisions: vec![refused],
        });
    }
    let mut asked = Asked {
        client,
        qname,
        qtype,
        rewriting: Rewriting::Counts,
    };
    let first = decide(config, asked)?;
    let target = match &first.by {
        By::Rule {
            action: Action::Rewrite(target),
            ..
        } if qtype != Rtype::CNAME => Some(target),
        _ => None,
    };
    let said = first.settings;
    let mut decisions = vec![first];
    if let Some(target) = target {
        (asked.qname, asked.rewriting) = (target, Rewriting::Done);
        let mut second = decide(config, asked)?;
        second.settings = second.settings.without(said);
        decisions.push(second);
    }
    Ok(Explanation { decisions })
}

/// Decides about a name, in the same order as `worker::decide`.
fn decide<'a>(config: &'a Forwarder, asked: Asked<'_>) -> Result<Decision<'a>, FilesError> {
    let hosts = host_lines(config, asked.qname)?;
    let (lines, matches) = list_lines(&config.lists, asked.qname)?;
    let decision = |by, settings| Decision {
        name: *asked.qname,
        by,
        settings,
        lines,
    };
    let nothing = Settings::default();
    if !hosts.is_empty() {
        return Ok(decision(By::Hosts(hosts), nothing));
    }
    // A fixed key: no client can choose names whose hashes collide here.
    let program = Program::new(&config.rules, SipKey([0, 0]));
    program.set_time(&config.rules, jiff::Timestamp::now());
    let found = program.find(&config.rules, asked, || matches);
    let settings = found.settings;
    let is_overruled =
        (found.decision).is_some_and(|found| found.overrules_special_use(asked.qname));
    if !is_overruled && let Some(special) = special_use(asked.qname, asked.qtype) {
        return Ok(decision(By::SpecialUse(special), nothing));
    }
    let by = match found.decision {
        None => By::Nothing,
        Some(found) => By::Rule {
            number: found.number,
            action: found.action,
            why: match found.why {
                RuleWhy::Any => Why::Any,
                RuleWhy::Name => Why::Name,
                RuleWhy::Pattern => Why::Pattern,
                RuleWhy::Lists(lists) => Why::Lists(names(lists, &config.lists)),
            },
        },
    };
    Ok(decision(by, settings))
}

fn names(set: ListSet, lists: &[List]) -> Vec<String> {
    let of_list = |number: u8| lists.get(usize::from(number));
    let lists = set.iter().filter_map(of_list);
    lists.map(|list| list.name.clone()).collect()
}

/// Lines of lists that are for a name, and the lists that it is on by them.
fn list_lines(lists: &[List], qname: &Name) -> Result<(Vec<ListLine>, Matches), FilesError> {
    let (mut lines, mut matches) = (Vec::new(), Matches::default());
    for (number, list) in lists.iter().enumerate() {
        let bit = 1 << (number % 64);
        // A file that was not fetched yet has no lines.
        let fetched = list.fetched.iter().map(|fetched| &fetched.file);
        let fetched = fetched.filter(|file| file.exists());
        for path in list.files.iter().chain(fetched) {
            let mut reader = Reader::new(list.plain);
            read(path, |at, line| {
                reader.line(line, |rule| {
                    let is_for_it = match rule.scope {
                        Scope::Exact => *qname == rule.name,
                        Scope::Below => *qname != rule.name && qname.is_at_or_below(&rule.name),
                        Scope::Suffix => qname.is_at_or_below(&rule.name),
                    };
                    if !is_for_it {
                        return;
                    }
                    matches.of_mut(rule.verdict).0 |= bit;
                    if lines.len() < EXPLAINED_LINES_MAX {
                        lines.push(ListLine {
                            list: list.name.clone(),
                            file: path.clone(),
                            line: at,
                            text: shown(line),
                            verdict: rule.verdict,
                        });
                    }
                });
            })?;
        }
    }
    Ok((lines, matches))
}

/// Records of hosts for a name, and their places.
fn host_lines(config: &Forwarder, qname: &Name) -> Result<Vec<HostLine>, FilesError> {
    let mut found = Vec::new();
    let mut push = |place: Option<(PathBuf, u32)>, builder: HostsBuilder| {
        let table = builder.finish(SipKey([0, 0]));
        let records = table.find(qname).into_iter().flatten();
        found.extend(records.map(|(rtype, rdata)| HostLine {
            place: place.clone(),
            record: RecordData::new(rtype, rdata),
        }));
    };
    for (name, record) in &config.hosts.records {
        let mut builder = HostsBuilder::default();
        // A single record always fits.
        let _ = builder.add(name, record);
        push(None, builder);
    }
    for path in &config.hosts.files {
        read(path, |at, line| {
            let mut builder = HostsBuilder::default();
            let _ = builder.line(line);
            push(Some((path.clone(), at)), builder);
        })?;
    }
    Ok(found)
}

/// Calls `each` with each line of a file, and its number.
fn read(path: &Path, mut each: impl FnMut(u32, &[u8])) -> Result<(), FilesError> {
    let read = open(path).and_then(|file| {
        for_each_line(file, |at, line| {
            each(at, line);
            io::Result::Ok(())
        })
    });
    read.map_err(|cause| FilesError::Read {
        file: path.to_path_buf(),
        cause,
    })
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim().chars().filter(|letter| !letter.is_control());
    text.take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Block, Hosts, Rule};
    use crate::rules::PlainScope;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    /// A configuration with two lists and a file of hosts in a folder of its own.
    fn config() -> (Forwarder, PathBuf) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = format!("steppe-explain-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("writes");
            path
        };
        let list = |name: &str, path: PathBuf| List {
            name: name.to_owned(),
            files: vec![path],
            fetched: Vec::new(),
            refresh: std::time::Duration::MAX,
            plain: PlainScope::Suffix,
            required: false,
            aliases: true,
        };
        let config = Forwarder {
            access: vec!["127.0.0.0/8".parse().expect("a network")],
            lists: vec![
                list(
                    "ads",
                    file("ads", "# ads\n||ads.example^\n@@||ok.ads.example^\n"),
                ),
                list("more", file("more", "x.example\n0.0.0.0 ads.example\n")),
            ],
            hosts: Hosts {
                files: vec![file("hosts", "\n192.168.7.9 printer.local printer\n")],
                records: vec![(name("printer"), "TXT here".parse().expect("a record"))],
            },
            rules: vec![
                Rule {
                    names: vec![name("old.example")],
                    ..Rule::new(Action::Rewrite(Box::new(name("www.ads.example"))))
                },
                Rule {
                    lists: ListSet(0b11),
                    ..Rule::new(Action::Block(Block::NameError))
                },
                Rule {
                    types: vec![Rtype::A],
                    ..Rule::new(Action::Forward(0))
                },
                Rule {
                    suffixes: vec![name("resolver.arpa"), name("forwarded.test")],
                    ..Rule::new(Action::Forward(0))
                },
            ],
            ..Forwarder::default()
        };
        (config, folder)
    }

    fn explained(config: &Forwarder, text: &str, qtype: Rtype) -> Vec<String> {
        let client = Client::at([127, 0, 0, 1].into());
        let found = explain(config, &client, (&name(text), qtype)).expect("files are there");
        let decisions = found.decisions.iter().map(|decision| {
            let by = match &decision.by {
                By::Rule { number, why, .. } => format!("rule {number} {why:?}"),
                By::Hosts(lines) => {
                    let place = |line: &HostLine| line.place.as_ref().map(|(_, line)| *line);
                    format!("hosts {:?}", lines.iter().map(place).collect::<Vec<_>>())
                }
                by => format!("{by:?}"),
            };
            let line = |line: &ListLine| format!("{}:{} {}", line.list, line.line, line.text);
            let lines: Vec<_> = decision.lines.iter().map(line).collect();
            format!("{}: {by}, {lines:?}", decision.name)
        });
        decisions.collect()
    }

    #[test]
    fn it_says_what_decides_and_where_that_stands() {
        let (config, folder) = config();
        for (asked, qtype, expected) in [
            (
                "www.ads.example",
                Rtype::A,
                &["www.ads.example.: rule 1 Lists([\"ads\"]), [\"ads:2 ||ads.example^\"]"][..],
            ),
            (
                "ADS.example",
                Rtype::A,
                &["ADS.example.: rule 1 Lists([\"ads\", \"more\"]), \
                   [\"ads:2 ||ads.example^\", \"more:2 0.0.0.0 ads.example\"]"],
            ),
            (
                "ok.ads.example",
                Rtype::A,
                &["ok.ads.example.: rule 2 Any, \
                   [\"ads:2 ||ads.example^\", \"ads:3 @@||ok.ads.example^\"]"],
            ),
            (
                "ok.ads.example",
                Rtype::MX,
                &["ok.ads.example.: Nothing, \
                   [\"ads:2 ||ads.example^\", \"ads:3 @@||ok.ads.example^\"]"],
            ),
            (
                "old.example",
                Rtype::A,
                &[
                    "old.example.: rule 0 Name, []",
                    "www.ads.example.: rule 1 Lists([\"ads\"]), [\"ads:2 ||ads.example^\"]",
                ],
            ),
            (
                "old.example",
                Rtype::CNAME,
                &["old.example.: rule 0 Name, []"],
            ),
            (
                "printer",
                Rtype::A,
                &["printer.: hosts [None, Some(2)], []"],
            ),
            (
                "9.7.168.192.in-addr.arpa",
                Rtype::PTR,
                &["9.7.168.192.in-addr.arpa.: hosts [Some(2)], []"],
            ),
            (
                "x.local",
                Rtype::A,
                &["x.local.: SpecialUse(NameError), []"],
            ),
            // A rule may forward some special-use names, but never those of `resolver.arpa`.
            (
                "forwarded.test",
                Rtype::MX,
                &["forwarded.test.: rule 3 Name, []"],
            ),
            (
                "_dns.resolver.arpa",
                Rtype::SVCB,
                &["_dns.resolver.arpa.: SpecialUse(Designations), []"],
            ),
        ] {
            assert_eq!(
                explained(&config, asked, qtype),
                expected,
                "{asked} {qtype:?}"
            );
        }
        let stranger = Client::at([10, 0, 0, 1].into());
        let found =
            explain(&config, &stranger, (&name("a.example"), Rtype::A)).expect("reads none");
        assert_eq!(found.decisions[0].by, By::Access);
        std::fs::remove_dir_all(&folder).expect("was there");
        let client = Client::at([127, 0, 0, 1].into());
        let error = explain(&config, &client, (&name("a.example"), Rtype::A)).expect_err("gone");
        assert!(error.to_string().starts_with("cannot read"), "{error}");
    }
}
