//! Options of JavaScript, parsed into valid types.

use std::time::Duration;

use napi_derive::napi;

use crate::channel_map::ChannelMap;
use crate::convert::Policy;
use crate::device::{Follow, Target, Wanted, Which};
use crate::error::{Error, Result};
use crate::format::{Format, Sample};
use crate::gate;
use crate::limits::{JOINED_FRAGMENT_NS_MAX, PACKET_FRAMES_MAX, SLOTS_MAX};
use crate::packetizer::{Overrun, Settings, Silence};
use crate::source::pair::{Combine, Pair};
use crate::source::synthetic::{self, Pace, Synthetic, Wave};
use crate::source::{Source, System};

/// Options of a capture.
#[napi(object)]
pub struct Options {
    /// Sources of sound; a second source is put on the clock of the first.
    pub sources: Vec<SourceOptions>,
    /// Combination of two sources: `side-by-side` (the default) or `mix`.
    pub combine: Option<String>,
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Channels of each source: packets of two side by side have twice as many.
    pub channels: u32,
    /// Positions of the channels of each source; the standard ones by default.
    pub channel_map: Option<Vec<String>>,
    /// Sample format: `s16`, `f32` or `mulaw`.
    pub sample: String,
    /// Frames of a full packet.
    pub packet_frames: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Frames between wakes of the event loop: packets that come in between are delivered together. One packet by
    /// default.
    pub wake_frames: Option<u32>,
    /// Bytes that a packet may have.
    pub slot_bytes: u32,
    /// Overrun policy: `drop-oldest`, `drop-newest` or `error`.
    pub overrun: String,
    /// Packets of silence: `emit` or `skip`.
    pub silence: String,
    /// Policy when the device gives another format: `allow` (the default) or `refuse`.
    pub convert: Option<String>,
    /// The gate; none by default.
    pub gate: Option<GateOptions>,
}

/// A source of sound. A `synthetic` source has more settings; by default, they are those of the capture or do not
/// apply.
#[napi(object)]
pub struct SourceOptions {
    /// Kind of source: `input`, `loopback`, `process` or `synthetic`.
    pub kind: String,
    /// For `input` and `loopback`: the device; the default one if none is named.
    pub device_id: Option<String>,
    /// For `process`: process ID.
    pub pid: Option<u32>,
    /// For `process`: start time of the process, in ms since the machine started.
    pub start_time_ms: Option<f64>,
    /// For `process`, in place of `pid`: name or executable of the program.
    pub program: Option<String>,
    /// For `process`: `restart`, `children` or `none`.
    pub follow: Option<String>,
    /// Signal of `synthetic`: `tone` (the default), `silence`, `speech` or `probe`.
    pub signal: Option<String>,
    /// Frequency of a tone, in Hz; 440 by default.
    pub frequency_hz: Option<u32>,
    /// Drift of the clock in parts per million: positive runs fast.
    pub drift_ppm: Option<f64>,
    /// `realtime` (the default), or `burst`: as fast as slots are free.
    pub pace: Option<String>,
    /// For `realtime`: multiple of real time; 1 by default.
    pub speed: Option<f64>,
    /// Packets after which the source ends; 0 by default: never.
    pub packets: Option<u32>,
    /// Sample rate of the device, in Hz.
    pub sample_rate: Option<u32>,
    /// Channels of the device.
    pub channels: Option<u32>,
    /// Positions of the device's channels; the standard ones by default.
    pub channel_map: Option<Vec<String>>,
    /// Sample format of the device.
    pub sample: Option<String>,
}

/// Options of the gate.
#[napi(object)]
pub struct GateOptions {
    /// Root mean square in dB below full scale at which it opens, at most 0.
    pub threshold_db: f64,
    /// Time that the gate stays open after that, in ms.
    pub hangover_ms: u32,
    /// Length of the sound before the opening that passes too, in ms.
    pub preroll_ms: u32,
}

/// Amplitude of a tone: 6 dB below full scale.
const TONE_AMPLITUDE: f32 = 0.5;

