//! Keys of rules.

use std::num::NonZeroU32;
use std::time::Duration;

use ipnet::IpNet;
use steppe_config::choice::Choices;
use steppe_config::form::NAME as ANY_NAME;
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, choice, integer, key, of, one_or_many, place, section, table, text,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::closest;
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};
use steppe_config::typed::{Fields, Node, Typed};
use steppe_net::config::forms::NETWORK;

use super::cache::{STALE, stale, ttl};
use super::forms::{
    self, CLIENT_ID as ID, DOMAIN_NAME, NAME_PATTERN, RECORD, RECORD_TYPE, TIME_ZONE,
};
use super::limits::PER_SECOND_MAX;
use super::list::LIST as LISTS;
use super::log::{LOG as LOGS, QUERIES, WHICH};
use super::upstream::UPSTREAM;
use crate::client::ClientId;
use crate::config::{
    Action, Block, CacheBounds, CachePolicy, LoggedQueries, RateOf, Rule, RuleLog, RuleRate,
    StalePolicy,
};
use crate::hosts::{RecordData, RecordSet};
use crate::limits::{LISTS_MAX, RULES_PER_PROGRAM_MAX, VIEWS_MAX};
use crate::schedule::{Days, Hours, Schedule, Zone};
use crate::wire::{Name, Rtype};

/// `[[dns.rule]]`.
pub static RULE: PlaceKey =
    place("rule", Kind::List(&Kind::Table(&TABLE), 0), TABLE.doc).or(Absent::Texts(&[]));

static TABLE: Table = Table::new(
    "dns.rule",
    "Rules that decide how queries are answered. The first rule that matches and has an action (`forward`, \
     `block`, `rewrite`, `records`) decides; a query that none decides about is refused. `cache`, `log` \
     and `rate` apply from the first matching rule that has them. Up to 1,024 rules.",
    keys! {
        CLIENT, CLIENT_ID, SUFFIX, NAME, NAME_REGEX, LIST, QTYPE, TIME, FORWARD, BLOCK, REWRITE,
        RECORDS, CACHE, LOG, RATE,
    },
)
.needing(Needs::Any(&[
    "forward", "block", "rewrite", "records", "cache", "log", "rate",
]));

static CLIENT: OptionalKey<Vec<IpNet>> = key(
    "client",
    one_or_many(&text(&NETWORK)),
    "Networks of clients. Without `client` and `client_id`, every client.",
);

static CLIENT_ID: OptionalKey<Vec<ClientId>> = key(
    "client_id",
    one_or_many(&text(&ID)),
    "IDs of clients, as the first label of the TLS server name or the last part of the path of HTTPS. Of \
     `client` and `client_id`, one match is enough.",
);

static SUFFIX: OptionalKey<Vec<Name>> = key(
    "suffix",
    one_or_many(&text(&DOMAIN_NAME)),
    "Domains: these names and all names below them.",
);

static NAME: OptionalKey<Vec<Name>> = key(
    "name",
    one_or_many(&text(&DOMAIN_NAME)),
    "Names, without those below them. Of `suffix`, `name`, `name_regex` and `list`, one match is enough.",
);

static NAME_REGEX: OptionalKey<Vec<String>> = key(
    "name_regex",
    one_or_many(&text(&NAME_PATTERN)),
    "Regular expressions, matched anywhere in the name, in lower case and without its last dot; `^` and \
     `$` are its ends. Those of a rule take up to 1 MiB of states; look-around and back-references are \
     not supported.",
);

static LIST: OptionalKey<Vec<String>> = key(
    "list",
    one_or_many(&text(&ANY_NAME)),
    "Lists of `dns.list`: the names on them.",
);

static QTYPE: OptionalKey<Vec<Rtype>> = key(
    "qtype",
    one_or_many(&text(&RECORD_TYPE)),
    "Types, such as \"AAAA\" or \"TYPE65\". Without it, every type.",
);

static TIME: OptionalKey<Schedule> = section("time", &TIME_TABLE, schedule);

static FORWARD: OptionalKey<String> = key(
    "forward",
    text(&ANY_NAME),
    "Upstream that is asked (action).",
);

