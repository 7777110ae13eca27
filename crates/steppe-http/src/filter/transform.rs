//! `transform`: rewrites paths and queries; sets, appends and removes fields.
//!
//! Names and values are valid already: see [`FieldEdits`]. Patterns take time in proportion to the path
//! (`regex` never goes back). What a group matched is a piece of a path in normal form, so it can end
//! neither the path nor the line, and what comes out is brought into normal form again.

use super::{About, Filter, Step};
use crate::config::{FieldEdits, PathEdit, QueryEdits, Transform};
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::{RequestHead, ResponseHead};
use crate::path;

/// Edits fields on the way in and out.
#[derive(Debug)]
pub struct TransformFilter(Transform);

impl TransformFilter {
    /// A filter that makes these edits.
    #[must_use]
    pub fn new(edits: Transform) -> Self {
        Self(edits)
    }
}

/// Removes from a trailer section the fields that `edits` set or remove.
///
/// A server that merges trailers into the head (RFC 9110 §6.5.2) would otherwise see there what
/// the edits took out of the head. What they append stands in the head alone: a peer's own lines of
/// that name are let through there, too.
fn cover_trailers(edits: &FieldEdits, trailers: &mut FieldBlock) {
    let set = edits.set.iter().map(|(name, _)| name);
    for name in edits.remove.iter().chain(set) {
        trailers.remove(name.as_bytes());
    }
}

impl Filter for TransformFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        rewrite_path(&self.0.path, head)?;
        rewrite_query(&self.0.query, head)?;
        apply(&self.0.request, &mut head.fields)?;
        Ok(Step::Continue)
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        cover_trailers(&self.0.request, trailers);
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        apply(&self.0.response, &mut head.fields)
    }

    fn response_trailers(&self, trailers: &mut FieldBlock) {
        cover_trailers(&self.0.response, trailers);
    }
}

/// The first edit that matches is made.
fn rewrite_path(edits: &[PathEdit], head: &mut RequestHead) -> Result<(), GatewayError> {
    for edit in edits {
        let path = head.path();
        let Some(groups) = edit.pattern.captures(path) else {
            continue;
        };
        let whole = groups.get_match();
        let mut rewritten = path[..whole.start()].to_vec();
        groups.expand(edit.to.as_bytes(), &mut rewritten);
        rewritten.extend_from_slice(&path[whole.end()..]);
        return head.set_path(&rewritten);
    }
    Ok(())
}

fn rewrite_query(edits: &QueryEdits, head: &mut RequestHead) -> Result<(), GatewayError> {
    if edits.remove.is_empty() && edits.set.is_empty() {
        return Ok(());
    }
    let is_edited = |parameter: &[u8]| {
        let name = parameter
            .split(|&byte| byte == b'=')
            .next()
            .unwrap_or_default();
        let is_named = |known: &String| path::compare_decoded(name, known.as_bytes()).is_eq();
        edits.remove.iter().any(is_named) || edits.set.iter().any(|(known, _)| is_named(known))
    };
    let query = head.query();
    let sent = query
        .into_iter()
        .flat_map(|query| query.split(|&byte| byte == b'&'));
    let sent = sent.filter(|parameter| !parameter.is_empty());
    if edits.set.is_empty() && !sent.clone().any(is_edited) {
        return Ok(());
    }
    let mut rewritten = Vec::new();
    let mut add = |piece: &[u8]| {
        if !rewritten.is_empty() {
            rewritten.push(b'&');
        }
        rewritten.extend_from_slice(piece);
    };
    sent.filter(|parameter| !is_edited(parameter))
        .for_each(&mut add);
    for (name, value) in &edits.set {
        add(format!("{}={}", escaped(name), escaped(value)).as_bytes());
    }
    head.set_query(&rewritten)
}

