//! Events of a capture, beside packets.

use crate::channel_map::StreamFormat;
use crate::error::Error;

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The source is open, and packets follow.
    Open(Opened),
    /// The stream has moved to another device.
    Moved(Opened),
    /// The device was suspended: no frames come until it is resumed.
    Suspended,
    /// The device was resumed.
    Resumed,
    /// The sound server or the device went away; the capture tries to reconnect.
    Reconnecting {
        /// Description of the failure.
        reason: String,
    },
    /// The sound server or the device is back.
    Reconnected {
        /// Frames lost in between, by the clock.
        lost_frames: u64,
        /// Format of the device from now on.
        format: StreamFormat,
    },
    /// Samples look like those that an operating system delivers when it denies permission.
    PermissionSuspected,
    /// The capture has failed.
    Failed(Error),
    /// The source has come to its end, or the capture was closed.
    Ended,
}

/// The device and format of a source that was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The device's id.
    pub device: String,
    /// Format of the device.
    pub format: StreamFormat,
    /// Delay by resampling, in frames of the packets. Times in packets allow for it.
    pub delay_frames: f64,
}
