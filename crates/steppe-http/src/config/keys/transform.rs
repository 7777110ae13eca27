//! Keys of the filter that rewrites requests and responses.

use std::path::Path;

use regex::bytes::Regex;
use serde_json::value::RawValue;
use steppe_config::choice::Choices;
use steppe_config::form::{ANY, Form, MASK, Read, Refusal};
use steppe_config::key::{
    Key, OptionalKey, choice, key, list, map, multimap, one_or_many, section, size, table, text,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Spec, Table};
use steppe_config::typed::{Fields, Named, Node, valid};

use super::forms::{FIELD_NAME, FIELD_VALUE, refuse_ours};
use crate::config::{
    FieldEdits, FieldRewrite, JsonEdits, PathEdit, QueryEdits, TextSource, Transform, Unreadable,
};

/// `[http.filter.NAME]` of the kind `transform`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Rewrites paths and queries, edits fields, and edits JSON content.",
    keys! { REQUEST_HEADERS, RESPONSE_HEADERS, PATH, QUERY, REQUEST_JSON, RESPONSE_JSON },
);

static REQUEST_HEADERS: Key<FieldEdits> =
    section("request_headers", &REQUEST_EDITS, edits).or(Absent::Table);

static RESPONSE_HEADERS: Key<FieldEdits> =
    section("response_headers", &RESPONSE_EDITS, edits).or(Absent::Table);

static PATH: Key<Vec<PathEdit>> = key(
    "path",
    list(&table(&PATH_EDIT, path_edit), 0),
    "Path rewrites, of which the first that matches the path in normal form is applied. Routes are \
     chosen before it, by the path that the client sent.",
)
.or(Absent::Texts(&[]));

static QUERY: Key<QueryEdits> = section("query", &QUERY_EDITS, query).or(Absent::Table);

static REQUEST_JSON: OptionalKey<JsonEdits> = section("request_json", &REQUEST_MEMBERS, json_edits);

static RESPONSE_JSON: OptionalKey<JsonEdits> =
    section("response_json", &RESPONSE_MEMBERS, json_edits);

static REQUEST_EDITS: Table = Table::new(
    "http.filter.request_headers",
    "Edits of request fields before the request is forwarded: `rewrite`, `remove`, `set`, \
     `append`, in this order. Fields that frame a message or end at the next hop can't be edited.",
    EDIT_KEYS,
);

static RESPONSE_EDITS: Table = Table::new(
    "http.filter.response_headers",
    "Edits of response fields before the response is sent, in the same order.",
    EDIT_KEYS,
);

static EDIT_KEYS: &[&Spec] = keys! { REWRITE, REMOVE, SET, APPEND };

static REWRITE: Key<Vec<FieldRewrite>> = key(
    "rewrite",
    list(&table(&REWRITE_KEYS, rewrite), 0),
    "Fields that are written from what a pattern finds.",
)
.or(Absent::Texts(&[]));

static REMOVE: Key<Vec<String>> = key(
    "remove",
    list(&text(&FIELD_NAME), 0),
    "Fields that are removed.",
)
.or(Absent::Texts(&[]));

static SET: Key<Vec<(String, String)>> = key(
    "set",
    map(&FIELD_NAME, &text(&FIELD_VALUE)),
    "Fields that are set; all lines of that name are replaced.",
)
.secret()
.or(Absent::Table);

static APPEND: Key<Vec<(String, String)>> = key(
    "append",
    multimap(&FIELD_NAME, &one_or_many(&text(&FIELD_VALUE))),
    "Field lines that are added: a value, or a list of values.",
)
.secret()
.or(Absent::Table);

static PATH_EDIT: Table = Table::new(
    "http.filter.path",
    "Replacement of a part of the path.",
    keys! { PATH_PATTERN, PATH_TO },
);

static PATH_PATTERN: Key<Regex> = key(
    "pattern",
    text(&PATTERN),
    "Regular expression. The part of the path in normal form that it matches is replaced.",
)
.required();

static PATH_TO: Key<String> = key(
    "to",
    text(&ANY),
    "Replacement; `${NAME}` inserts what that group matched.",
)
.required();

static QUERY_EDITS: Table = Table::new(
    "http.filter.query",
    "Edits of the query: `remove`, then `set`.",
    keys! { QUERY_REMOVE, QUERY_SET },
);

