//! Records of local names and of rules: their text, and sets of them.
//!
//! Spec: RFC 1035 §5.1 for the text, RFC 3597 §5 for types without a text form here (`TYPE65 \# 2
//! 0001`). Non-goals: CNAME, for which there are rules that rewrite, and DNSSEC.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::limits::RECORD_DATA_BYTES_MAX;
use crate::wire::{Name, Rtype};

/// A record's type and data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordData {
    rtype: Rtype,
    rdata: Box<[u8]>,
}

/// The reason why a text is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordDataError {
    /// Neither an address nor a type with data.
    #[error("write an address, or a type and its data, such as \"MX 10 mail.example.org\"")]
    Type,
    /// The data is not valid for the type.
    #[error("the data is not valid for the record type")]
    Data,
    /// An alias.
    #[error("an alias needs a rule with `rewrite = {{ cname = … }}`")]
    Alias,
    /// Longer than [`RECORD_DATA_BYTES_MAX`].
    #[error("more than {RECORD_DATA_BYTES_MAX} bytes of data")]
    TooLong,
}

/// Records of one name: of each its type (2 bytes), the length of its data (2) and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSet(Box<[u8]>);

/// Types and data of records, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a>(&'a [u8]);

impl RecordData {
    /// The record of an address.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::new(Rtype::A, &address.octets()),
            IpAddr::V6(address) => Self::new(Rtype::AAAA, &address.octets()),
        }
    }

    /// A record whose data is a name.
    pub(super) fn of_name(rtype: Rtype, name: &Name) -> Self {
        Self::new(rtype, name.wire())
    }

    /// A record of this data, in wire form.
    pub(crate) fn new(rtype: Rtype, rdata: &[u8]) -> Self {
        Self {
            rtype,
            rdata: rdata.into(),
        }
    }

    /// The type of the record.
    #[must_use]
    pub fn rtype(&self) -> Rtype {
        self.rtype
    }

    /// The data of the record in wire form.
    #[must_use]
    pub fn rdata(&self) -> &[u8] {
        &self.rdata
    }

    /// The address of an A or AAAA record. `None`: the record has another type.
    #[must_use]
    pub fn as_address(&self) -> Option<IpAddr> {
        match self.rtype {
            Rtype::A => Some(Ipv4Addr::from(<[u8; 4]>::try_from(&*self.rdata).ok()?).into()),
            Rtype::AAAA => Some(Ipv6Addr::from(<[u8; 16]>::try_from(&*self.rdata).ok()?).into()),
            _ => None,
        }
    }

    pub(super) fn encoded_bytes(&self) -> usize {
        4 + self.rdata.len()
    }
}

impl FromStr for RecordData {
    type Err = RecordDataError;

    fn from_str(text: &str) -> Result<Self, RecordDataError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::address(address));
        }
        let (rtype, data) = text.split_once(' ').ok_or(RecordDataError::Type)?;
        let data = data.trim();
        let record = match rtype {
            "A" => Self::new(Rtype::A, &parsed::<Ipv4Addr>(data)?.octets()),
            "AAAA" => Self::new(Rtype::AAAA, &parsed::<Ipv6Addr>(data)?.octets()),
            "NS" => Self::of_name(Rtype::NS, &parsed(data)?),
            "PTR" => Self::of_name(Rtype::PTR, &parsed(data)?),
            "MX" => Self::new(Rtype::MX, &numbers_and_name::<1>(data)?),
            "SRV" => Self::new(Rtype::SRV, &numbers_and_name::<3>(data)?),
            "TXT" => Self::new(Rtype::TXT, &strings(data)?),
            "CNAME" | "DNAME" => return Err(RecordDataError::Alias),
            _ => {
                let number = rtype.strip_prefix("TYPE").ok_or(RecordDataError::Type)?;
                let number = number.parse().map_err(|_| RecordDataError::Type)?;
                Self::new(Rtype(number), &opaque(data)?)
            }
        };
        match record.rtype {
            Rtype::CNAME | Rtype::DNAME => Err(RecordDataError::Alias),
            Rtype::OPT => Err(RecordDataError::Type),
            _ if record.rdata.len() > RECORD_DATA_BYTES_MAX => Err(RecordDataError::TooLong),
            _ => Ok(record),
        }
    }
}

fn parsed<T: FromStr>(text: &str) -> Result<T, RecordDataError> {
    text.parse().map_err(|_| RecordDataError::Data)
}

/// `N` numbers of 16 bits, and a name.
fn numbers_and_name<const N: usize>(text: &str) -> Result<Vec<u8>, RecordDataError> {
    let mut words = text.split_ascii_whitespace();
    let mut data = Vec::new();
    for _ in 0..N {
        let number: u16 = parsed(words.next().unwrap_or_default())?;
        data.extend_from_slice(&number.to_be_bytes());
    }
    let name: Name = parsed(words.next().unwrap_or_default())?;
    data.extend_from_slice(name.wire());
    match words.next() {
        Some(_) => Err(RecordDataError::Data),
        None => Ok(data),
    }
}

