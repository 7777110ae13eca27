//! Path patterns of routes: `/v1/users/{id}`, `/v1/{rest*}`.
//!
//! Invariant: a pattern that parses can match some normalized path, and matches whole segments
//! only: `/v1/` never matches `/v10`.
//!
//! Non-goals: regular expressions, and captures within a segment.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;

use super::normalize::{CLASSES, Class};
use super::{SegmentNames, compare_decoded, escaped_byte, is_unreserved};
use crate::limits::PATTERN_SEGMENTS_MAX;

/// A route's path: literal segments, `{name}`, and `{rest*}` at the end.
///
/// `Display` gives the pattern with its escapes in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<PatternSegment>,
}

/// One segment of a [`PathPattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternSegment {
    /// These bytes, after escapes are decoded; empty after a trailing slash.
    Literal(Vec<u8>),
    /// `{name}`: any one segment that is not empty.
    Capture(String),
    /// `{rest*}`: whatever follows the slash before it, nothing included.
    ///
    /// `/v1/{rest*}` matches `/v1/` and `/v1/a/b`, not `/v1`: the slash is a literal part of the
    /// pattern, and to an origin `/v1` and `/v1/` are two resources, of which relative references
    /// resolve differently. A route that serves both names both.
    Rest(String),
}

/// Why a pattern is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct PatternError {
    /// The kind of mistake.
    pub kind: PatternErrorKind,
    /// The bytes of the pattern that are wrong; not empty unless the pattern is.
    pub span: Range<usize>,
}

/// A mistake in a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternErrorKind {
    /// The pattern does not begin with `/`.
    #[error("a path must begin with `/`")]
    NotAbsolute,
    /// `//`, which no normalized path contains.
    #[error("an empty segment never matches: repeated slashes are merged before routing")]
    EmptySegment,
    /// `.` or `..`, which no normalized path contains.
    #[error("dot segment `{0}` never matches: dot segments are removed before routing")]
    DotSegment(String),
    /// A brace that is not at an end of its segment.
    #[error("`{0}` is neither text nor one `{{name}}`: a capture is a whole segment")]
    PartialCapture(String),
    /// The name in the braces is no identifier.
    #[error("`{0}` is not a name: letters, digits and `_`, not a digit first")]
    CaptureName(String),
    /// Two captures with one name.
    #[error("the name `{0}` is used twice")]
    DuplicateName(String),
    /// `{rest*}` before the end.
    #[error("`{{{0}*}}` matches the whole rest of the path, so it must be last")]
    RestNotLast(String),
    /// A character that no normalized path contains as it is.
    #[error("{0:?} must be percent-encoded in a path")]
    Character(char),
    /// `;`, which begins parameters.
    #[error("`;` begins parameters, which are ignored for matching")]
    Parameters,
    /// `?`, which begins the query.
    #[error("`?` begins the query, which is matched by `query`")]
    Query,
    /// `*` outside of `{rest*}`.
    #[error("`*` is allowed only in `{{rest*}}`: write `%2A` for the character")]
    Star,
    /// `%` without two hexadecimal digits.
    #[error("`{0}` is not an escape: `%` and two hexadecimal digits")]
    Escape(String),
    /// `%2f`, `%5c` or `%00`.
    #[error("`{0}` never matches: such a request is answered with 400")]
    RefusedEscape(String),
    /// Too many segments.
    #[error("{0} segments, at most {PATTERN_SEGMENTS_MAX} are allowed")]
    TooManySegments(usize),
}

impl PathPattern {
    /// Reads a pattern as it stands in a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        Parser {
            pattern,
            text: String::new(),
            segments: Vec::new(),
        }
        .parse()
    }

    /// True when a path that [`normalize`](super::normalize) has passed matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut names = SegmentNames::new(path);
        for segment in &self.segments {
            let Some(name) = names.next() else {
                return false;
            };
            match segment {
                PatternSegment::Rest(_) => return true,
                PatternSegment::Capture(_) if name.is_empty() => return false,
                PatternSegment::Capture(_) => {}
                PatternSegment::Literal(literal) => {
                    if compare_decoded(name, literal) != Ordering::Equal {
                        return false;
                    }
                }
            }
        }
        names.next().is_none()
    }

    /// The segments in order: at least one.
    pub fn segments(&self) -> &[PatternSegment] {
        &self.segments
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for PathPattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        Self::parse(pattern)
    }
}