static BLOCK: OptionalKey<Block> = key(
    "block",
    choice(&Choices::of(&[
        ("nxdomain", Block::NameError),
        ("nodata", Block::NoData),
        ("zero", Block::Zero),
        ("refused", Block::Refused),
    ])),
    "Response of the forwarder itself (action): \"nxdomain\" (no such name), \"nodata\" (nothing of that \
     type), \"zero\" (the unspecified address, for A and AAAA) or \"refused\".",
);

static REWRITE: OptionalKey<Name> = key(
    "rewrite",
    table(&REWRITE_TABLE, |rewrite| rewrite.get(&CNAME)),
    REWRITE_TABLE.doc,
);

static RECORDS: OptionalKey<Vec<RecordData>> = key(
    "records",
    one_or_many(&text(&RECORD)),
    "Records that are answered with (action): those of the queried type, else NODATA, for every name that \
     the rule matches.",
);

static CACHE: OptionalKey<CachePolicy> = key(
    "cache",
    of(
        Kind::Either(&[
            Kind::Choice(&Choices::of(&[("off", CachePolicy::Off)])),
            Kind::Table(&CACHE_TABLE),
        ]),
        cache_policy,
    ),
    CACHE_TABLE.doc,
);

static LOG: OptionalKey<RuleLog> = key(
    "log",
    of(
        Kind::Either(&[Kind::Boolean, Kind::Text(&ANY_NAME)]),
        rule_log,
    ),
    "Line in the query log: `true`, `false`, or a word, which turns it on and is logged as `tag`.",
);

static RATE: OptionalKey<RuleRate> = section("rate", &RATE_TABLE, rate);

static RATE_TABLE: Table = Table::new(
    "dns.rule.rate",
    "Limit on the queries that the rule matches. Beyond it, queries over UDP are dropped without a log \
     line, queries over connections get REFUSED; counted as `rule` in `steppe_dns_limited_total`.",
    keys! { QPS, OF },
);

static QPS: Key<u32> = key(
    "qps",
    integer(1, PER_SECOND_MAX),
    "Queries per second, and as many at once.",
)
.required();

static OF: Key<RateOf> = key(
    "of",
    choice(&Choices::of(&[
        ("client", RateOf::Client),
        ("all", RateOf::All),
    ])),
    "Queries that are counted together: \"client\" for those of a client's network (/24, /56), or \"all\".",
)
.or(Absent::Text("client"));

static CACHE_TABLE: Table = Table::new(
    "dns.rule.cache",
    "Caching of responses, in place of `dns.upstream.NAME.cache` and `dns.cache`: a table, or \"off\" to \
     keep none except server failures (RFC 9520). Responses kept under different policies are kept apart.",
    keys! { MIN_TTL, MAX_TTL, NEGATIVE_TTL_MAX, SERVE_STALE },
)
.needing(Needs::Any(&[
    "min_ttl",
    "max_ttl",
    "negative_ttl_max",
    "serve_stale",
]));

static MIN_TTL: OptionalKey<Duration> =
    key("min_ttl", ttl(), "Least time that responses are kept.");

static MAX_TTL: OptionalKey<Duration> =
    key("max_ttl", ttl(), "Longest time that responses are kept.");

static NEGATIVE_TTL_MAX: OptionalKey<Duration> = key(
    "negative_ttl_max",
    ttl(),
    "Longest time that negative responses (no such name or type) are kept.",
);

static SERVE_STALE: OptionalKey<StalePolicy> = key(
    "serve_stale",
    of(
        Kind::Either(&[
            Kind::Choice(&Choices::of(&[("off", StalePolicy::Off)])),
            Kind::Table(&STALE),
        ]),
        |node| match node.fields() {
            None => node.typed.value().copied(),
            Some(table) => stale(table).map(StalePolicy::Served),
        },
    ),
    STALE.doc,
);

static REWRITE_TABLE: Table = Table::new(
    "dns.rule.rewrite",
    "Alias to another name (action), with that name's records.",
    keys! { CNAME },
);

static CNAME: Key<Name> = key(
    "cname",
    text(&DOMAIN_NAME),
    "Target of the alias. Hosts, names of special use and rules decide about it, except rules that rewrite.",
)
.required();

