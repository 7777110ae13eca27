//! Bodies that are read as JSON, and the memory of their trees of values.

use serde_json::Value;
use steppe_plane::{Failure, Room, Status};

/// Values of a body, and their room.
#[derive(Debug)]
pub(super) struct Parsed {
    _value: Value,
    _room: Room,
}

/// Bytes to reserve with a body of `len` bytes: those of lists of short texts, or less. The rest is known once the body
/// is there.
pub(super) fn expected_bytes(len: u64) -> usize {
    const FACTOR: usize = 6;
    usize::try_from(len)
        .unwrap_or(usize::MAX)
        .saturating_mul(FACTOR)
}

/// Parses the values of `body`; `room` is grown to hold them before they are made.
pub(super) async fn parse(body: &[u8], mut room: Room) -> Result<Parsed, Failure> {
    room.fit(values_bytes(body)).await?;
    let value = serde_json::from_slice(body);
    let value = value.map_err(|error| Failure::new(Status::Invalid, error.to_string()))?;
    Ok(Parsed {
        _value: value,
        _room: room,
    })
}

/// A list or an object that is still open while a body is scanned.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    is_object: bool,
    /// Members of an object; commas of a list.
    count: usize,
}

/// The sums of a scan.
#[derive(Debug, Default)]
struct Sum {
    held: usize,
    /// Bytes that lists and tables take twice for a moment while they grow: one at a time does.
    growing: usize,
    /// Bytes that the parser keeps of the longest text with an escape.
    scratch: usize,
}

/// Nesting depth of lists and objects at which the parser stops.
const DEPTH_MAX: usize = 128;
/// Places of the smallest list that is not empty, and of the smallest table.
const PLACES_MIN: usize = 4;
/// Multiple to which allocators round up, in bytes.
const ROUND: usize = 16;

/// Bytes that `body` takes as [`Value`]s, at most, while they are made and after. For invalid JSON, those taken until
/// the parser detects it.
fn values_bytes(body: &[u8]) -> usize {
    let (mut sum, mut bytes) = (Sum::default(), body.iter());
    let (mut open, mut depth) = ([Open::default(); DEPTH_MAX], 0);
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' if depth == DEPTH_MAX => break,
            b'[' | b'{' => {
                open[depth] = Open {
                    is_object: *byte == b'{',
                    count: 0,
                };
                depth += 1;
            }
            b']' | b'}' if depth > 0 => {
                depth -= 1;
                sum.close(open[depth]);
            }
            b':' | b',' if depth > 0 => {
                let inner = &mut open[depth - 1];
                inner.count += usize::from(inner.is_object == (*byte == b':'));
            }
            b'"' => sum.text(&mut bytes),
            _ => {}
        }
    }
    open[..depth].iter().for_each(|open| sum.close(*open));
    sum.held + sum.growing + sum.scratch
}

impl Sum {
    /// Adds a list or an object that is complete.
    fn close(&mut self, open: Open) {
        let (places, bytes) = match (open.is_object, open.count) {
            (true, 0) => return,
            (true, count) => table(count),
            (false, commas) => list(commas + 1),
        };
        self.held += bytes;
        if places > PLACES_MIN {
            self.growing = self.growing.max(bytes / 2);
        }
    }

    /// Adds a text, whose opening quote was read.
    fn text(&mut self, bytes: &mut std::slice::Iter<'_, u8>) {
        let (before, mut has_escape) = (bytes.len(), false);
        while let Some(byte) = bytes.next()
            && *byte != b'"'
        {
            if *byte == b'\\' {
                has_escape = true;
                bytes.next();
            }
        }
        let len = (before - bytes.len()).saturating_sub(1);
        self.held += len.next_multiple_of(ROUND);
        if has_escape {
            self.scratch = self.scratch.max(2 * len);
        }
    }
}

/// Places of a list of `count` values, and its bytes: the number of places doubles as it grows.
fn list(count: usize) -> (usize, usize) {
    let places = count.next_power_of_two().max(PLACES_MIN);
    let bytes = places * size_of::<Value>();
    (places, bytes.next_multiple_of(ROUND))
}

/// Places of an object of `count` members, and its bytes: for each of the table's, an index and a byte; for
/// seven eighths of them, a member with its hash.
fn table(count: usize) -> (usize, usize) {
    const MEMBER_BYTES: usize = size_of::<(usize, String, Value)>();
    let mut places = PLACES_MIN;
    while capacity(places) < count {
        places *= 2;
    }
    let members = capacity(places) * MEMBER_BYTES;
    let indices = places * (size_of::<usize>() + 1) + ROUND;
    let bytes = members.next_multiple_of(ROUND) + indices.next_multiple_of(ROUND);
    (places, bytes)
}

/// Members that a table of so many places takes before it grows.
fn capacity(places: usize) -> usize {
    match places {
        ..8 => places - 1,
        _ => places / 8 * 7,
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::alloc::thread_live_bytes;

    use super::*;

    /// The bytes computed for `body`, and those that its values hold.
    fn compare(body: &str) -> (usize, usize) {
        let expected = values_bytes(body.as_bytes());
        let before = thread_live_bytes();
        let value: Value = serde_json::from_str(body).expect("JSON");
        let held = usize::try_from(thread_live_bytes() - before).expect("it holds something");
        drop(value);
        (expected, held)
    }

    fn members(count: usize) -> String {
        let members: Vec<_> = (0..count).map(|at| format!(r#""{at}":{at}"#)).collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn more_is_reserved_than_values_hold_and_not_much_more() {
        let message = r#"{"role":"user","content":"What does a node hold, and for how long?"}"#;
        let mut bodies = vec![
            "[]".to_owned(),
            r#"{"a":{"b":{"c":[[[{}]]]}}}"#.to_owned(),
            format!("[{}]", vec![message; 3_000].join(",")),
            format!("[{}]", vec![r#"{"a":"\n,:[{\"","b":",,,"}"#; 500].join(",")),
            format!(r#"["{}"]"#, "long ".repeat(10_000)),
        ];
        for count in [1, 2, 3, 4, 5, 7, 8, 9, 14, 15, 28, 29, 1_000, 1_025] {
            bodies.push(format!("[{}]", vec!["0"; count].join(",")));
            bodies.push(members(count));
        }
        for body in bodies {
            let (expected, held) = compare(&body);
            let start = &body[..body.len().min(40)];
            assert!(held <= expected, "{start}: {expected} for {held}");
            assert!(expected <= 2 * held + 320, "{start}: {expected} for {held}");
        }
    }

    /// A list that is never closed has been built by the time the parser detects it.
    #[test]
    fn what_is_not_closed_counts() {
        let whole = values_bytes(b"[[0,0,0,0,0],[0,0]]");
        assert_eq!(values_bytes(b"[[0,0,0,0,0],[0,0"), whole);
        let deep = "[".repeat(1_000);
        assert_eq!(
            values_bytes(deep.as_bytes()),
            DEPTH_MAX * list(1).1,
            "as deep as is parsed"
        );
    }

    #[test]
    fn what_is_expected_is_what_messages_take_or_less() {
        let message = r#"{"role":"user","content":"What does a node hold, and for how long?"}"#;
        let body = format!("[{}]", vec![message; 10_000].join(","));
        let (expected, taken) = (
            expected_bytes(body.len() as u64),
            values_bytes(body.as_bytes()),
        );
        assert!((expected..2 * expected).contains(&taken), "{taken}");
    }
}