struct Parser<'a> {
    pattern: &'a str,
    text: String,
    segments: Vec<PatternSegment>,
}

impl Parser<'_> {
    fn parse(mut self) -> Result<PathPattern, PatternError> {
        let pattern = self.pattern;
        let Some(body) = pattern.strip_prefix('/') else {
            let first = pattern.chars().next().map_or(0, char::len_utf8);
            return Err(error(PatternErrorKind::NotAbsolute, 0..first));
        };
        let count = body.split('/').count();
        if count > PATTERN_SEGMENTS_MAX {
            return Err(error(
                PatternErrorKind::TooManySegments(count),
                0..pattern.len(),
            ));
        }
        let mut start = 1;
        for segment in body.split('/') {
            let span = start..start + segment.len();
            start = span.end + 1;
            self.text.push('/');
            self.segment(span)?;
        }
        Ok(PathPattern {
            text: self.text,
            segments: self.segments,
        })
    }

    fn segment(&mut self, span: Range<usize>) -> Result<(), PatternError> {
        let segment = &self.pattern[span.clone()];
        if segment.is_empty() && !self.is_last(&span) {
            return Err(error(
                PatternErrorKind::EmptySegment,
                span.start - 1..span.end + 1,
            ));
        }
        if segment.contains(['{', '}']) {
            return self.capture(span);
        }
        let literal = self.literal(span.clone())?;
        if matches!(&*literal, b"." | b"..") {
            let shown = self.pattern[span.clone()].to_owned();
            return Err(error(PatternErrorKind::DotSegment(shown), span));
        }
        self.segments.push(PatternSegment::Literal(literal));
        Ok(())
    }

    fn capture(&mut self, span: Range<usize>) -> Result<(), PatternError> {
        let segment = &self.pattern[span.clone()];
        let inner = segment
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let Some(inner) = inner.filter(|inner| !inner.contains(['{', '}'])) else {
            return Err(error(
                PatternErrorKind::PartialCapture(segment.to_owned()),
                span,
            ));
        };
        let rest = inner.strip_suffix('*');
        let name = rest.unwrap_or(inner).to_owned();
        if !is_identifier(&name) {
            return Err(error(PatternErrorKind::CaptureName(name), span));
        }
        if self
            .segments
            .iter()
            .any(|earlier| earlier.name() == Some(&name))
        {
            return Err(error(PatternErrorKind::DuplicateName(name), span));
        }
        if rest.is_some() && !self.is_last(&span) {
            return Err(error(PatternErrorKind::RestNotLast(name), span));
        }
        self.text.push_str(segment);
        self.segments.push(match rest {
            Some(_) => PatternSegment::Rest(name),
            None => PatternSegment::Capture(name),
        });
        Ok(())
    }

    fn is_last(&self, segment: &Range<usize>) -> bool {
        segment.end == self.pattern.len()
    }

    /// Decodes a literal segment, and appends its normal form to the text.
    fn literal(&mut self, span: Range<usize>) -> Result<Vec<u8>, PatternError> {
        let segment = &self.pattern[span.clone()];
        let mut decoded = Vec::with_capacity(segment.len());
        let mut chars = segment.char_indices();
        while let Some((index, char)) = chars.next() {
            let start = span.start + index;
            if char == '%' {
                decoded.push(self.escape(&segment[index..], start)?);
                chars.nth(1);
            } else {
                let end = start + char.len_utf8();
                decoded.push(plain_byte(char).map_err(|kind| error(kind, start..end))?);
                self.text.push(char);
            }
        }
        Ok(decoded)
    }

    /// Reads the escape that `rest` begins with, and appends its normal form to the text.
    fn escape(&mut self, rest: &str, start: usize) -> Result<u8, PatternError> {
        let shown: String = rest.chars().take(3).collect();
        let span = start..start + shown.len();
        match escaped_byte(rest.as_bytes()) {
            None => Err(error(PatternErrorKind::Escape(shown), span)),
            Some(b'/' | b'\\' | 0) => Err(error(PatternErrorKind::RefusedEscape(shown), span)),
            Some(byte) if is_unreserved(byte) => {
                self.text.push(char::from(byte));
                Ok(byte)
            }
            Some(byte) => {
                self.text.push_str(&shown.to_ascii_uppercase());
                Ok(byte)
            }
        }
    }
}