impl Options {
    /// Settings of packets.
    pub fn settings(&self) -> Result<Settings> {
        let sample = Sample::parse(&self.sample)?;
        if !(1..=PACKET_FRAMES_MAX).contains(&self.packet_frames) {
            return Err(Error::Options(format!(
                "a packet of {} frames; expected 1 to {PACKET_FRAMES_MAX}",
                self.packet_frames
            )));
        }
        let each = Format::checked(self.sample_rate, self.channels, sample)?;
        let map = map_of(self.channel_map.as_deref(), each.channels)?;
        let (channels, map) = match (self.sources.len(), self.combine()?) {
            (2, Combine::SideBySide) => (each.channels * 2, map.beside(&map)),
            _ => (each.channels, map),
        };
        let format = Format::checked(each.rate, channels, sample)?;
        let packet_ns = format.duration_ns(self.packet_frames.into());
        Ok(Settings {
            format,
            map,
            packet_frames: self.packet_frames,
            overrun: overrun(&self.overrun)?,
            silence: silence(&self.silence)?,
            gate: match &self.gate {
                Some(gate) => Some(gate.settings(packet_ns)?),
                None => None,
            },
        })
    }

    /// Policy on the conversion of the device's format.
    pub fn policy(&self) -> Result<Policy> {
        match self.convert.as_deref() {
            None | Some("allow") => Ok(Policy::Allow),
            Some("refuse") => Ok(Policy::Refuse),
            Some(word) => Err(Error::Options(format!(
                "convert is '{word}'; expected 'allow' or 'refuse'"
            ))),
        }
    }

    /// The source, or both combined, not opened yet.
    pub fn source(&self, settings: Settings) -> Result<Box<dyn Source>> {
        match self.sources.as_slice() {
            [source] => source.source(settings, self.fragment(settings)),
            [first, second] => {
                let combine = self.combine()?;
                let each = Settings {
                    format: combine.each(settings.format),
                    map: combine.each_map(&settings.map),
                    ..settings
                };
                let fragment = self.fragment(settings);
                let sources = [
                    first.source(each, fragment)?,
                    second.source(each, fragment)?,
                ];
                let policy = self.policy()?;
                Ok(Box::new(Pair::new(sources, combine, &settings, policy)))
            }
            sources => Err(Error::Options(format!(
                "{} sources; expected one or two",
                sources.len()
            ))),
        }
    }

    /// Length that a source delivers at a time: a packet, or those that wake the event loop together, up to half of
    /// the ring.
    fn fragment(&self, settings: Settings) -> Duration {
        let half = self.packet_frames.saturating_mul(self.slots / 2);
        let wake = self.wake_frames.unwrap_or(0).min(half);
        let frames = self.packet_frames.max(wake);
        let ns = settings.format.duration_ns(frames.into());
        let is_joined = match self.sources.as_slice() {
            [source] => source.kind == "process",
            _ => true,
        };
        Duration::from_nanos(if is_joined {
            ns.min(JOINED_FRAGMENT_NS_MAX)
        } else {
            ns
        })
    }

    fn combine(&self) -> Result<Combine> {
        match self.combine.as_deref() {
            None | Some("side-by-side") => Ok(Combine::SideBySide),
            Some("mix") => Ok(Combine::Mix),
            Some(word) => Err(Error::Options(format!(
                "combine is '{word}'; expected 'side-by-side' or 'mix'"
            ))),
        }
    }
}

impl SourceOptions {
    fn source(&self, settings: Settings, fragment: Duration) -> Result<Box<dyn Source>> {
        let device = self.device_id.clone();
        let wanted = match self.kind.as_str() {
            "input" => Wanted::Input(device),
            "loopback" => Wanted::Loopback(device),
            "process" => Wanted::Process(self.target()?),
            "synthetic" => return Ok(Box::new(Synthetic::new(self.synthetic(settings)?)?)),
            kind => {
                return Err(Error::Options(format!(
                    "source.kind is '{kind}'; expected 'input', 'loopback', 'process' or 'synthetic'"
                )));
            }
        };
        Ok(Box::new(System::new(wanted, fragment)))
    }

