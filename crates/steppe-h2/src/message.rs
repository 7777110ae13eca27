//! Rules of a well-formed message. Spec: RFC 9113 §8.1.1, §8.2, §8.3, §8.5; RFC 8441 §4.
//!
//! A malformed message is a stream error (§8.1.1). Lengths are compared with content by
//! [`Connection`](crate::Connection). A `content-length` that is no number, or that stands twice, and white space around a
//! value, are left to the receiver, which can respond to them.

use crate::words;

/// The kind of a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// Header section of a request.
    Request,
    /// Header section of a response, interim or final.
    Response,
    /// Trailer section.
    Trailers,
}

/// A pseudo-header field. RFC 9113 §8.3, RFC 8441 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol`
    Protocol,
    /// `:status`
    Status,
}

impl Pseudo {
    /// The pseudo-header field of this name.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        match name {
            b":method" => Some(Self::Method),
            b":scheme" => Some(Self::Scheme),
            b":authority" => Some(Self::Authority),
            b":path" => Some(Self::Path),
            b":protocol" => Some(Self::Protocol),
            b":status" => Some(Self::Status),
            _ => None,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The length of content that a header section announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnnouncedLength {
    /// None.
    #[default]
    Unknown,
    /// So many octets.
    Known(u64),
    /// It is no number, or stands twice.
    Invalid,
}

/// Checks a field section line by line.
#[derive(Debug)]
pub struct SectionCheck {
    kind: SectionKind,
    /// Pseudo-header fields that came.
    pseudo: u8,
    has_regular: bool,
    is_connect: bool,
    status: u16,
    length: AnnouncedLength,
    is_malformed: bool,
}

/// A header or trailer section that RFC 9113 §8.1.1 calls malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is malformed")]
pub struct Malformed;

impl SectionCheck {
    /// A check of a section of this kind.
    #[must_use]
    pub fn new(kind: SectionKind) -> Self {
        Self {
            kind,
            pseudo: 0,
            has_regular: false,
            is_connect: false,
            status: 0,
            length: AnnouncedLength::default(),
            is_malformed: false,
        }
    }

    /// Checks the next field line.
    pub fn line(&mut self, name: &[u8], value: &[u8]) {
        let is_valid = match name.first() {
            Some(b':') => self.pseudo_line(name, value),
            _ => self.regular_line(name, value),
        };
        self.is_malformed |= !is_valid || !is_field_value(value);
    }

    /// The section is over.
    ///
    /// # Errors
    /// A rule was broken.
    pub fn finish(&self) -> Result<(), Malformed> {
        let has = |pseudo: Pseudo| self.pseudo & pseudo.bit() != 0;
        let is_complete = match self.kind {
            SectionKind::Trailers => self.pseudo == 0,
            SectionKind::Response => self.pseudo == Pseudo::Status.bit(),
            // §8.5: CONNECT has neither scheme nor path. RFC 8441 §4: with a protocol, it has all.
            SectionKind::Request if self.is_connect && !has(Pseudo::Protocol) => {
                has(Pseudo::Authority) && !has(Pseudo::Scheme) && !has(Pseudo::Path)
            }
            SectionKind::Request if has(Pseudo::Protocol) => {
                self.is_connect
                    && has(Pseudo::Scheme)
                    && has(Pseudo::Path)
                    && has(Pseudo::Authority)
            }
            SectionKind::Request => has(Pseudo::Method) && has(Pseudo::Scheme) && has(Pseudo::Path),
        };
        match is_complete && !self.is_malformed {
            true => Ok(()),
            false => Err(Malformed),
        }
    }

    /// The length of content that was announced.
    #[must_use]
    pub fn length(&self) -> AnnouncedLength {
        self.length
    }

    /// The status of a response; 0 before it came.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// True of a CONNECT request, extended or not: content is a tunnel's.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        self.is_connect
    }

    fn pseudo_line(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Some(pseudo) = Pseudo::of(name) else {
            return false;
        };
        let is_of_kind = match self.kind {
            SectionKind::Request => pseudo != Pseudo::Status,
            SectionKind::Response => pseudo == Pseudo::Status,
            SectionKind::Trailers => false,
        };
        let is_first = self.pseudo & pseudo.bit() == 0;
        self.pseudo |= pseudo.bit();
        let is_value = match pseudo {
            Pseudo::Method => {
                self.is_connect = value == b"CONNECT";
                !value.is_empty()
            }
            Pseudo::Path => !value.is_empty(),
            Pseudo::Status => self.read_status(value),
            Pseudo::Scheme | Pseudo::Authority | Pseudo::Protocol => true,
        };
        is_of_kind && is_first && is_value && !self.has_regular
    }

    fn read_status(&mut self, value: &[u8]) -> bool {
        let &[
            hundreds @ b'1'..=b'9',
            tens @ b'0'..=b'9',
            ones @ b'0'..=b'9',
        ] = value
        else {
            return false;
        };
        let digit = |byte: u8| u16::from(byte - b'0');
        self.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
        // §8.6: there is no 101.
        self.status != 101
    }

    fn regular_line(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.has_regular = true;
        match name {
            // §8.2.2.
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => return false,
            b"te" if self.kind == SectionKind::Request => return value == b"trailers",
            b"content-length" if self.kind != SectionKind::Trailers => self.read_length(value),
            _ => {}
        }
        is_field_name(name)
    }

