//! What the keys of one filter say together.

use std::collections::HashMap;

use regex::bytes::Regex;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node, Typed};
use steppe_http::config::keys::{cache, compress};
use steppe_http::config::{RateKey, TextSource};

use super::error_pages;
use super::fields::{edits, refuse_ours};
use crate::config::build::json_edits as build_json;
use crate::config::typed::{ByName, FromNode};

pub(super) fn check(http: &Fields, mistakes: &mut Mistakes) {
    for filter in http.map("filter") {
        let Typed::Variant { name, fields, .. } = &filter.value.typed else {
            continue;
        };
        match *name {
            "cache" => cache::check(fields, mistakes),
            "compress" => compress::check(fields, mistakes),
            "cors" => cors(fields, mistakes),
            "error-pages" => error_pages::check(fields, mistakes),
            "jwt" => {
                secrets(fields, mistakes);
                fields
                    .map("forward_claims")
                    .iter()
                    .for_each(|entry| written(&entry.value, mistakes));
            }
            "request-id" => fields
                .node("header")
                .into_iter()
                .for_each(|header| written(header, mistakes)),
            "basic-auth" => {
                realm(fields, mistakes);
                let field = fields.node("forward_user").into_iter();
                field.for_each(|field| written(field, mistakes));
            }
            "forward-auth" => fields
                .list("response_headers")
                .iter()
                .for_each(|field| written(field, mistakes)),
            "rate-limit" => rate(fields, mistakes),
            "redirect" => redirect(fields, mistakes),
            "transform" => {
                edits(fields, mistakes);
                paths(fields, mistakes);
                rewrites(fields, mistakes);
                members(fields, mistakes);
            }
            _ => {}
        }
    }
    let filters: HashMap<_, _> = http
        .map("filter")
        .iter()
        .map(|entry| (&*entry.name, &entry.value))
        .collect();
    for route in http.list("route").iter().filter_map(Node::fields) {
        order(&filters, route, mistakes);
    }
}

/// Fetch, "CORS protocol and credentials": no browser takes `*` with credentials, and to echo
/// whatever asks would give every site what the user may see.
fn cors(cors: &Fields, mistakes: &mut Mistakes) {
    let has_credentials = cors.take::<bool>("credentials") == Some(true);
    let is_all = |node: &&Node| String::from_node(node).as_deref() == Some("*");
    let origins = cors.list("origins");
    if let Some(all) = origins.iter().find(is_all).filter(|_| has_credentials) {
        let mistake = Mistake::new(all.span, "every origin could read users' private responses");
        mistakes.push(
            mistake
                .label("with `credentials = true`")
                .help("name the origins, or take `credentials` out"),
        );
    }
}

/// A filter writes no field that frames the message or ends at the next hop.
fn written(field: &Node, mistakes: &mut Mistakes) {
    if let Some(name) = String::from_node(field) {
        refuse_ours(&name, field.span, mistakes);
    }
}

/// RFC 7617 §2: it stands in quotes.
fn realm(basic: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = basic.node("realm") else {
        return;
    };
    let realm = String::from_node(node).unwrap_or_default();
    if realm.contains(['"', '\\']) || !realm.is_ascii() {
        let mistake = Mistake::new(
            node.span,
            "a realm is ASCII, without quotes and backslashes",
        );
        mistakes.push(mistake.help("write another one, such as \"staff\""));
    }
}

/// A set is in a file or behind a URL, and a file is not fetched.
fn sets(jwks: &Fields, mistakes: &mut Mistakes) {
    let Some(file) = jwks.given("file") else {
        return;
    };
    for key in ["url", "refresh", "cooldown", "ca"] {
        if let Some(at) = jwks.given(key) {
            let message = format!("`{key}` has no effect with `file`: a file is not fetched");
            mistakes.push(
                Mistake::new(at, message)
                    .also(file, "the set is in a file")
                    .help("take one of them out"),
            );
        }
    }
}

/// What says how a rate is counted says nothing without one.
fn rate(limit: &Fields, mistakes: &mut Mistakes) {
    if limit.given("rate").is_some() {
        return;
    }
    for key in ["per", "burst", "store"] {
        if let Some(span) = limit.given(key) {
            mistakes.push(
                Mistake::new(span, format!("`{key}` without `rate`"))
                    .label("no effect on requests in flight")
                    .help("add `rate`, or take it out"),
            );
        }
    }
}

/// A secret is for the HS algorithms, a public key for the others.
fn secrets(jwt: &Fields, mistakes: &mut Mistakes) {
    if let Some(jwks) = jwt.table("jwks") {
        sets(jwks, mistakes);
    }
    for key in jwt.list("keys").iter().filter_map(Node::fields) {
        let Some(algorithm) = key.take::<&str>("algorithm") else {
            continue;
        };
        let (wrong, right) = match algorithm.starts_with("HS") {
            true => ("public_key_file", "secret_file"),
            false => ("secret_file", "public_key_file"),
        };
        if let Some(at) = key.given(wrong) {
            let message = format!("{algorithm} does not verify with `{wrong}`");
            mistakes.push(Mistake::new(at, message).help(format!("set `{right}`")));
        }
    }
}

