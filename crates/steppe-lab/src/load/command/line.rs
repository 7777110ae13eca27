//! Parser of the line protocol of command loads (`docs/lab/protocol.md`).
//!
//! A line is bounded, and one that is not of the protocol is an error that quotes it: a misread output
//! would be a false measurement. Empty lines and lines that begin with `#` are ignored.

use crate::limits::{COUNT_MAX, LINE_LEN_MAX, SAID_LEN_MAX};

/// The message of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// Operations that succeeded, with the latency of each.
    Latency {
        latency_us: u64,
        count: u64,
    },
    /// Operations that succeeded.
    Operations(u64),
    Errors {
        count: u64,
        kind: Option<String>,
    },
    /// Operations that the target refused as designed.
    Refused(u64),
    /// Operations that were due, started or not.
    Intended(u64),
}

/// Error of a line that is not of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mistake {
    #[error("it wrote an unknown line: `{0}`")]
    Unknown(String),
    #[error("it wrote `{line}`: `{figure}` is not a {wanted}")]
    Figure {
        line: String,
        figure: String,
        wanted: &'static str,
    },
    #[error("it wrote `{line}` without {wanted}")]
    Missing { line: String, wanted: &'static str },
    #[error("it wrote `{0}` with too many words")]
    TooMuch(String),
    #[error("it wrote a line of more than {LINE_LEN_MAX} bytes: `{0}`")]
    TooLong(String),
}

/// Assembles lines from the pieces that a pipe delivers.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Bytes of the line that has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes, and passes the messages of complete lines to `take`.
    ///
    /// # Errors
    /// At the first line that is not of the protocol.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Message),
    ) -> Result<(), Mistake> {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.rest.len() + piece.len() > LINE_LEN_MAX {
                self.rest.extend(piece.iter().take(SAID_LEN_MAX));
                return Err(Mistake::TooLong(shown(&self.rest)));
            }
            self.rest.extend_from_slice(piece);
            let is_whole = pieces.peek().is_some();
            if is_whole && let Some(word) = self.line()? {
                take(word);
            }
        }
        Ok(())
    }

    /// Takes the last line after the program's end, with or without a newline.
    ///
    /// # Errors
    /// When that line is not of the protocol.
    pub(super) fn end(&mut self) -> Result<Option<Message>, Mistake> {
        self.line()
    }

    fn line(&mut self) -> Result<Option<Message>, Mistake> {
        let line = std::mem::take(&mut self.rest);
        parse(&line)
    }
}

fn parse(line: &[u8]) -> Result<Option<Message>, Mistake> {
    let Ok(text) = str::from_utf8(line) else {
        return Err(Mistake::Unknown(shown(line)));
    };
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let mut fields = Fields { line, rest: text };
    let word = match fields.next() {
        Some("latency_us") => Message::Latency {
            latency_us: fields.latency_us()?,
            count: fields.count_or(1)?,
        },
        Some("ops") => Message::Operations(fields.count()?),
        Some("refused") => Message::Refused(fields.count()?),
        Some("intended") => Message::Intended(fields.count()?),
        Some("errors") => {
            let count = fields.count()?;
            let kind = std::mem::take(&mut fields.rest);
            Message::Errors {
                count,
                kind: (!kind.is_empty()).then(|| shown(kind.as_bytes())),
            }
        }
        _ => return Err(Mistake::Unknown(shown(line))),
    };
    if fields.rest.is_empty() {
        Ok(Some(word))
    } else {
        Err(Mistake::TooMuch(shown(line)))
    }
}

/// The words of a line, one after the other.
struct Fields<'a> {
    line: &'a [u8],
    rest: &'a str,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (field, rest) = match self.rest.split_once(char::is_whitespace) {
            Some((field, rest)) => (field, rest.trim_start()),
            None => (self.rest, ""),
        };
        self.rest = rest;
        (!field.is_empty()).then_some(field)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast of a float saturates"
    )]
    fn latency_us(&mut self) -> Result<u64, Mistake> {
        let wanted = "number of microseconds";
        let field = self.next().ok_or_else(|| self.lacks("a latency"))?;
        let latency_us = field.parse::<f64>().ok();
        let latency_us = latency_us.filter(|us| us.is_finite() && *us >= 0.0);
        match latency_us {
            Some(us) => Ok(us.round() as u64),
            None => Err(self.is_no(field, wanted)),
        }
    }

    fn count(&mut self) -> Result<u64, Mistake> {
        let field = self.next().ok_or_else(|| self.lacks("a count"))?;
        self.parsed(field)
    }

    fn count_or(&mut self, without: u64) -> Result<u64, Mistake> {
        match self.next() {
            Some(field) => self.parsed(field),
            None => Ok(without),
        }
    }

    fn parsed(&self, field: &str) -> Result<u64, Mistake> {
        let count = field.parse().ok().filter(|count| *count <= COUNT_MAX);
        count.ok_or_else(|| self.is_no(field, "count"))
    }

    fn lacks(&self, wanted: &'static str) -> Mistake {
        let line = shown(self.line);
        Mistake::Missing { line, wanted }
    }

    fn is_no(&self, figure: &str, wanted: &'static str) -> Mistake {
        Mistake::Figure {
            line: shown(self.line),
            figure: shown(figure.as_bytes()),
            wanted,
        }
    }
}

