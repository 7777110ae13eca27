//! A stream that went away, until it is back: whether to wait for it, and what is missing.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use crate::channel_map::StreamFormat;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::Format;
use crate::limits::{RETURN_EVERY_MS, RETURN_MS_MAX};
use crate::packetizer::Loss;
use crate::session::Session;

/// Captures one stream after the other until the capture is to end: another one at once where a stream
/// ends without an error, after a while where it failed.
///
/// # Errors
/// There was no stream yet, or it has been gone for too long, or nothing would change it.
pub fn outlast_all(
    session: &mut Session,
    mut capture: impl FnMut(&mut Session, &mut Outage) -> Result<()>,
) -> Result<()> {
    outlast_until(session, |session, outage| {
        capture(session, outage).map(ControlFlow::Continue)
    })
}

/// As [`outlast_all`], until a stream breaks with its end.
///
/// # Errors
/// As for [`outlast_all`].
pub fn outlast_until(
    session: &mut Session,
    mut capture: impl FnMut(&mut Session, &mut Outage) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut outage = Outage::default();
    loop {
        let ended = capture(session, &mut outage);
        if session.is_stopped() {
            return Ok(());
        }
        match ended {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(error) => outage.outlast(session, error)?,
        }
    }
}

/// What is known of the stream before the current one.
#[derive(Debug, Default)]
pub struct Outage {
    /// Its device; none if there was no stream yet.
    device: Option<String>,
    /// When the frame after the last delivered one would have been captured, in ns.
    end_ns: Option<u64>,
    /// Since when there is none.
    since: Option<Instant>,
    /// Its return was not told yet: no frame has come since.
    is_told: bool,
    /// What frames are counted in.
    format: Option<Format>,
}

impl Outage {
    /// A stream is open, the first or another one.
    ///
    /// # Errors
    /// Its format can't be converted.
    pub fn over(
        &mut self,
        session: &mut Session,
        device: &str,
        format: impl Into<StreamFormat>,
    ) -> Result<()> {
        let format = format.into();
        self.format = Some(format.format);
        self.since = None;
        let device = device.to_owned();
        let before = self.device.replace(device.clone());
        if before.is_none() {
            return session.begin(&device, format);
        }
        session.begin_again(format)?;
        if before.as_ref() != Some(&device) {
            session.moved(&device);
        }
        Ok(())
    }

    /// The stream has ended; the frame after its last would be of this time. `None`: no frame of it was delivered or
    /// told as lost, and the gap before it goes on. Else [`close_gap`](Self::close_gap) has told that one.
    ///
    /// # Errors
    /// Those of [`Session::push`].
    pub fn began(&mut self, session: &mut Session, end_ns: Option<u64>) -> Result<()> {
        self.end_ns = end_ns.or(self.end_ns);
        session.interrupt()
    }

    /// Tells what is missing before the first frame of the new stream, captured at this time: once it is there, or is to
    /// be told as lost.
    ///
    /// # Errors
    /// Those of [`Session::push`].
    pub fn close_gap(&mut self, session: &mut Session, ns: u64) -> Result<()> {
        let missing = match (self.end_ns.take(), self.format) {
            (Some(end_ns), Some(format)) => format.frames_in(ns.saturating_sub(end_ns)),
            // Frames count from the first one.
            _ => 0,
        };
        let lost_frames = match missing {
            0 => 0,
            frames => session.lose(Loss::estimated(frames))?,
        };
        if std::mem::take(&mut self.is_told) {
            session.reconnected(lost_frames);
        }
        Ok(())
    }

