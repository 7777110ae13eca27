//! The query log: a line for each query that was read and answered, and that rules do not leave out.
//!
//! Invariant: a worker never waits for the disk, and a line is lost and counted instead; a peer's bytes end
//! neither a line nor a value of it. While the log is off, none of this is there. Non-goals: the file and its
//! thread ([`LineLog`]).

use std::fmt::{self, Write as _};
use std::io;
use std::time::Duration;

use steppe_telemetry::clock::{Now, digits};
use steppe_telemetry::{LineLog, LogLine};

use crate::client::Client;
use crate::config;
use crate::top_names::ShownNames;
use crate::wire::{Name, Question, Rcode};

/// A query log that is open.
#[derive(Debug)]
pub(crate) struct QueryLog {
    pub(crate) config: config::QueryLog,
    pub(crate) lines: LineLog,
    pub(crate) top: ShownNames,
}

/// The source of a query's response, for its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// None of those below: the query is refused, or was not decided yet.
    Refused,
    /// The forwarder itself: records of hosts or of a rule, or a special-use name.
    Local,
    Blocked,
    /// The cache.
    Hit,
    /// The cache, with a stale response.
    Stale,
    /// The cache, with a failure of servers.
    Failure,
    /// A limit that the query exceeded: that of its zone, or of a rule.
    Limited,
    /// Servers, asked for this query or for an identical one in flight.
    Forwarded,
}

/// The values of a line.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) client: Client,
    pub(crate) transport: &'static str,
    pub(crate) question: Question<'a>,
    pub(crate) rcode: Rcode,
    pub(crate) decision: Decision,
    pub(crate) upstream: Option<&'a str>,
    /// Tag of the rule whose `log` applies.
    pub(crate) tag: Option<&'a str>,
    pub(crate) took: Duration,
}

impl QueryLog {
    /// Opens the file for so many workers.
    ///
    /// # Errors
    /// The file can't be opened.
    pub(crate) fn open(config: &config::QueryLog, workers: usize) -> io::Result<Self> {
        let lines = LineLog::open_named("query log", config.destination.clone(), workers)?;
        Ok(Self {
            config: config.clone(),
            lines,
            top: ShownNames::default(),
        })
    }
}

impl Decision {
    fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Local => "local",
            Self::Blocked => "blocked",
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Failure => "failure",
            Self::Limited => "limited",
            Self::Forwarded => "forwarded",
        }
    }
}

impl Entry<'_> {
    /// Writes the line.
    pub(crate) fn write(
        &self,
        format: config::QueryLogFormat,
        line: &mut LogLine<'_>,
        clock: &Now<'_>,
    ) {
        let mut text = Text(line);
        // `LogLine` itself notes that it is out of room.
        let _ = match format {
            config::QueryLogFormat::Text => self.text(&mut text, clock),
            config::QueryLogFormat::Json => self.json(&mut text, clock),
        };
    }

    /// Time, client, its id, transport, name, type, response code, decision, upstream, tag, microseconds.
    fn text(&self, out: &mut Text<'_, '_>, now: &Now<'_>) -> fmt::Result {
        out.time(now);
        write!(out, " {} ", self.client.address)?;
        match self.client.id {
            Some(id) => write!(out, "{id}")?,
            None => out.0.put(b"-"),
        }
        write!(out, " {} ", self.transport)?;
        self.name(out)?;
        let (rtype, rcode) = (self.question.qtype, self.rcode);
        let (decision, upstream) = (self.decision.as_str(), self.upstream.unwrap_or("-"));
        let (tag, us) = (self.tag.unwrap_or("-"), self.took.as_micros());
        write!(out, " {rtype} {rcode} {decision} {upstream} {tag} {us}")
    }

    fn json(&self, out: &mut Text<'_, '_>, now: &Now<'_>) -> fmt::Result {
        out.0.put(b"{\"time\":\"");
        out.time(now);
        write!(out, "\",\"client\":\"{}\"", self.client.address)?;
        if let Some(id) = self.client.id {
            write!(out, ",\"id\":\"{id}\"")?;
        }
        write!(out, ",\"transport\":\"{}\",\"name\":\"", self.transport)?;
        self.name(&mut Quoted(out))?;
        write!(out, "\",\"type\":\"{}\"", self.question.qtype)?;
        write!(out, ",\"rcode\":\"{}\"", self.rcode)?;
        write!(out, ",\"decision\":\"{}\"", self.decision.as_str())?;
        if let Some(upstream) = self.upstream {
            out.0.put(b",\"upstream\":\"");
            Quoted(out).write_str(upstream)?;
            out.0.put(b"\"");
        }
        if let Some(tag) = self.tag {
            out.0.put(b",\"tag\":\"");
            Quoted(out).write_str(tag)?;
            out.0.put(b"\"");
        }
        write!(out, ",\"us\":{}}}", self.took.as_micros())
    }

    /// Writes the name as in zone files: bytes that can't be printed are written as numbers.
    fn name(&self, out: &mut impl fmt::Write) -> fmt::Result {
        match Name::from_wire(self.question.qname) {
            Ok(name) => write!(out, "{name}"),
            Err(_) => out.write_str("-"),
        }
    }
}

/// A line as the target of formatting.
struct Text<'a, 'b>(&'a mut LogLine<'b>);

/// The inside of a JSON string.
struct Quoted<'a, 'b, 'c>(&'a mut Text<'b, 'c>);

impl fmt::Write for Text<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.put(text.as_bytes());
        Ok(())
    }
}

impl fmt::Write for Quoted<'_, '_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(['"', '\\']) {
            match part.strip_suffix(['"', '\\']) {
                None => self.0.write_str(part)?,
                Some(plain) => {
                    self.0.write_str(plain)?;
                    self.0.write_str("\\")?;
                    self.0.write_str(&part[plain.len()..])?;
                }
            }
        }
        Ok(())
    }
}

impl Text<'_, '_> {
    /// Writes the time as in RFC 3339, with milliseconds.
    fn time(&mut self, now: &Now<'_>) {
        let mut millis = *b".000Z";
        digits(&mut millis[1..4], now.millis.into());
        self.0.put(now.rfc3339);
        self.0.put(&millis);
    }
}
