//! Path normalization: one spelling for every path, or a refusal.
//!
//! Invariant: the output begins with `/`, has no dot segment, no empty segment but the last, no
//! escape of an unreserved character, no lower-case escape, and is never longer than the input.
//! Normalizing it again changes nothing.
//!
//! Why it is never longer: every step of [`rewrite`] reads a segment and its slash and writes at
//! most as many bytes (three bytes of an escape become one or three; a segment is kept, dropped,
//! or takes an earlier one with it). So its write position never passes its read position, which
//! is also why it works in place.
//!
//! # Deviations
//! RFC 3986 §3.3 allows neither `[`, `]`, `^`, `{`, `|` nor `}` in a path. Browsers send `[`, `]`,
//! `|` and, until lately, `^` as they are typed, and command line clients the braces too; no origin
//! gives them a meaning that changes the path. They are forwarded as they are. `"`, `<`, `>` and
//! `` ` `` are encoded by every browser: refused, as are `\` (a slash to some origins), `#`,
//! controls, space and everything beyond ASCII.

use thiserror::Error;

use super::{escaped_byte, is_sub_delim, is_unreserved};

/// The result of [`normalize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalized {
    /// The path is its own normal form.
    Clean,
    /// The normal form is in the first `len` bytes of the output.
    Rewritten {
        /// The length of the normal form: at least 1, at most the length of the input.
        len: usize,
    },
}

/// Why a path is refused: 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// The path is empty or begins with something else than `/`.
    #[error("path does not begin with a slash")]
    NotAbsolute,
    /// A byte that no path may contain.
    #[error("byte 0x{byte:02x} at offset {offset} is not allowed in a path")]
    Byte {
        /// The byte.
        byte: u8,
        /// Where it stands in the path.
        offset: usize,
    },
    /// `%` without two hexadecimal digits.
    #[error("invalid escape at offset {offset} of the path")]
    Escape {
        /// Where its `%` stands in the path.
        offset: usize,
    },
    /// `%2f`, `%5c` or `%00`: origins disagree on what they mean.
    #[error("escape %{byte:02x} at offset {offset} is refused in a path")]
    RefusedEscape {
        /// The byte that the escape stands for.
        byte: u8,
        /// Where its `%` stands in the path.
        offset: usize,
    },
    /// `..;x` and the like: a dot segment to origins that drop parameters first.
    #[error("dot segment with parameters in the path")]
    DotParameters,
    /// `/;x/` or `/%3Bx/`: an empty segment to origins that drop parameters first.
    #[error("empty segment with parameters in the path")]
    EmptyParameters,
}

/// Brings `path` into its normal form, which is in `out` unless the path is clean. A path without
/// anything to look at twice, which is nearly every one, is read once and not copied.
///
/// `path` is what a request target has before the first `?`. An empty path (of an absolute-form
/// target) is the caller's to replace by `/`: RFC 9110 §4.2.3.
///
/// - Unreserved characters are decoded, other escapes kept with upper-case digits.
/// - Repeated slashes are merged, then dot segments removed; `..` at the root stays at the root.
/// - A trailing slash is kept, and so are `;parameters`, except those of a segment that a later
///   `..` takes away.
///
/// # Errors
/// [`PathError`] says what is refused.
///
/// # Panics
/// When `out` is shorter than `path`.
pub fn normalize(path: &[u8], out: &mut [u8]) -> Result<Normalized, PathError> {
    if scan(path)? {
        return Ok(Normalized::Clean);
    }
    let out = &mut out[..path.len()];
    out.copy_from_slice(path);
    let len = rewrite(out)?;
    // What looked suspicious may have been in order: `/;x`, `/.%25`.
    Ok(if out[..len] == *path {
        Normalized::Clean
    } else {
        Normalized::Rewritten { len }
    })
}

/// True when `path` is certainly its own normal form; nearly every one is.
///
/// # Errors
/// As [`normalize`].
pub fn is_clean(path: &[u8]) -> Result<bool, PathError> {
    scan(path)
}

/// Brings `path` into its normal form where it stands, and gives the length of that.
///
/// # Errors
/// As [`normalize`]; after [`PathError::DotParameters`] and [`PathError::EmptyParameters`] the
/// content of `path` is unspecified, otherwise unchanged.
pub fn normalize_in_place(path: &mut [u8]) -> Result<usize, PathError> {
    if scan(path)? {
        Ok(path.len())
    } else {
        rewrite(path)
    }
}

