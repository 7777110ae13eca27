//! Channel maps: the loudspeaker position of each channel of a frame.
//!
//! Every sound system has an order of its own: PulseAudio and PipeWire have a map for each device, ALSA a `chmap`,
//! WASAPI and WAVE a mask whose bits are in the order of the channels, CoreAudio a layout. **Invariant:** a map has as
//! many positions as its format has channels. A channel whose position the system does not tell is [`Position::Aux`]
//! with the number of the channel.

use crate::error::{Error, Result};
use crate::format::Format;
use crate::limits::CHANNELS_MAX;

/// Position of a channel, with the names of PulseAudio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The only channel.
    Mono,
    /// Left.
    FrontLeft,
    /// Right.
    FrontRight,
    /// Center.
    FrontCenter,
    /// Low-frequency effects.
    Lfe,
    /// Behind, left.
    RearLeft,
    /// Behind, right.
    RearRight,
    /// Behind, in the middle.
    RearCenter,
    /// Between left and center.
    FrontLeftOfCenter,
    /// Between right and center.
    FrontRightOfCenter,
    /// Left surround of 7.1, beside the listener.
    SideLeft,
    /// Right surround of 7.1, beside the listener.
    SideRight,
    /// Above the listener.
    TopCenter,
    /// Above left.
    TopFrontLeft,
    /// Above right.
    TopFrontRight,
    /// Above center.
    TopFrontCenter,
    /// Above and behind, left.
    TopRearLeft,
    /// Above and behind, right.
    TopRearRight,
    /// Above and behind, in the middle.
    TopRearCenter,
    /// A channel without a position, by number from 0.
    Aux(u8),
}

/// Positions that have a name of their own.
const NAMES: [(Position, &str); 19] = [
    (Position::Mono, "mono"),
    (Position::FrontLeft, "front-left"),
    (Position::FrontRight, "front-right"),
    (Position::FrontCenter, "front-center"),
    (Position::Lfe, "lfe"),
    (Position::RearLeft, "rear-left"),
    (Position::RearRight, "rear-right"),
    (Position::RearCenter, "rear-center"),
    (Position::FrontLeftOfCenter, "front-left-of-center"),
    (Position::FrontRightOfCenter, "front-right-of-center"),
    (Position::SideLeft, "side-left"),
    (Position::SideRight, "side-right"),
    (Position::TopCenter, "top-center"),
    (Position::TopFrontLeft, "top-front-left"),
    (Position::TopFrontRight, "top-front-right"),
    (Position::TopFrontCenter, "top-front-center"),
    (Position::TopRearLeft, "top-rear-left"),
    (Position::TopRearRight, "top-rear-right"),
    (Position::TopRearCenter, "top-rear-center"),
];

/// Bits of a WAVE channel mask, from the lowest (`mmreg.h`: `SPEAKER_FRONT_LEFT` and so on).
const MASK: [Position; 18] = [
    Position::FrontLeft,
    Position::FrontRight,
    Position::FrontCenter,
    Position::Lfe,
    Position::RearLeft,
    Position::RearRight,
    Position::FrontLeftOfCenter,
    Position::FrontRightOfCenter,
    Position::RearCenter,
    Position::SideLeft,
    Position::SideRight,
    Position::TopCenter,
    Position::TopFrontLeft,
    Position::TopFrontCenter,
    Position::TopFrontRight,
    Position::TopRearLeft,
    Position::TopRearCenter,
    Position::TopRearRight,
];

impl Position {
    /// The name in options and reports.
    #[must_use]
    pub fn name(self) -> String {
        if let Self::Aux(number) = self {
            return format!("aux{number}");
        }
        let known = NAMES.iter().find(|(position, _)| *position == self);
        known.map_or_else(String::new, |(_, name)| (*name).to_owned())
    }

    /// The position of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("aux") {
            let number = number.parse().ok()?;
            return (u32::from(number) < CHANNELS_MAX).then_some(Self::Aux(number));
        }
        let known = NAMES.iter().find(|(_, known)| *known == name);
        known.map(|(position, _)| *position)
    }
}

/// Positions of the channels of a frame, in their order.
#[derive(Clone, Copy)]
pub struct ChannelMap {
    positions: [Position; CHANNELS_MAX as usize],
    len: usize,
}

impl ChannelMap {
    /// A map of these positions, at most [`CHANNELS_MAX`].
    #[must_use]
    pub const fn new(known: &[Position]) -> Self {
        let mut map = Self::discrete(known.len());
        let mut channel = 0;
        while channel < map.len {
            map.positions[channel] = known[channel];
            channel += 1;
        }
        map
    }

    /// A map of `channels` channels without a position.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
    pub const fn discrete(channels: usize) -> Self {
        let mut positions = [Position::Mono; CHANNELS_MAX as usize];
        let mut channel = 0;
        while channel < positions.len() {
            positions[channel] = Position::Aux(channel as u8);
            channel += 1;
        }
        let len = if channels < positions.len() {
            channels
        } else {
            positions.len()
        };
        Self { positions, len }
    }

    /// The map of packets whose options name none: that of WAVE files for up to eight channels, else discrete.
    #[must_use]
    pub const fn standard(channels: u32) -> Self {
        use Position::{
            FrontCenter as Fc, FrontLeft as Fl, FrontRight as Fr, Lfe, Mono, RearCenter as Rc,
            RearLeft as Rl, RearRight as Rr, SideLeft as Sl, SideRight as Sr,
        };
        match channels {
            1 => Self::new(&[Mono]),
            2 => Self::new(&[Fl, Fr]),
            3 => Self::new(&[Fl, Fr, Fc]),
            4 => Self::new(&[Fl, Fr, Rl, Rr]),
            5 => Self::new(&[Fl, Fr, Fc, Rl, Rr]),
            6 => Self::new(&[Fl, Fr, Fc, Lfe, Rl, Rr]),
            7 => Self::new(&[Fl, Fr, Fc, Lfe, Rc, Sl, Sr]),
            8 => Self::new(&[Fl, Fr, Fc, Lfe, Rl, Rr, Sl, Sr]),
            _ => Self::discrete(channels as usize),
        }
    }

