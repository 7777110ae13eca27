//! Devices and programs that can be captured, as lists tell them.

use crate::channel_map::StreamFormat;
use crate::error::{Error, Result};

/// What sound comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A microphone or line input; the default one when none is named.
    Input(Option<String>),
    /// What an output plays; the default one when none is named.
    Loopback(Option<String>),
    /// All streams of one program.
    Process(Target),
}

/// A program to capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// See [`Which`].
    pub which: Which,
    /// See [`Follow`]; the system's default if none is named.
    pub follow: Option<Follow>,
}

/// Identification of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// A process. IDs are used again: the start time tells processes of the same ID apart.
    Process {
        /// Process ID.
        pid: u32,
        /// Start time in ms, see [`Program::start_ms`]. `None`: whichever process has the ID now.
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

/// Processes that are captured beside those that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The program when it is started again.
    Restart,
    /// Child processes, and theirs.
    Children,
    /// None.
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

/// Whether a device takes sound in, or lets what it plays be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A microphone or line input.
    Input,
    /// What an output plays.
    Loopback,
}

/// Which sound system knows a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// PulseAudio, or PipeWire by its interface.
    Pulse,
    /// ALSA, where there is no sound server.
    Alsa,
    /// Windows.
    Wasapi,
    /// macOS.
    CoreAudio,
}

impl Backend {
    /// As reports spell it.
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
    /// What names it.
    pub id: String,
    /// For people.
    pub name: String,
    /// See [`Kind`].
    pub kind: Kind,
    /// Whether it is taken when none is named.
    pub is_default: bool,
    /// What it gives; of ALSA, which is not asked before it is opened, an assumption.
    pub format: StreamFormat,
    /// Which sound system knows it.
    pub backend: Backend,
}

/// A program that plays sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its process.
    pub pid: u32,
    /// When the process started, in ms since the machine did; if the system tells.
    pub start_ms: Option<u64>,
    /// For people.
    pub name: String,
}
