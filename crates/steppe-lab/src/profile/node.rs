//! Node.js: V8's sampling heap profile (`HeapProfiler.getSamplingProfile` of the inspector).
//!
//! The profile has the sampled allocations that are still live, scaled up, in a tree of stacks. A frame's
//! line is the one where its function begins. Leaves out counts of objects, which the profile does not
//! have.
//!
//! Source: Chrome DevTools Protocol, domain `HeapProfiler`.

use serde::Deserialize;

use super::{Amount, Kind, Profile, ProfileError};
use crate::limits::PROFILE_DEPTH_MAX;

#[derive(Deserialize)]
struct Answer {
    result: Sampled,
}

#[derive(Deserialize)]
struct Sampled {
    profile: Tree,
}

#[derive(Deserialize)]
struct Tree {
    head: Node,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    call_frame: CallFrame,
    /// Bytes that this very frame allocated.
    self_size: f64,
    #[serde(default)]
    children: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
    url: String,
    /// Line from 0; -1 where there is none.
    line_number: i64,
}

/// Adds the live bytes in an answer to `HeapProfiler.getSamplingProfile`.
///
/// # Errors
/// Where the answer is no profile, or is nested too deep.
pub fn sampling_profile(answer: &[u8], profile: &mut Profile) -> Result<(), ProfileError> {
    // The tree is read and walked by recursion: check first that its depth fits on the stack.
    if depth(answer) > PROFILE_DEPTH_MAX {
        return Err(ProfileError::Depth(PROFILE_DEPTH_MAX));
    }
    let mut json = serde_json::Deserializer::from_slice(answer);
    json.disable_recursion_limit();
    let answer = Answer::deserialize(&mut json);
    let answer = answer.map_err(|_| ProfileError::Format("a sampling heap profile of V8"))?;
    add(&answer.result.profile.head, None, profile);
    Ok(())
}

/// Adds a node and its callees. `own`: the innermost frame so far that is the program's.
fn add<'a>(node: &'a Node, own: Option<&'a CallFrame>, profile: &mut Profile) {
    let frame = &node.call_frame;
    let own = if is_own(frame) { Some(frame) } else { own };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, and a float saturates"
    )]
    let bytes = node.self_size as u64;
    if bytes > 0 {
        let amount = Amount {
            bytes: Some(bytes),
            count: None,
        };
        profile.add(Kind::Heap, &site(own.unwrap_or(frame)), amount);
    }
    for child in &node.children {
        add(child, own, profile);
    }
}

/// True for frames of the program: those of Node.js have a URL `node:…`, those of V8 have none.
fn is_own(frame: &CallFrame) -> bool {
    !frame.url.is_empty() && !frame.url.starts_with("node:")
}

fn site(frame: &CallFrame) -> String {
    let function = match frame.function_name.as_str() {
        "" => "(anonymous)",
        name => name,
    };
    if frame.url.is_empty() {
        return function.to_owned();
    }
    let file = frame.url.strip_prefix("file://").unwrap_or(&frame.url);
    format!(
        "{function} ({file}:{})",
        frame.line_number.saturating_add(1)
    )
}

/// The nesting depth of objects and lists in a JSON text.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &[u8] = include_bytes!("../../testdata/profiles/node-sampling.json");

    #[test]
    fn what_is_live_is_told_by_functions_of_the_program() {
        let mut profile = Profile::default();
        sampling_profile(SAMPLED, &mut profile).unwrap();
        let grown = Profile::default().grown(&profile, 2);
        let told: Vec<_> = grown
            .iter()
            .map(|it| format!("{:?} {:?} {}", it.bytes, it.count, it.site))
            .collect();
        assert_eq!(
            told,
            [
                "Some(8000216) None remember (/srv/node-leak.js:12)",
                "Some(168968) None parserOnHeadersComplete (node:_http_common:71)"
            ]
        );
    }

    /// A profile with this many levels: an object and a list each.
    fn nested(levels: usize) -> String {
        let frame = r#"{"callFrame":{"functionName":"f","url":"file:///a.js","lineNumber":6},"selfSize":1,"#;
        let open = format!("{frame}\"children\":[").repeat(levels);
        let close = "]}".repeat(levels);
        format!(r#"{{"id":1,"result":{{"profile":{{"head":{open}{close}}}}}}}"#)
    }

    #[test]
    fn deep_stacks_are_read_and_endless_ones_refused() {
        let mut profile = Profile::default();
        let levels = PROFILE_DEPTH_MAX / 2 - 2;
        sampling_profile(nested(levels).as_bytes(), &mut profile).unwrap();
        let grown = Profile::default().grown(&profile, 1);
        assert_eq!(grown[0].site, "f (/a.js:7)");
        assert_eq!(grown[0].bytes, Some(levels as u64));
        let endless = nested(1_000_000);
        let refused = sampling_profile(endless.as_bytes(), &mut profile);
        assert_eq!(refused, Err(ProfileError::Depth(PROFILE_DEPTH_MAX)));
        // Brackets in a string do not count.
        assert_eq!(depth(br#"{"a[[[\"[[":"]{"}"#), 1);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let mut profile = Profile::default();
        for text in [
            "",
            "{}",
            r#"{"id":4,"result":{}}"#,
            r#"{"id":4,"error":{"code":1}}"#,
        ] {
            assert!(
                sampling_profile(text.as_bytes(), &mut profile).is_err(),
                "{text}"
            );
        }
        assert!(profile.is_empty());
    }
}
