//! Rules of the configuration, compiled: the rule that decides, and the settings of those before it.
//!
//! Names of all rules are in one table, so that a rule with names costs nothing for a name that is not one of
//! them. The other rules are evaluated in the order of the file: rules without names, and those with a list or
//! regular expressions. Lists are looked up once, and only when a rule that has one is reached. Schedules are
//! evaluated outside of the workers, which read a bit for each rule.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use super::index::{ListSet, Matches};
use super::names::{RuleNames, RuleSet};
use super::settings::Settings;
use super::syntax::Scope;
use crate::client::Client;
use crate::config::{Action, Block, Rule};
use crate::limits::RULES_PER_PROGRAM_MAX;
use crate::schedule::Schedule;
use crate::siphash::SipKey;
use crate::special_use::is_never_forwarded;
use crate::wire::{Name, Rtype};

/// Rules, compiled. They are numbered as in the configuration, from 0.
#[derive(Debug)]
pub(crate) struct Program {
    names: RuleNames,
    /// Rules that a query may match though none of their names is its name.
    others: RuleSet,
    /// Rules without a condition on names.
    unnamed: RuleSet,
    /// Rules that have the root as a suffix, which all names have.
    of_all: RuleSet,
    /// Rules that are off by their schedule. `None`: no rule has a schedule.
    off: Option<OffRules>,
}

/// Rules that are off now, a bit each.
#[derive(Debug, Default)]
struct OffRules([AtomicU64; RULES_PER_PROGRAM_MAX / 64]);

impl OffRules {
    fn has(&self, rule: usize) -> bool {
        self.0[rule / 64].load(Ordering::Relaxed) >> (rule % 64) & 1 == 1
    }
}

/// A question, and its client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) client: &'a Client,
    pub(crate) qname: &'a Name,
    pub(crate) qtype: Rtype,
    pub(crate) rewriting: Rewriting,
}

/// The treatment of rules that rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewriting {
    Counts,
    /// Rules that rewrite are skipped: the name is the target of one already.
    Done,
}

/// The result of evaluating the rules for a question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// `None`: no rule decides.
    pub(crate) decision: Option<Decision<'a>>,
    /// Settings of the rule that decides, and of those before it that match.
    pub(crate) settings: Settings,
}

/// The rule that decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision<'a> {
    /// Number of the rule, from 0.
    pub(crate) number: usize,
    pub(crate) action: &'a Action,
    pub(crate) why: Why,
}

/// The condition by which a rule matches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The rule has no condition on names.
    Any,
    /// The rule has the name, or a suffix of it, and so overrides special-use names.
    Name,
    /// A regular expression of the rule matches the name.
    Pattern,
    /// The name is on these lists of the rule.
    Lists(ListSet),
}

impl Decision<'_> {
    /// True if the decision overrides the treatment of a special-use name.
    pub(crate) fn overrules_special_use(&self, qname: &Name) -> bool {
        let is_forwarded = matches!(self.action, Action::Forward(_));
        self.why == Why::Name && !(is_forwarded && is_never_forwarded(qname))
    }
}

/// The action of a rule that blocks a name, if all of its lists with the name have it without data.
static NO_DATA: Action = Action::Block(Block::NoData);

impl Program {
    /// Compiles rules. `key` has to be random, so that no client can choose names whose hashes collide.
    pub(crate) fn new(rules: &[Rule], key: SipKey) -> Self {
        let (mut others, mut unnamed, mut of_all) =
            (RuleSet::EMPTY, RuleSet::EMPTY, RuleSet::EMPTY);
        for (number, rule) in rules.iter().enumerate() {
            let has_names = !(rule.names.is_empty() && rule.suffixes.is_empty());
            let has_others = rule.lists != ListSet::default() || rule.patterns.is_some();
            if !has_names && !has_others {
                unnamed.insert(number);
            }
            let is_of_all = rule.suffixes.contains(&Name::ROOT);
            if is_of_all {
                of_all.insert(number);
            }
            if !has_names || has_others || is_of_all {
                others.insert(number);
            }
        }
        let names = rules.iter().enumerate().flat_map(|(number, rule)| {
            let exact = rule
                .names
                .iter()
                .map(move |name| (*name, number, Scope::Exact));
            let suffixes = rule.suffixes.iter();
            exact.chain(suffixes.map(move |name| (*name, number, Scope::Suffix)))
        });
        Self {
            names: RuleNames::new(key, names),
            others,
            unnamed,
            of_all,
            off: (rules.iter().any(|rule| rule.schedule.is_some())).then(OffRules::default),
        }
    }

