//! Finds the server's source for a requested device.

use std::time::Duration;

use super::sys::{Connection, Fault, Playing, Request, ServerDefaults, SourceEntry};
use crate::channel_map::StreamFormat;
use crate::clock::timeline::Times;
use crate::device::Wanted;
use crate::error::{Error, Result};

/// A source that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Name of the source.
    pub source: String,
    /// Format of the source.
    pub format: StreamFormat,
    /// Quality of the source's times.
    pub times: Times,
    /// The only stream of its sink to record; the whole sink if `None`.
    pub of_stream: Option<u32>,
    /// True if the server may move the stream to another source.
    may_move: bool,
}

impl Resolved {
    fn of(source: &SourceEntry) -> Self {
        Self {
            source: source.name.clone(),
            format: source.format,
            times: match source.monitor_of.is_some() && !source.is_of_pipewire {
                true => Times::Monitored,
                false => Times::Told,
            },
            of_stream: None,
            may_move: false,
        }
    }

    /// The source of one stream that plays to a sink; `None`: the sink has gone.
    pub fn stream(sources: &[SourceEntry], playing: &Playing) -> Option<Self> {
        let is_monitor = |source: &&SourceEntry| matches!(source.monitor_of, Some((sink, _)) if sink == playing.sink);
        Some(Self {
            of_stream: Some(playing.index),
            ..Self::of(sources.iter().find(is_monitor)?)
        })
    }

    /// Request to record the source, in fragments of this length.
    #[must_use]
    pub fn request(&self, fragment: Duration) -> Request {
        let ns = u64::try_from(fragment.as_nanos()).unwrap_or(u64::MAX);
        let format = self.format.format;
        let frames = u32::try_from(format.frames_in(ns)).unwrap_or(u32::MAX);
        Request {
            source: self.source.clone(),
            format: self.format,
            fragment_bytes: frames.max(1).saturating_mul(format.frame_bytes()),
            of_stream: self.of_stream,
            may_move: self.may_move,
        }
    }
}

/// Asks the server for the source of a request.
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NoProcess`], or the server does not answer.
pub fn resolve(connection: &Connection, wanted: &Wanted) -> Result<Resolved> {
    let fault = |fault: Fault| connection.error(fault, "");
    let sources = connection.sources().map_err(fault)?;
    let defaults = || connection.defaults().map_err(fault);
    match wanted {
        Wanted::Input(Some(id)) => named(&sources, id).map(Resolved::of),
        Wanted::Input(None) => {
            let found = default_input(&sources, &defaults()?).map(Resolved::of);
            let found = found.ok_or_else(|| {
                Error::NoDevice("the default input: no microphone or line input found".to_owned())
            })?;
            Ok(Resolved {
                may_move: true,
                ..found
            })
        }
        Wanted::Loopback(Some(id)) => monitor(&sources, id).map(Resolved::of),
        Wanted::Loopback(None) => {
            let defaults = defaults()?;
            if defaults.sink.is_empty() {
                return Err(Error::NoDevice(
                    "the default output: no output found".to_owned(),
                ));
            }
            monitor(&sources, &defaults.sink).map(Resolved::of)
        }
        Wanted::Process(target) => Err(Error::NoProcess(target.which.to_string())),
    }
}

fn named<'a>(sources: &'a [SourceEntry], id: &str) -> Result<&'a SourceEntry> {
    let found = sources.iter().find(|source| source.name == id);
    found.ok_or_else(|| Error::NoDevice(format!("'{id}'")))
}

/// The monitor of this name, or that of the sink of this name.
fn monitor<'a>(sources: &'a [SourceEntry], id: &str) -> Result<&'a SourceEntry> {
    let is_it = |source: &&SourceEntry| match &source.monitor_of {
        Some((_, sink)) => sink == id || source.name == id,
        None => false,
    };
    let found = sources.iter().find(is_it);
    found.ok_or_else(|| match named(sources, id) {
        Ok(_) => Error::NoDevice(format!("'{id}' is an input, not an output")),
        Err(error) => error,
    })
}

/// The server's default source, unless it is a monitor; then the first source that is none.
pub fn default_input<'a>(
    sources: &'a [SourceEntry],
    defaults: &ServerDefaults,
) -> Option<&'a SourceEntry> {
    let mut inputs = sources.iter().filter(|source| source.monitor_of.is_none());
    let first = inputs.clone().next();
    inputs
        .find(|source| source.name == defaults.source)
        .or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Sample};

    fn source(name: &str, sink: Option<&str>) -> SourceEntry {
        SourceEntry {
            name: name.to_owned(),
            description: String::new(),
            format: Format {
                rate: 48_000,
                channels: 2,
                sample: Sample::S16,
            }
            .into(),
            monitor_of: sink.map(|sink| (7, sink.to_owned())),
            is_of_pipewire: false,
        }
    }

    fn defaults(source: &str) -> ServerDefaults {
        ServerDefaults {
            sink: "out".to_owned(),
            source: source.to_owned(),
        }
    }

    #[test]
    fn the_default_input_is_never_a_monitor() {
        let sources = [
            source("out.monitor", Some("out")),
            source("line", None),
            source("mic", None),
        ];
        let name =
            |default| default_input(&sources, &defaults(default)).map(|found| found.name.as_str());
        assert_eq!(name("mic"), Some("mic"));
        assert_eq!(name("out.monitor"), Some("line"));
        assert_eq!(default_input(&sources[..1], &defaults("out.monitor")), None);
    }

    #[test]
    fn monitors_of_pulseaudio_are_late_at_times() {
        let monitor = source("out.monitor", Some("out"));
        assert_eq!(Resolved::of(&monitor).times, Times::Monitored);
        assert_eq!(Resolved::of(&source("mic", None)).times, Times::Told);
        let of_pipewire = SourceEntry {
            is_of_pipewire: true,
            ..monitor
        };
        assert_eq!(Resolved::of(&of_pipewire).times, Times::Told);
    }

    #[test]
    fn a_loopback_is_never_a_microphone() {
        let sources = [source("mic", None), source("out.monitor", Some("out"))];
        assert_eq!(monitor(&sources, "out").unwrap().name, "out.monitor");
        assert_eq!(
            monitor(&sources, "out.monitor").unwrap().name,
            "out.monitor"
        );
        let message = monitor(&sources, "mic").unwrap_err().to_string();
        assert!(
            message.contains("'mic' is an input, not an output"),
            "{message}"
        );
        assert_eq!(
            monitor(&sources, "gone").unwrap_err().code(),
            "ERR_NO_DEVICE"
        );
    }

    #[test]
    fn fragments_are_as_long_as_asked_for() {
        let request = Resolved::of(&source("mic", None)).request(Duration::from_millis(10));
        assert_eq!((request.fragment_bytes, request.may_move), (1_920, false));
    }
}
