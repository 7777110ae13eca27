//! What lists and rules of the DNS forwarder say together.

use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::closest;
use steppe_config::typed::{Fields, Node, Typed};
use steppe_dns::limits::{LISTS_MAX, RULES_PER_PROGRAM_MAX};

use crate::config::grammar;
use crate::config::typed::FromNode;

/// Keys that say what a rule does, and what that is called.
const ACTIONS: [(&str, &str); 4] = [
    ("forward", "forwards"),
    ("block", "blocks"),
    ("rewrite", "rewrites"),
    ("records", "answers with records"),
];

pub(super) fn check(dns: &Fields, mistakes: &mut Mistakes) {
    too_many(
        dns,
        ("list", dns.map("list").len()),
        LISTS_MAX.into(),
        mistakes,
    );
    too_many(
        dns,
        ("rule", dns.list("rule").len()),
        RULES_PER_PROGRAM_MAX,
        mistakes,
    );
    nothing_done(dns, mistakes);
    for list in dns.map("list") {
        if let Some(list) = list.value.fields() {
            store(list, mistakes);
        }
    }
    for rule in dns.list("rule").iter().filter_map(Node::fields) {
        one_action(rule, mistakes);
        patterns(rule, mistakes);
        if let Some(forward) = rule.node("forward") {
            refers_to(dns, ("upstream", "upstream"), forward, mistakes);
        }
        for list in items(rule.node("list")) {
            refers_to(dns, ("list", "list"), list, mistakes);
        }
    }
}

/// What is fetched is kept somewhere, and a list without URLs has nothing to fetch.
fn store(list: &Fields, mistakes: &mut Mistakes) {
    match list.given("urls") {
        Some(urls) if list.given("store").is_none() => mistakes.push(
            Mistake::new(urls, "`urls` needs `store`")
                .label("no folder to keep fetched lists in")
                .help("add the folder that keeps fetched lists: store = \"lists\""),
        ),
        Some(_) => {}
        None => {
            let useless = ["store", "refresh", "required"].into_iter();
            for (key, span) in useless.filter_map(|key| Some((key, list.given(key)?))) {
                mistakes.push(
                    Mistake::new(span, format!("`{key}` has no effect without `urls`"))
                        .label("nothing is fetched")
                        .help("add `urls`, or take it out"),
                );
            }
        }
    }
}

fn too_many(dns: &Fields, (key, count): (&str, usize), most: usize, mistakes: &mut Mistakes) {
    if count > most {
        let message = format!("`dns.{key}` has {count} entries: at most {most}");
        let span = dns.given(key).unwrap_or(dns.span);
        let mistake = Mistake::new(span, message).label("too many");
        mistakes.push(mistake.help("use fewer, with more names each"));
    }
}

/// Rules that say something of queries leave what becomes of them to others.
fn nothing_done(dns: &Fields, mistakes: &mut Mistakes) {
    let is_action = |key: &str| ACTIONS.iter().any(|(action, _)| *action == key);
    // One that has no key of either kind is told of by itself, and one that was mistyped may be an action.
    let has_settings = |rule: &Fields| {
        let mut keys = rule.given.iter().map(|field| field.key.name);
        ["cache", "log", "rate"]
            .iter()
            .any(|key| rule.given(key).is_some())
            && !keys.any(is_action)
    };
    let mut rules = dns.list("rule").iter().filter_map(Node::fields).peekable();
    let Some(first) = rules.peek().map(|rule| rule.span) else {
        return;
    };
    if rules.all(has_settings) {
        let message = "every query is refused: no `dns.rule` has an action";
        let help = "add one that matches everything, with `forward` set to an upstream";
        mistakes.push(Mistake::new(first, message).label("no action").help(help));
    }
}

/// A rule has one action.
fn one_action(rule: &Fields, mistakes: &mut Mistakes) {
    let mut given = ACTIONS
        .iter()
        .filter_map(|(key, what)| Some((rule.node(key)?, *what)));
    let Some((first, does)) = given.next() else {
        return;
    };
    for (other, also) in given {
        let message = format!("a rule has one action, and this one {does} and {also}");
        let mistake = Mistake::new(other.span, message);
        mistakes.push(
            mistake
                .label(format!("here it {also}"))
                .also(first.span, format!("here it {does}")),
        );
    }
}

/// Regular expressions can be read, one by one and together.
fn patterns(rule: &Fields, mistakes: &mut Mistakes) {
    let items = items(rule.node("name_regex"));
    let read = |texts: &[String], span: Span, mistakes: &mut Mistakes| {
        let Err(refusal) = grammar::name_patterns(texts) else {
            return true;
        };
        let mistake = Mistake::new(span, refusal.message).label("in `name_regex`");
        mistakes.push(mistake.help(refusal.help.unwrap_or_default()));
        false
    };
    let texts: Vec<_> = items
        .iter()
        .filter_map(|item| Some((String::from_node(item)?, item.span)))
        .collect();
    let mut are_fine = true;
    for (text, span) in &texts {
        are_fine &= read(std::slice::from_ref(text), *span, mistakes);
    }
    if let (true, Some(span)) = (are_fine && texts.len() > 1, rule.given("name_regex")) {
        let texts: Vec<String> = texts.into_iter().map(|(text, _)| text).collect();
        read(&texts, span, mistakes);
    }
}

/// What a rule names is there.
fn refers_to(dns: &Fields, (key, what): (&str, &str), node: &Node, mistakes: &mut Mistakes) {
    let Some(name) = String::from_node(node) else {
        return;
    };
    let mut known = dns.map(key).iter().map(|entry| entry.name.as_str());
    if known.clone().any(|known| known == name) {
        return;
    }
    let help = match closest(&name, &mut known) {
        Some(closest) => format!("did you mean \"{closest}\"?"),
        None => format!("define it as `dns.{key}.{}`", shown(&name)),
    };
    let message = format!("no {what} of `dns` is called `{}`", shown(&name));
    mistakes.push(
        Mistake::new(node.span, message)
            .label("not defined")
            .help(help),
    );
}

/// The items of a list, or one that stands for a list.
fn items(node: Option<&Node>) -> &[Node] {
    match node {
        None => &[],
        Some(Node {
            typed: Typed::List(items),
            ..
        }) => items,
        Some(one) => std::slice::from_ref(one),
    }
}