/// Everything escaped but what is unreserved (RFC 3986 §2.3).
fn escaped(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn apply(edits: &FieldEdits, fields: &mut FieldBlock) -> Result<(), GatewayError> {
    for name in &edits.remove {
        fields.remove(name.as_bytes());
    }
    for (name, value) in &edits.set {
        fields.set(name.as_bytes(), value.as_bytes())?;
    }
    for (name, value) in &edits.append {
        fields.append(name.as_bytes(), value.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::field::FieldList;

    fn rewritten(edits: Transform, target: &str) -> Result<String, u16> {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let head = RequestHead::new(b"GET", b"a.example", target.as_bytes(), &lease);
        let mut head = head.expect("a request");
        rewrite_path(&edits.path, &mut head).map_err(|error| error.status)?;
        rewrite_query(&edits.query, &mut head).map_err(|error| error.status)?;
        let path = String::from_utf8_lossy(head.path()).into_owned();
        Ok(match head.query() {
            Some(query) => format!("{path}?{}", String::from_utf8_lossy(query)),
            None => path,
        })
    }

    fn path_edit(pattern: &str, to: &str) -> Transform {
        Transform {
            path: vec![PathEdit {
                pattern: regex::bytes::Regex::new(pattern).expect("a pattern"),
                to: to.to_owned(),
            }],
            ..Transform::default()
        }
    }

    #[test]
    fn paths_are_rewritten_by_groups() {
        let edit = || path_edit("^/v1/users/(?<id>[0-9]+)$", "/users/${id}");
        assert_eq!(
            rewritten(edit(), "/v1/users/42?a=b").expect("a path"),
            "/users/42?a=b"
        );
        assert_eq!(
            rewritten(edit(), "/v1/users/x").expect("a path"),
            "/v1/users/x"
        );
        let prefix = path_edit("^/old", "/new/../other");
        assert_eq!(rewritten(prefix, "/old/a").expect("a path"), "/other/a");
    }

    #[test]
    fn what_a_group_matched_ends_no_line() {
        let edit = || path_edit("^/go/(?<to>.*)$", "/${to}");
        let out = rewritten(edit(), "/go/a%0d%0aX-Evil:%201").expect("a path");
        assert_eq!(out, "/a%0D%0AX-Evil:%201");
        let long = format!("/go/{}", "a".repeat(5000));
        assert_eq!(rewritten(edit(), &long).expect("a path").len(), 5001);
        let slow = path_edit("^/(a+)+$", "/x");
        let steps = format!("/{}!", "a".repeat(50_000));
        assert_eq!(rewritten(slow, &steps).expect("a path"), steps);
    }

    #[test]
    fn parameters_are_set_and_removed() {
        let edit = || Transform {
            query: QueryEdits {
                remove: vec!["utm_source".to_owned()],
                set: vec![("source".to_owned(), "an edge & more".to_owned())],
            },
            ..Transform::default()
        };
        let set = "source=an%20edge%20%26%20more";
        for (query, expected) in [
            ("", format!("/?{set}")),
            ("?", format!("/?{set}")),
            ("?a=1&utm_source=x&b", format!("/?a=1&b&{set}")),
            ("?utm%5Fsource=x", format!("/?{set}")),
            ("?source=mine&source", format!("/?{set}")),
        ] {
            assert_eq!(
                rewritten(edit(), &format!("/{query}")).expect("a query"),
                expected
            );
        }
        let remove = Transform {
            query: QueryEdits {
                remove: vec!["a".to_owned()],
                set: Vec::new(),
            },
            ..Transform::default()
        };
        assert_eq!(rewritten(remove, "/x?a=1").expect("a query"), "/x");
    }

    #[test]
    fn what_is_set_or_removed_in_the_head_is_removed_from_trailers() {
        let budget = Budget::new(1 << 20);
        let bytes = Buffer::take(&budget.root().lease(), 64).expect("room");
        let mut trailers = FieldBlock::new(bytes, FieldList::take());
        for name in ["X-User", "Checksum", "x-user", "X-Role", "X-Added"] {
            trailers.append(name.as_bytes(), b"v").expect("room");
        }
        let pair = |name: &str| vec![(name.to_owned(), "w".to_owned())];
        let filter = TransformFilter::new(Transform {
            request: FieldEdits {
                remove: vec!["x-role".to_owned()],
                set: pair("x-user"),
                append: pair("x-added"),
            },
            response: FieldEdits {
                set: pair("checksum"),
                ..FieldEdits::default()
            },
            ..Transform::default()
        });
        let names = |trailers: &FieldBlock| {
            let names = trailers.iter().map(|(_, name, _)| name);
            names
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect::<Vec<_>>()
        };
        filter.request_trailers(&mut trailers);
        assert_eq!(names(&trailers), ["Checksum", "X-Added"]);
        filter.response_trailers(&mut trailers);
        assert_eq!(names(&trailers), ["X-Added"]);
    }
}
