//! W3C Trace Context: the trace that a request belongs to.
//!
//! Invariant: a value that is not exactly a `traceparent` is ignored, and the request begins a new trace. Spec: W3C
//! Trace Context (2021-11-23) §3.2, §3.3, §4.3. Left out: the meaning of `tracestate`, which is passed on as it came if
//! it is one.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU64, NonZeroU128};

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_BYTES: usize = 55;

/// Bytes of a `tracestate` that is passed on: §3.3.1.5 requires at least 512.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// Members of a `tracestate` (§3.3.1.1).
const MEMBERS_MAX: usize = 32;

/// A span's place in its trace, as in `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace that the span is part of.
    pub trace: NonZeroU128,
    /// The span itself.
    pub span: NonZeroU64,
    /// True if the parent samples the trace (the `sampled` flag).
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` if it is none. A version later than 00 is read by the fields of 00 (§4.3).
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (first, rest) = value.split_at_checked(TRACEPARENT_BYTES)?;
        let [version, trace, span, flags] = [0..2, 3..35, 36..52, 53..55].map(|at| &first[at]);
        let has_dashes = [2, 35, 52].iter().all(|&at| first[at] == b'-');
        let is_known = match number(version)? {
            0xff => false,
            0 => rest.is_empty(),
            _ => rest.first().is_none_or(|&next| next == b'-'),
        };
        if !has_dashes || !is_known {
            return None;
        }
        let span = u64::try_from(number(span)?).ok()?;
        Some(Self {
            trace: NonZeroU128::new(number(trace)?)?,
            span: NonZeroU64::new(span)?,
            is_sampled: number(flags)? & 1 == 1,
        })
    }

    /// The `traceparent` of version 00.
    #[must_use]
    pub fn text(&self) -> [u8; TRACEPARENT_BYTES] {
        let mut text = *b"00-________________________________-________________-00";
        write(&mut text[3..35], self.trace.get());
        write(&mut text[36..52], self.span.get().into());
        text[54] += u8::from(self.is_sampled);
        text
    }
}

/// True for a `tracestate` list that can be passed on (§3.3.1).
#[must_use]
pub fn is_tracestate(value: &[u8]) -> bool {
    if value.len() > TRACESTATE_BYTES_MAX {
        return false;
    }
    let members = || {
        let members = value.split(|&byte| byte == b',').map(trimmed);
        members.filter(|member| !member.is_empty())
    };
    let keys = || members().map(|member| member.split(|&byte| byte == b'=').next());
    // At most 32 members: the comparisons are few.
    let is_once = |at: usize| {
        let mut before = keys().take(at);
        let key = keys().nth(at);
        before.all(|other| Some(other) != key)
    };
    let count = members().count();
    count <= MEMBERS_MAX && members().all(is_member) && (0..count).all(is_once)
}

/// The member without optional white space (RFC 9110 §5.6.3) around it.
fn trimmed(mut member: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = member {
        member = rest;
    }
    member
}

/// True for `key=value` (§3.3.1.3).
fn is_member(member: &[u8]) -> bool {
    let Some(at) = member.iter().position(|&byte| byte == b'=') else {
        return false;
    };
    let (key, value) = (&member[..at], &member[at + 1..]);
    is_key(key) && (1..=256).contains(&value.len()) && value.iter().all(|&byte| is_in_value(byte))
}

fn is_in_value(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && !matches!(byte, b',' | b'=')
}

/// True for a name, or a tenant's name and a system's with an @ between them.
fn is_key(key: &[u8]) -> bool {
    let is_name = |name: &[u8], len: usize, may_begin: fn(&u8) -> bool| {
        let is_inner = |&byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte)
        };
        name.len() <= len && name.first().is_some_and(may_begin) && name.iter().all(is_inner)
    };
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match key.iter().position(|&byte| byte == b'@') {
        None => is_name(key, 256, u8::is_ascii_lowercase),
        Some(at) => {
            is_name(&key[..at], 241, alphanumeric)
                && is_name(&key[at + 1..], 14, u8::is_ascii_lowercase)
        }
    }
}

/// A number in lower-case hexadecimal digits.
fn number(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

fn write(room: &mut [u8], mut number: u128) {
    for digit in room.iter_mut().rev() {
        *digit = b"0123456789abcdef"[usize::from(number.to_le_bytes()[0] & 15)];
        number >>= 4;
    }
}

/// Numbers of new traces and spans, of one worker.
///
/// `SplitMix64` (Steele, Lea and Flood 2014), whose outputs are masked: all of its streams are parts of one
/// cycle, and two nodes whose parts overlap must not number their traces alike.
#[derive(Debug)]
pub struct Ids {
    state: Cell<u64>,
    masks: [u64; 2],
}

impl Default for Ids {
    fn default() -> Self {
        let random = RandomState::new();
        let [seed, one, other] = [0_u8, 1, 2].map(|part| random.hash_one(part));
        Self {
            state: Cell::new(seed),
            masks: [one, other],
        }
    }
}

impl Ids {
    /// A new trace, with a first span in it that is not recorded.
    #[must_use]
    pub fn trace(&self) -> TraceContext {
        let [upper, lower] = self.masks.map(|mask| u128::from(self.next() ^ mask));
        TraceContext {
            trace: NonZeroU128::new(upper << 64 | lower).unwrap_or(NonZeroU128::MIN),
            span: self.span(),
            is_sampled: false,
        }
    }

    /// A new span.
    #[must_use]
    pub fn span(&self) -> NonZeroU64 {
        NonZeroU64::new(self.next() ^ self.masks[0]).unwrap_or(NonZeroU64::MIN)
    }

    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn parsed(text: &str) -> Option<String> {
        let context = TraceContext::parse(text.as_bytes())?;
        Some(String::from_utf8(context.text().to_vec()).expect("ASCII"))
    }

    #[test]
    fn a_traceparent_is_read_and_written() {
        for flags in ["00", "01"] {
            let text = format!("00-{TRACE}-{SPAN}-{flags}");
            assert_eq!(parsed(&text), Some(text));
        }
        // Other flags mean nothing in version 00, and are not passed on.
        let more = format!("00-{TRACE}-{SPAN}-ff");
        assert_eq!(parsed(&more), Some(format!("00-{TRACE}-{SPAN}-01")));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let expected = Some(format!("00-{TRACE}-{SPAN}-01"));
        assert_eq!(parsed(&format!("01-{TRACE}-{SPAN}-01")), expected);
        assert_eq!(parsed(&format!("cc-{TRACE}-{SPAN}-09-more")), expected);
        assert_eq!(parsed(&format!("cc-{TRACE}-{SPAN}-01.more")), None);
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}_01"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("0x-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}é{SPAN}-01"),
        ] {
            assert_eq!(parsed(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tracestate_is_a_list_of_keys_and_values() {
        for right in [
            "",
            "a=1",
            "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE",
            "fw529a3039@dt=FfAAAA,,a=b c",
            "0tenant@s=1",
        ] {
            assert!(is_tracestate(right.as_bytes()), "{right}");
        }
        let many: Vec<_> = (0..33).map(|at| format!("k{at}=v")).collect();
        let long = format!("a={}", "x".repeat(257));
        for wrong in [
            "a",
            "a=",
            "=1",
            "A=1",
            "1a=1",
            "a=1=2",
            "a=1,a=2",
            "a@=1",
            "@a=1",
            "a=\u{7f}",
            "a=1\r\n",
            &many.join(","),
            &long,
        ] {
            assert!(!is_tracestate(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn new_traces_differ() {
        let ids = [Ids::default(), Ids::default()];
        let traces = ids
            .iter()
            .flat_map(|ids| (0..1000).map(|_| ids.trace().trace));
        let traces: std::collections::BTreeSet<_> = traces.collect();
        assert_eq!(traces.len(), 2000);
    }
}