    /// The map of a device that reports none: more than two channels may be anything.
    #[must_use]
    pub fn assumed(channels: u32) -> Self {
        if channels <= 2 {
            return Self::standard(channels);
        }
        Self::discrete(channels as usize)
    }

    /// The map of a WAVE channel mask. Channels beyond its bits have no position.
    #[must_use]
    pub fn of_mask(mask: u32, channels: u32) -> Self {
        if mask == 0 {
            return Self::assumed(channels);
        }
        let mut map = Self::discrete(channels as usize);
        let bits = (0..MASK.len()).filter(|bit| mask & 1 << bit != 0);
        for (position, bit) in map.positions[..map.len].iter_mut().zip(bits) {
            *position = MASK[bit];
        }
        if map.positions() == [Position::FrontCenter] {
            return Self::standard(1);
        }
        map
    }

    /// The WAVE channel mask; 0 if there is none: channels without a position, or in another order.
    #[must_use]
    pub fn mask(&self) -> u32 {
        let bit = |position: &Position| match position {
            Position::Mono => MASK
                .iter()
                .position(|known| *known == Position::FrontCenter),
            known => MASK.iter().position(|bit| bit == known),
        };
        let (mut mask, mut next) = (0, 0);
        for position in self.positions() {
            match bit(position) {
                Some(bit) if bit >= next => {
                    mask |= 1 << bit;
                    next = bit + 1;
                }
                _ => return 0,
            }
        }
        mask
    }

    /// The map of these names.
    ///
    /// # Errors
    /// [`Error::Options`]: an unknown name, none, or too many.
    pub fn parse(names: &[String]) -> Result<Self> {
        if names.is_empty() || names.len() > CHANNELS_MAX as usize {
            return Err(Error::Options(format!(
                "format.channelMap has {} positions; expected 1 to {CHANNELS_MAX}",
                names.len()
            )));
        }
        let position = |name: &String| {
            Position::parse(name).ok_or_else(|| {
                let known: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
                Error::Options(format!(
                    "format.channelMap has '{name}'; expected {} or aux0 to aux{}",
                    known.join(", "),
                    CHANNELS_MAX - 1
                ))
            })
        };
        let positions = names.iter().map(position).collect::<Result<Vec<_>>>()?;
        Ok(Self::new(&positions))
    }

    /// This map, then another one.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        Self::new(&[self.positions(), other.positions()].concat())
    }

    /// The positions in the order of the channels.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions[..self.len]
    }

    /// The names of the positions.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.positions().iter().map(|position| position.name());
        names.collect()
    }
}

impl PartialEq for ChannelMap {
    fn eq(&self, other: &Self) -> bool {
        self.positions() == other.positions()
    }
}

impl Eq for ChannelMap {}

impl std::fmt::Debug for ChannelMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.names().join(" "))
    }
}

/// Format of a stream, and the positions of its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFormat {
    /// Rate, number of channels and encoding.
    pub format: Format,
    /// Positions, one for each channel.
    pub map: ChannelMap,
}

impl From<Format> for StreamFormat {
    /// The format with the standard map of its channels.
    fn from(format: Format) -> Self {
        Self {
            format,
            map: ChannelMap::standard(format.channels),
        }
    }
}

impl std::fmt::Display for StreamFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.format)?;
        let is_plain =
            self.format.channels <= 2 && self.map == ChannelMap::standard(self.format.channels);
        if !is_plain {
            write!(f, " ({:?})", self.map)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_back() {
        let all = NAMES.iter().map(|(position, _)| *position);
        for position in all.chain((0..32).map(Position::Aux)) {
            assert_eq!(Position::parse(&position.name()), Some(position));
        }
        for strange in ["", "left", "aux", "aux32", "aux-1", "Front-Left"] {
            assert_eq!(Position::parse(strange), None, "{strange}");
        }
        let error = ChannelMap::parse(&["front-left".to_owned(), "back".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("'back'"), "{error}");
        assert!(ChannelMap::parse(&[]).is_err());
        assert!(ChannelMap::parse(&vec!["aux0".to_owned(); 33]).is_err());
    }

    #[test]
    fn masks_are_those_of_wave_files() {
        let standard = [0x4, 0x3, 0x7, 0x33, 0x37, 0x3f, 0x70f, 0x63f, 0];
        for (channels, mask) in (1..).zip(standard) {
            let map = ChannelMap::standard(channels);
            assert_eq!(map.mask(), mask, "{channels}");
            assert_eq!(ChannelMap::of_mask(mask, channels), map, "{channels}");
            assert_eq!(map.positions().len(), channels as usize);
        }
        // More channels than bits, and a map in another order.
        let map = ChannelMap::of_mask(0x3, 3);
        assert_eq!(map.names(), ["front-left", "front-right", "aux2"]);
        let swapped = ChannelMap::new(&[Position::FrontRight, Position::FrontLeft]);
        assert_eq!(swapped.mask(), 0);
        assert_eq!(ChannelMap::of_mask(0, 2), ChannelMap::standard(2));
        assert_eq!(ChannelMap::of_mask(0, 4), ChannelMap::discrete(4));
    }

    #[test]
    fn two_sources_side_by_side_have_both_maps() {
        let map = ChannelMap::standard(1).beside(&ChannelMap::standard(2));
        assert_eq!(map.names(), ["mono", "front-left", "front-right"]);
    }
}
