//! `transform`: rewrites paths and queries; rewrites, sets, appends and removes fields; edits JSON content.
//!
//! Names and values are valid already: see [`FieldEdits`]. Patterns take time in proportion to the text
//! (`regex` never goes back). What a group matched is a piece of a path in normal form or of a field's value,
//! which is never decoded, so it can end neither the path nor the line; a path that comes out is brought
//! into normal form again.

mod content;
mod decoding;
mod json;
mod room;

use std::sync::Arc;

use regex::bytes::Captures;
use steppe_mem::{Buffer, Lease};

use super::factory::{FilterFactory, FilterParts};
use super::{About, Filter, Step};
use crate::config::{
    Coding, FieldEdits, FieldRewrite, JsonEdits, PathEdit, QueryEdits, TextSource, Transform,
};
use crate::error::GatewayError;
use crate::field::{FieldBlock, Lines, NameSet, Span, is_field_value};
use crate::head::{RequestHead, ResponseHead};
use crate::limits::HEADER_BYTES_MAX;
use crate::metrics::CloseReason;
use crate::path;
use content::{Editing, JsonEditor};
use room::ContentRejection;

/// Edits heads and content on the way in and out.
#[derive(Debug)]
pub struct TransformFilter {
    path: Vec<PathEdit>,
    query: QueryEdits,
    request: HeadEdits,
    response: HeadEdits,
    request_json: Option<Arc<JsonEditor>>,
    response_json: Option<Arc<JsonEditor>>,
}

/// [`FieldEdits`], arranged to be made in one pass over a head, however many there are.
#[derive(Debug)]
struct HeadEdits {
    rewrite: Vec<FieldRewrite>,
    /// Names of lines that are taken out, those that are set among them.
    removed: NameSet,
    /// Lines that are set, then those that are appended.
    added: Lines,
    /// Names that trailers must not have.
    covered: NameSet,
}

/// JSON content of a request as a filter with these edits forwards it, decoded where it has a coding;
/// `None`: as it is.
///
/// # Errors
/// 400 of what can't be read, 413 of what is longer than it may be, 503 where the budget has no room.
pub fn rewrite_json(
    edits: &JsonEdits,
    coding: Option<Coding>,
    content: &[u8],
    lease: &Lease,
) -> Result<Option<Buffer>, GatewayError> {
    let rewritten = JsonEditor::new(edits).rewrite(coding, content, lease);
    rewritten.map_err(ContentRejection::of_request)
}

impl TransformFilter {
    /// A filter that makes these edits.
    #[must_use]
    pub fn new(edits: Transform) -> Self {
        Self {
            request_json: edits.request_json.as_ref().map(JsonEditor::new),
            response_json: edits.response_json.as_ref().map(JsonEditor::new),
            request: HeadEdits::new(edits.request),
            response: HeadEdits::new(edits.response),
            path: edits.path,
            query: edits.query,
        }
    }
}

impl HeadEdits {
    fn new(edits: FieldEdits) -> Self {
        let FieldEdits {
            rewrite,
            remove,
            set,
            append,
        } = edits;
        let names_set = set.iter().map(|(name, _)| name.as_str());
        let removed = remove.iter().map(String::as_str).chain(names_set);
        let rewritten = rewrite.iter().map(|rewrite| rewrite.header.as_str());
        let covered = removed.clone().chain(rewritten).collect();
        // Of two lines that are set by one name, the second one would take out the first one.
        let is_last = |&(at, (name, _)): &(usize, &(String, String))| {
            let mut later = set[at + 1..].iter();
            !later.any(|(later, _)| later.eq_ignore_ascii_case(name))
        };
        let lines_set = set.iter().enumerate().filter(is_last);
        let added = lines_set.map(|(_, line)| line).chain(&append);
        Self {
            removed: removed.collect(),
            added: added
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            covered,
            rewrite,
        }
    }

    /// Removes, sets and appends, in this order.
    fn apply(&self, fields: &mut FieldBlock) -> Result<(), GatewayError> {
        fields.remove_all(&self.removed);
        Ok(fields.append_all(&self.added)?)
    }
}

impl FilterFactory for Transform {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(TransformFilter::new(self.clone()))
    }
}