/// Strings in quotes, or one without. RFC 1035 §3.3: each has up to 255 bytes.
fn strings(text: &str) -> Result<Vec<u8>, RecordDataError> {
    let mut data = Vec::new();
    let mut push = |string: &[u8]| {
        data.push(u8::try_from(string.len()).map_err(|_| RecordDataError::Data)?);
        data.extend_from_slice(string);
        Ok(())
    };
    if !text.starts_with('"') {
        push(text.as_bytes())?;
        return Ok(data);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').ok_or(RecordDataError::Data)?;
        let (string, after) = unquoted(quoted)?;
        push(&string)?;
        rest = after.trim_start();
    }
    Ok(data)
}

/// A string up to its closing quote, and what follows. A backslash takes the next character as it is.
fn unquoted(text: &str) -> Result<(Vec<u8>, &str), RecordDataError> {
    let (mut string, mut is_escaped) = (Vec::new(), false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => {
                string.push(byte);
                is_escaped = false;
            }
            b'\\' => is_escaped = true,
            b'"' => return Ok((string, &text[at + 1..])),
            _ => string.push(byte),
        }
    }
    Err(RecordDataError::Data)
}

/// Data in the form of RFC 3597, such as `\# 4 0a000001`.
fn opaque(text: &str) -> Result<Vec<u8>, RecordDataError> {
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("\\#") {
        return Err(RecordDataError::Data);
    }
    let len: usize = parsed(words.next().unwrap_or_default())?;
    let digits: Vec<u8> = words.flat_map(str::bytes).collect();
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    let data: Vec<u8> = pairs.collect::<Option<_>>().ok_or(RecordDataError::Data)?;
    match data.len() == len {
        true => Ok(data),
        false => Err(RecordDataError::Data),
    }
}

impl RecordSet {
    /// The set of these records.
    #[must_use]
    pub fn new(records: &[RecordData]) -> Self {
        let mut bytes = Vec::new();
        for record in records {
            let len = u16::try_from(record.rdata.len()).unwrap_or_default();
            bytes.extend_from_slice(&record.rtype.0.to_be_bytes());
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(&record.rdata[..len.into()]);
        }
        Self(bytes.into_boxed_slice())
    }

    /// The records of the set.
    #[must_use]
    pub fn iter(&self) -> Records<'_> {
        Records(&self.0)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a RecordSet {
    type Item = (Rtype, &'a [u8]);
    type IntoIter = Records<'a>;

    fn into_iter(self) -> Records<'a> {
        self.iter()
    }
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (Rtype, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[t0, t1, l0, l1], rest) = self.0.split_first_chunk()?;
        let (rdata, rest) = rest.split_at_checked(u16::from_be_bytes([l0, l1]).into())?;
        self.0 = rest;
        Some((Rtype(u16::from_be_bytes([t0, t1])), rdata))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_a_text() {
        let srv = [b"\0\x01\0\x02\x1f\x90".as_slice(), b"\x03sip\x07example\0"].concat();
        for (text, rtype, rdata) in [
            ("192.0.2.1", 1, b"\xc0\0\x02\x01".as_slice()),
            ("A 192.0.2.1", 1, b"\xc0\0\x02\x01"),
            ("::1", 28, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"),
            ("MX 10 mail.example.", 15, b"\0\x0a\x04mail\x07example\0"),
            ("SRV 1 2 8080 sip.example", 33, &srv),
            ("PTR a.example", 12, b"\x01a\x07example\0"),
            ("TXT plain text", 16, b"\x0aplain text"),
            ("TXT \"a \\\"b\\\"\" \"c\"", 16, b"\x05a \"b\"\x01c"),
            ("TYPE65 \\# 3 0001 00", 65, b"\0\x01\0"),
        ] {
            let record: RecordData = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((record.rtype().0, record.rdata()), (rtype, rdata), "{text}");
        }
        let long = format!("TXT {}", "a".repeat(256));
        let longer = format!(
            "TXT {}",
            "\"aaaaaaaaaaaaaaa\"".repeat(RECORD_DATA_BYTES_MAX / 16 + 1)
        );
        for (text, expected) in [
            ("", RecordDataError::Type),
            ("mail.example", RecordDataError::Type),
            ("HINFO a b", RecordDataError::Type),
            ("A 192.0.2.256", RecordDataError::Data),
            ("MX mail.example", RecordDataError::Data),
            ("MX 10 mail.example 20", RecordDataError::Data),
            ("TXT \"a", RecordDataError::Data),
            ("TYPE65 0001", RecordDataError::Data),
            ("TYPE65 \\# 3 0001", RecordDataError::Data),
            ("CNAME a.example", RecordDataError::Alias),
            ("TYPE5 \\# 1 00", RecordDataError::Alias),
            ("TYPE41 \\# 0", RecordDataError::Type),
            (&long, RecordDataError::Data),
            (&longer, RecordDataError::TooLong),
        ] {
            assert_eq!(text.parse::<RecordData>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_set_gives_its_records() {
        let records: Vec<RecordData> = ["192.0.2.1", "TXT \"\""]
            .map(|text| text.parse().expect("a record"))
            .into();
        let set = RecordSet::new(&records);
        let found: Vec<_> = set.iter().collect();
        assert_eq!(found, [(Rtype::A, &[192, 0, 2, 1][..]), (Rtype::TXT, &[0])]);
    }
}
