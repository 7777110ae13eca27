//! Streams of constant samples, and the mixer's output as text.

use super::*;
use crate::format::Sample;

const FORMAT: Format = Format {
    rate: 1_000,
    channels: 1,
    sample: Sample::F32,
};
const MS: u64 = 1_000_000;

/// The mixer's output, as text.
fn pulled(mixer: &mut Mixer, now_ms: u64) -> String {
    let mut told: Vec<String> = Vec::new();
    let outcome = mixer.pull(now_ms * MS, |mixed| {
        told.push(match mixed {
            Mixed::Sound(samples, time, has_hole) => {
                let mark = if has_hole { "?" } else { "" };
                let first = samples[0];
                assert!(samples.iter().all(|sample| *sample == first), "{samples:?}");
                format!("{}x{first}{mark}@{}", samples.len(), time.ns / MS)
            }
            Mixed::Silence(frames, time) => format!("{frames} silent@{}", time.ns / MS),
            Mixed::Lost(loss, time) => {
                let mark = if loss.is_estimated { "~" } else { "" };
                format!("{mark}{} lost@{}", loss.frames, time.ns / MS)
            }
            Mixed::Filled(frames) => format!("{frames} filled"),
        });
        Ok::<(), ()>(())
    });
    outcome.unwrap();
    told.join(", ")
}

/// A stamp with `lost` lost frames and this time.
fn stamp(lost: u64, ms: u64) -> Stamp {
    Stamp {
        lost: [Loss::exact(lost), Loss::estimated(0)],
        time: Time::of_device(ms * MS),
    }
}

fn frames(sample: f32, frames: usize) -> impl Iterator<Item = f32> {
    std::iter::repeat_n(sample, frames)
}

fn mixer(lanes: u32) -> Mixer {
    let mut mixer = Mixer::new(FORMAT, 1_000 * MS);
    (1..=lanes).for_each(|id| mixer.set(id, Activity::Playing, 1_000 * MS));
    mixer
}

#[test]
fn one_stream_goes_out_as_it_came() {
    let mut mixer = mixer(1);
    assert_eq!(pulled(&mut mixer, 5_000), "");
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    assert_eq!(pulled(&mut mixer, 1_010), "10x0.5@1000");
    mixer.push(1, frames(0.25, 10), stamp(30, 1_040));
    assert_eq!(pulled(&mut mixer, 1_050), "30 lost@1010, 10x0.25@1040");
    // The server stands still: no silence stands for its frames.
    assert_eq!(pulled(&mut mixer, 9_000), "");
}

#[test]
fn streams_are_added_as_far_as_all_have_come() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 20), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_000));
    assert_eq!(pulled(&mut mixer, 1_020), "10x0.75@1000");
    mixer.push(2, frames(0.125, 10), stamp(0, 1_010));
    assert_eq!(pulled(&mut mixer, 1_020), "10x0.625@1010");
    // A third stream begins 5 ms after the next frame.
    mixer.set(3, Activity::Playing, 1_020 * MS);
    mixer.push(3, frames(0.0625, 5), stamp(0, 1_025));
    mixer.push(1, frames(0.5, 10), stamp(0, 1_020));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_020));
    assert_eq!(pulled(&mut mixer, 1_030), "5x0.75@1020, 5x0.8125@1025");
    // A stream that has ended delivers the rest of its frames, and holds up nothing.
    mixer.push(3, frames(0.0625, 5), stamp(0, 1_030));
    mixer.set(3, Activity::Ended, 1_010 * MS);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_030));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_030));
    assert_eq!(pulled(&mut mixer, 1_040), "5x0.8125@1030, 5x0.75@1035");
    assert_eq!(mixer.lanes.len(), 2);
}

#[test]
fn a_new_stream_is_waited_for_a_while() {
    let mut mixer = mixer(1);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    assert_eq!(pulled(&mut mixer, 1_010), "10x0.5@1000");
    mixer.set(2, Activity::Playing, 1_010 * MS);
    mixer.push(1, frames(0.5, 20), stamp(0, 1_010));
    assert_eq!(pulled(&mut mixer, 1_030), "");
    mixer.push(2, frames(0.25, 15), stamp(0, 1_015));
    assert_eq!(pulled(&mut mixer, 1_030), "5x0.5@1010, 15x0.75@1015");
    mixer.set(3, Activity::Playing, 1_030 * MS);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_030));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_030));
    let lag = MIX_LAG_NS / MS;
    assert_eq!(pulled(&mut mixer, 1_029 + lag), "");
    assert_eq!(pulled(&mut mixer, 1_030 + lag), "10x0.75@1030");
}

