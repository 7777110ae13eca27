//! Metrics of lists. Their labels are names of lists, which come from the configuration, never from a peer.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Counter, DescriptorEncoder};

use crate::files::{ListsInForce, WhyLeftOut};
use crate::limits::LISTS_MAX;
use crate::report::{ListReport, ListsReport};

/// The places at which hits of lists are counted, and the counts of the lists in force.
#[derive(Debug, Default)]
pub(crate) struct ListMetrics(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Names of all lists so far. The index is the list's place, which it keeps, so that its count never goes back.
    names: Vec<String>,
    /// Lists in force: name; rules, lines that are not supported, lines that are malformed.
    rows: Vec<(String, [u64; 3])>,
    bytes: usize,
    /// Time at which the lists in force were read, in seconds since 1970; and the error of the last try since.
    read_at: u64,
    read_error: Option<String>,
    /// Lists that could not be fetched the last time: list, source, and error.
    fetch_errors: Vec<(String, String, String)>,
    failed: u64,
    read: u64,
    /// Fetched files that are not in force: list, and reason.
    left_out: Vec<(String, WhyLeftOut)>,
    /// Fetches by [`FetchOutcome`].
    fetched: [u64; 4],
}

/// Queries that were decided by a list, by its place.
#[derive(Debug)]
pub(crate) struct ListHits([Counter; PLACES]);

/// The number of places. The last one is shared by the lists for which no other was left.
const PLACES: usize = LISTS_MAX as usize + 1;
const OTHER: &str = "other lists";

const HITS: Family = Family::new(
    "steppe_dns_list_hits",
    "Queries whose rule matched through a list, by list",
);
const RULES: Family = Family::new("steppe_dns_list_rules", "Rules of a list");
const LINES: Family = Family::new(
    "steppe_dns_list_lines_left_out",
    "Ignored lines of a list: unsupported, malformed",
);
const BYTES: Family = Family::bytes("steppe_dns_lists", "Memory used by the index of all lists");
const READS: Family = Family::new(
    "steppe_dns_list_reads",
    "Rereads of the lists: done, or failed with the previous lists kept",
);

const FETCHES: Family = Family::new(
    "steppe_dns_list_fetches",
    "Fetches of lists by URL: new, unchanged, failed, or refused with the last good list kept",
);

const LEFT_OUT: Family = Family::new(
    "steppe_dns_list_files_left_out",
    "Fetched files of a list that are not in force: missing, unusable, or beyond the memory budget",
);

/// The outcome of fetching a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchOutcome {
    New,
    Unchanged,
    Failed,
    /// The list was fetched, and can't come into force.
    Refused,
}

impl Default for ListHits {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl ListHits {
    /// The counter of hits at a place.
    pub(crate) fn at(&self, place: usize) -> &Counter {
        &self.0[place.min(PLACES - 1)]
    }
}

impl ListMetrics {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the lists in force. Returns the place at which each counts its hits.
    pub(crate) fn replace(&self, lists: &ListsInForce) -> Vec<u8> {
        let mut known = self.known();
        let names = lists.config().iter().map(|list| &list.name);
        let rows = names.zip(&lists.facts).map(|(name, facts)| {
            let numbers = [facts.rules, facts.unsupported, facts.malformed];
            (name.clone(), numbers)
        });
        known.rows = rows.collect();
        known.bytes = lists.index.bytes();
        let left_out = lists.left_out.iter();
        let left_out = left_out
            .filter_map(|left| Some((lists.config().get(left.list)?.name.clone(), left.why)));
        known.left_out = left_out.collect();
        (known.read_at, known.read_error) = (lists.read_at, None);
        let is_there = |name: &String| lists.config().iter().any(|list| list.name == *name);
        known.fetch_errors.retain(|(list, ..)| is_there(list));
        let names = lists.config().iter();
        names.map(|list| known.place(&list.name)).collect()
    }

    /// Counts that lists were read again.
    pub(crate) fn was_read(&self) {
        self.known().read += 1;
    }

    /// Counts a fetch of a list from a source, a URL without parts that may be secret, and keeps its error.
    pub(crate) fn fetched(
        &self,
        (list, source): (&str, &str),
        fetched: Result<FetchOutcome, (FetchOutcome, &str)>,
    ) {
        let mut known = self.known();
        known
            .fetch_errors
            .retain(|(of, at, _)| (of.as_str(), at.as_str()) != (list, source));
        let outcome = match fetched {
            Ok(outcome) => outcome,
            Err((outcome, error)) => {
                let error = (list.to_owned(), source.to_owned(), error.to_owned());
                known.fetch_errors.push(error);
                outcome
            }
        };
        known.fetched[outcome as usize] += 1;
    }