/// What looks at a token stands behind what verifies it, and `cors` before that: preflights have none. What refuses
/// stands before a `cache`, which answers without asking those behind it.
fn order(filters: &HashMap<&str, &Node>, route: &Fields, mistakes: &mut Mistakes) {
    let (mut verified, mut asks, mut cached) = (None, None, None);
    for node in route.list("filters") {
        let filter = String::from_node(node).and_then(|name| filters.get(&*name));
        let Some(Typed::Variant {
            name: kind, fields, ..
        }) = filter.map(|filter| &filter.typed)
        else {
            continue;
        };
        if let ("jwt" | "basic-auth" | "forward-auth" | "authorize" | "ip", Some(at)) =
            (*kind, cached)
        {
            mistakes.push(
                Mistake::new(node.span, "cached responses would bypass this filter")
                    .label(format!("a `{kind}` filter"))
                    .also(at, "answers before it")
                    .help("put it before the `cache` filter"),
            );
        }
        let looks_at_token = match *kind {
            "cache" => {
                cached = Some(node.span);
                false
            }
            "jwt" => {
                verified = Some(node.span);
                asks = asks.or(verified);
                false
            }
            "basic-auth" | "forward-auth" => {
                asks = asks.or(Some(node.span));
                false
            }
            "authorize" => fields
                .list("rules")
                .iter()
                .filter_map(Node::fields)
                .any(|rule| {
                    ["any_scope", "all_scopes", "claims"]
                        .iter()
                        .any(|key| rule.given(key).is_some())
                }),
            "rate-limit" => {
                let key = fields.take::<RateKey>("key");
                matches!(key, Some(RateKey::Claim(_)))
            }
            _ => false,
        };
        if looks_at_token && verified.is_none() {
            mistakes.push(
                Mistake::new(
                    node.span,
                    "this filter reads a token that no filter has verified",
                )
                .label("no `jwt` filter before it")
                .help("put one before it in `filters`"),
            );
        }
        if let ("cors", Some(at)) = (*kind, asks) {
            mistakes.push(
                Mistake::new(
                    node.span,
                    "preflights carry no credentials and never reach this filter",
                )
                .label("a `cors` filter")
                .also(at, "requires credentials")
                .help("put it before this filter"),
            );
        }
    }
}

fn redirect(redirect: &Fields, mistakes: &mut Mistakes) {
    let Some(status) = redirect.node("status") else {
        return;
    };
    let is_redirect = |status| matches!(status, 301 | 302 | 303 | 307 | 308);
    if u16::from_node(status).is_some_and(|status| !is_redirect(status)) {
        let mistake = Mistake::new(status.span, "not a redirect status");
        mistakes.push(mistake.help("write 301, 302, 303, 307 or 308"));
    }
}

/// Groups that a replacement names are groups of its pattern, and it has the characters of a path.
fn paths(transform: &Fields, mistakes: &mut Mistakes) {
    for edit in transform.list("path").iter().filter_map(Node::fields) {
        let pattern = edit.take::<Regex>("pattern");
        let (Some(pattern), Some(node)) = (pattern, edit.node("to")) else {
            continue;
        };
        let Some(to) = String::from_node(node) else {
            continue;
        };
        unknown_groups(&pattern, &to, node, mistakes);
        // RFC 3986 §3.3; `$`, `{` and `}` name groups.
        let is_of_path =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/{}".contains(&byte);
        if !to.bytes().all(is_of_path) {
            let message = format!("`{}` is not a part of a path", shown(&to));
            mistakes
                .push(Mistake::new(node.span, message).help("escape other characters: \"%20\""));
        }
    }
}

fn unknown_groups(pattern: &Regex, to: &str, node: &Node, mistakes: &mut Mistakes) {
    for name in groups(to) {
        let is_number = |name: &str| {
            name.parse()
                .is_ok_and(|at: usize| at < pattern.captures_len())
        };
        if !pattern.capture_names().flatten().any(|known| known == name) && !is_number(name) {
            let message = format!("the pattern has no group `{}`", shown(name));
            mistakes.push(
                Mistake::new(node.span, message)
                    .help("groups are written (?<name>...) and named as ${name}"),
            );
        }
    }
}

/// A replacement names groups of its pattern, and a response has no path.
fn rewrites(transform: &Fields, mistakes: &mut Mistakes) {
    for key in ["request_headers", "response_headers"] {
        let Some(edits) = transform.table(key) else {
            continue;
        };
        for rewrite in edits.list("rewrite").iter().filter_map(Node::fields) {
            let from = rewrite.node("from");
            let is_path = |node: &&Node| matches!(node.typed.value(), Some(TextSource::Path));
            if let Some(from) = from.filter(is_path).filter(|_| key == "response_headers") {
                let mistake = Mistake::new(from.span, "a response has no path");
                mistakes.push(mistake.help("write \"header:NAME\", or take `from` out"));
            }
            let pattern = rewrite.take::<Regex>("pattern");
            let (Some(pattern), Some(node)) = (pattern, rewrite.node("to")) else {
                continue;
            };
            if let Some(to) = String::from_node(node) {
                unknown_groups(&pattern, &to, node, mistakes);
            }
        }
    }
}

/// Edits of JSON are of different members.
fn members(transform: &Fields, mistakes: &mut Mistakes) {
    for key in ["request_json", "response_json"] {
        let Some(Some(edits)) = build_json(transform, key) else {
            continue;
        };
        if let (Some((first, second)), Some(node)) = (edits.conflict(), transform.node(key)) {
            let message = format!(
                "`{}` and `{}` edit the same member, or one within the other",
                shown(&first),
                shown(&second)
            );
            mistakes.push(Mistake::new(node.span, message).help("take one of them out"));
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
