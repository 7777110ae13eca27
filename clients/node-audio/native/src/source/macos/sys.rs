//! CoreAudio's HAL: properties of objects, process taps, and a device's I/O.
#![expect(unsafe_code, reason = "CoreAudio is C")]

mod property;
mod recording;
mod tap;

pub use property::{Entry, default_input, inputs, playing, process_of};
pub use recording::Recording;
pub use tap::{Tap, has_taps};

/// `kAudioHardwareBadObjectError`, "!obj".
pub const BAD_OBJECT: i32 = 0x216f_626a;
/// `kAudioHardwareBadDeviceError`, "!dev".
pub const BAD_DEVICE: i32 = 0x2164_6576;
/// `kAudioDevicePermissionsError`, "!hog", a possible error of a denied microphone.
pub const NOT_PERMITTED: i32 = 0x2168_6f67;

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// This macOS has no process taps.
    TooOld,
    /// An `OSStatus`.
    Code(i32),
}

fn checked(status: i32) -> Result<(), Status> {
    match status {
        0 => Ok(()),
        code => Err(Status::Code(code)),
    }
}
