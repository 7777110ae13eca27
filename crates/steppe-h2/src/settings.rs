//! Settings of both peers. Spec: RFC 9113 §6.5, RFC 8441 §3, RFC 9218 §2.1.

use crate::error::{ErrorCode, Violation};
use crate::frame::write::setting;
use crate::limits::{FRAME_BYTES_MAX, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX};
use crate::role::Role;

/// SETTINGS_HEADER_TABLE_SIZE.
pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
/// SETTINGS_ENABLE_PUSH.
pub(crate) const ENABLE_PUSH: u16 = 0x2;
/// SETTINGS_MAX_CONCURRENT_STREAMS.
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
/// SETTINGS_INITIAL_WINDOW_SIZE.
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
/// SETTINGS_MAX_FRAME_SIZE.
pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
/// SETTINGS_MAX_HEADER_LIST_SIZE.
pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
/// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 §3).
pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
/// SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218 §2.1).
pub(crate) const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// Settings that this side announces once, in its first SETTINGS frame.
#[derive(Debug, Clone, Copy)]
pub struct LocalSettings {
    /// Streams that the peer may have open at once; of a client, 0: servers may not push.
    pub concurrent_streams_max: u32,
    /// Octets of a field section that is kept, as RFC 9113 §6.5.2 counts them: 32 a field line more than its text.
    pub section_bytes_max: u32,
    /// Field lines of a section that is kept.
    pub section_lines_max: u32,
}

/// Settings that the peer announced last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// Octets of the dynamic table of its decoder.
    pub table_bytes_max: u32,
    /// Streams that we may have open at once; `None`: no limit was announced.
    pub concurrent_streams_max: Option<u32>,
    /// The window of each stream at first.
    pub window_bytes: u32,
    /// The largest payload of a frame to it.
    pub frame_bytes_max: u32,
    /// Octets of a field section that it takes, as RFC 9113 §6.5.2 counts them; `None`: no limit was announced.
    pub section_bytes_max: Option<u32>,
    /// It takes extended CONNECT (RFC 8441).
    pub takes_extended_connect: bool,
    /// A first SETTINGS frame has come.
    pub is_known: bool,
}

impl LocalSettings {
    /// The settings of a first SETTINGS frame, as octets.
    pub(crate) fn settings(self, role: Role) -> [[u8; 6]; 4] {
        let of_role = match role {
            Role::Server => setting(ENABLE_CONNECT_PROTOCOL, 1),
            Role::Client => setting(ENABLE_PUSH, 0),
        };
        [
            setting(MAX_CONCURRENT_STREAMS, self.concurrent_streams_max),
            setting(MAX_HEADER_LIST_SIZE, self.section_bytes_max),
            of_role,
            setting(NO_RFC7540_PRIORITIES, 1),
        ]
    }
}

impl Default for PeerSettings {
    /// The initial values of RFC 9113 §6.5.2.
    fn default() -> Self {
        Self {
            table_bytes_max: 4096,
            concurrent_streams_max: None,
            window_bytes: WINDOW_BYTES_DEFAULT,
            frame_bytes_max: FRAME_BYTES_MAX,
            section_bytes_max: None,
            takes_extended_connect: false,
            is_known: false,
        }
    }
}

impl PeerSettings {
    /// Changes one setting of a `sender`. Unknown ones are ignored (RFC 9113 §6.5.2).
    ///
    /// # Errors
    /// A value out of its range.
    pub(crate) fn apply(&mut self, sender: Role, id: u16, value: u32) -> Result<(), Violation> {
        match id {
            HEADER_TABLE_SIZE => self.table_bytes_max = value,
            ENABLE_PUSH if sender == Role::Server && value == 1 => {
                return Err(Violation::protocol("SETTINGS_ENABLE_PUSH of a server is 0"));
            }
            ENABLE_PUSH if value > 1 => {
                return Err(Violation::protocol("SETTINGS_ENABLE_PUSH is 0 or 1"));
            }
            MAX_CONCURRENT_STREAMS => self.concurrent_streams_max = Some(value),
            INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX => {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE is at most 2^31-1";
                return Err(Violation::connection(ErrorCode::FLOW_CONTROL_ERROR, reason));
            }
            INITIAL_WINDOW_SIZE => self.window_bytes = value,
            MAX_FRAME_SIZE if !(FRAME_BYTES_MAX..1 << 24).contains(&value) => {
                return Err(Violation::protocol(
                    "SETTINGS_MAX_FRAME_SIZE is 2^14 to 2^24-1",
                ));
            }
            MAX_FRAME_SIZE => self.frame_bytes_max = value,
            MAX_HEADER_LIST_SIZE => self.section_bytes_max = Some(value),
            ENABLE_CONNECT_PROTOCOL if value > 1 => {
                return Err(Violation::protocol(
                    "SETTINGS_ENABLE_CONNECT_PROTOCOL is 0 or 1",
                ));
            }
            // RFC 8441 §3: once announced, it stays.
            ENABLE_CONNECT_PROTOCOL if value == 0 && self.takes_extended_connect => {
                return Err(Violation::protocol(
                    "SETTINGS_ENABLE_CONNECT_PROTOCOL was taken back",
                ));
            }
            ENABLE_CONNECT_PROTOCOL => self.takes_extended_connect = value == 1,
            NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(Violation::protocol(
                    "SETTINGS_NO_RFC7540_PRIORITIES is 0 or 1",
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused() {
        let mut settings = PeerSettings::default();
        for (id, value) in [
            (ENABLE_PUSH, 2),
            (INITIAL_WINDOW_SIZE, 1 << 31),
            (MAX_FRAME_SIZE, 16_383),
            (MAX_FRAME_SIZE, 1 << 24),
            (ENABLE_CONNECT_PROTOCOL, 2),
            (NO_RFC7540_PRIORITIES, 2),
        ] {
            for sender in [Role::Client, Role::Server] {
                let applied = settings.apply(sender, id, value);
                assert!(applied.is_err(), "{id} = {value} of a {sender:?}");
            }
        }
        assert!(settings.apply(Role::Server, ENABLE_PUSH, 1).is_err());
        assert_eq!(settings.apply(Role::Client, ENABLE_PUSH, 1), Ok(()));
        assert_eq!(settings, PeerSettings::default());
        assert_eq!(settings.apply(Role::Server, 0xfe, 7), Ok(()));
        let applied = settings.apply(Role::Server, ENABLE_CONNECT_PROTOCOL, 1);
        assert_eq!(applied, Ok(()));
        let taken_back = settings.apply(Role::Server, ENABLE_CONNECT_PROTOCOL, 0);
        assert!(taken_back.is_err());
        let limited = settings.apply(Role::Server, MAX_HEADER_LIST_SIZE, 9000);
        assert_eq!(limited, Ok(()));
        assert_eq!(settings.section_bytes_max, Some(9000));
    }
}
