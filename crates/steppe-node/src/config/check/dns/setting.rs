//! What rules of the DNS forwarder say beside what they do.

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node, Typed};
use steppe_dns::limits::VIEWS_MAX;

use crate::config::typed::ByName;

/// Actions that ask no server.
const ANSWERED_HERE: [&str; 2] = ["block", "records"];

pub(super) fn check(dns: &Fields, mistakes: &mut Mistakes) {
    for rule in dns.list("rule").iter().filter_map(Node::fields) {
        cache(rule, mistakes);
        log(dns, rule, mistakes);
    }
    views(dns, mistakes);
    nothing_to_log(dns, mistakes);
}

/// What is answered here is not kept.
fn cache(rule: &Fields, mistakes: &mut Mistakes) {
    let mut given = ANSWERED_HERE.into_iter();
    let here = given.find_map(|key| Some((key, rule.given(key)?)));
    if let (Some(span), Some((key, of_action))) = (rule.given("cache"), here) {
        let message = format!("`cache` has no effect beside `{key}`: no server is asked");
        let mistake = Mistake::new(span, message).label("without effect");
        mistakes.push(mistake.also(of_action, "answered here"));
    }
}

/// A line has a log to stand in, and a tag is one word of it.
fn log(dns: &Fields, rule: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = rule.node("log") else {
        return;
    };
    if let Typed::Text(tag) = &node.typed
        && tag.contains(char::is_whitespace)
    {
        let mistake = Mistake::new(node.span, "a tag is one word").label("it has a space");
        mistakes.push(mistake.help("values of a line are separated by spaces"));
    }
    let queries = dns.table("log").and_then(|log| log.node("queries"));
    let is_off = queries.is_some_and(|queries| matches!(queries.typed, Typed::Choice(_)));
    if is_off && !matches!(node.typed, Typed::Boolean(false) | Typed::Invalid) {
        let mistake = Mistake::new(node.span, "`log` has no effect: there is no query log");
        let help = "set `dns.log.queries`, with the `file` that lines go to";
        mistakes.push(mistake.label("without effect").help(help));
    }
}

/// A log that has lines of rules needs a rule that has some.
fn nothing_to_log(dns: &Fields, mistakes: &mut Mistakes) {
    let queries = dns.table("log").and_then(|log| log.table("queries"));
    let Some(queries) = queries.filter(|it| it.take::<&str>("which") == Some("rules")) else {
        return;
    };
    let mut rules = dns.list("rule").iter().filter_map(Node::fields);
    let has_lines = |rule: &Fields| {
        let log = rule.node("log").map(|node| &node.typed);
        log.is_some_and(|log| !matches!(log, Typed::Boolean(false)))
    };
    if let (Some(span), false) = (queries.given("which"), rules.any(has_lines)) {
        let mistake = Mistake::new(span, "no query would be logged: no `dns.rule` sets `log`");
        mistakes.push(mistake.label("without effect").help("set `log` of a rule"));
    }
}

/// What is kept in another way is kept apart.
fn views(dns: &Fields, mistakes: &mut Mistakes) {
    let rules = dns.list("rule").iter().filter_map(Node::fields);
    let policies: Vec<Span> = rules.filter_map(|rule| rule.given("cache")).collect();
    let upstreams = dns.map("upstream").len();
    // Rules that say the same share a view; whoever has this many says it in one rule.
    let views = upstreams * (1 + policies.len());
    if let (true, Some(span)) = (views > VIEWS_MAX, policies.last()) {
        let message = format!(
            "{upstreams} upstreams and {} rules with `cache` make {views} parts of the cache, more \
             than {VIEWS_MAX}",
            policies.len()
        );
        let mistake = Mistake::new(*span, message).label("too many");
        mistakes.push(mistake.help("use fewer rules, with more names each"));
    }
}
