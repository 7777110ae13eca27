//! Linux: the sound server if there is one, else ALSA.

use std::sync::Arc;
use std::time::Duration;

use crate::device::{Device, Program, Wanted};
use crate::error::{Error, Result};
use crate::session::{Control, Session};
use crate::source::Source;
use crate::source::alsa::{self, Alsa};
use crate::source::pulse::{self, Pulse};

/// A capture by the sound systems of Linux.
pub struct System {
    wanted: Wanted,
    fragment: Duration,
}

impl System {
    /// A capture of fragments of this length.
    #[must_use]
    pub fn new(wanted: Wanted, fragment: Duration) -> Self {
        Self { wanted, fragment }
    }
}

impl Source for System {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        let outcome = Pulse::new(self.wanted.clone(), self.fragment).run(session);
        let (Err(Error::NoServer(reason)), false) = (&outcome, session.has_begun()) else {
            return outcome;
        };
        let Wanted::Input(device) = &self.wanted else {
            return outcome;
        };
        let by_alsa = Alsa::new(device.as_deref(), self.fragment).run(session);
        if session.has_begun() {
            return by_alsa;
        }
        by_alsa.map_err(|error| neither(reason, &error))
    }
}

/// The error if there is no server, and no device of ALSA.
fn neither(server: &str, alsa: &Error) -> Error {
    match alsa {
        Error::NoServer(_) | Error::NoDevice(_) | Error::Backend { .. } => {
            Error::NoServer(format!("{server}. ALSA: {alsa}"))
        }
        other => other.clone(),
    }
}

/// Lists the devices.
///
/// # Errors
/// Neither a server nor libasound is there.
pub fn devices() -> Result<Vec<Device>> {
    let by_server = pulse::devices();
    let Err(Error::NoServer(reason)) = &by_server else {
        return by_server;
    };
    let by_alsa = alsa::devices().map_err(|error| neither(reason, &error))?;
    if by_alsa.is_empty() {
        return by_server;
    }
    Ok(by_alsa)
}

/// Lists the programs that play sound.
///
/// # Errors
/// There is no server: ALSA does not know programs.
pub fn programs() -> Result<Vec<Program>> {
    pulse::programs()
}

/// Calls `on_change` whenever devices have changed, until `control` stops it.
///
/// # Errors
/// There is no server, or it went away.
pub fn watch(control: &Arc<Control>, on_change: &dyn Fn()) -> Result<()> {
    pulse::watch(control, on_change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_has_is_told_of_both() {
        let alsa = Error::NoDevice("the default input of ALSA".to_owned());
        let error = neither("PulseAudio or PipeWire: connection refused", &alsa);
        assert_eq!(error.code(), "ERR_NO_SERVER");
        let text = error.to_string();
        assert!(
            text.contains("connection refused") && text.contains("default input of ALSA"),
            "{text}"
        );
        let busy = Error::Permission("no".to_owned());
        assert_eq!(neither("none", &busy), busy);
    }
}
