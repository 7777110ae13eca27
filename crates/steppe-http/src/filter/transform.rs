//! `transform`: rewrites paths and queries; rewrites, sets, appends and removes fields; edits JSON content.
//!
//! Names and values are valid already: see [`FieldEdits`]. Patterns take time in proportion to the text
//! (`regex` never goes back). What a group matched is a piece of a path in normal form or of a field's value,
//! which is never decoded, so it can end neither the path nor the line; a path that comes out is brought
//! into normal form again.

mod content;
mod decoding;
mod json;

use std::sync::Arc;

use regex::bytes::Captures;

use super::{About, Filter, Step};
use crate::config::{FieldEdits, FieldRewrite, PathEdit, QueryEdits, TextSource, Transform};
use crate::error::GatewayError;
use crate::field::{FieldBlock, is_field_value};
use crate::head::{RequestHead, ResponseHead};
use crate::limits::HEADER_BYTES_MAX;
use crate::metrics::CloseReason;
use crate::path;
use content::{Editing, JsonEditor};

/// Edits heads and content on the way in and out.
#[derive(Debug)]
pub struct TransformFilter {
    edits: Transform,
    request_json: Option<Arc<JsonEditor>>,
    response_json: Option<Arc<JsonEditor>>,
}

impl TransformFilter {
    /// A filter that makes these edits.
    #[must_use]
    pub fn new(edits: Transform) -> Self {
        Self {
            request_json: edits.request_json.as_ref().map(JsonEditor::new),
            response_json: edits.response_json.as_ref().map(JsonEditor::new),
            edits,
        }
    }
}

/// Removes from a trailer section the fields that `edits` set or remove.
///
/// A server that merges trailers into the head (RFC 9110 §6.5.2) would otherwise see there what
/// the edits took out of the head. What they append stands in the head alone: a peer's own lines of
/// that name are let through there, too.
fn cover_trailers(edits: &FieldEdits, trailers: &mut FieldBlock) {
    let set = edits.set.iter().map(|(name, _)| name);
    let rewritten = edits.rewrite.iter().map(|rewrite| &rewrite.header);
    for name in edits.remove.iter().chain(set).chain(rewritten) {
        trailers.remove(name.as_bytes());
    }
}

impl Filter for TransformFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let edits = &self.edits;
        for rewrite in &edits.request.rewrite {
            let path = head.path().to_vec();
            rewrite_field(rewrite, &path, &mut head.fields)?;
        }
        rewrite_path(&edits.path, head)?;
        rewrite_query(&edits.query, head)?;
        apply(&edits.request, &mut head.fields)?;
        let (request, response) = (self.request_json.as_ref(), self.response_json.as_ref());
        Ok(match Editing::begin(request, response, head)? {
            Some(editing) => Step::Attach(Box::new(editing)),
            None => Step::Continue,
        })
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        cover_trailers(&self.edits.request, trailers);
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        for rewrite in &self.edits.response.rewrite {
            rewrite_field(rewrite, b"", &mut head.fields)
                .map_err(|error| GatewayError::upstream(error.reason, 502))?;
        }
        apply(&self.edits.response, &mut head.fields)
    }

    fn response_trailers(&self, trailers: &mut FieldBlock) {
        cover_trailers(&self.edits.response, trailers);
    }
}

/// The first edit that matches is made.
fn rewrite_path(edits: &[PathEdit], head: &mut RequestHead) -> Result<(), GatewayError> {
    for edit in edits {
        let path = head.path();
        let Some(groups) = edit.pattern.captures(path) else {
            continue;
        };
        let rewritten = replaced(path, &groups, &edit.to);
        return head.set_path(&rewritten);
    }
    Ok(())
}

/// `text`, with what matched replaced by `to`.
fn replaced(text: &[u8], groups: &Captures<'_>, to: &str) -> Vec<u8> {
    let whole = groups.get_match();
    let mut replaced = text[..whole.start()].to_vec();
    groups.expand(to.as_bytes(), &mut replaced);
    replaced.extend_from_slice(&text[whole.end()..]);
    replaced
}

/// Sets a field to what the pattern finds elsewhere, or replaces what it finds in the field itself, of each
/// line.
fn rewrite_field(
    rewrite: &FieldRewrite,
    path: &[u8],
    fields: &mut FieldBlock,
) -> Result<(), GatewayError> {
    let name = rewrite.header.as_bytes();
    let (found, pattern) = (&rewrite.to, &rewrite.pattern);
    let values: Vec<Vec<u8>> = match &rewrite.from {
        None => {
            let mut has_match = false;
            let mut replace = |value: &[u8]| match pattern.captures(value) {
                Some(groups) => {
                    has_match = true;
                    replaced(value, &groups, found)
                }
                None => value.to_vec(),
            };
            let values = fields.values_named(name).map(&mut replace).collect();
            if !has_match {
                return Ok(());
            }
            values
        }
        Some(source) => {
            let expand = |text: &[u8]| {
                let mut expanded = Vec::new();
                pattern
                    .captures(text)?
                    .expand(found.as_bytes(), &mut expanded);
                Some(expanded)
            };
            let value = match source {
                TextSource::Path => expand(path),
                TextSource::Header(from) => fields.values_named(from.as_bytes()).find_map(expand),
            };
            match value {
                Some(value) => vec![value],
                None => return Ok(()),
            }
        }
    };
    let bytes: usize = values.iter().map(Vec::len).sum();
    if bytes > HEADER_BYTES_MAX {
        return Err(GatewayError::downstream(CloseReason::HeaderTooLarge, 431));
    }
    fields.remove(name);
    for value in &values {
        let value = value.trim_ascii();
        if !is_field_value(value) {
            return Err(GatewayError::bad_request());
        }
        fields.append(name, value)?;
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
                ..FieldEdits::default()
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