#[test]
fn times_are_those_of_one_stream() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_003));
    assert_eq!(pulled(&mut mixer, 1_010), "3x0.5@1000, 7x0.75@1003");
    // The clock of the second is 2 ms late from here on.
    mixer.push(1, frames(0.5, 10), stamp(10, 1_020));
    mixer.push(2, frames(0.25, 20), stamp(0, 1_015));
    let told = "3x0.25?@1010, 7x0.25?@1013, 10x0.75@1020";
    assert_eq!(pulled(&mut mixer, 1_030), told);
    // Without the first stream, times are the second's.
    mixer.set(1, Activity::Ended, 1_030 * MS);
    mixer.push(2, frames(0.25, 10), stamp(0, 1_035));
    assert_eq!(pulled(&mut mixer, 1_045), "3x0.25@1032, 10x0.25@1035");
}

#[test]
fn what_one_of_several_has_lost_is_silence_and_what_all_have_lost_is_lost() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_000));
    assert_eq!(pulled(&mut mixer, 1_010), "10x0.75@1000");
    mixer.push(1, frames(0.5, 30), stamp(0, 1_010));
    mixer.push(2, frames(0.25, 10), stamp(20, 1_030));
    assert_eq!(pulled(&mut mixer, 1_040), "20x0.5?@1010, 10x0.75@1030");
    mixer.push(1, frames(0.5, 10), stamp(100, 1_140));
    mixer.push(2, frames(0.25, 10), stamp(100, 1_140));
    assert_eq!(pulled(&mut mixer, 1_150), "100 lost@1040, 10x0.75@1140");
}

#[test]
fn a_long_gap_of_one_of_several_is_filled() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_000));
    let mut told = pulled(&mut mixer, 1_010);
    for ms in (1_010..1_310).step_by(10) {
        mixer.push(1, frames(0.5, 10), stamp(0, ms));
        mixer.lose(2, [Loss::exact(0), Loss::exact(0)]);
        told += &pulled(&mut mixer, ms + 10);
    }
    mixer.push(1, frames(0.5, 10), stamp(0, 1_310));
    mixer.push(2, frames(0.25, 10), stamp(300, 1_310));
    told += &pulled(&mut mixer, 1_320);
    assert!(
        !told.contains("lost") && told.ends_with("300 filled, 10x0.75@1310"),
        "{told}"
    );
}

#[test]
fn what_a_stream_has_lost_at_its_end_is_told() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_000));
    mixer.lose(2, [Loss::exact(5), Loss::exact(0)]);
    mixer.set(2, Activity::Ended, 1_010 * MS);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_010));
    let told = "10x0.75@1000, 5x0.5?@1010, 5x0.5@1015";
    assert_eq!(pulled(&mut mixer, 1_020), told);
    mixer.lose(1, [Loss::exact(2), Loss::estimated(3)]);
    mixer.set(1, Activity::Ended, 1_020 * MS);
    // A stream that never had a frame.
    mixer.set(3, Activity::Playing, 1_020 * MS);
    mixer.lose(3, [Loss::exact(0), Loss::estimated(7)]);
    mixer.set(3, Activity::Ended, 1_020 * MS);
    assert_eq!(
        pulled(&mut mixer, 1_020),
        "2 lost@1020, ~3 lost@1022, ~2 lost@1025"
    );
    assert!(mixer.lanes.is_empty());
}

#[test]
fn what_a_stream_has_lost_over_time_that_went_out_is_told() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_000));
    let mut told = pulled(&mut mixer, 1_010);
    // The second stands still for longer than the mixer waits for it.
    let lag = usize::try_from(MIX_LAG_NS / MS).unwrap() + 10;
    mixer.push(1, frames(0.5, lag), stamp(0, 1_010));
    told += &pulled(&mut mixer, 1_250);
    assert_eq!(told, format!("10x0.75@1000{lag}x0.5@1010"));
    // The second has lost all of that, and some frames that have not gone out yet.
    mixer.lose(2, [Loss::exact(5), Loss::estimated(215)]);
    mixer.set(2, Activity::Ended, 1_250 * MS);
    mixer.push(1, frames(0.5, 20), stamp(0, 1_220));
    let told = format!("{lag} filled, 10x0.5?@1220, 10x0.5@1230");
    assert_eq!(pulled(&mut mixer, 1_250), told);
}

