//! Sources of sound.
//!
//! A source runs on the capture's thread until it ends, fails, or is told to stop; it waits for its
//! device in a way that [`Control::set_waker`](crate::session::Control::set_waker) can end.

#[cfg(target_os = "linux")]
mod alsa;
#[cfg(any(target_os = "macos", test))]
mod coreaudio_layout;
#[cfg(any(target_os = "windows", test))]
mod idle;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(target_os = "linux", test))]
mod mixer;
mod outage;
pub mod pair;
mod periods;
#[cfg(not(target_os = "linux"))]
mod polled;
#[cfg(target_os = "linux")]
pub mod pulse;
#[cfg(any(target_os = "macos", test))]
mod suspicion;
pub mod synthetic;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "windows")]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::{System, devices, programs, watch};
#[cfg(target_os = "macos")]
pub use macos::{System, devices, programs, watch};
#[cfg(target_os = "windows")]
pub use windows::{System, devices, programs, watch};

use crate::error::Result;
use crate::session::Session;

/// A source of frames.
pub trait Source: Send {
    /// Opens the device and delivers its frames until the session is stopped.
    ///
    /// # Errors
    /// The error for which it could not be opened, or went away for good.
    fn run(&mut self, session: &mut Session) -> Result<()>;
}