    fn read_length(&mut self, value: &[u8]) {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = str::from_utf8(value).ok().filter(|_| digits);
        let number = number.and_then(|number| number.parse().ok());
        self.length = match (self.length, number) {
            (AnnouncedLength::Unknown, Some(bytes)) => AnnouncedLength::Known(bytes),
            _ => AnnouncedLength::Invalid,
        };
    }
}

/// True of a token (RFC 9110 §5.6.2) without capital letters (RFC 9113 §8.2.1).
fn is_field_name(name: &[u8]) -> bool {
    // All octets of it: a branch for each one costs more than a look at the rest.
    let is_valid = |valid, &byte: &u8| valid & NAME_BYTES[usize::from(byte)];
    !name.is_empty() && name.iter().fold(true, is_valid)
}

/// [`is_name_byte`] of each octet.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = u8::MIN;
    loop {
        table[byte as usize] = is_name_byte(byte);
        match byte {
            u8::MAX => break table,
            _ => byte += 1,
        }
    }
};

const fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.'
        | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// RFC 9113 §8.2.1: no NUL, CR or LF.
fn is_field_value(value: &[u8]) -> bool {
    let found = words::fold(value, 0, |found, word| {
        found
            | words::has_octet(word, 0)
            | words::has_octet(word, b'\r')
            | words::has_octet(word, b'\n')
    });
    found == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lines<'a> = &'a [(&'a str, &'a str)];

    fn check(kind: SectionKind, lines: Lines<'_>) -> Result<AnnouncedLength, Malformed> {
        let mut check = SectionCheck::new(kind);
        for (name, value) in lines {
            check.line(name.as_bytes(), value.as_bytes());
        }
        check.finish().map(|()| check.length())
    }

    const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "https"), (":path", "/")];

    #[test]
    fn well_formed_requests() {
        let more = |lines: Lines<'_>| check(SectionKind::Request, &[&GET[..], lines].concat());
        assert_eq!(more(&[]), Ok(AnnouncedLength::Unknown));
        assert_eq!(
            more(&[(":authority", "a"), ("te", "trailers")]),
            Ok(AnnouncedLength::Unknown)
        );
        assert_eq!(
            more(&[("content-length", "7")]),
            Ok(AnnouncedLength::Known(7))
        );
        assert_eq!(
            more(&[("x", "a\tb c\u{e9}"), ("y", "")]),
            Ok(AnnouncedLength::Unknown)
        );
        for invalid in ["", "-1", "+1", "1x", "18446744073709551616"] {
            let length = more(&[("content-length", invalid)]);
            assert_eq!(length, Ok(AnnouncedLength::Invalid), "{invalid}");
        }
        let twice = more(&[("content-length", "1"), ("content-length", "1")]);
        assert_eq!(twice, Ok(AnnouncedLength::Invalid));
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert!(check(SectionKind::Request, &connect).is_ok());
        let extended = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":path", "/"),
            (":authority", "a"),
        ];
        assert!(check(SectionKind::Request, &extended).is_ok());
        for left_out in 1..extended.len() {
            let mut lines = extended.to_vec();
            lines.remove(left_out);
            let is_whole = check(SectionKind::Request, &lines).is_ok();
            assert!(!is_whole, "without {}", extended[left_out].0);
        }
    }

    #[test]
    fn malformed_requests() {
        for lines in [
            &[("connection", "close")][..],
            &[("keep-alive", "1")],
            &[("proxy-connection", "close")],
            &[("transfer-encoding", "chunked")],
            &[("upgrade", "h2c")],
            &[("te", "trailers, deflate")],
            &[("X", "1")],
            &[("", "1")],
            &[("a b", "1")],
            &[("a:b", "1")],
            &[("x", "1\n2")],
            &[("x", "1\r2")],
            &[("x", "1\0")],
            &[(":path", "/2")],
            &[(":status", "200")],
            &[(":unknown", "1")],
            &[(":protocol", "websocket")],
            &[("x", "1"), (":authority", "a")],
        ] {
            let lines = [&GET[..], lines].concat();
            assert_eq!(
                check(SectionKind::Request, &lines),
                Err(Malformed),
                "{lines:?}"
            );
        }
        for left_out in 0..GET.len() {
            let mut lines = GET.to_vec();
            lines.remove(left_out);
            assert_eq!(
                check(SectionKind::Request, &lines),
                Err(Malformed),
                "{lines:?}"
            );
        }
        let empty_path = [(":method", "GET"), (":scheme", "https"), (":path", "")];
        assert_eq!(check(SectionKind::Request, &empty_path), Err(Malformed));
        let connect = [(":method", "CONNECT"), (":authority", "a"), (":path", "/")];
        assert_eq!(check(SectionKind::Request, &connect), Err(Malformed));
    }

    #[test]
    fn responses_and_trailers() {
        for status in ["100", "200", "999"] {
            let lines = [(":status", status), ("te", "x")];
            assert!(check(SectionKind::Response, &lines).is_ok(), "{status}");
        }
        for status in ["101", "20", "2000", "0200", "2x0", "099"] {
            assert!(
                check(SectionKind::Response, &[(":status", status)]).is_err(),
                "{status}"
            );
        }
        assert!(check(SectionKind::Response, &[]).is_err());
        assert!(check(SectionKind::Response, &GET).is_err());
        assert!(
            check(
                SectionKind::Trailers,
                &[("x", "1"), ("content-length", "x")]
            )
            .is_ok()
        );
        assert!(check(SectionKind::Trailers, &[(":status", "200")]).is_err());
    }
}
