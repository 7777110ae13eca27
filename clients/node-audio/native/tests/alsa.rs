//! ALSA on a machine without a sound server or a sound card: PCMs made by configuration.
//!
//! libasound reads its configuration once, so each capture is in a process of its own.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test as well")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use steppe_audio::capture::Capture;
use steppe_audio::channel_map::ChannelMap;
use steppe_audio::convert::Policy;
use steppe_audio::device::Wanted;
use steppe_audio::event::Event;
use steppe_audio::format::{Format, Sample};
use steppe_audio::layout::{Counter, Layout};
use steppe_audio::packetizer::{Overrun, Packetizer, Settings, Silence};
use steppe_audio::ring::consumer::{Consumer, Taken};
use steppe_audio::ring::sys::Heap;
use steppe_audio::ring::{Ring, counter_of};
use steppe_audio::source::System;
use steppe_audio::source::synthetic::ramp;

const FORMAT: Format = Format {
    rate: 48_000,
    channels: 2,
    sample: Sample::S16,
};
const SETTINGS: Settings = Settings {
    format: FORMAT,
    packet_frames: 480,
    overrun: Overrun::DropNewest,
    silence: Silence::Emit,
    gate: None,
    map: ChannelMap::standard(2),
};

/// Packets that the child captures.
const PACKETS: u32 = 32;

/// Environment variable with the PCM that the child captures from; empty: the default one.
const PCM: &str = "STEPPE_AUDIO_TEST_PCM";

/// Captures with this configuration, in a process of its own, and returns its output.
fn captured(name: &str, pcm: &str, configuration: &str) -> Output {
    let path = scratch(name);
    fs::write(&path, configuration).unwrap();
    let itself = std::env::current_exe().unwrap();
    Command::new(itself)
        .args([
            "--exact",
            "a_capture_in_a_process_of_its_own",
            "--nocapture",
        ])
        .env(PCM, pcm)
        .env("ALSA_CONFIG_PATH", path)
        .env("PULSE_SERVER", "unix:/dev/null/pulse")
        .env("XDG_RUNTIME_DIR", "/dev/null/none")
        .output()
        .unwrap()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("alsa-{name}"))
}

/// The child's report of its capture.
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("told: "))
        .map(|(_, told)| told)
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    lines[0].to_owned()
}

/// The child process of every test here; does nothing by itself.
#[test]
fn a_capture_in_a_process_of_its_own() {
    if let Ok(pcm) = std::env::var(PCM) {
        println!("told: {}", capture((!pcm.is_empty()).then_some(pcm)));
    }
}

/// Captures, and returns a report of the packets or the error.
fn capture(pcm: Option<String>) -> String {
    let layout = Layout::new(PACKETS, 1_920).unwrap();
    let heap = Heap::new(layout.bytes);
    let ring = Ring::new(heap.producer(), layout).unwrap();
    let (consumer, memory) = (Consumer::of(&ring), ring.memory());
    let packetizer = Packetizer::new(ring, SETTINGS).unwrap();
    let source = System::new(Wanted::Input(pcm), Duration::from_millis(10));
    let capture = Capture::start(
        Box::new(source),
        packetizer,
        Policy::Refuse,
        Box::new(|| {}),
    );
    let mut capture = capture.unwrap();
    let count = |counter| counter_of(&memory, counter).load(SeqCst);
    while count(Counter::Packets) < PACKETS.into() {
        if let Some(Event::Failed(error)) = capture.event() {
            return error.to_string();
        }
        thread::sleep(Duration::from_millis(1));
    }
    capture.close();
    let taken: Vec<Taken> = std::iter::from_fn(|| consumer.take()).collect();
    let exact = taken.iter().filter(|taken| is_exact(consumer, taken));
    let frames = u64::from(PACKETS * SETTINGS.packet_frames);
    let copies = count(Counter::CopiedFrames) / frames;
    format!("{} exact packets, copied {copies} times", exact.count())
}

/// True if each frame has the samples of its position.
fn is_exact(consumer: Consumer, taken: &Taken) -> bool {
    let frames = (taken.packet.position..).zip(consumer.words(taken));
    taken.packet.frames == 480
        && frames.into_iter().all(|(number, word)| {
            let mut frame = [0; 4];
            ramp(number, FORMAT, &mut frame);
            word == u32::from_le_bytes(frame)
        })
}

/// The report of a capture of numbered frames, from a PCM that has them or one that may convert
/// them.
fn numbered(pcm: &str) -> String {
    let sound = scratch(&format!("sound-of-{pcm}"));
    let mut frames = vec![0; 4 * 480 * PACKETS as usize];
    for (number, frame) in (0..).zip(frames.chunks_exact_mut(4)) {
        ramp(number, FORMAT, frame);
    }
    fs::write(&sound, frames).unwrap();
    let configuration = format!(
        "pcm.none {{ type null }}\n\
         pcm.plain {{ type file slave.pcm none file /dev/null infile {sound:?} format raw }}\n\
         pcm.converted {{ type plug slave.pcm plain }}\n"
    );
    let output = captured(pcm, pcm, &configuration);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    told(&output)
}

#[test]
fn frames_are_taken_from_where_a_pcm_has_them() {
    assert_eq!(numbered("plain"), "32 exact packets, copied 1 times");
}

#[test]
fn frames_that_libasound_may_convert_are_copied_once_more() {
    // At least twice: frames that come once the ring is full are read as well, and counted.
    let told = numbered("converted");
    assert!(told.starts_with("32 exact packets, "), "{told}");
    assert!(!told.ends_with("copied 1 times"), "{told}");
}

#[test]
fn a_pcm_is_opened_with_its_own_channel_map() {
    let configuration = "pcm.swapped { type null chmap [ \"FR,FL\" ] }\n";
    let error = told(&captured("swapped", "swapped", configuration));
    assert!(error.contains("s16 (front-right front-left)"), "{error}");
}

#[test]
fn what_libasound_says_is_in_the_error_and_nowhere_else() {
    let output = captured("strange", "", "pcm.!default { type null strange 1 }\n");
    let error = told(&output);
    let said = "snd_pcm_open: Invalid argument: Unknown field strange ('default')";
    assert!(error.ends_with(said), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_machine_without_sound_has_one_message() {
    let output = captured("nothing", "", "");
    let error = told(&output);
    assert!(error.starts_with("no sound server: "), "{error}");
    assert!(error.contains("no sound card found"), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