    /// The program of a source of kind `process`.
    fn target(&self) -> Result<Target> {
        let refused = |reason: &str| Err(Error::Options(reason.to_owned()));
        let which = match (self.pid, &self.program) {
            (Some(0), _) => return refused("source.pid is 0; expected a process ID"),
            (Some(pid), None) => Which::Process {
                pid,
                start_ms: self.start_ms()?,
            },
            (None, Some(_)) if self.start_time_ms.is_some() => {
                return refused("source.startTimeMs is that of a process: it requires source.pid");
            }
            (None, Some(name)) if name.is_empty() => {
                return refused("source.program is empty; expected a name");
            }
            (None, Some(name)) => Which::Name(name.clone()),
            (Some(_), Some(_)) => {
                return refused("source.pid and source.program are both set; expected one of them");
            }
            (None, None) => {
                return refused("source.pid or source.program is required for the kind 'process'");
            }
        };
        let follow = self.follow.as_deref().map(Follow::parse).transpose()?;
        Ok(Target { which, follow })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number that is not negative, as was checked"
    )]
    fn start_ms(&self) -> Result<Option<u64>> {
        match self.start_time_ms {
            None => Ok(None),
            Some(ms) if ms >= 0.0 && ms.fract() == 0.0 => Ok(Some(ms as u64)),
            Some(ms) => Err(Error::Options(format!(
                "source.startTimeMs is {ms}; expected a number of AudioCapture.processes()"
            ))),
        }
    }

    fn synthetic(&self, capture: Settings) -> Result<synthetic::Settings> {
        let asked = capture.format;
        let sample = self.sample.as_deref().map(Sample::parse).transpose()?;
        let format = Format::checked(
            self.sample_rate.unwrap_or(asked.rate),
            self.channels.unwrap_or(asked.channels),
            sample.unwrap_or(asked.sample),
        )?;
        let period =
            u64::from(capture.packet_frames) * u64::from(format.rate) / u64::from(asked.rate);
        let period = period.clamp(1, PACKET_FRAMES_MAX.into());
        let packets = self.packets.filter(|&packets| packets > 0);
        Ok(synthetic::Settings {
            format,
            map: map_of(self.channel_map.as_deref(), format.channels)?,
            wave: self.wave()?,
            pace: self.pace()?,
            period: u32::try_from(period).unwrap_or(PACKET_FRAMES_MAX),
            frames: packets.map(|packets| u64::from(packets) * period),
        })
    }

    fn wave(&self) -> Result<Wave> {
        match self.signal.as_deref().unwrap_or("tone") {
            "tone" => Ok(Wave::Sine {
                frequency: self.frequency_hz.unwrap_or(440),
                amplitude: TONE_AMPLITUDE,
            }),
            "silence" => Ok(Wave::Silence),
            "speech" => Ok(Wave::Speech),
            "probe" => Ok(Wave::Ramp),
            word => Err(Error::Options(format!(
                "source.synthetic.signal is '{word}'; expected 'tone', 'silence', 'speech' or 'probe'"
            ))),
        }
    }

    fn pace(&self) -> Result<Pace> {
        match self.pace.as_deref() {
            None | Some("realtime") => Ok(Pace::Clock {
                ppm: self.drift_ppm.unwrap_or(0.0),
                speed: self.speed.unwrap_or(1.0),
            }),
            Some("burst") => Ok(Pace::Burst),
            Some(word) => Err(Error::Options(format!(
                "source.synthetic.pace is '{word}'; expected 'realtime' or 'burst'"
            ))),
        }
    }
}

/// The channel map by these names, for this number of channels.
fn map_of(names: Option<&[String]>, channels: u32) -> Result<ChannelMap> {
    let Some(names) = names else {
        return Ok(ChannelMap::standard(channels));
    };
    if names.len() != channels as usize {
        return Err(Error::Options(format!(
            "format.channelMap has {} positions; format.channels is {channels}",
            names.len()
        )));
    }
    ChannelMap::parse(names)
}