static TIME_TABLE: Table = Table::new(
    "dns.rule.time",
    "Days, hours and time zone in which the rule applies.",
    keys! { DAYS, HOURS, ZONE },
);

static DAYS: Key<Days> = key(
    "days",
    of(Kind::Set(&Kind::Choice(&Days::NAMES)), |node| {
        Days::named(node.each(Node::chosen)?)
    }),
    "Days on which the hours begin.",
)
.or(Absent::Texts(&Days::NAMES));

static HOURS: Key<Hours> = key(
    "hours",
    text(&forms::HOURS),
    "Hours from the first time to before the second, into the next day if the second is earlier; they \
     belong to the day on which they begin.",
)
.or(Absent::Text("00:00-24:00"));

static ZONE: Key<Zone> = key(
    "zone",
    text(&TIME_ZONE),
    "Time zone of the system's database, such as \"Europe/Berlin\", or \"local\" for the system's own.",
)
.or(Absent::Text("local"));

/// Keys of actions, each with its verb for messages.
static ACTIONS: [(&Spec, &str); 4] = [
    (&FORWARD.spec, "forwards"),
    (&BLOCK.spec, "blocks"),
    (&REWRITE.spec, "rewrites"),
    (&RECORDS.spec, "answers with records"),
];

/// Keys of settings, which leave the query to later rules.
static SETTINGS: &[&Spec] = keys! { CACHE, LOG, RATE };

/// The rule that a table describes: `dns` has the upstreams and lists that it names.
pub(super) fn build(rule: &Fields, dns: &Fields) -> Option<Rule> {
    let number = |of: &'static PlaceKey, name: &String| {
        let mut known = dns.entries(of).iter();
        known.position(|known| known.name == *name)
    };
    let forward = match rule.get(&FORWARD)? {
        Some(name) => Some(Action::Forward(number(&UPSTREAM, &name)?)),
        None => None,
    };
    let actions = [
        forward,
        rule.get(&BLOCK)?.map(Action::Block),
        rule.get(&REWRITE)?
            .map(|target| Action::Rewrite(Box::new(target))),
        rule.get(&RECORDS)?
            .map(|records| Action::Records(RecordSet::new(&records))),
    ];
    let mut actions = actions.into_iter().flatten();
    let lists = rule.get(&LIST)?.unwrap_or_default();
    let built = Rule {
        clients: rule.get(&CLIENT)?.unwrap_or_default(),
        client_ids: rule.get(&CLIENT_ID)?.unwrap_or_default(),
        suffixes: rule.get(&SUFFIX)?.unwrap_or_default(),
        names: rule.get(&NAME)?.unwrap_or_default(),
        patterns: match rule.get(&NAME_REGEX)? {
            Some(texts) => Some(forms::name_patterns(&texts).ok()?),
            None => None,
        },
        lists: lists
            .iter()
            .map(|name| u8::try_from(number(&LISTS, name)?).ok())
            .collect::<Option<_>>()?,
        types: rule.get(&QTYPE)?.unwrap_or_default(),
        schedule: rule.get(&TIME)?,
        cache: rule.get(&CACHE)?,
        log: rule.get(&LOG)?,
        rate: rule.get(&RATE)?,
        action: actions.next(),
    };
    actions.next().is_none().then_some(built)
}

fn schedule(time: &Fields) -> Option<Schedule> {
    Some(Schedule {
        days: time.get(&DAYS)?,
        hours: time.get(&HOURS)?,
        zone: time.get(&ZONE)?,
    })
}

fn cache_policy(node: &Node) -> Option<CachePolicy> {
    let Some(bounds) = node.fields() else {
        return node.typed.value().copied();
    };
    Some(CachePolicy::Kept(CacheBounds {
        min_ttl: bounds.get(&MIN_TTL)?,
        max_ttl: bounds.get(&MAX_TTL)?,
        negative_ttl_max: bounds.get(&NEGATIVE_TTL_MAX)?,
        serve_stale: bounds.get(&SERVE_STALE)?,
    }))
}

fn rule_log(node: &Node) -> Option<RuleLog> {
    match &node.typed {
        Typed::Boolean(false) => Some(RuleLog::Off),
        Typed::Boolean(true) => Some(RuleLog::On),
        Typed::Text(tag) => Some(RuleLog::Tagged(tag.as_str().into())),
        _ => None,
    }
}

