//! Devices and programs that can be captured.

use crate::channel_map::StreamFormat;
use crate::error::{Error, Result};

/// A source of sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A microphone or line input; the default one when none is named.
    Input(Option<String>),
    /// Sound that an output plays; the default output when none is named.
    Loopback(Option<String>),
    /// All streams of one program.
    Process(Target),
}

/// A program to capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Identification of the program.
    pub which: Which,
    /// Further processes to capture; the system's default if none is named.
    pub follow: Option<Follow>,
}

/// Identification of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// A process. IDs are reused: the start time tells processes of the same ID apart.
    Process {
        /// Process ID.
        pid: u32,
        /// Start time in ms, see [`Program::start_ms`]. `None`: the process that has the ID now.
        start_ms: Option<u64>,
    },
    /// All processes of a program, by its name or executable.
    Name(String),
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, .. } => write!(f, "process {pid}"),
            Self::Name(name) => write!(f, "program '{name}'"),
        }
    }
}

/// Further processes to capture beside the selected ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The program, when it is started again.
    Restart,
    /// Child processes, and their descendants.
    Children,
    /// No other process.
    Nothing,
}

impl Follow {
    /// Parses an option.
    ///
    /// # Errors
    /// [`Error::Options`] for any other word.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "restart" => Ok(Self::Restart),
            "children" => Ok(Self::Children),
            "none" => Ok(Self::Nothing),
            _ => Err(Error::Options(format!(
                "source.follow is '{word}'; expected 'restart', 'children' or 'none'"
            ))),
        }
    }
}

/// Direction of a device: it takes sound in, or its output is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A microphone or line input.
    Input,
    /// Sound that an output plays.
    Loopback,
}

/// The sound system of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// PulseAudio, or PipeWire by its interface.
    Pulse,
    /// ALSA, where there is no sound server.
    Alsa,
    /// WASAPI of Windows.
    Wasapi,
    /// CoreAudio of macOS.
    CoreAudio,
}

impl Backend {
    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pulse => "pulse",
            Self::Alsa => "alsa",
            Self::Wasapi => "wasapi",
            Self::CoreAudio => "coreaudio",
        }
    }
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Identifier of the device.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Direction of the device.
    pub kind: Kind,
    /// True if it is used when no device is named.
    pub is_default: bool,
    /// Format of the device; for ALSA, which is not asked before a device is opened, an assumption.
    pub format: StreamFormat,
    /// Sound system of the device.
    pub backend: Backend,
}

/// A program that plays sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Process ID.
    pub pid: u32,
    /// Start time of the process, in ms since the machine started; if the system tells.
    pub start_ms: Option<u64>,
    /// Name for people.
    pub name: String,
}
