//! What the DNS forwarder decides by: lists, hosts and rules.

use std::path::PathBuf;

use ipnet::IpNet;
use steppe_config::typed::{Fields, Named, Node as Read, Typed};
use steppe_dns::client::ClientId;
use steppe_dns::config::{Action, Block, FetchedFile, Hosts, List, Rule};
use steppe_dns::hosts::{RecordData, RecordSet};
use steppe_dns::rules::{ListSet, NamePatterns, PlainScope};
use steppe_dns::schedule::{Days, Schedule};
use steppe_dns::siphash::{SipHash13, SipKey};
use steppe_dns::wire::{Name, Rtype};

use super::setting;
use crate::config::grammar;
use crate::config::typed::{ByName, FromNode};

/// What rules refer to, in the order in which it stands.
pub(super) struct Names<'a> {
    upstreams: Vec<&'a str>,
    lists: Vec<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(dns: &'a Fields) -> Self {
        let names = |key| {
            let entries = dns.map(key).iter();
            entries.map(|entry| entry.name.as_str()).collect()
        };
        Self {
            upstreams: names("upstream"),
            lists: names("list"),
        }
    }
}

pub(super) fn list(entry: &Named) -> Option<List> {
    let list = entry.value.fields()?;
    let files: Option<Vec<PathBuf>> = list.optional("files")?;
    Some(List {
        name: entry.name.clone(),
        files: files.unwrap_or_default(),
        fetched: fetched(&entry.name, list)?,
        refresh: list.take("refresh")?,
        plain: match list.take("plain_names")? {
            "suffix" => PlainScope::Suffix,
            "exact" => PlainScope::Exact,
            _ => return None,
        },
        required: list.take("required")?,
        aliases: list.take("aliases")?,
    })
}

/// Each URL has a file of its own, whatever the order.
fn fetched(name: &str, list: &Fields) -> Option<Vec<FetchedFile>> {
    let urls: Option<Vec<String>> = list.optional("urls")?;
    let Some(urls) = urls else {
        return Some(Vec::new());
    };
    let store: PathBuf = list.take("store")?;
    let files = urls.into_iter().map(|url| {
        // The same over restarts: any key does, as long as it stays.
        let hash = SipHash13::of(&SipKey([0, 0]), url.as_bytes());
        FetchedFile {
            file: store.join(format!("{name}-{hash:016x}.txt")),
            url,
        }
    });
    Some(files.collect())
}

pub(super) fn hosts(hosts: &Fields) -> Option<Hosts> {
    let mut records = Vec::new();
    let Typed::Map(entries) = &hosts.node("records")?.typed else {
        return None;
    };
    for entry in entries {
        let name = grammar::dns_name(&entry.name).ok()?;
        let of_name = self::records(&entry.value)?.into_iter();
        records.extend(of_name.map(|record| (name, record)));
    }
    Some(Hosts {
        files: hosts.take("files")?,
        records,
    })
}

/// One record, or a list of them.
fn records(node: &Read) -> Option<Vec<RecordData>> {
    match node.typed {
        Typed::List(_) => Vec::from_node(node),
        _ => Some(vec![RecordData::from_node(node)?]),
    }
}

pub(super) fn rule(rule: &Fields, known: &Names<'_>) -> Option<Rule> {
    let clients: Option<Vec<IpNet>> = rule.optional("client")?;
    let client_ids: Option<Vec<ClientId>> = rule.optional("client_id")?;
    let suffixes: Option<Vec<Name>> = rule.optional("suffix")?;
    let names: Option<Vec<Name>> = rule.optional("name")?;
    let types: Option<Vec<Rtype>> = rule.optional("qtype")?;
    Some(Rule {
        clients: clients.unwrap_or_default(),
        client_ids: client_ids.unwrap_or_default(),
        suffixes: suffixes.unwrap_or_default(),
        names: names.unwrap_or_default(),
        patterns: patterns(rule)?,
        lists: lists(rule, known)?,
        types: types.unwrap_or_default(),
        schedule: match rule.node("time") {
            None => None,
            Some(time) => Some(schedule(time.fields()?)?),
        },
        cache: setting::cache(rule)?,
        log: setting::log(rule)?,
        rate: match rule.node("rate") {
            None => None,
            Some(rate) => Some(setting::rate(rate.fields()?)?),
        },
        action: action(rule, known)?,
    })
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
fn patterns(rule: &Fields) -> Option<Option<NamePatterns>> {
    let texts: Option<Vec<String>> = rule.optional("name_regex")?;
    match texts {
        None => Some(None),
        Some(texts) => grammar::name_patterns(&texts).ok().map(Some),
    }
}

fn schedule(time: &Fields) -> Option<Schedule> {
    let days: Vec<&str> = time.take("days")?;
    Some(Schedule {
        days: Days::named(days)?,
        hours: time.take("hours")?,
        zone: time.take("zone")?,
    })
}

fn lists(rule: &Fields, known: &Names<'_>) -> Option<ListSet> {
    let lists: Option<Vec<String>> = rule.optional("list")?;
    let number = |name: &String| {
        let number = known.lists.iter().position(|known| known == name)?;
        u8::try_from(number).ok()
    };
    lists.unwrap_or_default().iter().map(number).collect()
}

/// What the one of the keys says that a rule does something by.
#[expect(clippy::option_option, reason = "invalid and absent are two things")]
fn action(rule: &Fields, known: &Names<'_>) -> Option<Option<Action>> {
    let forward: Option<String> = rule.optional("forward")?;
    let block: Option<&str> = rule.optional("block")?;
    let rewrite = match rule.node("rewrite") {
        None => None,
        Some(rewrite) => Some(rewrite.fields()?.take::<Name>("cname")?),
    };
    let records = match rule.node("records") {
        None => None,
        Some(records) => Some(self::records(records)?),
    };
    Some(Some(match (forward, block, rewrite, records) {
        (None, None, None, None) => return Some(None),
        (Some(name), None, None, None) => {
            let mut upstreams = known.upstreams.iter();
            Action::Forward(upstreams.position(|known| *known == name)?)
        }
        (None, Some(block), None, None) => Action::Block(self::block(block)?),
        (None, None, Some(target), None) => Action::Rewrite(Box::new(target)),
        (None, None, None, Some(records)) => Action::Records(RecordSet::new(&records)),
        _ => return None,
    }))
}

fn block(name: &str) -> Option<Block> {
    Some(match name {
        "nxdomain" => Block::NameError,
        "nodata" => Block::NoData,
        "zero" => Block::Zero,
        "refused" => Block::Refused,
        _ => return None,
    })
}
