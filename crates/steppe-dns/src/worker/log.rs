//! The query log of one worker, which keeps the values of a query's line until the query is answered.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use steppe_mem::{Lease, Reservation};
use steppe_telemetry::LineWriter;
use steppe_telemetry::clock::Clock;

use super::clients::{Clients, Destination};
use super::upstream::Upstream;
use crate::client::Client;
use crate::config::{LoggedQueries, RuleLog};
use crate::query_log::{Decision, Entry, QueryLog};
use crate::sizes::TableSizes;
use crate::top_names::TopNames;
use crate::wire::{Question, Rcode};

/// The query log of one worker.
#[derive(Debug)]
pub(super) struct WorkerLog {
    pub(super) log: Arc<QueryLog>,
    writer: LineWriter,
    clock: Clock,
    /// Values of the query that is being answered.
    current: Option<Noted>,
    /// Values of the queries of clients that wait, by their places.
    waiting: Box<[Option<Noted>]>,
    /// True if lines are in the writer's buffer.
    has_lines: bool,
    names: TopNames,
    /// Copy of `names` for reports.
    shown: Arc<Mutex<TopNames>>,
    _charge: Reservation,
}

/// The values of a query's line that are known before its response.
#[derive(Debug)]
struct Noted {
    client: Client,
    at: Instant,
    decision: Decision,
    upstream: Option<Rc<Upstream>>,
    /// True if the query gets a line.
    is_logged: bool,
    /// Tag of the rule whose `log` applies.
    tag: Option<Arc<str>>,
}

impl WorkerLog {
    /// The query log of a worker. `None`: the budget has no room.
    pub(super) fn new(log: &Arc<QueryLog>, lease: &Lease, sizes: TableSizes) -> Option<Self> {
        let count = sizes.waiting as usize;
        let bytes = count * size_of::<Option<Noted>>() + 2 * TopNames::BYTES;
        let charge = lease.try_reserve(bytes);
        let charge = charge
            .inspect_err(|error| tracing::error!(%error, "no memory for the query log"))
            .ok()?;
        Some(Self {
            log: Arc::clone(log),
            writer: log.lines.writer(lease.account().lease()),
            clock: Clock::default(),
            current: None,
            waiting: (0..count).map(|_| None).collect(),
            has_lines: false,
            names: TopNames::new(),
            shown: log.top.add(),
            _charge: charge,
        })
    }

    /// Begins with a query that was read.
    pub(super) fn begin(&mut self, client: Client, at: Instant) {
        self.current = Some(Noted {
            client,
            at,
            decision: Decision::Refused,
            upstream: None,
            is_logged: self.log.config.queries == LoggedQueries::All,
            tag: None,
        });
    }

    /// Applies a rule's `log` to the query.
    pub(super) fn follow(&mut self, rule: &RuleLog) {
        if let Some(noted) = &mut self.current {
            noted.is_logged = *rule != RuleLog::Off;
            noted.tag = match rule {
                RuleLog::Off | RuleLog::On => None,
                RuleLog::Tagged(tag) => Some(Arc::clone(tag)),
            };
        }
    }

    /// Sets the decision about the query.
    pub(super) fn decide(&mut self, decision: Decision) {
        if let Some(noted) = &mut self.current {
            noted.decision = decision;
        }
    }

    /// Sets the upstream of the query.
    pub(super) fn forward(&mut self, upstream: &Rc<Upstream>) {
        if let Some(noted) = &mut self.current {
            noted.upstream = Some(Rc::clone(upstream));
        }
    }

    /// Keeps the values of the query, whose client waits by this number.
    pub(super) fn wait(&mut self, token: u64) {
        self.decide(Decision::Forwarded);
        if let Some(place) = self.waiting.get_mut(Clients::index(token)) {
            *place = self.current.take();
        }
    }

    /// Takes the values of the query back, whose client does not wait after all.
    pub(super) fn wait_no_more(&mut self, token: u64) {
        let place = self.waiting.get_mut(Clients::index(token));
        if let Some(noted) = place.and_then(Option::take) {
            let decision = Decision::Refused;
            self.current = Some(Noted { decision, ..noted });
        }
    }

    /// Writes the line of the query, which is answered.
    pub(super) fn answered(
        &mut self,
        (question, rcode): (Question<'_>, Rcode),
        destination: Destination,
    ) {
        if let Some(noted) = self.current.take() {
            self.write(&noted, (question, rcode), destination);
        }
    }

    /// Writes the line of a client that waited and is answered; `decision` replaces the one before.
    pub(super) fn waited(
        &mut self,
        (token, decision): (u64, Option<Decision>),
        (question, rcode): (Question<'_>, Rcode),
        destination: Destination,
    ) {
        let place = self.waiting.get_mut(Clients::index(token));
        // The client may have begun to wait before the log was on.
        if let Some(mut noted) = place.and_then(Option::take) {
            noted.decision = decision.unwrap_or(noted.decision);
            self.write(&noted, (question, rcode), destination);
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "once a line: what the query took"
    )]
    fn write(
        &mut self,
        noted: &Noted,
        (question, rcode): (Question<'_>, Rcode),
        destination: Destination,
    ) {
        if !noted.is_logged {
            return;
        }
        let entry = Entry {
            client: noted.client,
            transport: destination.protocol().as_str(),
            question,
            rcode,
            decision: noted.decision,
            upstream: noted.upstream.as_ref().map(|it| it.config.name.as_str()),
            tag: noted.tag.as_deref(),
            took: noted.at.elapsed(),
        };
        let (now, format) = (self.clock.now(), self.log.config.format);
        self.writer.line(|line| entry.write(format, line, &now));
        self.has_lines = true;
        self.names.count(question.qname);
    }

    /// True if lines wait to be flushed.
    pub(super) fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// Gives lines to the thread that writes them.
    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.has_lines) {
            self.writer.flush();
            self.show_names();
        }
    }

    /// Copies the counted names for reports, unless a report is being made of the copy.
    fn show_names(&mut self) {
        if let Ok(mut shown) = self.shown.try_lock() {
            shown.copy_from(&self.names);
        }
    }
}