impl PatternSegment {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Capture(name) | Self::Rest(name) => Some(name),
        }
    }
}

/// The byte of a character that a literal may contain as it is.
fn plain_byte(char: char) -> Result<u8, PatternErrorKind> {
    match (char, u8::try_from(char)) {
        (';', _) => Err(PatternErrorKind::Parameters),
        ('?', _) => Err(PatternErrorKind::Query),
        ('*', _) => Err(PatternErrorKind::Star),
        (_, Ok(byte)) if CLASSES[usize::from(byte)] == Class::Plain => Ok(byte),
        _ => Err(PatternErrorKind::Character(char)),
    }
}

fn is_identifier(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn error(kind: PatternErrorKind, span: Range<usize>) -> PatternError {
    PatternError { kind, span }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn shown(pattern: &str) -> String {
        match PathPattern::parse(pattern) {
            Ok(parsed) => format!("{pattern} -> {parsed}\n"),
            Err(PatternError { kind, span }) => {
                format!(
                    "{pattern} -> {span:?} `{}`: {kind}\n",
                    &pattern[span.clone()]
                )
            }
        }
    }

    fn check(patterns: &[&str], expected: Expect) {
        expected.assert_eq(
            &patterns
                .iter()
                .map(|pattern| shown(pattern))
                .collect::<String>(),
        );
    }

    #[test]
    fn patterns_give_themselves_back_in_normal_form() {
        check(
            &[
                "/",
                "/v1",
                "/v1/",
                "/{rest*}",
                "/v1/{id}/x/{rest*}",
                "/%7euser",
                "/a%3ab",
                "/.well-known/a[0]",
            ],
            expect![[r#"
                / -> /
                /v1 -> /v1
                /v1/ -> /v1/
                /{rest*} -> /{rest*}
                /v1/{id}/x/{rest*} -> /v1/{id}/x/{rest*}
                /%7euser -> /~user
                /a%3ab -> /a%3Ab
                /.well-known/a[0] -> /.well-known/a[0]
            "#]],
        );
    }

    #[test]
    fn broken_patterns_are_named() {
        check(
            &[
                "",
                "v1",
                "é",
                "//",
                "/a//b",
                "/a/./b",
                "/a/%2e%2E",
                "/a/{id}x",
                "/{a}{b}",
                "/{a",
                "/a}",
                "/{}",
                "/{*}",
                "/{1a}",
                "/{a-b}",
                "/{a}/{a}",
                "/{a}/{a*}",
                "/{rest*}/a",
                "/{rest*}/",
                "/a b",
                "/café",
                "/a;x",
                "/a?x=1",
                "/a#b",
                "/v1/*",
                "/a%2fb",
                "/a%5Cb",
                "/a%00",
                "/a%4",
                "/a%é9",
            ],
            expect![[r#"
                 -> 0..0 ``: a path must begin with `/`
                v1 -> 0..1 `v`: a path must begin with `/`
                é -> 0..2 `é`: a path must begin with `/`
                // -> 0..2 `//`: an empty segment never matches: repeated slashes are merged before routing
                /a//b -> 2..4 `//`: an empty segment never matches: repeated slashes are merged before routing
                /a/./b -> 3..4 `.`: dot segment `.` never matches: dot segments are removed before routing
                /a/%2e%2E -> 3..9 `%2e%2E`: dot segment `%2e%2E` never matches: dot segments are removed before routing
                /a/{id}x -> 3..8 `{id}x`: `{id}x` is neither text nor one `{name}`: a capture is a whole segment
                /{a}{b} -> 1..7 `{a}{b}`: `{a}{b}` is neither text nor one `{name}`: a capture is a whole segment
                /{a -> 1..3 `{a`: `{a` is neither text nor one `{name}`: a capture is a whole segment
                /a} -> 1..3 `a}`: `a}` is neither text nor one `{name}`: a capture is a whole segment
                /{} -> 1..3 `{}`: `` is not a name: letters, digits and `_`, not a digit first
                /{*} -> 1..4 `{*}`: `` is not a name: letters, digits and `_`, not a digit first
                /{1a} -> 1..5 `{1a}`: `1a` is not a name: letters, digits and `_`, not a digit first
                /{a-b} -> 1..6 `{a-b}`: `a-b` is not a name: letters, digits and `_`, not a digit first
                /{a}/{a} -> 5..8 `{a}`: the name `a` is used twice
                /{a}/{a*} -> 5..9 `{a*}`: the name `a` is used twice
                /{rest*}/a -> 1..8 `{rest*}`: `{rest*}` matches the whole rest of the path, so it must be last
                /{rest*}/ -> 1..8 `{rest*}`: `{rest*}` matches the whole rest of the path, so it must be last
                /a b -> 2..3 ` `: ' ' must be percent-encoded in a path
                /café -> 4..6 `é`: 'é' must be percent-encoded in a path
                /a;x -> 2..3 `;`: `;` begins parameters, which are ignored for matching
                /a?x=1 -> 2..3 `?`: `?` begins the query, which is matched by `query`
                /a#b -> 2..3 `#`: '#' must be percent-encoded in a path
                /v1/* -> 4..5 `*`: `*` is allowed only in `{rest*}`: write `%2A` for the character
                /a%2fb -> 2..5 `%2f`: `%2f` never matches: such a request is answered with 400
                /a%5Cb -> 2..5 `%5C`: `%5C` never matches: such a request is answered with 400
                /a%00 -> 2..5 `%00`: `%00` never matches: such a request is answered with 400
                /a%4 -> 2..4 `%4`: `%4` is not an escape: `%` and two hexadecimal digits
                /a%é9 -> 2..6 `%é9`: `%é9` is not an escape: `%` and two hexadecimal digits
            "#]],
        );
        let deep = "/a".repeat(PATTERN_SEGMENTS_MAX + 1);
        let error = PathPattern::parse(&deep).expect_err("one segment too many");
        assert_eq!(
            error.kind,
            PatternErrorKind::TooManySegments(PATTERN_SEGMENTS_MAX + 1)
        );
    }

    #[test]
    fn whole_segments_match() {
        let matches = |pattern: &str, path: &str| {
            PathPattern::parse(pattern)
                .expect("a valid pattern")
                .matches(path.as_bytes())
        };
        for (pattern, hits, misses) in [
            ("/", &["/", "/;x"][..], &["/a", "*", ""][..]),
            (
                "/v1/",
                &["/v1/", "/v1;x/"],
                &["/v1", "/v10", "/v1/a", "/V1/"],
            ),
            ("/v1", &["/v1", "/v1;x=1"], &["/v1/", "/v10", "/v"]),
            ("/{rest*}", &["/", "/a", "/a/b/"], &["*"]),
            (
                "/v1/{rest*}",
                &["/v1/", "/v1/a", "/v1/a/b/", "/v1/;x"],
                &["/v1", "/v10", "/v10/a"],
            ),
            (
                "/u/{id}",
                &["/u/1", "/u/1;x"],
                &["/u/", "/u/;x", "/u", "/u/1/", "/u/1/2"],
            ),
            ("/u/{id}/x", &["/u/1/x"], &["/u/1/y", "/u/x"]),
            ("/a:b", &["/a:b", "/a%3Ab"], &["/a%3Bb"]),
            ("/caf%c3%a9", &["/caf%C3%A9"], &["/cafe"]),
        ] {
            for path in hits {
                assert!(matches(pattern, path), "{pattern} and {path}");
            }
            for path in misses {
                assert!(!matches(pattern, path), "{pattern} and {path}");
            }
        }
    }
}
