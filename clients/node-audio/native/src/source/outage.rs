//! Recovery of a stream that went away: whether to wait for it, and the length of the gap.

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

/// Captures one stream after the other until the capture is to end: the next one at once if a stream ends without an
/// error, after a while if it failed.
///
/// # Errors
/// No stream was open yet, or the last has been gone for too long, or waiting can't help.
pub fn outlast_all(
    session: &mut Session,
    mut capture: impl FnMut(&mut Session, &mut Outage) -> Result<()>,
) -> Result<()> {
    outlast_until(session, |session, outage| {
        capture(session, outage).map(ControlFlow::Continue)
    })
}

/// Like [`outlast_all`], until a stream returns `Break`.
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

/// State of the stream before the current one.
#[derive(Debug, Default)]
pub struct Outage {
    /// Device of that stream; none if no stream was open yet.
    device: Option<String>,
    /// Capture time of the frame after the last delivered one, in ns.
    end_ns: Option<u64>,
    /// Begin of the outage.
    since: Option<Instant>,
    /// True while an outage was reported and its end was not: no frame has come since.
    is_told: bool,
    /// Format in which frames are counted.
    format: Option<Format>,
}

impl Outage {
    /// Notes that a stream is open, the first or another one.
    ///
    /// # Errors
    /// The format can't be converted.
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

    /// Notes that the stream has ended, with the time of the frame after its last. `None`: no frame of it was delivered
    /// or reported as lost, and the gap before it goes on. Else [`close_gap`](Self::close_gap) has reported that one.
    ///
    /// # Errors
    /// Those of [`Session::push`].
    pub fn began(&mut self, session: &mut Session, end_ns: Option<u64>) -> Result<()> {
        self.end_ns = end_ns.or(self.end_ns);
        session.interrupt()
    }

    /// Reports the gap before the first frame of the new stream, captured at this time: once that frame is there, or is
    /// to be reported as lost.
    ///
    /// # Errors
    /// Those of [`Session::push`].
    pub fn close_gap(&mut self, session: &mut Session, ns: u64) -> Result<()> {
        let missing = match (self.end_ns.take(), self.format) {
            (Some(end_ns), Some(format)) => format.frames_in(ns.saturating_sub(end_ns)),
            // The first stream has no gap before it.
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
    /// No stream was open yet, or the last has been gone for too long, or waiting can't help.
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
        // The next outage has its full time.
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
        // A stream that went away again before its first frame.
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
