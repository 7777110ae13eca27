//! What a capture tells beside packets.

use crate::channel_map::StreamFormat;
use crate::error::Error;

/// What has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The source is open, and packets follow.
    Open(Opened),
    /// The stream is on another device now.
    Moved(Opened),
    /// The device has been suspended: nothing comes until it is resumed.
    Suspended,
    /// The device was resumed.
    Resumed,
    /// The sound server or the device went away, and is asked again.
    Reconnecting {
        /// What it said.
        reason: String,
    },
    /// It is back.
    Reconnected {
        /// Frames lost in between, by the clock.
        lost_frames: u64,
        /// Format that the device gives now.
        format: StreamFormat,
    },
    /// Samples look like those that an operating system gives in place of what it denies.
    PermissionSuspected,
    /// The capture has failed.
    Failed(Error),
    /// The source has come to its end, or the capture was closed.
    Ended,
}

/// How a source was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The device's id.
    pub device: String,
    /// What the device gives.
    pub format: StreamFormat,
    /// What resampling delays samples by, in frames of the packets. Times in packets allow for it.
    pub delay_frames: f64,
}