/// Checks every byte and escape; true when the path is in its normal form.
fn scan(path: &[u8]) -> Result<bool, PathError> {
    if path.first() != Some(&b'/') {
        return Err(PathError::NotAbsolute);
    }
    let mut clean = true;
    let mut offset = 0;
    while let Some(&byte) = path.get(offset) {
        match CLASSES[usize::from(byte)] {
            Class::Plain => offset += 1,
            Class::Slash => {
                offset += 1;
                clean &= !begins_suspiciously(&path[offset..]);
            }
            Class::Percent => {
                clean &= is_normal_escape(path, offset)?;
                offset += 3;
            }
            Class::Refused => return Err(PathError::Byte { byte, offset }),
        }
    }
    Ok(clean)
}

/// True when [`rewrite`] must look at a segment: empty but not last, parameters without a
/// name, or perhaps a dot segment.
fn begins_suspiciously(segment: &[u8]) -> bool {
    let after_dots = match segment {
        [b'/', ..] => return true,
        _ if begins_parameters(segment) => return true,
        [b'.', b'.', after @ ..] | [b'.', after @ ..] => after,
        _ => return false,
    };
    matches!(after_dots.first(), None | Some(b'/' | b';' | b'%'))
}

/// True when the escape at `offset` stays as it is.
fn is_normal_escape(path: &[u8], offset: usize) -> Result<bool, PathError> {
    let escape = &path[offset..];
    match escaped_byte(escape) {
        None => Err(PathError::Escape { offset }),
        Some(byte @ (b'/' | b'\\' | 0)) => Err(PathError::RefusedEscape { byte, offset }),
        Some(byte) => {
            let is_upper_case = !escape[1].is_ascii_lowercase() && !escape[2].is_ascii_lowercase();
            Ok(is_upper_case && !is_unreserved(byte))
        }
    }
}

/// Normalizes a path that [`scan`] has passed, in place, and gives its new length.
fn rewrite(path: &mut [u8]) -> Result<usize, PathError> {
    let mut read = 1;
    // Just behind a slash, whenever a segment begins.
    let mut write = 1;
    loop {
        let end = memchr::memchr(b'/', &path[read..]).map_or(path.len(), |slash| read + slash);
        let is_last = end == path.len();
        let written = decode_segment(path, read..end, write);
        match SegmentKind::of(&path[write..written]) {
            SegmentKind::Empty | SegmentKind::Dot => {}
            SegmentKind::DotDot => write = parent(&path[..write]),
            SegmentKind::DotParameters => return Err(PathError::DotParameters),
            SegmentKind::EmptyParameters if !is_last => return Err(PathError::EmptyParameters),
            SegmentKind::EmptyParameters | SegmentKind::Named => {
                write = written;
                if !is_last {
                    path[write] = b'/';
                    write += 1;
                }
            }
        }
        if is_last {
            return Ok(write);
        }
        read = end + 1;
    }
}

/// Copies a segment to `write`, at or before its place, with its escapes in normal form; gives the
/// end of the copy.
fn decode_segment(path: &mut [u8], segment: std::ops::Range<usize>, mut write: usize) -> usize {
    let mut read = segment.start;
    while read < segment.end {
        match escaped_byte(&path[read..segment.end]) {
            Some(byte) if is_unreserved(byte) => {
                path[write] = byte;
                write += 1;
                read += 3;
            }
            Some(_) => {
                path.copy_within(read..read + 3, write);
                path[write + 1..write + 3].make_ascii_uppercase();
                write += 3;
                read += 3;
            }
            None => {
                path[write] = path[read];
                write += 1;
                read += 1;
            }
        }
    }
    write
}

/// Where the last segment of `path`, which ends with a slash, begins; the root is its own parent.
fn parent(path: &[u8]) -> usize {
    let above = &path[..path.len() - 1];
    memchr::memrchr(b'/', above).map_or(1, |slash| slash + 1)
}

/// The kind of a decoded segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentKind {
    Empty,
    Dot,
    DotDot,
    DotParameters,
    EmptyParameters,
    Named,
}