#[test]
fn what_a_new_stream_has_lost_before_its_first_frame_is_told() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 4), stamp(4, 1_006));
    let told = "2x0.5@1000, 4x0.5?@1002, 4x0.75@1006";
    assert_eq!(pulled(&mut mixer, 1_010), told);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_010));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_010));
    // The third lost frames before it was known.
    mixer.set(3, Activity::Playing, 1_010 * MS);
    mixer.push(3, frames(0.125, 10), stamp(7, 1_010));
    assert_eq!(pulled(&mut mixer, 1_020), "7 filled, 10x0.875@1010");
}

/// Streams stand still together, and their losses are reported one after the other.
#[test]
fn what_all_have_lost_is_told_once_however_late_it_is_found() {
    let mut mixer = mixer(2);
    for id in 1..=2 {
        mixer.push(id, frames(0.5, 10), stamp(0, 1_000));
    }
    assert_eq!(pulled(&mut mixer, 1_010), "10x1@1000");
    // The first is too far ahead to wait for the second.
    mixer.push(1, frames(0.5, 10), stamp(300, 1_310));
    let told = pulled(&mut mixer, 1_320);
    assert!(told.contains("300 lost"), "{told}");
    mixer.push(2, frames(0.5, 10), stamp(300, 1_310));
    let told = pulled(&mut mixer, 1_330);
    assert!(!told.contains("filled"), "{told}");
}

#[test]
fn what_the_server_may_have_played_before_a_first_frame_is_bounded() {
    let mut mixer = mixer(2);
    // The capture begins with the first frame of any stream.
    mixer.push(1, frames(0.5, 10), stamp(0, 1_020));
    assert_eq!(mixer.take_unheard(), 0);
    mixer.push(2, frames(0.25, 10), stamp(0, 1_025));
    assert_eq!(mixer.take_unheard(), 5);
    mixer.push(2, frames(0.25, 10), stamp(0, 1_035));
    // Streams that begin later: one is recorded 30 ms later, one before it was known, and one never.
    (3..=5).for_each(|id| mixer.set(id, Activity::Playing, 1_040 * MS));
    mixer.push(3, frames(0.5, 10), stamp(0, 1_070));
    mixer.push(4, frames(0.5, 10), stamp(0, 1_039));
    assert_eq!(mixer.take_unheard(), 30);
    mixer.set(5, Activity::Ended, 1_090 * MS);
    mixer.set(5, Activity::Ended, 1_100 * MS);
    assert_eq!(mixer.take_unheard(), 50);
    // A stream that was paused has played nothing.
    mixer.set(6, Activity::Paused, 1_040 * MS);
    mixer.set(6, Activity::Ended, 1_100 * MS);
    mixer.miss(7);
    assert_eq!(mixer.take_unheard(), 7);
}

#[test]
fn silence_goes_out_while_no_stream_plays_and_a_pause_is_not_lost() {
    let mut mixer = mixer(1);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.set(1, Activity::Paused, 1_010 * MS);
    let margin = MIX_IDLE_MARGIN_NS / MS;
    assert_eq!(
        pulled(&mut mixer, 1_110 + margin),
        "10x0.5@1000, 100 silent@1010"
    );
    mixer.set(1, Activity::Playing, 1_010 * MS);
    // The reported loss is the pause.
    mixer.push(1, frames(0.25, 10), stamp(150, 1_160));
    assert_eq!(pulled(&mut mixer, 1_170), "50 silent@1110, 10x0.25@1160");
    mixer.set(1, Activity::Ended, 1_010 * MS);
    assert_eq!(pulled(&mut mixer, 1_180 + margin), "10 silent@1170");
    // A stream whose first frame is older than the last frame that went out begins at once.
    mixer.set(2, Activity::Playing, 1_010 * MS);
    mixer.push(2, frames(0.5, 10), stamp(0, 1_150));
    assert_eq!(pulled(&mut mixer, 1_180), "10x0.5@1150");
}

#[test]
fn a_stream_that_stays_behind_holds_up_nothing_and_loses_nothing() {
    let mut mixer = mixer(2);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_000));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_000));
    assert_eq!(pulled(&mut mixer, 1_010), "10x0.75@1000");
    let lag = usize::try_from(MIX_LAG_NS / MS).unwrap();
    mixer.push(1, frames(0.5, lag), stamp(0, 1_010));
    assert_eq!(pulled(&mut mixer, 2_000), "");
    mixer.push(1, frames(0.5, 10), stamp(0, 1_010));
    let told = format!("{lag}x0.5@1010, 10x0.5@1010");
    assert_eq!(pulled(&mut mixer, 2_000), told);
    mixer.push(1, frames(0.5, 10), stamp(0, 1_220));
    mixer.push(2, frames(0.25, 10), stamp(0, 1_010));
    assert_eq!(pulled(&mut mixer, 2_000), "10x0.75@1220");
}