    /// Counts that lists could not be read, and keeps the error.
    pub(crate) fn failed(&self, error: String) {
        let mut known = self.known();
        known.failed += 1;
        known.read_error = Some(error);
    }

    /// The report of the lists in force; `hits` returns the count of a place.
    pub(super) fn report(&self, hits: impl Fn(usize) -> u64) -> ListsReport {
        let known = self.known();
        let lists = known
            .rows
            .iter()
            .map(|(name, [rules, unsupported, malformed])| {
                let place = known.names.iter().position(|known| known == name);
                let mut errors = known.fetch_errors.iter().filter(|(list, ..)| list == name);
                ListReport {
                    name: name.clone(),
                    rules: *rules,
                    unsupported: *unsupported,
                    malformed: *malformed,
                    hits: place.map_or(0, &hits),
                    left_out: known.why_left_out(name),
                    error: errors
                        .next()
                        .map(|(_, source, error)| format!("{source}: {error}")),
                }
            });
        ListsReport {
            lists: lists.collect(),
            bytes: known.bytes,
            read_at: known.read_at,
            error: known.read_error.clone(),
        }
    }

    /// Lists with a fetched file that is not in force, and the reason.
    pub(crate) fn left_out(&self) -> Vec<(String, WhyLeftOut)> {
        let known = self.known();
        let lists = known.rows.iter().map(|(name, _)| name);
        let why = |name: &String| Some((name.clone(), known.why_left_out(name)?));
        lists.filter_map(why).collect()
    }

    /// Writes the series of lists; `hits` returns the count of a place.
    pub(super) fn encode(
        &self,
        hits: impl Fn(usize) -> u64,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let known = self.known();
        let names = known.names.iter().map(String::as_str);
        let others = names.len()..PLACES.min(names.len() + usize::from(known.is_full()));
        let names = names.chain(others.map(|_| OTHER)).enumerate();
        let hits = names.map(|(place, name)| ([("list", name)], hits(place)));
        HITS.counters(encoder, hits)?;
        let rows = known.rows.iter();
        let rules = rows
            .clone()
            .map(|(name, numbers)| ([("list", name.as_str())], numbers[0]));
        RULES.gauges(encoder, rules)?;
        let lines = rows.flat_map(|(name, [_, unsupported, malformed])| {
            let row = |kind, count| ([("list", name.as_str()), ("kind", kind)], count);
            [
                row("unsupported", *unsupported),
                row("malformed", *malformed),
            ]
        });
        LINES.gauges(encoder, lines)?;
        let left_out = known.rows.iter().map(|(name, _)| {
            let of_list = known.left_out.iter().filter(|(list, _)| list == name);
            ([("list", name.as_str())], of_list.count() as u64)
        });
        LEFT_OUT.gauges(encoder, left_out)?;
        BYTES.gauge(encoder, u64::try_from(known.bytes).unwrap_or(u64::MAX))?;
        let reads = [
            ([("result", "done")], known.read),
            ([("result", "failed")], known.failed),
        ];
        READS.counters(encoder, reads)?;
        let [new, unchanged, failed, refused] = known.fetched;
        let fetches = [
            ([("result", "new")], new),
            ([("result", "unchanged")], unchanged),
            ([("result", "failed")], failed),
            ([("result", "refused")], refused),
        ];
        FETCHES.counters(encoder, fetches)
    }
}

impl Known {
    fn place(&mut self, name: &str) -> u8 {
        let known = self.names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            if !self.is_full() {
                self.names.push(name.to_owned());
                return self.names.len() - 1;
            }
            PLACES - 1
        });
        u8::try_from(place).unwrap_or(LISTS_MAX)
    }

    /// The reason why a fetched file of a list is not in force: that of the first such file.
    fn why_left_out(&self, name: &str) -> Option<WhyLeftOut> {
        let mut left_out = self.left_out.iter();
        left_out.find(|(list, _)| list == name).map(|(_, why)| *why)
    }

    fn is_full(&self) -> bool {
        self.names.len() == usize::from(LISTS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_place_whatever_comes_and_goes() {
        let mut known = Known::default();
        assert_eq!(
            [known.place("a"), known.place("b"), known.place("a")],
            [0, 1, 0]
        );
        for number in 2..LISTS_MAX {
            assert_eq!(known.place(&number.to_string()), number);
        }
        assert_eq!(
            [known.place("one more"), known.place("and one")],
            [LISTS_MAX; 2]
        );
        assert_eq!(known.place("b"), 1);
    }
}
