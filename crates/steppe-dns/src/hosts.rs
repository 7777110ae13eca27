//! Local names, from hosts files and the configuration: name to addresses, address to name, and records of
//! other types.
//!
//! Invariant: the forwarder answers a local name for every type, and with NODATA for a type that the name does
//! not have, so that no server learns of it or answers in its place. Spec: hosts(5); RFC 1035 §3.5 and RFC 3596
//! §2.5 for the names of addresses. Non-goals: wildcards, for which there are rules with `records`.

mod record_data;
mod table;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::limits::{
    HOSTS_NAMES_MAX, LIST_LINE_BYTES_MAX, RECORDS_BYTES_MAX, RECORDS_PER_NAME_MAX,
};
use crate::siphash::SipKey;
use crate::wire::{Name, Rtype};

pub use record_data::{RecordData, RecordDataError, RecordSet, Records};
pub use table::HostTable;

/// Collects names and their records.
#[derive(Debug, Default)]
pub struct HostsBuilder {
    /// Records by name, in lower case and wire form.
    names: BTreeMap<Box<[u8]>, Vec<RecordData>>,
    bytes: usize,
}

/// The kind of a line of a hosts file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostsLine {
    /// Nothing: empty, or a comment.
    Nothing,
    /// An address and its names.
    Names,
    /// Anything else, or a line with names that are invalid.
    Malformed,
}

/// The table has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// Too many names, those of addresses included.
    #[error("more than {HOSTS_NAMES_MAX} names")]
    Names,
    /// Too many records of a name, or too many bytes of them.
    #[error(
        "a name with more than {RECORDS_PER_NAME_MAX} records, or more than {RECORDS_BYTES_MAX} bytes of records"
    )]
    Records,
}

/// Bytes that a name takes while it is collected, beside those of its records: a node of the map, and a
/// list of some records.
const NAME_BYTES: usize = 160;
/// Bytes that a record takes while it is collected, beside its data.
const RECORD_BYTES: usize = size_of::<RecordData>() + 16;

impl HostsBuilder {
    /// Reads a line of a file, without its end.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn line(&mut self, line: &[u8]) -> Result<HostsLine, HostsError> {
        let text = std::str::from_utf8(line).ok();
        let Some(text) = text.filter(|text| text.len() <= LIST_LINE_BYTES_MAX) else {
            return Ok(HostsLine::Malformed);
        };
        let text = text.trim_start_matches('\u{feff}');
        let text = text.split('#').next().unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let Some(address) = words.next() else {
            return Ok(HostsLine::Nothing);
        };
        // A link-local address may name its interface, which no record has.
        let address = address.split('%').next().unwrap_or_default();
        let Ok(address) = address.parse::<IpAddr>() else {
            return Ok(HostsLine::Malformed);
        };
        let (mut has_names, mut is_malformed) = (false, false);
        for word in words {
            let Ok(name) = word.parse() else {
                // The names behind it still count.
                is_malformed = true;
                continue;
            };
            self.add(&name, &RecordData::address(address))?;
            has_names = true;
        }
        Ok(match has_names && !is_malformed {
            true => HostsLine::Names,
            false => HostsLine::Malformed,
        })
    }

    /// Adds a record of a name. An address also has a PTR record, to the first name that has the address.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn add(&mut self, name: &Name, record: &RecordData) -> Result<(), HostsError> {
        self.insert(name, record)?;
        let Some(address) = record.as_address() else {
            return Ok(());
        };
        let reverse = reverse_name(address);
        if self.names.contains_key(reverse.wire()) {
            return Ok(());
        }
        self.insert(&reverse, &RecordData::of_name(Rtype::PTR, name))
    }

    fn insert(&mut self, name: &Name, record: &RecordData) -> Result<(), HostsError> {
        let lower = name.to_lower();
        if !self.names.contains_key(lower.wire()) {
            if self.names.len() == HOSTS_NAMES_MAX {
                return Err(HostsError::Names);
            }
            self.bytes += NAME_BYTES + lower.wire().len();
            self.names.insert(lower.wire().into(), Vec::new());
        }
        let records = self.names.entry(lower.wire().into()).or_default();
        if records.contains(record) {
            return Ok(());
        }
        let bytes: usize = records.iter().map(RecordData::encoded_bytes).sum();
        let has_room = records.len() < RECORDS_PER_NAME_MAX
            && bytes + record.encoded_bytes() <= RECORDS_BYTES_MAX;
        if !has_room {
            return Err(HostsError::Records);
        }
        self.bytes += RECORD_BYTES + record.rdata().len();
        records.push(record.clone());
        Ok(())
    }

    /// Bytes that the collected names take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the table. `key` has to be random, so that no client can choose names whose hashes collide.
    #[must_use]
    pub fn finish(self, key: SipKey) -> HostTable {
        HostTable::new(key, self.names)
    }
}

