//! Rewrites of requests and responses: path, query, fields, JSON content.

use regex::bytes::Regex;

use crate::field::is_token;

/// A replacement in paths that match.
#[derive(Debug, Clone)]
pub struct PathEdit {
    /// The part of the path that is replaced.
    pub pattern: Regex,
    /// The replacement: `${name}` stands for what a group of the pattern matched.
    pub to: String,
}

impl PartialEq for PathEdit {
    fn eq(&self, other: &Self) -> bool {
        self.pattern.as_str() == other.pattern.as_str() && self.to == other.to
    }
}

/// Edits of a query, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryEdits {
    /// Parameters that are taken out.
    pub remove: Vec<String>,
    /// Parameters that replace whatever had their name.
    pub set: Vec<(String, String)>,
}

/// A rewrite of a field, from its own value or another text.
#[derive(Debug, Clone)]
pub struct FieldRewrite {
    /// The field, in lower case.
    pub header: String,
    /// The source of the text. `None`: the field itself, whose matching parts are replaced.
    pub from: Option<TextSource>,
    /// The pattern that the text must match.
    pub pattern: Regex,
    /// The field's new value, or the replacement in it: `${name}` stands for what a group matched.
    pub to: String,
}

impl PartialEq for FieldRewrite {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
            && self.from == other.from
            && self.pattern.as_str() == other.pattern.as_str()
            && self.to == other.to
    }
}

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSource {
    /// The path in normal form.
    Path,
    /// A field, in lower case.
    Header(String),
}

impl TextSource {
    /// `path` or `header:NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "path" => Some(Self::Path),
            _ => {
                let name = text.strip_prefix("header:")?;
                is_token(name.as_bytes()).then(|| Self::Header(name.to_ascii_lowercase()))
            }
        }
    }
}

/// Edits of JSON content. Names with dots are those of members of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonEdits {
    /// Members that are taken out.
    pub remove: Vec<String>,
    /// Members, and the names that they have in their object from then on.
    pub rename: Vec<(String, String)>,
    /// Members and their values, as JSON.
    pub set: Vec<(String, String)>,
    /// Content that is longer is refused.
    pub max_bytes: u64,
    /// The treatment of content that is not JSON though it says so.
    pub unreadable: Unreadable,
}

impl JsonEdits {
    /// Two edits of which one would not be made: of one member, or of one within the other.
    #[must_use]
    pub fn conflict(&self) -> Option<(String, String)> {
        let renamed = self.rename.iter().flat_map(|(path, to)| {
            let parent = path.rfind('.').map_or("", |at| &path[..=at]);
            [path.clone(), format!("{parent}{to}")]
        });
        let set = self.set.iter().map(|(path, _)| path.clone());
        let paths: Vec<String> = self
            .remove
            .iter()
            .cloned()
            .chain(renamed)
            .chain(set)
            .collect();
        let is_within = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for (at, path) in paths.iter().enumerate() {
            let other = paths[..at]
                .iter()
                .find(|other| is_within(path, other) || is_within(other, path));
            if let Some(other) = other {
                return Some((other.clone(), path.clone()));
            }
        }
        None
    }
}

/// The treatment of unreadable content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Refused: 400 for a client's content, 502 for a server's.
    Refuse,
    /// Passed on unchanged.
    Pass,
}

/// Edits on the way in and out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transform {
    /// Rewrites of the path, of which the first that matches its normal form is applied.
    pub path: Vec<PathEdit>,
    /// Edits of the query.
    pub query: QueryEdits,
    /// Edits of the request's fields, before it is forwarded.
    pub request: FieldEdits,
    /// On the response, before it is sent.
    pub response: FieldEdits,
    /// On the request's content, where that is JSON.
    pub request_json: Option<JsonEdits>,
    /// On the response's.
    pub response_json: Option<JsonEdits>,
}

/// Edits applied in this order: rewrite, remove, set, append. Names are valid lower-case tokens, values
/// valid field values (RFC 9110 §5.5), and none is a framing or hop-by-hop field.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldEdits {
    /// Fields that are made of what a pattern finds.
    pub rewrite: Vec<FieldRewrite>,
    /// Fields that are taken out.
    pub remove: Vec<String>,
    /// Fields that replace whatever had their name.
    pub set: Vec<(String, String)>,
    /// Field lines that are added.
    pub append: Vec<(String, String)>,
}