static QUERY_REMOVE: Key<Vec<String>> = key(
    "remove",
    list(&text(&ANY), 0),
    "Parameters that are removed.",
)
.or(Absent::Texts(&[]));

static QUERY_SET: Key<Vec<(String, String)>> = key(
    "set",
    map(&ANY, &text(&ANY)),
    "Parameters that are set; all of that name are replaced. Bytes that a query can't have are \
     escaped.",
)
.secret()
.or(Absent::Table);

static REWRITE_KEYS: Table = Table::new(
    "http.filter.rewrite",
    "A field that is written from what a pattern finds.",
    keys! { HEADER, FROM, FIELD_PATTERN, FIELD_TO },
);

static HEADER: Key<String> = key("header", text(&FIELD_NAME), "Field that is written.").required();

static FROM: OptionalKey<TextSource> = key(
    "from",
    text(&TEXT_SOURCE),
    "Text that the pattern is applied to: \"path\", as the client sent it (requests only), or \
     \"header:NAME\". Without it, each line of the field itself, of which the matched part is \
     replaced.",
);

static FIELD_PATTERN: Key<Regex> = key(
    "pattern",
    text(&PATTERN),
    "Regular expression. If it does not match, the field stays unchanged.",
)
.required();

static FIELD_TO: Key<String> = key(
    "to",
    text(&FIELD_VALUE),
    "New value of the field, or of the matched part; `${NAME}` inserts what that group matched.",
)
.required();

static REQUEST_MEMBERS: Table = Table::new(
    "http.filter.request_json",
    "Edits of a request's JSON content (`application/json` or a type that ends in `+json`, not \
     gRPC). It is read whole before the request is forwarded; gzip, br and zstd are decoded.",
    JSON_KEYS,
)
.needing(Needs::Any(&["remove", "rename", "set"]));

static RESPONSE_MEMBERS: Table = Table::new(
    "http.filter.response_json",
    "Edits of a response's JSON content, with the same keys. It is read whole before the \
     response's head is sent; servers are asked for content without a coding, and without `Range`.",
    JSON_KEYS,
)
.needing(Needs::Any(&["remove", "rename", "set"]));

static JSON_KEYS: &[&Spec] =
    keys! { MEMBERS_REMOVE, MEMBERS_RENAME, MEMBERS_SET, MAX_BYTES, UNREADABLE };

static MEMBERS_REMOVE: OptionalKey<Vec<String>> = key(
    "remove",
    list(&text(&MEMBER_PATH), 1),
    "Members that are removed. \"a.b\" is the member `b` of `a`; if `a` is an array, of each of \
     its items, also if these are arrays, up to four levels deep.",
);

static MEMBERS_RENAME: OptionalKey<Vec<(String, String)>> = key(
    "rename",
    map(&MEMBER_PATH, &text(&ANY)),
    "Members that are renamed, with their new name in the same object.",
);

static MEMBERS_SET: OptionalKey<Vec<(String, String)>> = key(
    "set",
    map(&MEMBER_PATH, &text(&JSON)),
    "Members that are set, with their value as JSON in a string. Missing objects are created.",
)
.secret();

/// JSON that is edited is held whole, and one worker is busy with it meanwhile: some 10 ms a MiB.
static MAX_BYTES: Key<u64> = key(
    "max_bytes",
    size(1 << 10, 8 << 20),
    "Largest content that is edited. Longer content, after decoding too, is refused with 413, or \
     502 for a response.",
)
.or(Absent::Text("1MiB"));

static UNREADABLE: Key<Unreadable> = key(
    "unreadable",
    choice(&Choices::of(&[
        ("refuse", Unreadable::Refuse),
        ("pass", Unreadable::Pass),
    ])),
    "Treatment of content that claims to be JSON and is not: \"refuse\" responds with 400, or 502 \
     for a response; \"pass\" forwards it unchanged.",
)
.or(Absent::Text("refuse"));

/// Regular expression.
static PATTERN: Form<Regex> = Form::new("a regular expression", pattern);

/// Source of a text.
static TEXT_SOURCE: Form<TextSource> =
    Form::new("\"path\" or \"header:NAME\"", text_source).pattern("^(path|header:.+)$");