/// The name of an address in the reverse tree: below `in-addr.arpa` or `ip6.arpa`.
fn reverse_name(address: IpAddr) -> Name {
    let text = match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let octets = address.octets();
            let digits = octets
                .iter()
                .rev()
                .map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4));
            digits.collect::<String>() + "ip6.arpa"
        }
    };
    text.parse().unwrap_or(Name::ROOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn table(lines: &str, records: &[(&str, &str)]) -> HostTable {
        let mut builder = HostsBuilder::default();
        for line in lines.lines() {
            builder.line(line.as_bytes()).expect("few");
        }
        for (owner, record) in records {
            let record = record.parse().expect("a record");
            builder.add(&name(owner), &record).expect("few");
        }
        builder.finish(SipKey([1, 2]))
    }

    /// Types and data of a name's records.
    fn found(table: &HostTable, text: &str) -> Option<Vec<(u16, Vec<u8>)>> {
        let records = table.find(&name(text))?;
        Some(
            records
                .map(|(rtype, rdata)| (rtype.0, rdata.to_vec()))
                .collect(),
        )
    }

    #[test]
    fn names_have_addresses_and_addresses_have_their_first_name() {
        let table = table(
            "192.168.7.9 Printer.home.arpa printer # the loud one\nfd00::9 printer.home.arpa\n\
             192.168.7.9 scanner\n192.168.7.10 printer\n",
            &[
                ("printer.home.arpa", "TXT \"second floor\""),
                ("mail.home.arpa", "192.168.7.11"),
            ],
        );
        let v6 = "fd00::9".parse::<std::net::Ipv6Addr>().expect("an address");
        assert_eq!(
            found(&table, "PRINTER.home.arpa"),
            Some(vec![
                (1, vec![192, 168, 7, 9]),
                (28, v6.octets().to_vec()),
                (16, b"\x0csecond floor".to_vec()),
            ])
        );
        assert_eq!(
            found(&table, "printer"),
            Some(vec![(1, vec![192, 168, 7, 9]), (1, vec![192, 168, 7, 10])])
        );
        let ptr = |text: &str| name(text).wire().to_vec();
        assert_eq!(
            found(&table, "9.7.168.192.in-addr.arpa"),
            Some(vec![(12, ptr("Printer.home.arpa"))])
        );
        assert_eq!(
            found(&table, "11.7.168.192.in-addr.arpa"),
            Some(vec![(12, ptr("mail.home.arpa"))])
        );
        let reverse = format!("9.{}d.f.ip6.arpa", "0.".repeat(29));
        assert_eq!(
            found(&table, &reverse),
            Some(vec![(12, ptr("printer.home.arpa"))])
        );
        for other in [
            "home.arpa",
            "x.printer.home.arpa",
            "7.168.192.in-addr.arpa",
            ".",
        ] {
            assert_eq!(found(&table, other), None, "{other}");
        }
        assert_eq!(table.len(), 8);
        assert!(found(&HostTable::default(), "printer").is_none());
    }

    #[test]
    fn lines_that_are_none_are_told_apart() {
        let mut builder = HostsBuilder::default();
        for (line, expected) in [
            ("", HostsLine::Nothing),
            ("  # a comment", HostsLine::Nothing),
            ("\u{feff}127.0.0.1\tlocalhost", HostsLine::Names),
            ("fe80::1%eth0 router", HostsLine::Names),
            ("127.0.0.1", HostsLine::Malformed),
            ("printer 192.168.7.9", HostsLine::Malformed),
            ("127.0.0.1 a..b", HostsLine::Malformed),
            ("127.0.0.9 a..b behind.example", HostsLine::Malformed),
        ] {
            assert_eq!(builder.line(line.as_bytes()), Ok(expected), "{line}");
        }
        assert_eq!(builder.line(b"127.0.0.1 \xff"), Ok(HostsLine::Malformed));
        let endless = [b"127.0.0.1 ".as_slice(), &[b'a'; LIST_LINE_BYTES_MAX]].concat();
        assert_eq!(builder.line(&endless), Ok(HostsLine::Malformed));
    }

    #[test]
    fn a_name_has_so_many_records_and_no_more() {
        let mut builder = HostsBuilder::default();
        let address = |number: usize| {
            let [.., high, low] = number.to_be_bytes();
            RecordData::address(IpAddr::from([10, 0, high, low]))
        };
        for number in 0..RECORDS_PER_NAME_MAX {
            assert_eq!(builder.add(&name("a"), &address(number)), Ok(()));
        }
        assert_eq!(builder.add(&name("a"), &address(0)), Ok(()), "it is there");
        let one_more = address(RECORDS_PER_NAME_MAX);
        assert_eq!(builder.add(&name("a"), &one_more), Err(HostsError::Records));
        assert_eq!(builder.add(&name("b"), &one_more), Ok(()));
    }
}
