//! Channel positions of libpulse (`pa_channel_position_t`) and ours.

use std::ffi::c_int;

use super::abi::PulseMap;
use crate::channel_map::{ChannelMap, Position};
use crate::limits::CHANNELS_MAX;

/// `PA_CHANNEL_POSITION_AUX0`; 32 of them follow each other.
const AUX0: c_int = 12;
/// `PA_CHANNEL_POSITION_TOP_CENTER`.
const TOP_CENTER: c_int = 44;

/// Positions from `PA_CHANNEL_POSITION_MONO`, which is 0.
const FIRST: [Position; AUX0 as usize] = [
    Position::Mono,
    Position::FrontLeft,
    Position::FrontRight,
    Position::FrontCenter,
    Position::RearCenter,
    Position::RearLeft,
    Position::RearRight,
    Position::Lfe,
    Position::FrontLeftOfCenter,
    Position::FrontRightOfCenter,
    Position::SideLeft,
    Position::SideRight,
];

/// Positions from [`TOP_CENTER`].
const TOP: [Position; 7] = [
    Position::TopCenter,
    Position::TopFrontLeft,
    Position::TopFrontRight,
    Position::TopFrontCenter,
    Position::TopRearLeft,
    Position::TopRearRight,
    Position::TopRearCenter,
];

/// Converts a map of libpulse. An unknown position becomes the number of its channel.
pub fn map_of(map: &PulseMap, channels: u32) -> ChannelMap {
    let channels = channels.min(CHANNELS_MAX) as usize;
    if usize::from(map.channels) != channels {
        return ChannelMap::discrete(channels);
    }
    let numbers = map.map[..channels].iter().zip(0_u8..);
    let positions = numbers.map(|(&code, number)| position(code).unwrap_or(Position::Aux(number)));
    ChannelMap::new(&positions.collect::<Vec<_>>())
}

fn position(code: c_int) -> Option<Position> {
    let within = |first: c_int| usize::try_from(code - first).ok();
    let aux = || Position::parse(&format!("aux{}", within(AUX0)?));
    let first = within(0).and_then(|index| FIRST.get(index).copied());
    let top = || TOP.get(within(TOP_CENTER)?).copied();
    first.or_else(top).or_else(aux)
}

/// Converts a map to libpulse's.
pub fn to_pulse(map: &ChannelMap) -> PulseMap {
    let mut codes = [0; CHANNELS_MAX as usize];
    for (code, position) in codes.iter_mut().zip(map.positions()) {
        *code = code_of(*position);
    }
    PulseMap {
        channels: u8::try_from(map.positions().len()).unwrap_or(0),
        map: codes,
    }
}

fn code_of(position: Position) -> c_int {
    if let Position::Aux(number) = position {
        return AUX0 + c_int::from(number);
    }
    let mut codes = (0..AUX0).zip(FIRST).chain((TOP_CENTER..).zip(TOP));
    let found = codes.find(|(_, known)| *known == position);
    found.map_or(0, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_of_libpulse_comes_back() {
        for code in 0..51 {
            let known = position(code).unwrap();
            assert_eq!(code_of(known), code, "{known:?}");
        }
        assert_eq!((position(-1), position(51)), (None, None));
    }

    #[test]
    fn unknown_positions_are_numbers() {
        let mut map = to_pulse(&ChannelMap::standard(6));
        assert_eq!(map_of(&map, 6), ChannelMap::standard(6));
        map.map[3] = -1;
        assert_eq!(map_of(&map, 6).positions()[3], Position::Aux(3));
        // A map with another number of channels than the format.
        assert_eq!(map_of(&map, 4), ChannelMap::discrete(4));
    }
}
