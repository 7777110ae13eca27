//! Where sound comes from.
//!
//! A source runs on the capture's thread until it ends, fails, or is told to stop; it waits for its
//! device in a way that [`Control::set_waker`](crate::session::Control::set_waker) can end.

#[cfg(target_os = "linux")]
mod alsa;
#[cfg(target_os = "linux")]
mod linux;
mod outage;
pub mod pair;
#[cfg(target_os = "linux")]
pub mod pulse;
pub mod synthetic;
#[cfg(target_os = "linux")]
mod sys;

#[cfg(target_os = "linux")]
pub use linux::{System, devices, programs, watch};

use crate::error::Result;
use crate::session::Session;

/// Something that delivers frames.
pub trait Source: Send {
    /// Opens the device and delivers its frames until the session is stopped.
    ///
    /// # Errors
    /// Why it could not be opened, or went away for good.
    fn run(&mut self, session: &mut Session) -> Result<()>;
}
