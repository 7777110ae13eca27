//! Flow-control windows. Spec: RFC 9113 §5.2, §6.9.

use crate::error::ErrorCode;
use crate::limits::{WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX};

/// The window for what we send. A change of SETTINGS_INITIAL_WINDOW_SIZE can make it negative (§6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

/// The window for what the peer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// The size that it is kept at.
    target: u32,
    /// Octets that the peer may send, as it was told.
    open: i64,
    /// Octets that were taken off our hands, or by which the target grew, and were not announced.
    owed: i64,
}

impl ReceiveWindow {
    /// Octets that the peer may still send.
    pub(super) fn allowed(&self) -> u32 {
        u32::try_from(self.open).unwrap_or(0)
    }
}

impl Default for SendWindow {
    fn default() -> Self {
        Self::new(WINDOW_BYTES_DEFAULT)
    }
}

impl SendWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self(bytes.into())
    }

    /// Octets that may be sent now.
    pub(super) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes octets that are sent.
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 -= i64::try_from(bytes).expect("a window is below 2^31");
    }

    /// Opens the window by `increment`, from WINDOW_UPDATE.
    ///
    /// # Errors
    /// FLOW_CONTROL_ERROR above 2^31-1 (§6.9.1).
    pub(super) fn open(&mut self, increment: u32) -> Result<(), ErrorCode> {
        let opened = self.0 + i64::from(increment);
        if opened > WINDOW_BYTES_MAX.into() {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.0 = opened;
        Ok(())
    }

    /// Follows a change of SETTINGS_INITIAL_WINDOW_SIZE (§6.9.2).
    ///
    /// # Errors
    /// FLOW_CONTROL_ERROR above 2^31-1.
    pub(super) fn change_initial(&mut self, from: u32, to: u32) -> Result<(), ErrorCode> {
        let changed = self.0 + i64::from(to) - i64::from(from);
        if changed > WINDOW_BYTES_MAX.into() {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.0 = changed;
        Ok(())
    }
}

impl ReceiveWindow {
    /// A window that has its target when it begins.
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            target: bytes,
            open: bytes.into(),
            owed: 0,
        }
    }

    /// Takes octets that came.
    ///
    /// # Errors
    /// FLOW_CONTROL_ERROR where the peer may not have sent them.
    pub(super) fn receive(&mut self, bytes: u32) -> Result<(), ErrorCode> {
        let left = self.open - i64::from(bytes);
        if left < 0 {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.open = left;
        Ok(())
    }

    /// Gives back octets that came.
    pub(super) fn release(&mut self, bytes: u32) {
        self.owed += i64::from(bytes);
    }

    /// Changes the size that the window is kept at.
    pub(super) fn set_target(&mut self, bytes: u32) {
        let bytes = bytes.min(WINDOW_BYTES_MAX);
        self.owed += i64::from(bytes) - i64::from(self.target);
        self.target = bytes;
    }

    /// The increment to announce now, if any: once half of the window is owed, so that small pieces cost no frame
    /// each; or as much as the peer has left, lest it stop for less than half.
    pub(super) fn take_update(&mut self) -> Option<u32> {
        let is_due =
            self.owed > 0 && (self.owed >= i64::from(self.target) / 2 || self.owed >= self.open);
        is_due.then(|| self.announce())
    }

    fn announce(&mut self) -> u32 {
        let owed = std::mem::take(&mut self.owed);
        self.open += owed;
        u32::try_from(owed).expect("a window is below 2^31, and what is owed is positive")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_follows_updates_and_settings() {
        let mut window = SendWindow::default();
        window.take(65_535);
        assert_eq!(window.available(), 0);
        assert_eq!(window.change_initial(65_535, 16_384), Ok(()));
        assert_eq!(window.available(), 0, "it is negative");
        assert_eq!(window.open(49_151), Ok(()));
        assert_eq!(window.available(), 0);
        assert_eq!(window.open(1), Ok(()));
        assert_eq!(window.available(), 1);
        assert_eq!(
            window.open(WINDOW_BYTES_MAX),
            Err(ErrorCode::FLOW_CONTROL_ERROR)
        );
        assert_eq!(window.open(WINDOW_BYTES_MAX - 1), Ok(()));
        let changed = window.change_initial(16_384, 16_385);
        assert_eq!(changed, Err(ErrorCode::FLOW_CONTROL_ERROR));
    }

    #[test]
    fn a_receive_window_is_announced_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.receive(101), Err(ErrorCode::FLOW_CONTROL_ERROR));
        assert_eq!(window.receive(50), Ok(()));
        window.release(49);
        assert_eq!(window.take_update(), None);
        window.release(1);
        assert_eq!(window.take_update(), Some(50));
        assert_eq!(window.take_update(), None);
        assert_eq!(window.receive(101), Err(ErrorCode::FLOW_CONTROL_ERROR));
        assert_eq!(window.receive(100), Ok(()));
        window.release(7);
        assert_eq!(window.take_update(), Some(7), "the peer has nothing left");
    }

    #[test]
    fn a_window_that_grows_is_announced_and_one_that_shrinks_is_opened_less() {
        let mut window = ReceiveWindow::new(100);
        window.set_target(160);
        assert_eq!(window.take_update(), None);
        assert_eq!(window.receive(50), Ok(()));
        assert_eq!(window.take_update(), Some(60));
        window.set_target(40);
        assert_eq!(window.receive(110), Ok(()));
        window.release(110);
        assert_eq!(window.take_update(), None);
        window.release(50);
        assert_eq!(window.take_update(), Some(40));
    }
}