/// Name of a member of a JSON object, or of one within.
static MEMBER_PATH: Form<String> =
    Form::new("a member such as \"token\" or \"user.token\"", member_path)
        .pattern("^[^.]+(\\.[^.]+)*$");

/// JSON text.
static JSON: Form<String> = Form::new("JSON in a string, such as \"true\" or '\"text\"'", json)
    .masked_by(|_| format!("\"{MASK}\""));

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Transform> {
    Some(Transform {
        path: filter.get(&PATH)?,
        query: filter.get(&QUERY)?,
        request: filter.get(&REQUEST_HEADERS)?,
        response: filter.get(&RESPONSE_HEADERS)?,
        request_json: filter.get(&REQUEST_JSON)?,
        response_json: filter.get(&RESPONSE_JSON)?,
    })
}

fn path_edit(edit: &Fields) -> Option<PathEdit> {
    Some(PathEdit {
        pattern: edit.get(&PATH_PATTERN)?,
        to: edit.get(&PATH_TO)?,
    })
}

fn query(edits: &Fields) -> Option<QueryEdits> {
    Some(QueryEdits {
        remove: edits.get(&QUERY_REMOVE)?,
        set: edits.get(&QUERY_SET)?,
    })
}

fn edits(edits: &Fields) -> Option<FieldEdits> {
    Some(FieldEdits {
        rewrite: edits.get(&REWRITE)?,
        remove: edits.get(&REMOVE)?,
        set: edits.get(&SET)?,
        append: edits.get(&APPEND)?,
    })
}

fn rewrite(rewrite: &Fields) -> Option<FieldRewrite> {
    Some(FieldRewrite {
        header: rewrite.get(&HEADER)?,
        from: rewrite.get(&FROM)?,
        pattern: rewrite.get(&FIELD_PATTERN)?,
        to: rewrite.get(&FIELD_TO)?,
    })
}

fn json_edits(edits: &Fields) -> Option<JsonEdits> {
    Some(JsonEdits {
        remove: edits.get(&MEMBERS_REMOVE)?.unwrap_or_default(),
        rename: edits.get(&MEMBERS_RENAME)?.unwrap_or_default(),
        set: edits.get(&MEMBERS_SET)?.unwrap_or_default(),
        max_bytes: edits.get(&MAX_BYTES)?,
        unreadable: edits.get(&UNREADABLE)?,
    })
}

/// Finds the mistakes of what several keys say together, and fields that only the gateway writes.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if let Some(edits) = filter.within(&REQUEST_HEADERS) {
        written(edits, mistakes);
        one_host(edits, mistakes);
        rewrites(edits, mistakes);
    }
    if let Some(edits) = filter.within(&RESPONSE_HEADERS) {
        written(edits, mistakes);
        for rewrite in edits.items(&REWRITE).iter().filter_map(Node::fields) {
            if let Some((TextSource::Path, at)) = rewrite.located(&FROM) {
                let mistake = Mistake::new(at, "a response has no path");
                mistakes.push(mistake.help("write \"header:NAME\", or take `from` out"));
            }
        }
        rewrites(edits, mistakes);
    }
    for edit in filter.items(&PATH).iter().filter_map(Node::fields) {
        path(edit, mistakes);
    }
    for key in [&REQUEST_JSON, &RESPONSE_JSON] {
        let Some((edits, at)) = filter.located(key) else {
            continue;
        };
        if let Some((first, second)) = edits.conflict() {
            let message = format!(
                "`{}` and `{}` edit the same member, or one within the other",
                shown(&first),
                shown(&second)
            );
            mistakes.push(Mistake::new(at, message).help("take one of them out"));
        }
    }
}

/// Refuses edits of fields that only the gateway writes.
fn written(edits: &Fields, mistakes: &mut Mistakes) {
    for (name, at) in valid::<String>(edits.items(&REMOVE)) {
        refuse_ours(name, at, mistakes);
    }
    for Named { name, span, .. } in edits.entries(&SET).iter().chain(edits.entries(&APPEND)) {
        refuse_ours(name, *span, mistakes);
    }
    for rewrite in edits.items(&REWRITE).iter().filter_map(Node::fields) {
        if let Some((name, at)) = rewrite.located(&HEADER) {
            refuse_ours(&name, at, mistakes);
        }
    }
}

