//! Channel positions of ALSA (`snd_pcm_chmap_t`).
#![expect(unsafe_code, reason = "libasound is C")]

use std::ffi::c_uint;

use crate::channel_map::{ChannelMap, Position};

/// `snd_pcm_chmap_t`, without its flexible array: `pos`.
#[repr(C)]
pub struct Chmap {
    channels: c_uint,
    first: [c_uint; 0],
}

/// `SND_CHMAP_POSITION_MASK`: the bits above mark a channel as inverted, or as known to its driver alone.
const POSITION_MASK: c_uint = 0xffff;

/// The map of a PCM. A PCM that reports none may have anything on more than two channels.
///
/// # Safety
/// Null, or a map that libasound gave.
pub unsafe fn map_of(chmap: *const Chmap, channels: u32) -> ChannelMap {
    // SAFETY: null or valid, as the caller says.
    let Some(known) = (unsafe { chmap.as_ref() }) else {
        return ChannelMap::assumed(channels);
    };
    if known.channels != channels {
        return ChannelMap::assumed(channels);
    }
    // SAFETY: the array begins where the fixed part ends.
    let first = unsafe { &raw const (*chmap).first }.cast::<c_uint>();
    // SAFETY: so many positions follow, as the map says.
    let codes = unsafe { std::slice::from_raw_parts(first, known.channels as usize) };
    of_codes(codes)
}

fn of_codes(codes: &[c_uint]) -> ChannelMap {
    let numbers = codes.iter().zip(0_u8..);
    let positions = numbers.map(|(code, number)| {
        let known = position(code & POSITION_MASK);
        known.unwrap_or(Position::Aux(number))
    });
    ChannelMap::new(&positions.collect::<Vec<_>>())
}

/// `enum snd_pcm_chmap_position`.
fn position(code: c_uint) -> Option<Position> {
    Some(match code {
        2 => Position::Mono,
        3 => Position::FrontLeft,
        4 => Position::FrontRight,
        5 => Position::RearLeft,
        6 => Position::RearRight,
        7 => Position::FrontCenter,
        8 => Position::Lfe,
        9 => Position::SideLeft,
        10 => Position::SideRight,
        11 => Position::RearCenter,
        12 => Position::FrontLeftOfCenter,
        13 => Position::FrontRightOfCenter,
        21 => Position::TopCenter,
        22 => Position::TopFrontLeft,
        23 => Position::TopFrontRight,
        24 => Position::TopFrontCenter,
        25 => Position::TopRearLeft,
        26 => Position::TopRearRight,
        27 => Position::TopRearCenter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_alsa_has_its_own_order() {
        // FL FR RL RR FC LFE, the center inverted.
        let map = of_codes(&[3, 4, 5, 6, 7 | 1 << 16, 8]);
        let names = "front-left front-right rear-left rear-right front-center lfe";
        assert_eq!(map.names().join(" "), names);
        // An unknown position, and one that other systems do not have.
        assert_eq!(of_codes(&[0, 15]).names(), ["aux0", "aux1"]);
    }
}
