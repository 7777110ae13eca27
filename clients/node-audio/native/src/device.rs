//! Devices and programs that can be captured, as lists tell them.

use crate::channel_map::StreamFormat;

/// What sound comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A microphone or line input; the default one when none is named.
    Input(Option<String>),
    /// What an output plays; the default one when none is named.
    Loopback(Option<String>),
    /// What one process plays.
    Process(u32),
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
    /// For people.
    pub name: String,
}