/// RFC 9112 §3.2: a request has one Host field.
fn one_host(edits: &Fields, mistakes: &mut Mistakes) {
    let removed = valid::<String>(edits.items(&REMOVE));
    let appended = edits.entries(&APPEND).iter();
    let appended = appended.map(|entry| (&entry.name, entry.span));
    for (_, span) in removed.chain(appended).filter(|(name, _)| *name == "host") {
        mistakes.push(
            Mistake::new(span, "a request must have exactly one `host` field")
                .label("of the request")
                .help("replace it with `set`"),
        );
    }
}

/// Groups that a replacement names are groups of its pattern, and it has the characters of a path.
fn path(edit: &Fields, mistakes: &mut Mistakes) {
    let pattern = edit.get(&PATH_PATTERN);
    let (Some(pattern), Some((to, at))) = (pattern, edit.located(&PATH_TO)) else {
        return;
    };
    unknown_groups(&pattern, &to, at, mistakes);
    // RFC 3986 §3.3; `$`, `{` and `}` name groups.
    let is_of_path =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/{}".contains(&byte);
    if !to.bytes().all(is_of_path) {
        let message = format!("`{}` is not a part of a path", shown(&to));
        mistakes.push(Mistake::new(at, message).help("escape other characters: \"%20\""));
    }
}

/// Groups that a replacement names are groups of its pattern.
fn rewrites(edits: &Fields, mistakes: &mut Mistakes) {
    for rewrite in edits.items(&REWRITE).iter().filter_map(Node::fields) {
        let pattern = rewrite.get(&FIELD_PATTERN);
        if let (Some(pattern), Some((to, at))) = (pattern, rewrite.located(&FIELD_TO)) {
            unknown_groups(&pattern, &to, at, mistakes);
        }
    }
}

fn unknown_groups(pattern: &Regex, to: &str, at: Span, mistakes: &mut Mistakes) {
    for name in groups(to) {
        let is_number = name
            .parse()
            .is_ok_and(|at: usize| at < pattern.captures_len());
        if !pattern.capture_names().flatten().any(|known| known == name) && !is_number {
            let message = format!("the pattern has no group `{}`", shown(name));
            mistakes.push(
                Mistake::new(at, message)
                    .help("groups are written (?<name>...) and named as ${name}"),
            );
        }
    }
}

/// Names of groups in a replacement, as `regex` reads them.
fn groups(to: &str) -> impl Iterator<Item = &str> {
    to.split('$')
        .skip(1)
        .filter_map(|rest| match rest.strip_prefix('{') {
            Some(rest) => rest.split_once('}').map(|(name, _)| name),
            None => {
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
                (end > 0).then(|| &rest[..end])
            }
        })
}

/// A regular expression whose program has a bound.
fn pattern(text: &str, _: &Path) -> Read<Regex> {
    Regex::new(text).map_err(|error| {
        let why = error.to_string();
        // It draws the expression first.
        let why = why
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        Refusal::new(format!(
            "`{}` is not a regular expression: {why}",
            shown(text)
        ))
        .help("a character of \\.+*?()|[]{}^$ that is meant itself has a backslash before it")
    })
}

/// `path` or `header:NAME`.
fn text_source(text: &str, _: &Path) -> Read<TextSource> {
    TextSource::parse(text).ok_or_else(|| {
        Refusal::new(format!("`{}` is not a source of text", shown(text)))
            .help("write \"path\" or \"header:NAME\"")
    })
}

/// `NAME`, or names with dots between them.
fn member_path(text: &str, _: &Path) -> Read<String> {
    const NAMES_MAX: usize = 8;
    let names = text.split('.');
    if names.clone().any(str::is_empty) || names.count() > NAMES_MAX {
        let message = format!("`{}` is not a member of an object", shown(text));
        let help = "write its name, or up to eight names with dots between them: \"user.token\"";
        return Err(Refusal::new(message).help(help));
    }
    Ok(text.to_owned())
}

/// JSON text, as short as it can be.
fn json(text: &str, _: &Path) -> Read<String> {
    let value: Result<Box<RawValue>, _> = serde_json::from_str(text);
    value.map(|value| value.get().to_owned()).map_err(|error| {
        Refusal::new(format!("`{}` is not JSON: {error}", shown(text)))
            .help("a string of JSON has quotation marks of its own: '\"text\"'")
    })
}
