//! What the keys of one filter say together.

use crate::config::grammar::pattern;
use crate::config::mistake::{Mistake, shown};
use crate::config::mistakes::Mistakes;
use crate::config::typed::{Fields, FromNode, Node, Typed};

pub(super) fn check(http: &Fields, mistakes: &mut Mistakes) {
    for filter in http.map("filter") {
        let Typed::Variant { name, fields, .. } = &filter.value.typed else {
            continue;
        };
        match *name {
            "cors" => cors(fields, mistakes),
            "redirect" => redirect(fields, mistakes),
            "transform" => paths(fields, mistakes),
            _ => {}
        }
    }
}

/// Fetch, "CORS protocol and credentials": no browser takes `*` with credentials, and to echo
/// whatever asks would give every site what the user may see.
fn cors(cors: &Fields, mistakes: &mut Mistakes) {
    let has_credentials = cors.take::<bool>("credentials") == Some(true);
    let is_all = |node: &&Node| String::from_node(node).as_deref() == Some("*");
    let origins = cors.list("origins");
    if let Some(all) = origins.iter().find(is_all).filter(|_| has_credentials) {
        let mistake = Mistake::new(all.span, "every origin would read what users may see");
        mistakes.push(
            mistake
                .label("with `credentials = true`")
                .help("name the origins, or take `credentials` out"),
        );
    }
}

fn redirect(redirect: &Fields, mistakes: &mut Mistakes) {
    let Some(status) = redirect.node("status") else {
        return;
    };
    let is_redirect = |status| matches!(status, 301 | 302 | 303 | 307 | 308);
    if u16::from_node(status).is_some_and(|status| !is_redirect(status)) {
        let mistake = Mistake::new(status.span, "this status sends nobody elsewhere");
        mistakes.push(mistake.help("write 301, 302, 303, 307 or 308"));
    }
}

/// Groups that a replacement names are groups of its pattern, and it has the characters of a path.
fn paths(transform: &Fields, mistakes: &mut Mistakes) {
    for edit in transform.list("path").iter().filter_map(Node::fields) {
        let text = edit.take::<String>("pattern");
        let (Some(text), Some(node)) = (text, edit.node("to")) else {
            continue;
        };
        let (Ok(pattern), Some(to)) = (pattern(&text), String::from_node(node)) else {
            continue;
        };
        for name in groups(&to) {
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
        // RFC 3986 §3.3; `$`, `{` and `}` name groups.
        let is_of_path =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/{}".contains(&byte);
        if !to.bytes().all(is_of_path) {
            let message = format!("`{}` is not a piece of a path", shown(&to));
            mistakes
                .push(Mistake::new(node.span, message).help("escape other characters: \"%20\""));
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