impl Filter for TransformFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        for rewrite in &self.request.rewrite {
            rewrite_field(rewrite, head.parts.path, &mut head.fields)?;
        }
        rewrite_path(&self.path, head)?;
        rewrite_query(&self.query, head)?;
        self.request.apply(&mut head.fields)?;
        let (request, response) = (self.request_json.as_ref(), self.response_json.as_ref());
        Ok(match Editing::begin(request, response, head)? {
            Some(editing) => Step::Attach(Box::new(editing)),
            None => Step::Continue,
        })
    }

    // A server that merges trailers into the head (RFC 9110 §6.5.2) would see there what the edits took
    // out of the head. What they append stands in the head alone: a peer's own lines of that name are let
    // through there, too.
    fn request_trailers(&self, trailers: &mut FieldBlock) {
        trailers.remove_all(&self.request.covered);
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        for rewrite in &self.response.rewrite {
            rewrite_field(rewrite, Span::default(), &mut head.fields)
                .map_err(|error| GatewayError::upstream(error.reason, 502))?;
        }
        self.response.apply(&mut head.fields)
    }

    fn response_trailers(&self, trailers: &mut FieldBlock) {
        trailers.remove_all(&self.response.covered);
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
/// line. `path` lies within `fields`.
fn rewrite_field(
    rewrite: &FieldRewrite,
    path: Span,
    fields: &mut FieldBlock,
) -> Result<(), GatewayError> {
    let name = rewrite.header.as_bytes();
    let (found, pattern) = (&rewrite.to, &rewrite.pattern);
    let values: Vec<Vec<u8>> = match &rewrite.from {
        None => {
            let mut lines = fields.values_named(name);
            if !lines.any(|value| pattern.is_match(value)) {
                return Ok(());
            }
            let replace = |value: &[u8]| match pattern.captures(value) {
                Some(groups) => replaced(value, &groups, found),
                None => value.to_vec(),
            };
            fields.values_named(name).map(replace).collect()
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
                TextSource::Path => expand(path.of(fields.bytes())),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::field::{FieldList, testing};

    /// Names and values of lines, with few names in either case.
    fn lines(count: usize) -> impl Strategy<Value = Vec<(String, String)>> {
        prop::collection::vec(("(x-[a-d]|X-[A-D]|host|via)", "[0-9]{0,2}"), 0..count)
    }

    proptest! {
        /// In one pass, as edit by edit.
        #[test]
        fn edits_of_fields_are_made_one_after_the_other(
            came in lines(12),
            remove in prop::collection::vec("x-[a-d]", 0..3),
            set in lines(5),
            append in lines(4),
        ) {
            let came: Vec<_> = came.iter().map(|(name, value)| (&**name, &**value)).collect();
            let mut expected = testing::fields(&came);
            for name in &remove {
                expected.remove(name.as_bytes());
            }
            for (name, value) in &set {
                expected.set(name.as_bytes(), value.as_bytes()).expect("room");
            }
            for (name, value) in &append {
                expected.append(name.as_bytes(), value.as_bytes()).expect("room");
            }
            let edits = HeadEdits::new(FieldEdits { remove, set, append, ..FieldEdits::default() });
            let mut edited = testing::fields(&came);
            edits.apply(&mut edited).expect("room");
            let shown = |fields: &FieldBlock| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                let lines = fields.iter().map(|(id, name, value)| (id, text(name), text(value)));
                lines.collect::<Vec<_>>()
            };
            prop_assert_eq!(shown(&edited), shown(&expected));
        }
    }

    #[test]
    fn a_field_is_rewritten_by_what_is_found_and_else_stays() {
        let rewrite = |from: Option<&str>, pattern: &str, to: &str| FieldRewrite {
            header: "x-a".to_owned(),
            from: from.map(|from| TextSource::parse(from).expect("a source")),
            pattern: regex::bytes::Regex::new(pattern).expect("a pattern"),
            to: to.to_owned(),
        };
        let rewritten = |rewrite: FieldRewrite| {
            let budget = Budget::new(1 << 20);
            let lease = budget.root().lease();
            let head = RequestHead::new(b"GET", b"a.test", b"/t/blue/x", &lease);
            let mut head = head.expect("a request");
            for (name, value) in [("X-A", "one"), ("x-b", "two"), ("x-a", "three")] {
                let added = head.fields.append(name.as_bytes(), value.as_bytes());
                added.expect("room");
            }
            let done = rewrite_field(&rewrite, head.parts.path, &mut head.fields);
            done.expect("a value");
            let values = head.fields.values_named(b"x-a");
            let values = values.map(|value| String::from_utf8_lossy(value).into_owned());
            values.collect::<Vec<_>>().join(",")
        };
        assert_eq!(rewritten(rewrite(None, "e$", "E")), "onE,threE");
        assert_eq!(rewritten(rewrite(None, "^o", "O")), "One,three");
        assert_eq!(rewritten(rewrite(None, "x", "y")), "one,three");
        let of_path = "^/t/(?<t>[^/]+)/";
        assert_eq!(rewritten(rewrite(Some("path"), of_path, "${t}")), "blue");
        assert_eq!(rewritten(rewrite(Some("path"), "^/u/", "x")), "one,three");
        assert_eq!(rewritten(rewrite(Some("header:x-b"), "w", "W")), "W");
    }

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
