//! Fields that upstreams and filters write, and what stands beside `respond` and `plane`.

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Named, Node};
use steppe_http::config::RetryOn;
use steppe_http::limits::RESPOND_BYTES_MAX;

use crate::config::grammar::is_ours;
use crate::config::typed::{ByName, FromNode};

pub(super) fn check(http: &Fields, mistakes: &mut Mistakes) {
    for upstream in http.map("upstream") {
        if let Some(fields) = upstream.value.fields() {
            exclusive(fields, mistakes);
            respond(fields, mistakes);
            hash_on(fields, mistakes);
            health(fields, mistakes);
            retry(fields, mistakes);
        }
    }
}

/// `hash_on` and `balance = "ring-hash"` say something only together.
fn hash_on(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(balance) = upstream.take::<&str>("balance") else {
        return;
    };
    let hash_on = upstream.given("hash_on");
    match (balance == "ring-hash", hash_on) {
        (true, None) => mistakes.push(
            Mistake::new(
                upstream.given("balance").unwrap_or(upstream.span),
                "\"ring-hash\" needs `hash_on`",
            )
            .label("no hash key")
            .help("add it: \"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\""),
        ),
        (false, Some(at)) => mistakes.push(
            Mistake::new(at, format!("`hash_on` has no effect with \"{balance}\""))
                .label("nothing is hashed")
                .help("set `balance` to \"ring-hash\", or take it out"),
        ),
        _ => {}
    }
}

/// A server is asked in one way, and gRPC's is one of HTTP/2.
fn health(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(health) = upstream.table("health") else {
        return;
    };
    let Some(grpc) = health.given("grpc") else {
        return;
    };
    if let Some(at) = health.given("path") {
        mistakes.push(
            Mistake::new(at, "`path` has no effect beside `grpc`")
                .label("servers are checked by grpc.health.v1")
                .also(grpc, "set here")
                .help("take one of them out"),
        );
    }
    if let Some(protocol) = without_grpc(upstream) {
        mistakes.push(
            no_grpc(grpc, protocol)
                .help("set `protocol` to \"h2c\" or \"h2\", or ask for a `path`"),
        );
    }
}

/// Statuses of gRPC come from servers of HTTP/2.
fn retry(upstream: &Fields, mistakes: &mut Mistakes) {
    let (Some(retry), Some(protocol)) = (upstream.table("retry"), without_grpc(upstream)) else {
        return;
    };
    for on in retry.list("on") {
        let condition = <&str>::from_node(on).and_then(RetryOn::named);
        if condition.is_some_and(RetryOn::has_codes) {
            mistakes.push(
                no_grpc(on.span, protocol)
                    .help("set `protocol` to \"h2c\" or \"h2\", or take it out"),
            );
        }
    }
}

/// What the servers speak, where that is no protocol of gRPC.
fn without_grpc(upstream: &Fields) -> Option<&'static str> {
    let protocol = upstream.take::<&str>("protocol");
    protocol.filter(|protocol| !matches!(*protocol, "h2" | "h2c"))
}

fn no_grpc(at: Span, protocol: &str) -> Mistake {
    let message = format!("\"{protocol}\" does not carry gRPC");
    Mistake::new(at, message).label("needs HTTP/2")
}

/// Where something else answers, no server is asked.
fn exclusive(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(first) = upstream.given.iter().find(|each| each.key.is_exclusive) else {
        return;
    };
    let name = first.key.name;
    let why = match name {
        "plane" => "a service of the request plane answers",
        _ => "the response is made here",
    };
    for field in upstream.given.iter().filter(|each| each.key.name != name) {
        let message = format!("`{}` has no effect beside `{name}`", field.key.name);
        mistakes.push(
            Mistake::new(field.span, message)
                .label("no server is asked")
                .also(first.span, why)
                .help("take one of them out"),
        );
    }
}

fn respond(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(respond) = upstream.table("respond") else {
        return;
    };
    respond_body(respond, mistakes);
    for entry in respond.map("headers") {
        refuse_ours(&entry.name, entry.span, mistakes);
    }
}

fn respond_body(respond: &Fields, mistakes: &mut Mistakes) {
    let (Some(status), Some(body)) = (respond.take::<u16>("status"), respond.node("body")) else {
        return;
    };
    let length = String::from_node(body).map_or(0, |body| body.len());
    // RFC 9110 §15.3.5, §15.3.6, §15.4.5.
    let has_no_content = matches!(status, 204 | 205 | 304);
    if has_no_content && length > 0 {
        let mistake = Mistake::new(
            body.span,
            format!("a response with status {status} has no content"),
        );
        mistakes.push(
            mistake
                .label("content")
                .help("leave `body` out, or choose another status"),
        );
    }
    if length > RESPOND_BYTES_MAX {
        let message = format!("`body` has {length} bytes: at most {RESPOND_BYTES_MAX}");
        mistakes.push(Mistake::new(body.span, message).label("too long"));
    }
}

/// What a `transform` filter does to fields.
pub(super) fn edits(filter: &Fields, mistakes: &mut Mistakes) {
    for side in ["request_headers", "response_headers"] {
        let Some(edits) = filter.table(side) else {
            continue;
        };
        let removed = edits.list("remove").iter().filter_map(named);
        let written = edits.map("set").iter().chain(edits.map("append"));
        let written = written.map(|entry: &Named| (entry.name.clone(), entry.span));
        let rewritten = edits.list("rewrite").iter().filter_map(Node::fields);
        let rewritten = rewritten.filter_map(|rewrite| rewrite.node("header"));
        let rewritten = rewritten.filter_map(named);
        for (name, span) in removed.chain(written).chain(rewritten) {
            refuse_ours(&name, span, mistakes);
        }
        if side == "request_headers" {
            one_host(edits, mistakes);
        }
    }
}

/// RFC 9112 §3.2: a request has one Host field.
fn one_host(edits: &Fields, mistakes: &mut Mistakes) {
    let removed = edits.list("remove").iter().filter_map(named);
    let appended = edits.map("append").iter();
    let appended = appended.map(|entry| (entry.name.clone(), entry.span));
    for (_, span) in removed.chain(appended).filter(|(name, _)| name == "host") {
        mistakes.push(
            Mistake::new(span, "a request must have exactly one `host` field")
                .label("of the request")
                .help("replace it with `set`"),
        );
    }
}

fn named(node: &Node) -> Option<(String, Span)> {
    Some((String::from_node(node)?, node.span))
}

/// Of a filter that writes the field `name`.
pub(super) fn refuse_ours(name: &str, span: Span, mistakes: &mut Mistakes) {
    if is_ours(name) {
        mistakes.push(
            Mistake::new(span, format!("`{name}` can't be edited"))
                .label("only the gateway writes it")
                .help("take it out: it frames the message or ends at the next hop"),
        );
    }
}