    /// True if rules have schedules, so that [`Self::set_time`] has to be called.
    pub(crate) fn has_times(&self) -> bool {
        self.off.is_some()
    }

    /// Turns rules on and off by their schedules. `rules` are those that the program was compiled from.
    pub(crate) fn set_time(&self, rules: &[Rule], now: Timestamp) {
        let mut off = RuleSet::EMPTY;
        for (number, rule) in rules.iter().enumerate() {
            let is_due = |schedule: &Schedule| schedule.is_due(now);
            if !rule.schedule.as_ref().is_none_or(is_due) {
                off.insert(number);
            }
        }
        self.set_off(&off);
    }

    /// Turns these rules off, and all others on.
    fn set_off(&self, rules: &RuleSet) {
        for (place, word) in self.off.iter().flat_map(|off| &off.0).zip(rules.words()) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// The first rule that a question matches and that has an action, and the settings up to there. `rules` are
    /// those that the program was compiled from; `lists` returns the lists that the name is on.
    pub(crate) fn find<'a>(
        &self,
        rules: &'a [Rule],
        asked: Asked<'_>,
        lists: impl Fn() -> Matches,
    ) -> Found<'a> {
        let named = self.names.matches(asked.qname);
        let (mut listed, mut settings) = (None, Settings::default());
        let decision = named.union(&self.others).iter().find_map(|number| {
            let rule = rules.get(number)?;
            let is_off = self.off.as_ref().is_some_and(|off| off.has(number));
            if is_off || !rule.is_for(asked) {
                return None;
            }
            let why = if self.unnamed.has(number) {
                Why::Any
            } else if named.has(number) || self.of_all.has(number) {
                Why::Name
            } else if (rule.patterns.as_ref())
                .is_some_and(|patterns| patterns.is_match(asked.qname))
            {
                Why::Pattern
            } else if rule.lists == ListSet::default() {
                return None;
            } else {
                let listed: &Matches = listed.get_or_insert_with(&lists);
                let of_rule = ListSet(listed.listed().0 & rule.lists.0);
                if of_rule == ListSet::default() {
                    return None;
                }
                Why::Lists(of_rule)
            };
            settings.note(number, rule);
            let action = match (rule.action.as_ref()?, why, &listed) {
                (Action::Block(_), Why::Lists(lists), Some(listed)) if listed.deny_data(lists) => {
                    &NO_DATA
                }
                (action, ..) => action,
            };
            Some(Decision {
                number,
                action,
                why,
            })
        });
        Found { decision, settings }
    }
}

