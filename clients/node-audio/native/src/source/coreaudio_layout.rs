//! Channel layouts of CoreAudio (`AudioChannelLayout`), as the 32-bit words of a property.
//!
//! A layout is a tag, a mask, and a list of descriptions of five words: a label, flags and three coordinates. Only
//! masks, lists, and the tags of mono and stereo are read; other tags stand for hundreds of fixed layouts.

use crate::channel_map::{ChannelMap, Position};

/// `kAudioChannelLayoutTag_UseChannelDescriptions`.
const LIST: u32 = 0;
/// `kAudioChannelLayoutTag_UseChannelBitmap`.
const MASK: u32 = 1 << 16;
/// `kAudioChannelLayoutTag_Mono`.
const MONO: u32 = 100 << 16 | 1;
/// `kAudioChannelLayoutTag_Stereo`.
const STEREO: u32 = 101 << 16 | 2;

/// The map of a layout for this number of channels. `None`: a layout that is not read here.
pub fn map_of(words: &[u32], channels: u32) -> Option<ChannelMap> {
    let [tag, mask, count, descriptions @ ..] = words else {
        return None;
    };
    match *tag {
        MONO | STEREO if tag & 0xffff == channels => Some(ChannelMap::standard(channels)),
        // The bits are those of WAVE.
        MASK => Some(ChannelMap::of_mask(*mask, channels)),
        LIST if *count == channels => {
            let descriptions = descriptions.chunks_exact(5).take(channels as usize);
            let numbers = descriptions.zip(0_u8..);
            let positions: Vec<Position> = numbers
                .map(|(description, number)| {
                    position(description[0]).unwrap_or(Position::Aux(number))
                })
                .collect();
            (positions.len() == channels as usize).then(|| ChannelMap::new(&positions))
        }
        _ => None,
    }
}

/// `kAudioChannelLabel_…`.
fn position(label: u32) -> Option<Position> {
    Some(match label {
        1 => Position::FrontLeft,
        2 => Position::FrontRight,
        3 => Position::FrontCenter,
        4 => Position::Lfe,
        // Left and right surround, which 7.1 has beside the listener, and "direct" ones.
        5 | 10 => Position::SideLeft,
        6 | 11 => Position::SideRight,
        7 => Position::FrontLeftOfCenter,
        8 => Position::FrontRightOfCenter,
        9 => Position::RearCenter,
        12 => Position::TopCenter,
        13 => Position::TopFrontLeft,
        14 => Position::TopFrontCenter,
        15 => Position::TopFrontRight,
        16 => Position::TopRearLeft,
        17 => Position::TopRearCenter,
        18 => Position::TopRearRight,
        33 => Position::RearLeft,
        34 => Position::RearRight,
        42 => Position::Mono,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_lists_and_plain_tags_are_read() {
        assert_eq!(map_of(&[STEREO, 0, 0], 2), Some(ChannelMap::standard(2)));
        assert_eq!(map_of(&[STEREO, 0, 0], 4), None);
        assert_eq!(map_of(&[MASK, 0x3f, 0], 6), Some(ChannelMap::standard(6)));
        let mut words = vec![LIST, 0, 3];
        for label in [1, 2, 0xffff_ffff] {
            words.extend([label, 0, 0, 0, 0]);
        }
        let names = map_of(&words, 3).unwrap().names();
        assert_eq!(names, ["front-left", "front-right", "aux2"]);
        // A list that is cut, another number of channels, a fixed layout, and no words.
        assert_eq!(map_of(&words[..14], 3), None);
        assert_eq!(map_of(&words, 2), None);
        assert_eq!(map_of(&[121 << 16 | 6, 0, 0], 6), None);
        assert_eq!(map_of(&[], 2), None);
    }
}
