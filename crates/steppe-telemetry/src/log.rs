//! Structured logs, one event per line, to standard error.
//!
//! Steppe's own crates log at the configured level, libraries at `warn` and above.
//!
//! Non-goals: the access log, rotation (the supervisor's task), and escaping: a
//! caller that logs a peer's bytes wraps them in [`Escaped`](crate::Escaped).

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::recent::{HTTP2, Recent, WarningsAndErrors};

/// The lowest severity that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Failures that stop service.
    Error,
    /// Conditions that need attention.
    Warn,
    /// Starts, stops, reloads.
    #[default]
    Info,
    /// Events of single connections.
    Debug,
}

/// The format of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// Human-readable text.
    Text,
}

/// The level of an installed log.
#[derive(Debug, Clone)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

impl LevelHandle {
    /// Logs events of this level and of more severe ones from now on.
    pub fn set(&self, level: Level) {
        // Fails only once the log is gone, which lives as long as the process.
        let _ = self.0.reload(filter(level));
    }
}

/// Installs the process's log, which also keeps the last warnings and errors.
///
/// # Errors
/// When a log is installed already.
pub fn init(level: Level, format: LogFormat) -> Result<(Recent, LevelHandle), TryInitError> {
    let recent = Recent::default();
    let kept = recent.clone().with_filter(WarningsAndErrors);
    let (log, level) = subscriber(level, format, io::stderr);
    log.with(kept).try_init()?;
    Ok((recent, level))
}

type Log = tracing_subscriber::layer::Layered<Box<dyn Layer<Registry> + Send + Sync>, Registry>;

fn subscriber<W>(level: Level, format: LogFormat, writer: W) -> (Log, LevelHandle)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter(level));
    let layer = match format {
        LogFormat::Json => fmt::layer()
            .log_internal_errors(REPORT_LOST_LINES)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(writer)
            .with_filter(filter)
            .boxed(),
        LogFormat::Text => fmt::layer()
            .log_internal_errors(REPORT_LOST_LINES)
            .with_ansi(false)
            .with_writer(writer)
            .with_filter(filter)
            .boxed(),
    };
    let log = tracing_subscriber::registry().with(layer);
    (log, LevelHandle(handle))
}

/// Off: the layer would report a line that standard error refused by `eprintln!`, which panics then.
const REPORT_LOST_LINES: bool = false;

fn filter(level: Level) -> Targets {
    let ours = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    Targets::new()
        .with_default(ours.min(LevelFilter::WARN))
        .with_target("steppe", ours)
        // Any peer can make `h2` warn, and its warnings are counted elsewhere.
        .with_target(HTTP2, ours.min(LevelFilter::ERROR))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0
                .lock()
                .expect("no test panics with it")
                .extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: Level, format: LogFormat) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let (log, _) = subscriber(level, format, move || writer.clone());
        tracing::subscriber::with_default(log, || {
            tracing::info!(target: "steppe_http", peer = %crate::Escaped::new(b"a\nb"), "served");
            tracing::debug!(target: "steppe_http", "detail");
            tracing::info!(target: "hyper", "chatter");
            tracing::warn!(target: "hyper", "trouble");
        });
        let bytes = lines.0.lock().expect("no test panics with it").clone();
        String::from_utf8(bytes)
            .expect("logs are UTF-8")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn json_has_one_object_a_line_with_fields_beside_the_message() {
        let lines = logged(Level::Info, LogFormat::Json);
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(lines[0].starts_with('{') && lines[0].ends_with('}'));
        assert!(lines[0].contains(r#""level":"INFO","message":"served","peer":"a\\nb""#));
        assert!(lines[1].contains("trouble"));
    }

    #[test]
    fn text_stays_on_one_line() {
        let lines = logged(Level::Debug, LogFormat::Text);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].ends_with(r"INFO steppe_http: served peer=a\nb"));
    }

    #[test]
    fn what_peers_can_make_a_library_warn_of_is_not_logged() {
        let filter = filter(Level::Debug);
        let would_log = |target, level| filter.would_enable(target, &level);
        assert!(!would_log("h2::proto::streams", tracing::Level::WARN));
        assert!(would_log("h2::proto::streams", tracing::Level::ERROR));
        assert!(would_log("hyper::server", tracing::Level::WARN));
        assert!(would_log("steppe_http::h2::server", tracing::Level::DEBUG));
    }

    #[test]
    fn the_level_of_an_installed_log_changes() {
        let lines = Lines::default();
        let writer = lines.clone();
        let (log, level) = subscriber(Level::Warn, LogFormat::Text, move || writer.clone());
        tracing::subscriber::with_default(log, || {
            for told in [Level::Debug, Level::Error, Level::Info] {
                tracing::info!(target: "steppe_http", "before {told:?}");
                level.set(told);
            }
            tracing::info!(target: "steppe_http", "at the end");
        });
        let bytes = lines.0.lock().expect("no test panics with it").clone();
        let text = String::from_utf8(bytes).expect("logs are UTF-8");
        let told = |what: &str| text.contains(what);
        assert!(!told("before Debug") && told("before Error"), "{text}");
        assert!(!told("before Info") && told("at the end"), "{text}");
    }

    #[test]
    fn error_silences_the_libraries_too() {
        assert_eq!(logged(Level::Error, LogFormat::Text), Vec::<String>::new());
    }
}
