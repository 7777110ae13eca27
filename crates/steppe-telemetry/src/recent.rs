//! The last warnings and errors of the log, for the admin page.
//!
//! Invariant: at most [`EVENTS_MAX`] events of at most [`TEXT_BYTES_MAX`] bytes are kept, without
//! control characters, so that neither a peer nor a burst of errors makes it grow. An event equal
//! to the last one increments its count.
//!
//! Non-goals: events below `warn`, and spans. The list shows the events of the log: code that emits
//! them leaves secrets out.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};

/// The library that implements HTTP/2.
pub(crate) const HTTP2: &str = "h2";

/// Events kept; the log has all of them.
pub const EVENTS_MAX: usize = 50;

/// Bytes kept of an event's text.
pub const TEXT_BYTES_MAX: usize = 512;

/// Upper bound of the memory of all events.
pub const BYTES_MAX: usize = EVENTS_MAX * (size_of::<RecentEvent>() + TEXT_BYTES_MAX);

/// A warning or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentEvent {
    /// Time of its last occurrence, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// `warn` or `error`.
    pub level: &'static str,
    /// The module that emitted it.
    pub target: &'static str,
    /// Message and fields, truncated, without control characters.
    pub text: String,
    /// Consecutive occurrences.
    pub count: u64,
}

/// The last warnings and errors. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<VecDeque<RecentEvent>>>);

impl Recent {
    /// The events, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<RecentEvent> {
        self.lock().iter().cloned().collect()
    }

    fn add(&self, event: RecentEvent) {
        let mut events = self.lock();
        if let Some(last) = events.back_mut().filter(|last| last.repeats(&event)) {
            last.count += 1;
            last.at_ms = event.at_ms;
            return;
        }
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(event);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<RecentEvent>> {
        // A poisoned lock guards a consistent queue: no operation on it can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecentEvent {
    fn repeats(&self, other: &Self) -> bool {
        (self.level, self.target, &self.text) == (other.level, other.target, &other.text)
    }
}

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        self.add(RecentEvent {
            at_ms: now_ms(),
            level: level_name(*metadata.level()),
            target: metadata.target(),
            text: text.joined(),
            count: 1,
        });
    }
}

/// Filter that passes warnings and errors, at any level of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarningsAndErrors;

impl<S> Filter<S> for WarningsAndErrors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: &Context<'_, S>) -> bool {
        let is_of_peers = metadata.target().starts_with(HTTP2);
        *metadata.level()
            <= if is_of_peers {
                Level::ERROR
            } else {
                Level::WARN
            }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        _ => "warn",
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an event is shown with its wall-clock time"
)]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The message, then ` name=value` for each field.
#[derive(Debug, Default)]
struct Text {
    message: Bounded,
    fields: Bounded,
}

impl Text {
    fn joined(mut self) -> String {
        // A full buffer ignores the rest and records that it was truncated.
        _ = self.message.write_str(&self.fields.text);
        if self.message.is_cut || self.fields.is_cut {
            self.message.mark_cut();
        }
        self.message.text.shrink_to_fit();
        self.message.text
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Truncation is not an error.
        _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Text of at most [`TEXT_BYTES_MAX`] bytes, without control characters.
#[derive(Debug, Default)]
struct Bounded {
    text: String,
    is_cut: bool,
}

const CUT: &str = "…";

impl Bounded {
    fn push(&mut self, part: char) {
        if self.is_cut || self.text.len() + part.len_utf8() + CUT.len() > TEXT_BYTES_MAX {
            self.is_cut = true;
        } else {
            self.text.push(part);
        }
    }

    fn mark_cut(&mut self) {
        self.text.push_str(CUT);
    }
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.chars() {
            match is_steering(part) {
                true => part.escape_unicode().for_each(|part| self.push(part)),
                false => self.push(part),
            }
        }
        Ok(())
    }
}

/// True for a character that steers a terminal, ends a line, or turns text around (Unicode's
/// bidirectional controls).
fn is_steering(part: char) -> bool {
    let turns_text =
        matches!(part, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    part.is_control() || turns_text || matches!(part, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn recorded(log: impl FnOnce()) -> Vec<RecentEvent> {
        let recent = Recent::default();
        let layer = recent.clone().with_filter(WarningsAndErrors);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        recent.events()
    }

    #[test]
    fn warnings_and_errors_are_kept_with_their_fields() {
        let events = recorded(|| {
            tracing::info!("served");
            tracing::warn!(target: "steppe_net", host = "a.example", kept = 2, "lookup failed");
            tracing::error!(target: "steppe_node", error = %"gone", "cannot accept");
        });
        let texts: Vec<_> = events
            .iter()
            .map(|event| (event.level, event.target, event.text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                ("warn", "steppe_net", "lookup failed host=a.example kept=2"),
                ("error", "steppe_node", "cannot accept error=gone"),
            ]
        );
        assert!(events.iter().all(|event| event.at_ms > 1_600_000_000_000));
    }

    #[test]
    fn the_oldest_makes_room_and_repeats_are_counted() {
        let events = recorded(|| {
            for number in 0..EVENTS_MAX + 10 {
                tracing::warn!(number, "trouble");
            }
            (0..3).for_each(|_| tracing::warn!("again"));
        });
        assert_eq!(events.len(), EVENTS_MAX);
        assert_eq!(events[0].text, "trouble number=11");
        let last = &events[EVENTS_MAX - 1];
        assert_eq!((last.text.as_str(), last.count), ("again", 3));
    }

    #[test]
    fn an_event_is_cut_and_cannot_steer_a_terminal() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        let events = recorded(|| {
            tracing::warn!(peer = "\u{1b}[2J\u{202e}x\n", "bad");
            tracing::warn!(long, "long");
        });
        assert_eq!(events[0].text, r"bad peer=\u{1b}[2J\u{202e}x\u{a}");
        assert!(events[1].text.len() <= TEXT_BYTES_MAX && events[1].text.ends_with('…'));
    }
}