impl Rule {
    /// True if the rule's conditions hold for a question, those on names aside.
    fn is_for(&self, asked: Asked<'_>) -> bool {
        let is_rewrite = matches!(self.action, Some(Action::Rewrite(_)));
        if is_rewrite && asked.rewriting == Rewriting::Done {
            return false;
        }
        let client = asked.client;
        let is_everybody = self.clients.is_empty() && self.client_ids.is_empty();
        let is_client = is_everybody
            || (self.clients.iter()).any(|network| network.contains(&client.address))
            || (client.id).is_some_and(|id| self.client_ids.contains(&id));
        is_client && (self.types.is_empty() || self.types.contains(&asked.qtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::NamePatterns;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule::new(Action::Block(Block::NoData));
        change(&mut rule);
        rule
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn decide(
        rules: &[Rule],
        client: &str,
        text: &str,
        qtype: Rtype,
        lists: u64,
    ) -> Option<(usize, Why)> {
        let mut client_parts = client.split('/');
        let address = client_parts.next().and_then(|text| text.parse().ok());
        let mut client = Client::at(address.expect("an address"));
        client.id = client_parts.next().map(|id| id.parse().expect("an id"));
        let program = Program::new(rules, SipKey([1, 2]));
        let asked = Asked {
            client: &client,
            qname: &name(text),
            qtype,
            rewriting: Rewriting::Counts,
        };
        let matches = || Matches {
            blocked: ListSet(lists),
            ..Matches::default()
        };
        let decision = program.find(rules, asked, matches).decision?;
        Some((decision.number, decision.why))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = [
            rule(|rule| {
                rule.clients = vec!["10.0.0.0/8".parse().expect("a network")];
                rule.client_ids = vec!["tablet".parse().expect("an id")];
                rule.suffixes = vec![name("corp.example")];
            }),
            rule(|rule| {
                rule.names = vec![name("a.example"), name(".")];
                rule.suffixes = vec![name("B.example"), name("x.b.example")];
                rule.lists = ListSet(0b10);
            }),
            rule(|rule| {
                rule.lists = ListSet(0b101);
                rule.types = vec![Rtype::AAAA];
            }),
            rule(|rule| rule.types = vec![Rtype::ANY]),
            rule(|rule| {
                rule.types = vec![Rtype::TXT];
                rule.suffixes = vec![name(".")];
            }),
        ];
        let none = None;
        let by_name = |number| Some((number, Why::Name));
        for (client, text, qtype, lists, expected) in [
            ("10.1.1.1", "x.corp.example", Rtype::A, 0, by_name(0)),
            ("11.1.1.1", "x.corp.example", Rtype::A, 0, none),
            ("11.1.1.1/tablet", "corp.EXAMPLE", Rtype::A, 0, by_name(0)),
            ("11.1.1.1/phone", "corp.example", Rtype::A, 0, none),
            ("1.1.1.1", "a.example", Rtype::A, 0, by_name(1)),
            ("1.1.1.1", "x.a.example", Rtype::A, 0, none),
            ("1.1.1.1", ".", Rtype::A, 0, by_name(1)),
            ("1.1.1.1", "y.x.b.example", Rtype::A, 0, by_name(1)),
            (
                "1.1.1.1",
                "c.example",
                Rtype::A,
                0b10,
                Some((1, Why::Lists(ListSet(0b10)))),
            ),
            ("1.1.1.1", "c.example", Rtype::A, 0b101, none),
            (
                "1.1.1.1",
                "c.example",
                Rtype::AAAA,
                0b1100,
                Some((2, Why::Lists(ListSet(0b100)))),
            ),
            ("1.1.1.1", "c.example", Rtype::ANY, 0, Some((3, Why::Any))),
            ("1.1.1.1", "c.example", Rtype::TXT, 0, by_name(4)),
        ] {
            let found = decide(&rules, client, text, qtype, lists);
            assert_eq!(found, expected, "{client} {text} {qtype:?} {lists:b}");
        }
    }

    #[test]
    fn a_rule_counts_when_its_pattern_matches_and_it_is_its_time() {
        let schedule = crate::schedule::Schedule {
            days: crate::schedule::Days::ALL,
            hours: "08:00-17:00".parse().expect("hours"),
            zone: "UTC".parse().expect("a zone"),
        };
        let rules = [
            rule(|rule| {
                rule.patterns = NamePatterns::new(&["^ads".to_owned()]).ok();
                rule.lists = ListSet(1);
                rule.schedule = Some(schedule);
            }),
            rule(|_| ()),
        ];
        let program = Program::new(&rules, SipKey([1, 2]));
        let client = Client::at([127, 0, 0, 1].into());
        let find = |text: &str, lists: u64| {
            let asked = Asked {
                client: &client,
                qname: &name(text),
                qtype: Rtype::A,
                rewriting: Rewriting::Counts,
            };
            let matches = || Matches {
                blocked: ListSet(lists),
                ..Matches::default()
            };
            let found = program.find(&rules, asked, matches).decision;
            let found = found.expect("the last");
            (found.number, found.why)
        };
        assert_eq!(find("ads.example", 0), (0, Why::Pattern));
        assert_eq!(find("example", 1), (0, Why::Lists(ListSet(1))));
        assert_eq!(find("example", 0), (1, Why::Any));
        assert!(program.has_times());
        let now_is = |time: &str| program.set_time(&rules, time.parse().expect("a time"));
        now_is("2026-11-23T08:00:00Z");
        assert_eq!(find("ads.example", 0), (0, Why::Pattern));
        now_is("2026-11-23T07:59:59Z");
        assert_eq!(find("ads.example", 1), (1, Why::Any));
    }

    #[test]
    fn a_name_is_rewritten_once() {
        let rewrite = |text| Rule::new(Action::Rewrite(Box::new(name(text))));
        let rules = [rewrite("a.example"), rewrite("b.example"), rule(|_| ())];
        let program = Program::new(&rules, SipKey([1, 2]));
        let client = Client::at([127, 0, 0, 1].into());
        let mut asked = Asked {
            client: &client,
            qname: &name("a.example"),
            qtype: Rtype::A,
            rewriting: Rewriting::Counts,
        };
        let number = |asked| {
            let found = program.find(&rules, asked, Matches::default).decision;
            found.map(|decision| decision.number)
        };
        assert_eq!(number(asked), Some(0));
        asked.rewriting = Rewriting::Done;
        assert_eq!(number(asked), Some(2));
    }

    #[test]
    fn rules_without_an_action_say_what_they_have_and_the_next_ones_decide() {
        let says = |change: fn(&mut Rule)| {
            let mut rule = Rule {
                cache: Some(crate::config::CachePolicy::Off),
                ..Rule::without_action()
            };
            change(&mut rule);
            rule
        };
        let rules = [
            says(|rule| rule.names = vec![name("other.example")]),
            says(|rule| rule.types = vec![Rtype::A]),
            says(|rule| rule.suffixes = vec![name("example")]),
            rule(|rule| rule.types = vec![Rtype::TXT]),
            rule(|rule| rule.types = vec![Rtype::A]),
            says(|_| ()),
        ];
        let program = Program::new(&rules, SipKey([1, 2]));
        let client = Client::at([127, 0, 0, 1].into());
        for (text, qtype, decides, cache) in [
            ("a.example", Rtype::A, Some(4), Some(1)),
            ("other.example", Rtype::A, Some(4), Some(0)),
            ("a.example", Rtype::TXT, Some(3), Some(2)),
            ("a.test", Rtype::TXT, Some(3), None),
            ("a.test", Rtype::AAAA, None, Some(5)),
        ] {
            let asked = Asked {
                client: &client,
                qname: &name(text),
                qtype,
                rewriting: Rewriting::Counts,
            };
            let found = program.find(&rules, asked, Matches::default);
            let number = found.decision.map(|decision| decision.number);
            assert_eq!((number, found.settings.cache), (decides, cache), "{text}");
        }
    }

    #[test]
    fn lists_are_looked_at_once_and_only_for_a_rule_that_has_one() {
        let with_list = rule(|rule| rule.lists = ListSet(1));
        let rules = [with_list.clone(), with_list, rule(|_| ())];
        let looked = std::cell::Cell::new(0);
        let lists = || {
            looked.set(looked.get() + 1);
            Matches::default()
        };
        let client = Client::at([127, 0, 0, 1].into());
        let asked = Asked {
            client: &client,
            qname: &name("a.example"),
            qtype: Rtype::A,
            rewriting: Rewriting::Counts,
        };
        let number = |rules: &[Rule]| {
            let found = Program::new(rules, SipKey([1, 2])).find(rules, asked, lists);
            found.decision.expect("the last").number
        };
        assert_eq!((number(&rules), looked.get()), (2, 1));
        assert_eq!((number(&rules[2..]), looked.get()), (0, 1));
    }

    #[test]
    fn a_set_of_rules_gives_them_in_order() {
        let mut set = RuleSet::EMPTY;
        for rule in [700, 0, 63, 64, 1023] {
            set.insert(rule);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 700, 1023]);
        assert!(set.has(64) && !set.has(65));
    }
}