    /// Waits a while before the next attempt.
    ///
    /// # Errors
    /// There was no stream yet, or it has been gone for too long, or nothing would change it.
    fn outlast(&mut self, session: &mut Session, error: Error) -> Result<()> {
        let is_passing = matches!(
            error,
            Error::NoServer(_)
                | Error::NoDevice(_)
                | Error::NoProcess(_)
                | Error::Unplugged(_)
                | Error::Backend { .. }
        );
        if self.device.is_none() || !is_passing {
            return Err(error);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > Duration::from_millis(RETURN_MS_MAX) {
            return Err(match error {
                Error::NoDevice(device) => Error::Unplugged(device),
                other => other,
            });
        }
        if !std::mem::replace(&mut self.is_told, true) {
            let reason = error.to_string();
            session.tell(Event::Reconnecting { reason });
        }
        thread::park_timeout(Duration::from_millis(RETURN_EVERY_MS));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Policy;
    use crate::ring::tests::ring;
    use crate::session::tests::{FORMAT, PACKET_BYTES, session, session_of};

    fn gone() -> Error {
        Error::NoServer("gone".to_owned())
    }

    #[test]
    fn an_outage_before_the_first_frame_is_over_with_it() {
        let (mut session, events) = session(ring(4, PACKET_BYTES));
        let mut outage = Outage::default();
        outage.over(&mut session, "zc", FORMAT).unwrap();
        outage.began(&mut session, None).unwrap();
        outage.outlast(&mut session, gone()).unwrap();
        outage.outlast(&mut session, gone()).unwrap();
        assert!(outage.since.is_some());
        outage.over(&mut session, "zc", FORMAT).unwrap();
        // The next one has all its time.
        assert!(outage.since.is_none());
        outage.close_gap(&mut session, 1_000_000_000).unwrap();
        outage.close_gap(&mut session, 1_010_000_000).unwrap();
        let told: Vec<Event> = events.try_iter().skip(1).collect();
        let reason = gone().to_string();
        assert_eq!(
            told,
            [
                Event::Reconnecting { reason },
                Event::Reconnected {
                    lost_frames: 0,
                    format: FORMAT.into()
                }
            ]
        );
    }

    #[test]
    fn another_device_is_told_with_its_format() {
        let (mut session, events) = session_of(ring(4, PACKET_BYTES), Policy::Allow);
        let mut outage = Outage::default();
        outage.over(&mut session, "zc", FORMAT).unwrap();
        let other = Format {
            rate: 44_100,
            ..FORMAT
        };
        outage.over(&mut session, "other", other).unwrap();
        let told = events.try_iter().nth(1).unwrap();
        let Event::Moved(opened) = told else {
            panic!("{told:?}");
        };
        assert_eq!(
            (opened.device.as_str(), opened.format),
            ("other", other.into())
        );
        assert!(opened.delay_frames > 0.0, "it is resampled");
        // The same device, at its first rate.
        outage.outlast(&mut session, gone()).unwrap();
        outage.over(&mut session, "other", FORMAT).unwrap();
        outage.close_gap(&mut session, 1_000_000_000).unwrap();
        let (lost_frames, format) = (0, FORMAT.into());
        let last = events.try_iter().last().unwrap();
        assert_eq!(
            last,
            Event::Reconnected {
                lost_frames,
                format
            }
        );
    }

    #[test]
    fn an_outage_that_ends_twice_is_told_once_and_whole() {
        let (mut session, events) = session(ring(4, PACKET_BYTES));
        let mut outage = Outage::default();
        outage.over(&mut session, "zc", FORMAT).unwrap();
        outage.close_gap(&mut session, 1_000_000_000).unwrap();
        outage.began(&mut session, Some(2_000_000_000)).unwrap();
        outage.outlast(&mut session, gone()).unwrap();
        // A stream that has gone again before its first frame.
        outage.over(&mut session, "zc", FORMAT).unwrap();
        outage.began(&mut session, None).unwrap();
        outage.outlast(&mut session, gone()).unwrap();
        outage.over(&mut session, "zc", FORMAT).unwrap();
        outage.close_gap(&mut session, 5_000_000_000).unwrap();
        let told: Vec<Event> = events.try_iter().skip(1).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        let lost_frames = 3 * 48_000;
        let format = FORMAT.into();
        assert_eq!(
            told[1],
            Event::Reconnected {
                lost_frames,
                format
            }
        );
    }
}