fn overrun(word: &str) -> Result<Overrun> {
    match word {
        "drop-oldest" => Ok(Overrun::DropOldest),
        "drop-newest" => Ok(Overrun::DropNewest),
        "error" => Ok(Overrun::Fail),
        _ => Err(Error::Options(format!(
            "overrun is '{word}'; expected 'drop-oldest', 'drop-newest' or 'error'"
        ))),
    }
}

fn silence(word: &str) -> Result<Silence> {
    match word {
        "emit" => Ok(Silence::Emit),
        "skip" => Ok(Silence::Skip),
        _ => Err(Error::Options(format!(
            "silence is '{word}'; expected 'emit' or 'skip'"
        ))),
    }
}

impl GateOptions {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a threshold needs no more digits"
    )]
    fn settings(&self, packet_ns: u64) -> Result<gate::Settings> {
        if self.threshold_db.is_nan() || self.threshold_db > 0.0 {
            return Err(Error::Options(format!(
                "gate.thresholdDb is {}; expected at most 0",
                self.threshold_db
            )));
        }
        // Whole packets, so that the gate is open no shorter than requested.
        let packets = |ms: u32| {
            let packets = (u64::from(ms) * 1_000_000).div_ceil(packet_ns.max(1));
            u32::try_from(packets).unwrap_or(u32::MAX)
        };
        Ok(gate::Settings {
            threshold: 10_f64.powf(self.threshold_db / 20.0) as f32,
            hangover: packets(self.hangover_ms).min(u32::MAX - 1),
            preroll: packets(self.preroll_ms).min(SLOTS_MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source of this kind.
    fn source(kind: &str) -> SourceOptions {
        SourceOptions {
            kind: kind.to_owned(),
            device_id: None,
            pid: None,
            start_time_ms: None,
            program: None,
            follow: None,
            signal: None,
            frequency_hz: None,
            drift_ppm: None,
            pace: None,
            speed: None,
            packets: None,
            sample_rate: None,
            channels: None,
            channel_map: None,
            sample: None,
        }
    }

    /// Fragment in ms of sources of these kinds, by ms of a packet, ms between wakes, and slots.
    fn fragment_ms(kinds: &[&str], [packet_ms, wake_ms, slots]: [u32; 3]) -> u128 {
        let options = Options {
            sources: kinds.iter().map(|kind| source(kind)).collect(),
            combine: None,
            sample_rate: 48_000,
            channels: 1,
            channel_map: None,
            sample: "s16".to_owned(),
            packet_frames: packet_ms * 48,
            slots,
            wake_frames: Some(wake_ms * 48),
            slot_bytes: packet_ms * 96,
            overrun: "drop-oldest".to_owned(),
            silence: "emit".to_owned(),
            convert: None,
            gate: None,
        };
        options.fragment(options.settings().unwrap()).as_millis()
    }

    #[test]
    fn a_fragment_is_no_longer_than_half_of_the_ring_or_than_what_is_joined_with_it_waits() {
        assert_eq!(fragment_ms(&["input"], [10, 20, 200]), 20);
        assert_eq!(fragment_ms(&["input"], [10, 5, 200]), 10);
        assert_eq!(fragment_ms(&["input"], [10, 1_000, 16]), 80);
        assert_eq!(fragment_ms(&["input"], [10, 1_000, 2]), 10);
        assert_eq!(fragment_ms(&["input"], [1_000, 20, 2]), 1_000);
        for kinds in [&["process"][..], &["input", "loopback"]] {
            assert_eq!(fragment_ms(kinds, [10, 1_000, 200]), 20);
            assert_eq!(fragment_ms(kinds, [10, 10, 200]), 10);
            assert_eq!(fragment_ms(kinds, [1_000, 1_000, 16]), 20);
        }
    }
}
