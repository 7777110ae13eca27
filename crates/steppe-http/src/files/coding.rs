//! Content negotiation by `Accept-Encoding`. Spec: RFC 9110 §12.4.2, §12.5.3.
//!
//! Non-goals: 406. A client that refuses every available coding is sent the identity coding,
//! as RFC 9110 §12.5.3 permits.

use crate::config::Coding;
use crate::field::FieldBlock;

/// The codings that a client accepts, most preferred first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AcceptedCodings([Option<Coding>; Coding::COUNT]);

/// Quality in thousandths.
pub type Quality = u16;

impl AcceptedCodings {
    /// The codings of `offered` that `fields` accept with at least the quality of the identity
    /// coding;
    /// equal qualities keep the order of `offered`.
    pub(crate) fn of(fields: &FieldBlock, offered: &[Coding]) -> Self {
        if offered.is_empty() {
            return Self::default();
        }
        let plain = quality(fields, "identity").unwrap_or(0);
        let quality = |coding: Coding| {
            let named = quality(fields, coding.as_str());
            let quality = named.or_else(|| quality(fields, "*")).unwrap_or(0);
            (quality > 0 && quality >= plain).then_some((quality, coding))
        };
        let mut accepted: Vec<_> = offered.iter().copied().filter_map(quality).collect();
        accepted.sort_by_key(|&(quality, _)| std::cmp::Reverse(quality));
        accepted.dedup_by_key(|(_, coding)| *coding);
        let mut codings = [None; Coding::COUNT];
        for (place, (_, coding)) in codings.iter_mut().zip(accepted) {
            *place = Some(coding);
        }
        Self(codings)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Coding> {
        self.0.into_iter().flatten()
    }
}

/// The quality of a coding; `None` if the field does not name it.
fn quality(fields: &FieldBlock, coding: &str) -> Option<Quality> {
    let values = fields.values_named(b"accept-encoding");
    let mut elements = values.flat_map(|value| value.split(|&byte| byte == b','));
    elements.find_map(|element| {
        let (name, parameters) = match memchr::memchr(b';', element) {
            Some(at) => (&element[..at], &element[at + 1..]),
            None => (element, &b""[..]),
        };
        is_named(name.trim_ascii(), coding).then(|| weight(parameters.trim_ascii()))
    })
}

/// Compares names of codings. RFC 9110 §8.4.1.3: `x-gzip` is `gzip`.
fn is_named(name: &[u8], coding: &str) -> bool {
    name.eq_ignore_ascii_case(coding.as_bytes())
        || coding == "gzip" && name.eq_ignore_ascii_case(b"x-gzip")
}

/// Parses a weight like `q=0.5`; a malformed one is 0.
#[must_use]
pub fn weight(text: &[u8]) -> Quality {
    const MOST: Quality = 1000;
    if text.is_empty() {
        return MOST;
    }
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), decimals @ ..] = text else {
        return 0;
    };
    let decimals = match decimals {
        [] => decimals,
        [b'.', decimals @ ..] if decimals.len() <= 3 => decimals,
        _ => return 0,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let padded = decimals.iter().chain(b"000").take(3);
    let thousandths = padded.fold(0, |sum, digit| sum * 10 + Quality::from(digit - b'0'));
    (Quality::from(whole - b'0') * MOST + thousandths).min(MOST)
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::field::FieldList;

    const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    #[track_caller]
    fn check(values: &[&str], expected: &[Coding]) {
        let budget = Budget::new(16 << 20);
        let buffer = Buffer::take(&budget.root().lease(), 1024).expect("room");
        let mut fields = FieldBlock::new(buffer, FieldList::take());
        for value in values {
            let added = fields.append(b"accept-encoding", value.as_bytes());
            added.expect("room");
        }
        let accepted: Vec<_> = AcceptedCodings::of(&fields, &ALL).iter().collect();
        assert_eq!(accepted, expected, "{values:?}");
    }

    #[test]
    fn clients_say_what_they_take() {
        use Coding::{Br, Gzip, Zstd};
        check(&[], &[]);
        check(&[""], &[]);
        check(&["gzip"], &[Gzip]);
        check(&["X-GZIP"], &[Gzip]);
        check(&["gzip, deflate, br, zstd"], &[Br, Zstd, Gzip]);
        check(&["gzip", "br"], &[Br, Gzip]);
        check(&["*"], &[Br, Zstd, Gzip]);
        check(&["br;q=0, *"], &[Zstd, Gzip]);
        check(&["br;q=0.1, gzip ; q=0.9, zstd;q=0.95"], &[Zstd, Gzip, Br]);
        check(&["br;q=0.001, gzip;q=1.000"], &[Gzip, Br]);
        check(&["identity;q=0.5, gzip;q=0.4, br;q=0.6"], &[Br]);
        check(&["identity, gzip"], &[Gzip]);
        check(&["gzip;q=0"], &[]);
    }

    #[test]
    fn weights_that_can_not_be_read_are_none() {
        for broken in [
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=0.1234",
            "gzip;q=-1",
            "gzip;x=1",
            "gzip;q=1.x",
        ] {
            check(&[broken], &[]);
        }
        // No more than the most.
        assert_eq!(weight(b"q=1.999"), 1000);
    }
}
