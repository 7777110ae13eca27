//! Errors, each with a code for JavaScript and a message with a remedy.

/// Why a capture could not begin, or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No sound server answers, and no library for another way is installed.
    #[error("no sound server: {0}")]
    NoServer(String),
    /// The requested device does not exist, or there is none at all.
    #[error("no such device: {0}; AudioCapture.devices() lists the available devices")]
    NoDevice(String),
    /// The requested process does not exist, or plays nothing.
    #[error(
        "no such process: {0} does not exist or plays no sound; AudioCapture.processes() lists the processes that play sound"
    )]
    NoProcess(String),
    /// The operating system or the sound server does not allow it.
    #[error("not permitted: {0}")]
    Permission(String),
    /// The device went away while it was captured.
    #[error("device unplugged: {0}; open it again when AudioCapture.watch() reports it")]
    Unplugged(String),
    /// The device can't give the format, and conversion was refused.
    #[error("format not supported: {0}")]
    Format(String),
    /// This platform or server has no such source.
    #[error("not supported here: {0}")]
    Unsupported(String),
    /// No slot was free, and the overrun policy is `error`.
    #[error(
        "overrun: all {slots} slots are filled or held; release packets sooner, or raise ring.slots"
    )]
    Overrun {
        /// Slots of the ring.
        slots: u32,
    },
    /// An option that no capture can have.
    #[error("invalid option: {0}")]
    Options(String),
    /// A call of the sound system failed for a reason that has no code of its own.
    #[error("{call}: {reason}")]
    Backend {
        /// The function that failed.
        call: &'static str,
        /// Description by the sound system.
        reason: String,
    },
}

/// Result of all functions here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The `code` of the error in JavaScript.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoServer(_) => "ERR_NO_SERVER",
            Self::NoDevice(_) => "ERR_NO_DEVICE",
            Self::NoProcess(_) => "ERR_NO_PROCESS",
            Self::Permission(_) => "ERR_PERMISSION",
            Self::Unplugged(_) => "ERR_UNPLUGGED",
            Self::Format(_) => "ERR_FORMAT",
            Self::Unsupported(_) => "ERR_UNSUPPORTED",
            Self::Overrun { .. } => "ERR_OVERRUN",
            Self::Options(_) => "ERR_INVALID_OPTION",
            Self::Backend { .. } => "ERR_SYSTEM",
        }
    }
}