fn rate(rate: &Fields) -> Option<RuleRate> {
    Some(RuleRate {
        queries_per_second: NonZeroU32::new(rate.get(&QPS)?)?,
        of: rate.get(&OF)?,
    })
}

/// Finds the mistakes of rules: in one rule, in the lists and upstreams that it names, and in all rules together.
pub(super) fn check(dns: &Fields, mistakes: &mut Mistakes) {
    too_many(dns, (&LISTS, LISTS_MAX.into()), mistakes);
    too_many(dns, (&RULE, RULES_PER_PROGRAM_MAX), mistakes);
    nothing_done(dns, mistakes);
    for rule in rules(dns) {
        one_action(rule, mistakes);
        patterns(rule, mistakes);
        if let Some(forward) = rule.value(&FORWARD.spec) {
            refers_to(dns, (&UPSTREAM, forward), mistakes);
        }
        for list in rule.items(&LIST) {
            refers_to(dns, (&LISTS, list), mistakes);
        }
        cached_here(rule, mistakes);
        line(dns, rule, mistakes);
    }
    views(dns, mistakes);
    nothing_to_log(dns, mistakes);
}

fn rules(dns: &Fields) -> impl Iterator<Item = &Fields> {
    dns.items(&RULE).iter().filter_map(Node::fields)
}