impl SegmentKind {
    fn of(segment: &[u8]) -> Self {
        match segment {
            [] => Self::Empty,
            b"." => Self::Dot,
            b".." => Self::DotDot,
            _ if begins_parameters(segment) => Self::EmptyParameters,
            [b'.', b'.', after @ ..] | [b'.', after @ ..] if begins_parameters(after) => {
                Self::DotParameters
            }
            _ => Self::Named,
        }
    }
}

/// True when `bytes` begin with what an origin may take for the `;` before parameters.
///
/// `%3B` is not a delimiter (RFC 3986 §2.2), but an origin that decodes before it looks for
/// parameters would leave this path for another directory. Behind a name, as in `a%3Bb.txt`, it is
/// part of that name.
fn begins_parameters(bytes: &[u8]) -> bool {
    bytes.starts_with(b";") || bytes.starts_with(b"%3B")
}

/// The class of a byte for [`scan`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Plain,
    Slash,
    Percent,
    Refused,
}

/// The class of every byte.
pub(super) static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Refused; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        table[byte as usize] = class(byte);
        byte += 1;
    }
    table
}

const fn class(byte: u8) -> Class {
    match byte {
        b'/' => Class::Slash,
        b'%' => Class::Percent,
        b':' | b'@' | b'[' | b']' | b'^' | b'{' | b'|' | b'}' => Class::Plain,
        _ if is_unreserved(byte) || is_sub_delim(byte) => Class::Plain,
        _ => Class::Refused,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn shown(path: &[u8]) -> String {
        let mut out = vec![0; path.len()];
        let shown = match normalize(path, &mut out) {
            Ok(Normalized::Clean) => "clean".to_owned(),
            Ok(Normalized::Rewritten { len }) => String::from_utf8_lossy(&out[..len]).into_owned(),
            Err(error) => format!("400 {error}"),
        };
        format!("{} -> {shown}\n", path.escape_ascii())
    }

    fn check(paths: &[&str], expected: Expect) {
        expected.assert_eq(
            &paths
                .iter()
                .map(|path| shown(path.as_bytes()))
                .collect::<String>(),
        );
    }

    #[test]
    fn clean_paths_are_left_alone() {
        check(
            &[
                "/",
                "/a",
                "/a/",
                "/.well-known/acme",
                "/..a/.b./...",
                "/a;x=1/b;y",
                "/a%20b%3F",
                "/:@!$&'()*+,=",
                "/a[0]|b^{c}",
                "/a.b/c..",
                "/a;..",
            ],
            expect![[r#"
                / -> clean
                /a -> clean
                /a/ -> clean
                /.well-known/acme -> clean
                /..a/.b./... -> clean
                /a;x=1/b;y -> clean
                /a%20b%3F -> clean
                /:@!$&\'()*+,= -> clean
                /a[0]|b^{c} -> clean
                /a.b/c.. -> clean
                /a;.. -> clean
            "#]],
        );
    }

    #[test]
    fn dot_segments_are_removed() {
        check(
            &[
                "/a/b/c/./../../g",
                "/mid/content=5/../6",
                "/..",
                "/../x",
                "/../../../x",
                "/.",
                "/./",
                "/a/.",
                "/a/..",
                "/a/b/..",
                "/a/b/../",
                "/a/%2e%2E/b",
                "/a/.%2e/b",
                "/%2e/b",
                "/a;x/../b",
                "/a//../b",
            ],
            expect![[r#"
                /a/b/c/./../../g -> /a/g
                /mid/content=5/../6 -> /mid/6
                /.. -> /
                /../x -> /x
                /../../../x -> /x
                /. -> /
                /./ -> /
                /a/. -> /a/
                /a/.. -> /
                /a/b/.. -> /a/
                /a/b/../ -> /a/
                /a/%2e%2E/b -> /b
                /a/.%2e/b -> /b
                /%2e/b -> /b
                /a;x/../b -> /b
                /a//../b -> /b
            "#]],
        );
    }

    #[test]
    fn slashes_are_merged_and_escapes_spelled_one_way() {
        check(
            &[
                "//",
                "//admin",
                "/a///b//",
                "/%61dmin",
                "/%7euser/%2D%5f",
                "/a%3ab%c3%a9",
                "/%2561",
                "/a%3bx",
            ],
            expect![[r#"
                // -> /
                //admin -> /admin
                /a///b// -> /a/b/
                /%61dmin -> /admin
                /%7euser/%2D%5f -> /~user/-_
                /a%3ab%c3%a9 -> /a%3Ab%C3%A9
                /%2561 -> clean
                /a%3bx -> /a%3Bx
            "#]],
        );
    }

    #[test]
    fn two_readings_are_refused() {
        check(
            &[
                "",
                "a",
                "*",
                "/public/..%2fadmin",
                "/a%2Fb",
                "/a%5cb",
                "/a%5Cb",
                "/a%00",
                "/%",
                "/%4",
                "/%zz",
                "/a%4/b",
                "/a\\b",
                "/a b",
                "/a\tb",
                "/a#b",
                "/a?b",
                "/\u{7f}",
                "/é",
                "/\"",
                "/<a>",
                "/`",
            ],
            expect![[r#"
                 -> 400 path does not begin with a slash
                a -> 400 path does not begin with a slash
                * -> 400 path does not begin with a slash
                /public/..%2fadmin -> 400 escape %2f at offset 10 is refused in a path
                /a%2Fb -> 400 escape %2f at offset 2 is refused in a path
                /a%5cb -> 400 escape %5c at offset 2 is refused in a path
                /a%5Cb -> 400 escape %5c at offset 2 is refused in a path
                /a%00 -> 400 escape %00 at offset 2 is refused in a path
                /% -> 400 invalid escape at offset 1 of the path
                /%4 -> 400 invalid escape at offset 1 of the path
                /%zz -> 400 invalid escape at offset 1 of the path
                /a%4/b -> 400 invalid escape at offset 2 of the path
                /a\\b -> 400 byte 0x5c at offset 2 is not allowed in a path
                /a b -> 400 byte 0x20 at offset 2 is not allowed in a path
                /a\tb -> 400 byte 0x09 at offset 2 is not allowed in a path
                /a#b -> 400 byte 0x23 at offset 2 is not allowed in a path
                /a?b -> 400 byte 0x3f at offset 2 is not allowed in a path
                /\x7f -> 400 byte 0x7f at offset 1 is not allowed in a path
                /\xc3\xa9 -> 400 byte 0xc3 at offset 1 is not allowed in a path
                /\" -> 400 byte 0x22 at offset 1 is not allowed in a path
                /<a> -> 400 byte 0x3c at offset 1 is not allowed in a path
                /` -> 400 byte 0x60 at offset 1 is not allowed in a path
            "#]],
        );
    }

    #[test]
    fn parameters_never_hide_a_dot_or_empty_segment() {
        check(
            &[
                "/..;x/admin",
                "/public/..;/admin",
                "/.;/admin",
                "/%2e%2e;x/admin",
                "/..%3bx/admin",
                "/.%3B",
                "/;x/admin",
                "/%3Bx/admin",
                "/%3b/admin",
                "/a/%3B/../b",
                "/a//;x/b",
                "/;jsessionid=1",
                "/a/;x",
                "/a//;x",
                "/a/%3bx",
                "/a%3B/b",
                "/...;x/a",
            ],
            expect![[r#"
                /..;x/admin -> 400 dot segment with parameters in the path
                /public/..;/admin -> 400 dot segment with parameters in the path
                /.;/admin -> 400 dot segment with parameters in the path
                /%2e%2e;x/admin -> 400 dot segment with parameters in the path
                /..%3bx/admin -> 400 dot segment with parameters in the path
                /.%3B -> 400 dot segment with parameters in the path
                /;x/admin -> 400 empty segment with parameters in the path
                /%3Bx/admin -> 400 empty segment with parameters in the path
                /%3b/admin -> 400 empty segment with parameters in the path
                /a/%3B/../b -> 400 empty segment with parameters in the path
                /a//;x/b -> 400 empty segment with parameters in the path
                /;jsessionid=1 -> clean
                /a/;x -> clean
                /a//;x -> /a/;x
                /a/%3bx -> /a/%3Bx
                /a%3B/b -> clean
                /...;x/a -> clean
            "#]],
        );
    }

    #[test]
    fn in_place_is_the_same() {
        let mut path = *b"/a/./%62//c/../d";
        let len = normalize_in_place(&mut path).expect("a valid path");
        assert_eq!(&path[..len], b"/a/b/d");
        let mut clean = *b"/a/b";
        assert_eq!(normalize_in_place(&mut clean), Ok(4));
    }
}
