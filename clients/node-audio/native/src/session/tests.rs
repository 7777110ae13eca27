//! A session of one channel, whose packets have 10 ms, for tests of sources.

use super::*;
use crate::channel_map::ChannelMap;
use crate::format::Sample;
use crate::packetizer::{Overrun, Settings, Silence};
use crate::ring::Ring;

/// The format of its source and of its packets.
pub const FORMAT: Format = Format {
    rate: 48_000,
    channels: 1,
    sample: Sample::S16,
};

/// Bytes of its packets.
pub const PACKET_BYTES: u32 = 960;

/// A session with packets in this ring, and the events that it tells.
pub fn session(ring: Ring) -> (Session, Receiver<Event>) {
    session_of(ring, Policy::Refuse)
}

/// As [`session`], with this policy of conversion.
pub fn session_of(ring: Ring, policy: Policy) -> (Session, Receiver<Event>) {
    let settings = Settings {
        format: FORMAT,
        map: ChannelMap::standard(FORMAT.channels),
        packet_frames: 480,
        overrun: Overrun::DropOldest,
        silence: Silence::Emit,
        gate: None,
    };
    let packetizer = Packetizer::new(ring, settings).unwrap();
    let control = Arc::new(Control::default());
    Session::new(packetizer, policy, control, Box::new(|| {}))
}