/// A program's bytes, escaped and cut.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SAID_LEN_MAX)];
    let end = if cut.len() < bytes.len() { "…" } else { "" };
    let text = String::from_utf8_lossy(cut.trim_ascii());
    text.escape_debug().chain(end.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &[u8]) -> Result<Vec<Message>, Mistake> {
        let (mut lines, mut words) = (Lines::default(), Vec::new());
        lines.push(text, |word| words.push(word))?;
        words.extend(lines.end()?);
        Ok(words)
    }

    #[test]
    fn each_line_says_what_it_says() {
        let said = words(
            b"# from wrk\nlatency_us 123.6 10\r\nlatency_us 7\n\nops 5\n errors 2  status 503 \n\
              errors 1\nrefused 6\nintended 40\nops 1",
        );
        let errors = |count, kind: Option<&str>| Message::Errors {
            count,
            kind: kind.map(str::to_owned),
        };
        let latency = |latency_us, count| Message::Latency { latency_us, count };
        assert_eq!(
            said.unwrap(),
            [
                latency(124, 10),
                latency(7, 1),
                Message::Operations(5),
                errors(2, Some("status 503")),
                errors(1, None),
                Message::Refused(6),
                Message::Intended(40),
                Message::Operations(1),
            ]
        );
    }

    #[test]
    fn mistakes_name_the_line_escaped_and_cut() {
        let long = [b'a'; 5000];
        let cases: [&[u8]; 14] = [
            b"Running 10s test @ http://127.0.0.1/\n",
            b"latency_us\n",
            b"latency_us nan\n",
            b"latency_us -1\n",
            b"latency_us 1e999\n",
            b"latency_us 5 -2\n",
            b"latency_us 5 2 3\n",
            b"ops 18446744073709551616\n",
            b"ops\n",
            b"ops 1 2\n",
            b"refused 3 overloaded\n",
            b"\x1b[31m\xff\xfe\n",
            b"OPS 1\n",
            &long,
        ];
        let said: Vec<_> = cases
            .iter()
            .map(|case| words(case).unwrap_err().to_string())
            .collect();
        expect_test::expect![[r#"
            [
                "it wrote an unknown line: `Running 10s test @ http://127.0.0.1/`",
                "it wrote `latency_us` without a latency",
                "it wrote `latency_us nan`: `nan` is not a number of microseconds",
                "it wrote `latency_us -1`: `-1` is not a number of microseconds",
                "it wrote `latency_us 1e999`: `1e999` is not a number of microseconds",
                "it wrote `latency_us 5 -2`: `-2` is not a count",
                "it wrote `latency_us 5 2 3` with too many words",
                "it wrote `ops 18446744073709551616`: `18446744073709551616` is not a count",
                "it wrote `ops` without a count",
                "it wrote `ops 1 2` with too many words",
                "it wrote `refused 3 overloaded` with too many words",
                "it wrote an unknown line: `\\u{1b}[31m��`",
                "it wrote an unknown line: `OPS 1`",
                "it wrote a line of more than 4096 bytes: `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`",
            ]
        "#]].assert_debug_eq(&said);
    }

    #[test]
    fn a_latency_beyond_all_bounds_is_the_longest() {
        let said = words(b"latency_us 1e300\n").unwrap();
        let latency_us = u64::MAX;
        assert_eq!(
            said,
            [Message::Latency {
                latency_us,
                count: 1
            }]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_the_rest_is_bounded(pieces: Vec<Vec<u8>>) {
            let mut lines = Lines::default();
            for piece in pieces {
                if lines.push(&piece, |_| {}).is_err() {
                    return Ok(());
                }
                prop_assert!(lines.rest.len() <= LINE_LEN_MAX);
            }
        }

        #[test]
        fn pieces_say_what_the_whole_says(
            text in "((latency_us [0-9]{1,4}(\\.5)? [1-9])|(ops [0-9])|(refused [0-9])|(# x)|(errors 1 a b)|)\n{1,2}",
            at in 0_usize..40,
        ) {
            let at = at.min(text.len());
            let (one, two) = text.as_bytes().split_at(at);
            let (mut lines, mut said) = (Lines::default(), Vec::new());
            lines.push(one, |word| said.push(word)).unwrap();
            lines.push(two, |word| said.push(word)).unwrap();
            prop_assert_eq!(said, words(text.as_bytes()).unwrap());
        }
    }
}
