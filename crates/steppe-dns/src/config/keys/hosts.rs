//! Keys of names that are answered here.

use std::path::PathBuf;

use steppe_config::form::FILE;
use steppe_config::key::{Key, key, list, multimap, one_or_many, text};
use steppe_config::keys;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use super::forms::{OWNER_NAME, RECORD};
use crate::config::Hosts;
use crate::hosts::RecordData;

/// `[dns.hosts]`.
pub(super) static TABLE: Table = Table::new(
    "dns.hosts",
    "Names that are answered here, before rules. A type that such a name does not have is NODATA, and no \
     server is asked; the names below it are not included. The TTL is 60 seconds.",
    keys! { FILES, RECORDS },
);

/// Files of addresses and names.
pub static FILES: Key<Vec<PathBuf>> = key(
    "files",
    list(&text(&FILE), 0),
    "Files of addresses and names in the format of hosts(5), such as `/etc/hosts`. They are read again \
     when they change.",
)
.or(Absent::Texts(&[]));

static RECORDS: Key<Vec<(String, RecordData)>> = key(
    "records",
    multimap(&OWNER_NAME, &one_or_many(&text(&RECORD))),
    "Names, each with an address, a record (\"MX 10 mail.example.org\"), or a list of them. Types with a \
     text form are A, AAAA, NS, PTR, MX, SRV and TXT; others are written as in RFC 3597, as `TYPE65 \\# \
     2 0001`. Each address also has a PTR record to its first name, `records` before `files`.",
)
.or(Absent::Table);

pub(super) fn build(hosts: &Fields) -> Option<Hosts> {
    let records = hosts.get(&RECORDS)?.into_iter();
    let records = records.map(|(name, record)| Some((name.parse().ok()?, record)));
    Some(Hosts {
        files: hosts.get(&FILES)?,
        records: records.collect::<Option<_>>()?,
    })
}
