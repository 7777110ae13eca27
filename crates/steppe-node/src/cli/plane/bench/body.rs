//! The body of each request.

use anyhow::ensure;
use bytes::Bytes;

/// A body of `count` letters.
pub(super) fn bytes(count: usize) -> Bytes {
    (b'a'..=b'z').cycle().take(count).collect()
}

/// JSON of so many bytes: a list of messages with some dozen characters each, as in a long conversation.
pub(super) fn json(count: usize) -> anyhow::Result<Bytes> {
    ensure!(count >= LEAST, "--bytes: at least {LEAST} with --json");
    let mut text = String::with_capacity(count);
    text.push('[');
    while text.len() + MESSAGE.len() + LEAST <= count {
        text.push_str(MESSAGE);
    }
    let letters = count - text.len() - BEFORE.len() - AFTER.len();
    text.push_str(BEFORE);
    text.extend(std::iter::repeat_n('x', letters));
    text.push_str(AFTER);
    Ok(text.into())
}

const MESSAGE: &str =
    r#"{"role":"user","content":"What does a node at the edge hold, and for how long?"},"#;
/// The text before the letters of the last message.
const BEFORE: &str = r#"{"role":"user","content":""#;
const AFTER: &str = r#""}]"#;
const LEAST: usize = 1 + BEFORE.len() + AFTER.len();

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn bodies_have_the_length_that_is_asked_for() {
        for count in [0, 1, 1000] {
            assert_eq!(bytes(count).len(), count);
        }
        for count in [LEAST, LEAST + 1, 100, 200, 1000, 220_000] {
            let text = json(count).expect("long enough");
            assert_eq!(text.len(), count);
            let value: Value = serde_json::from_slice(&text).expect("JSON");
            assert!(value[0]["content"].is_string(), "{value}");
        }
        json(LEAST - 1).expect_err("too short");
    }
}
