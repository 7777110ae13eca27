//! What `steppe plane echo` does with a request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use steppe_mem::Reservation;
use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Memory, Request, Sender, Status};
use tokio::time::{Instant, sleep, sleep_until};

/// How requests are answered.
pub(super) struct Manner {
    /// Between a body and its answer.
    pub(super) hold: Duration,
    pub(super) is_json: bool,
    /// Messages of an answer, instead of the body.
    pub(super) tokens: Option<u32>,
    pub(super) memory: Arc<Memory>,
}

/// What each message of a stream says.
const TOKEN: &[u8] = b"token ";

pub(super) async fn answer(manner: Arc<Manner>, mut request: Request) -> Result<(), Failure> {
    let body = request.body.whole().await?;
    if let Some(count) = manner.tokens {
        drop(body);
        return tokens(request.response, count, manner.hold).await;
    }
    let parsed = match manner.is_json {
        true => Some(parse(&manner, &body).await),
        false => None,
    };
    if let Some(Err(failure)) = &parsed {
        request.response.fail(failure);
        return Ok(());
    }
    if !manner.hold.is_zero() {
        sleep(manner.hold).await;
    }
    drop(parsed);
    request.response.send_whole(body).await
}

/// Small messages, evenly over the time that the answer takes.
async fn tokens(mut response: Sender, count: u32, length: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    response.begin(Payment::Standing).await?;
    for at in 1..=count {
        if !length.is_zero() {
            sleep_until(start + length * at / count).await;
        }
        if response.is_stopped() {
            break;
        }
        response.send(Bytes::from_static(TOKEN)).await?;
    }
    response.end()
}

/// The value, and what is reserved for it.
async fn parse(manner: &Manner, body: &[u8]) -> Result<(Value, Reservation), Failure> {
    let bytes = parsed_bytes(body);
    // Bodies that wait for more than requests leave to responses would wait for each other.
    let limit = manner.memory.response_share_bytes();
    if bytes as u64 > limit {
        let detail = format!("it may take {bytes} bytes as JSON, at most {limit} are taken");
        return Err(Failure::new(Status::TooLarge, detail));
    }
    let reserved = manner.memory.reserve(bytes).await?;
    let value = serde_json::from_slice(body);
    let value = value.map_err(|error| Failure::new(Status::Invalid, error.to_string()))?;
    Ok((value, reserved))
}

/// What a body may take as a tree of values, at most: its text, a value for each item of a list, and for each
/// member of an object a key, a hash and two places in tables beside its value. What grows has up to three times
/// what it holds, for a moment; small tables have places to spare.
fn parsed_bytes(body: &[u8]) -> usize {
    const ITEM_BYTES: usize = 3 * size_of::<Value>();
    const MEMBER_BYTES: usize =
        3 * (size_of::<Value>() + size_of::<String>() + 3 * size_of::<usize>());
    /// What an object or a list has beside what it holds: four places that are unused.
    const TABLE_BYTES: usize = MEMBER_BYTES;
    let (mut held, mut bytes) = (ITEM_BYTES, body.iter());
    // Whether each that is open is an object, the innermost last: the parser takes fewer than 128.
    let mut open = 0_u128;
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' => {
                open <<= 1;
                held += TABLE_BYTES + ITEM_BYTES;
            }
            b'{' => {
                open = open << 1 | 1;
                held += TABLE_BYTES;
            }
            b']' | b'}' => open >>= 1,
            b':' => held += MEMBER_BYTES,
            // Of an object, its members count.
            b',' if open & 1 == 0 => held += ITEM_BYTES,
            // What a string says is text.
            b'"' => {
                while let Some(byte) = bytes.next()
                    && *byte != b'"'
                {
                    if *byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
    }
    body.len() + held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_value() {
        for text in ["a", ",[{:", r#"\",["#, r"\\", r#"\\\","#] {
            let body = format!(r#"["{text}"]"#);
            let expected = body.len() + parsed_bytes(b"[1]") - 3;
            assert_eq!(parsed_bytes(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn more_is_reserved_for_json_than_it_takes() {
        for count in [1, 2, 3, 4, 5, 8, 9, 100, 1025] {
            let body = format!("[{}]", vec!["0"; count].join(","));
            let value: Value = serde_json::from_str(&body).expect("JSON");
            let Value::Array(list) = value else {
                panic!("not a list: {body}");
            };
            // While it grew to that, there was what it had before too.
            let held = list.capacity() * size_of::<Value>() * 3 / 2;
            assert!(held <= parsed_bytes(body.as_bytes()), "{count}: {held}");
        }
    }

    /// A list of objects, each with members of its own: what is inside counts with what it is in.
    #[test]
    fn members_of_objects_are_counted_once() {
        let member = parsed_bytes(br#"{"a":0}"#) - parsed_bytes(b"{}") - 5;
        let item = parsed_bytes(b"[0,0]") - parsed_bytes(b"[0]") - 2;
        let one = parsed_bytes(br#"[{"a":0,"b":1}]"#);
        let two = parsed_bytes(br#"[{"a":0,"b":1},{"a":0,"b":1}]"#);
        let object = parsed_bytes(b"[{}]") - parsed_bytes(b"[]") - 2;
        assert_eq!(two - one - 14, 2 * member + item + object);
    }
}
