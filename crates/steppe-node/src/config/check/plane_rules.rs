//! Rules of the request plane that never decide.

use ipnet::IpNet;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};

use crate::config::typed::ByName;

pub(super) fn check(plane: &Fields, mistakes: &mut Mistakes) {
    let rules: Vec<&Fields> = plane.list("rule").iter().filter_map(Node::fields).collect();
    unasked(plane, &rules, mistakes);
    for (at, rule) in rules.iter().enumerate() {
        one_condition(rule, mistakes);
        covered(rule, &rules[..at], mistakes);
    }
}

/// A rule with both conditions: one would be ignored.
fn one_condition(rule: &Fields, mistakes: &mut Mistakes) {
    let (Some(cert), Some(network)) = (rule.given("client_cert"), rule.given("network")) else {
        return;
    };
    mistakes.push(
        Mistake::new(network, "`network` has no effect beside `client_cert`")
            .label("a rule matches by one of them")
            .also(cert, "this decides")
            .help("take one of them out, or write two rules"),
    );
}

/// A rule about certificates, where no listener asks for one.
fn unasked(plane: &Fields, rules: &[&Fields], mistakes: &mut Mistakes) {
    let listeners = plane.list("listener");
    let asks = |listener: &Node| match listener.fields().map(|listener| listener.node("tls")) {
        Some(None) => false,
        // An invalid listener may be meant to ask.
        None => true,
        Some(Some(tls)) => {
            let auth = tls.fields().and_then(|tls| tls.take::<&str>("client_auth"));
            auth != Some("none")
        }
    };
    if listeners.iter().any(asks) {
        return;
    }
    for node in rules.iter().filter_map(|rule| rule.node("client_cert")) {
        mistakes.push(
            Mistake::new(node.span, "no plane listener asks peers for a certificate")
                .label("this rule never matches")
                .help("set `client_auth` and `client_ca` in the `tls` of a `plane.listener`"),
        );
    }
}

/// A rule whose peers an earlier one is about.
fn covered(rule: &Fields, earlier: &[&Fields], mistakes: &mut Mistakes) {
    let name = rule
        .node("client_cert")
        .zip(rule.take::<String>("client_cert"));
    let network = rule.node("network").zip(rule.take::<IpNet>("network"));
    for before in earlier {
        let found = match (&name, &network) {
            (Some((node, name)), _) => {
                let is_same = before.take::<String>("client_cert").as_ref() == Some(name);
                let text = format!(
                    "an earlier rule decides for the certificate `{}`",
                    shown(name)
                );
                is_same.then_some((*node, before.node("client_cert"), text))
            }
            (None, Some((node, network))) => {
                let covers = before.take::<IpNet>("network");
                let is_within = covers.is_some_and(|covers| covers.contains(network));
                let text = format!("an earlier rule decides for all of `{network}`");
                is_within.then_some((*node, before.node("network"), text))
            }
            (None, None) => None,
        };
        let Some((node, first, text)) = found else {
            continue;
        };
        let mistake = Mistake::new(node.span, text).label("this rule never matches");
        let mistake = match first {
            Some(first) => mistake.also(first.span, "the first that matches decides"),
            None => mistake,
        };
        let help = match name {
            Some(_) => "write all that this certificate may offer and call into one rule",
            None => "put the rule of the smaller network first, or take it out",
        };
        mistakes.push(mistake.help(help));
        return;
    }
}