fn too_many(dns: &Fields, (of, most): (&'static PlaceKey, usize), mistakes: &mut Mistakes) {
    let count = dns.items(of).len() + dns.entries(of).len();
    if count > most {
        let message = format!("`dns.{}` has {count} entries: at most {most}", of.spec.name);
        let span = dns.place_of(of).unwrap_or(dns.span);
        let mistake = Mistake::new(span, message).label("too many");
        mistakes.push(mistake.help("use fewer, with more names each"));
    }
}

/// Finds that no rule has an action: rules with settings alone decide about no query.
fn nothing_done(dns: &Fields, mistakes: &mut Mistakes) {
    // A rule without a key of either kind has a mistake of its own, and one with a mistyped value may have an action.
    let has_settings_alone = |rule: &Fields| {
        let is_given = |key: &&'static Spec| rule.given(key).is_some();
        let mut actions = ACTIONS.iter().map(|(key, _)| key);
        SETTINGS.iter().any(is_given) && !actions.any(is_given)
    };
    let Some(first) = rules(dns).next().map(|rule| rule.span) else {
        return;
    };
    if rules(dns).all(has_settings_alone) {
        let message = "every query is refused: no `dns.rule` has an action";
        let help = "add one that matches everything, with `forward` set to an upstream";
        mistakes.push(Mistake::new(first, message).label("no action").help(help));
    }
}

/// Finds a rule with more than one action.
fn one_action(rule: &Fields, mistakes: &mut Mistakes) {
    let given = ACTIONS.iter();
    let mut given = given.filter_map(|(key, what)| Some((rule.value(key)?, *what)));
    let Some((first, does)) = given.next() else {
        return;
    };
    for (other, also) in given {
        let message = format!("a rule has one action, and this one {does} and {also}");
        let mistake = Mistake::new(other.span, message).label(format!("here it {also}"));
        mistakes.push(mistake.also(first.span, format!("here it {does}")));
    }
}

/// Finds regular expressions that can't be compiled together; their form checks each by itself.
fn patterns(rule: &Fields, mistakes: &mut Mistakes) {
    if let (Some(span), Some(Some(texts))) = (rule.place_of(&NAME_REGEX), rule.get(&NAME_REGEX))
        && texts.len() > 1
        && let Err(refusal) = forms::name_patterns(&texts)
    {
        let mistake = Mistake::new(span, refusal.message).label("in `name_regex`");
        mistakes.push(mistake.help(refusal.help.unwrap_or_default()));
    }
}

/// Finds an upstream or a list that a rule names and that is not defined.
fn refers_to(dns: &Fields, (of, node): (&'static PlaceKey, &Node), mistakes: &mut Mistakes) {
    let Some(name) = node.typed.value::<String>() else {
        return;
    };
    let key = of.spec.name;
    let mut known = dns.entries(of).iter().map(|entry| entry.name.as_str());
    if known.clone().any(|known| known == name) {
        return;
    }
    let help = match closest(name, &mut known) {
        Some(closest) => format!("did you mean \"{closest}\"?"),
        None => format!("define it as `dns.{key}.{}`", shown(name)),
    };
    let message = format!("no {key} of `dns` is called `{}`", shown(name));
    let mistake = Mistake::new(node.span, message).label("not defined");
    mistakes.push(mistake.help(help));
}

/// Finds a rule with `cache` whose responses are made by the forwarder, and so never cached.
fn cached_here(rule: &Fields, mistakes: &mut Mistakes) {
    let mut here = [&BLOCK.spec, &RECORDS.spec].into_iter();
    let here = here.find_map(|key| Some((key.name, rule.given(key)?)));
    if let (Some(span), Some((key, of_action))) = (rule.place_of(&CACHE), here) {
        let message = format!("`cache` has no effect beside `{key}`: no server is asked");
        let mistake = Mistake::new(span, message).label("without effect");
        mistakes.push(mistake.also(of_action, "answered here"));
    }
}

/// Finds a tag of more than one word, and a rule with `log` where there is no query log.
fn line(dns: &Fields, rule: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = rule.value(&LOG.spec) else {
        return;
    };
    if let Typed::Text(tag) = &node.typed
        && tag.contains(char::is_whitespace)
    {
        let mistake = Mistake::new(node.span, "a tag is one word").label("it has a space");
        mistakes.push(mistake.help("values of a line are separated by spaces"));
    }
    let is_off = dns.get(&LOGS) == Some(None);
    if is_off && !matches!(node.typed, Typed::Boolean(false) | Typed::Invalid) {
        let mistake = Mistake::new(node.span, "`log` has no effect: there is no query log");
        let help = "set `dns.log.queries`, with the `file` that lines go to";
        mistakes.push(mistake.label("without effect").help(help));
    }
}

/// Finds a query log for the lines of rules where no rule has any.
fn nothing_to_log(dns: &Fields, mistakes: &mut Mistakes) {
    let queries = dns.within(&LOGS).and_then(|log| log.within(&QUERIES));
    let Some(queries) = queries.filter(|it| it.get(&WHICH) == Some(LoggedQueries::OfRules)) else {
        return;
    };
    let has_lines = |rule: &Fields| {
        let log = rule.value(&LOG.spec).map(|node| &node.typed);
        log.is_some_and(|log| !matches!(log, Typed::Boolean(false)))
    };
    if let (Some(span), false) = (queries.place_of(&WHICH), rules(dns).any(has_lines)) {
        let mistake = Mistake::new(span, "no query would be logged: no `dns.rule` sets `log`");
        mistakes.push(mistake.label("without effect").help("set `log` of a rule"));
    }
}

/// Finds too many views of the cache: responses under different policies are kept apart.
fn views(dns: &Fields, mistakes: &mut Mistakes) {
    let policies: Vec<Span> = rules(dns)
        .filter_map(|rule| rule.place_of(&CACHE))
        .collect();
    let upstreams = dns.entries(&UPSTREAM).len();
    // Rules with equal policies share a view, but are counted apart here: one rule can replace them.
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

#[cfg(test)]
mod tests {
    use steppe_config::read::read;

    use super::*;

    #[test]
    fn a_rate_is_of_each_client_unless_it_says_otherwise() {
        for (text, queries, of) in [
            ("qps = 7", 7, RateOf::Client),
            ("qps = 8\nof = \"client\"", 8, RateOf::Client),
            ("qps = 9\nof = \"all\"", 9, RateOf::All),
        ] {
            let mut mistakes = Mistakes::default();
            let (_, table) = read(("rate.toml", text), &RATE_TABLE, &mut mistakes).expect("TOML");
            assert!(mistakes.is_empty(), "{text}: {mistakes:?}");
            let want = RuleRate {
                queries_per_second: NonZeroU32::new(queries).expect("not 0"),
                of,
            };
            assert_eq!(rate(&table), Some(want), "{text}");
        }
    }
}
