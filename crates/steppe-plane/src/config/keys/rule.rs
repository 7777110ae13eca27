//! Keys of rules.

use ipnet::IpNet;
use steppe_config::key::{Key, OptionalKey, key, list, table, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Table};
use steppe_config::typed::{Fields, Node};
use steppe_net::config::forms::{ALT_NAME, NETWORK as ANY_NETWORK};
use steppe_net::config::tls::CLIENT_AUTH;

use super::forms::SERVICES;
use super::listener::{LISTENER, TLS};
use crate::config::{Peers, Rule, Services};

/// `[[plane.rule]]`.
pub(super) static RULE: Key<Vec<Rule>> =
    key("rule", list(&table(&TABLE, build), 0), TABLE.doc).or(Absent::Texts(&[]));

static TABLE: Table = Table::new(
    "plane.rule",
    "Rights of the peers that connect. The first rule that matches a peer decides: what it does not list \
     is denied. With rules, peers that none matches may do nothing; without any, every peer may offer and \
     call every service. Workers of `discovery` offer what is listed there; routes of the gateway follow \
     no rule. A reload resets calls that are no longer allowed, and closes connections of workers that \
     offer what they no longer may.",
    keys! { CLIENT_CERT, NETWORK, OFFER, CALL },
)
.needing(Needs::One(&["client_cert", "network"]));

static CLIENT_CERT: OptionalKey<String> = key(
    "client_cert",
    text(&ALT_NAME),
    "Name in the peer's certificate: a subject alternative name, the common name that the subject begins \
     with, or the whole subject such as \"CN=api,O=Example\". A listener must ask for client \
     certificates.",
);

static NETWORK: OptionalKey<IpNet> = key(
    "network",
    text(&ANY_NETWORK),
    "Network of the peer's address, such as \"10.0.0.0/8\".",
);

static OFFER: Key<Vec<Services>> = key(
    "offer",
    list(&text(&SERVICES), 0),
    "Services that the peer may register as a worker. A `*` at the end stands for any rest of the name. A \
     worker that names another service is disconnected as denied.",
)
.or(Absent::Texts(&[]));

static CALL: Key<Vec<Services>> = key(
    "call",
    list(&text(&SERVICES), 0),
    "Services that the peer may call. A `*` at the end stands for any rest of the name. Other calls are \
     refused as denied.",
)
.or(Absent::Texts(&[]));

fn build(rule: &Fields) -> Option<Rule> {
    let peers = match (rule.get(&CLIENT_CERT)?, rule.get(&NETWORK)?) {
        (Some(name), _) => Peers::ClientCert(name),
        (None, network) => Peers::Network(network?),
    };
    Some(Rule {
        peers,
        offer: rule.get(&OFFER)?,
        call: rule.get(&CALL)?,
    })
}

/// Reports mistakes of rules: rules that never match, and conditions without effect.
pub(super) fn check(plane: &Fields, mistakes: &mut Mistakes) {
    let rules = plane.items(&RULE).iter();
    let rules: Vec<&Fields> = rules.filter_map(Node::fields).collect();
    unasked(plane, &rules, mistakes);
    for (at, rule) in rules.iter().enumerate() {
        one_condition(rule, mistakes);
        covered(rule, &rules[..at], mistakes);
    }
}

/// Reports a rule with both conditions: one would be ignored.
fn one_condition(rule: &Fields, mistakes: &mut Mistakes) {
    if let (Some(cert), Some(network)) = (rule.place_of(&CLIENT_CERT), rule.place_of(&NETWORK)) {
        mistakes.push(
            Mistake::new(network, "`network` has no effect beside `client_cert`")
                .label("a rule matches by one of them")
                .also(cert, "this decides")
                .help("take one of them out, or write two rules"),
        );
    }
}

/// Reports rules about certificates if no listener requests one.
fn unasked(plane: &Fields, rules: &[&Fields], mistakes: &mut Mistakes) {
    let asks = |listener: &Node| {
        // An invalid listener may be meant to request one.
        let Some(listener) = listener.fields() else {
            return true;
        };
        let tls = listener.value(&TLS.spec);
        let auth = |tls: &Node| tls.fields().and_then(|tls| tls.chosen(&CLIENT_AUTH));
        tls.is_some_and(|tls| auth(tls) != Some("none"))
    };
    if plane.items(&LISTENER).iter().any(asks) {
        return;
    }
    for node in rules
        .iter()
        .filter_map(|rule| rule.value(&CLIENT_CERT.spec))
    {
        mistakes.push(
            Mistake::new(node.span, "no plane listener asks peers for a certificate")
                .label("this rule never matches")
                .help("set `client_auth` and `client_ca` in the `tls` of a `plane.listener`"),
        );
    }
}

/// Reports a rule whose peers an earlier rule matches.
fn covered(rule: &Fields, earlier: &[&Fields], mistakes: &mut Mistakes) {
    let covers = |before: &&Fields| match (rule.located(&CLIENT_CERT), rule.located(&NETWORK)) {
        (Some((name, span)), _) => {
            let (known, first) = before.located(&CLIENT_CERT)?;
            let text = format!(
                "an earlier rule decides for the certificate `{}`",
                shown(&name)
            );
            let help = "write all that this certificate may offer and call into one rule";
            (known == name).then_some((span, first, text, help))
        }
        (None, Some((network, span))) => {
            let (known, first) = before.located(&NETWORK)?;
            let text = format!("an earlier rule decides for all of `{network}`");
            let help = "put the rule of the smaller network first, or take it out";
            known
                .contains(&network)
                .then_some((span, first, text, help))
        }
        (None, None) => None,
    };
    if let Some((span, first, text, help)) = earlier.iter().find_map(covers) {
        mistakes.push(
            Mistake::new(span, text)
                .label("this rule never matches")
                .also(first, "the first that matches decides")
                .help(help),
        );
    }
}
