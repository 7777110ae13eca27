//! Frames that cost their sender nothing, and ask for work. Spec: RFC 9113 §10.5.
//!
//! Two kinds are counted, each in a bucket that fills again with time: ends of streams by RST_STREAM, the peer's
//! (CVE-2023-44487) and ours after its errors (CVE-2025-8671); and control frames without progress. A peer that
//! empties one is ended by ENHANCE_YOUR_CALM. Bytes that the peer has taken grant further control frames, since gRPC
//! clients send a PING for what they were sent; a reset of ours grants frames that come late, and toward a server as
//! much content as its window had room for. A server ends no more streams than we open, so streams that it ends while
//! they are open are not counted.

use std::time::Instant;

use crate::error::{ErrorCode, Violation};
use crate::limits::{
    CONTROL_FRAMES_BURST, CONTROL_FRAMES_PER_SECOND, LATE_FRAMES_PER_RESET, RESETS_BURST,
    RESETS_PER_SECOND, WRITTEN_BYTES_PER_CONTROL_FRAME,
};
use crate::token_bucket::TokenBucket;

/// Work without progress that the peer may still ask for.
#[derive(Debug)]
pub(super) struct WorkLimits {
    resets: TokenBucket,
    control: TokenBucket,
    /// Frames that may yet be discarded because of resets and requests of ours.
    late_frames: u32,
    /// Octets of content that may: of a server, as much as the windows of streams that we reset had room for.
    late_octets: u64,
    /// Bytes written that granted no control frame yet.
    written_rest: usize,
}

impl WorkLimits {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            resets: TokenBucket::new(RESETS_BURST, RESETS_PER_SECOND, now),
            control: TokenBucket::new(CONTROL_FRAMES_BURST, CONTROL_FRAMES_PER_SECOND, now),
            late_frames: 0,
            late_octets: 0,
            written_rest: 0,
        }
    }

    /// Counts the end of a stream by a reset, of either side.
    ///
    /// # Errors
    /// ENHANCE_YOUR_CALM where there are too many.
    pub(super) fn count_reset(&mut self, now: Instant) -> Result<(), Violation> {
        let reason = "the peer caused too many resets of streams";
        take(&mut self.resets, now, reason)
    }

    /// Counts a control frame without progress.
    ///
    /// # Errors
    /// ENHANCE_YOUR_CALM where there are too many.
    pub(super) fn count_control(&mut self, now: Instant) -> Result<(), Violation> {
        let reason = "the peer sent too many control frames";
        take(&mut self.control, now, reason)
    }

    /// Counts a frame that is discarded: a control frame without progress, unless a reset of ours explains it.
    ///
    /// # Errors
    /// As [`Self::count_control`].
    pub(super) fn count_discarded(&mut self, now: Instant) -> Result<(), Violation> {
        match self.late_frames.checked_sub(1) {
            Some(left) => {
                self.late_frames = left;
                Ok(())
            }
            None => self.count_control(now),
        }
    }

    /// Counts a DATA frame that is discarded, with so many octets of content.
    ///
    /// # Errors
    /// As [`Self::count_control`].
    pub(super) fn count_discarded_data(
        &mut self,
        octets: u32,
        now: Instant,
    ) -> Result<(), Violation> {
        match self.late_octets.checked_sub(octets.into()) {
            Some(left) if octets > 0 => {
                self.late_octets = left;
                Ok(())
            }
            _ => self.count_discarded(now),
        }
    }

    /// Grants frames to be discarded for a stream that is reset here: the peer may have sent them before it knew.
    pub(super) fn reset_here(&mut self) {
        self.late_frames = self.late_frames.saturating_add(LATE_FRAMES_PER_RESET);
    }

    /// Grants, for a stream of ours that is reset here, the content that its window let the server send.
    pub(super) fn request_reset_here(&mut self, window: u32) {
        self.late_octets = self.late_octets.saturating_add(window.into());
    }

    /// Grants a frame to be discarded for a stream that we open: a server may reset it behind its end.
    pub(super) fn request_sent(&mut self) {
        self.late_frames = self.late_frames.saturating_add(1);
    }

    /// Grants control frames for bytes that the peer has taken.
    pub(super) fn written(&mut self, bytes: usize) {
        let bytes = self.written_rest + bytes;
        self.written_rest = bytes % WRITTEN_BYTES_PER_CONTROL_FRAME;
        let tokens = bytes / WRITTEN_BYTES_PER_CONTROL_FRAME;
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.control.put_back(tokens);
    }
}

fn take(bucket: &mut TokenBucket, now: Instant, reason: &'static str) -> Result<(), Violation> {
    match bucket.take(now) {
        true => Ok(()),
        false => Err(Violation::connection(ErrorCode::ENHANCE_YOUR_CALM, reason)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_fills_again_with_time() {
        let begin = Instant::now();
        let mut limits = WorkLimits::new(begin);
        for _ in 0..RESETS_BURST {
            assert_eq!(limits.count_reset(begin), Ok(()));
        }
        assert!(limits.count_reset(begin).is_err());
        assert_eq!(limits.count_control(begin), Ok(()), "the other is full");
        let later = begin + Duration::from_millis(100);
        assert_eq!(limits.count_reset(later), Ok(()));
        assert_eq!(
            limits.count_reset(later),
            Ok(()),
            "20 a second are two in a tenth"
        );
        assert!(limits.count_reset(later).is_err());
    }

    #[test]
    fn what_the_peer_takes_grants_control_frames() {
        let begin = Instant::now();
        let mut limits = WorkLimits::new(begin);
        for _ in 0..CONTROL_FRAMES_BURST {
            assert_eq!(limits.count_control(begin), Ok(()));
        }
        assert!(limits.count_control(begin).is_err());
        for _ in 0..WRITTEN_BYTES_PER_CONTROL_FRAME {
            limits.written(1);
        }
        assert_eq!(limits.count_control(begin), Ok(()));
        assert!(limits.count_control(begin).is_err());
    }
}
