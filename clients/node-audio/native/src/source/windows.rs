//! Windows: WASAPI in shared mode, through the crate `wasapi`.
//!
//! Captures microphones, outputs (loopback; silence while nothing plays), and one process with its
//! children (Windows 10 2004 and later), whose times are estimated since Windows gives none. Frames are
//! read into a buffer, which is one copy more than elsewhere, and counted.
//! Type-checked, untested.

use std::sync::Arc;
use std::time::Duration;

use wasapi::{
    AudioCaptureClient, AudioClient, BufferInfo, DeviceEnumerator, Direction, Handle, SampleType,
    SessionState, StreamMode, WasapiError, WaveFormat,
};

use crate::channel_map::{ChannelMap, StreamFormat};
use crate::clock;
use crate::clock::timeline::Times;
use crate::device::{Backend, Device, Follow, Kind, Program, Target, Wanted, Which};
use crate::error::{Error, Result};
use crate::format::{Format, Sample};
use crate::frames::Data;
use crate::layout::Counter;
use crate::limits::{CHANNELS_MAX, RATE_MAX, RATE_MIN, WASAPI_BUFFER_HNS, WASAPI_TURN_MS};
use crate::packetizer::Time;
use crate::session::{Control, Session};
use crate::source::Source;
use crate::source::idle::Idle;
use crate::source::outage::{Outage, outlast_all};
use crate::source::periods::{Period, Periods};
use crate::source::polled;

/// A capture by WASAPI.
pub struct System {
    wanted: Wanted,
}

impl System {
    /// A capture; the audio engine decides the period.
    #[must_use]
    pub fn new(wanted: Wanted, _packet: Duration) -> Self {
        Self { wanted }
    }

    fn capture(&self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        let opened = self.open(session.format())?;
        outage.over(session, &opened.device, opened.format)?;
        let mut stream = Stream {
            client: opened.client.get_audiocaptureclient().map_err(error)?,
            ready: opened.client.set_get_eventhandle().map_err(error)?,
            buffer: Vec::new(),
            flow: match self.wanted {
                Wanted::Input(_) => {
                    Flow::Steady(Periods::new(opened.format.format, Times::Stamped))
                }
                Wanted::Loopback(_) | Wanted::Process(_) => {
                    Flow::Loopback(Idle::new(opened.format.format))
                }
            },
            is_estimated: matches!(self.wanted, Wanted::Process(_)),
            format: opened.format.format,
        };
        opened.client.start_stream().map_err(error)?;
        let ended = stream.run(session, outage);
        // This fails if the device is gone.
        let _ = opened.client.stop_stream();
        if !session.is_stopped() {
            outage.began(session, stream.flow.end_ns())?;
        }
        ended
    }

    fn open(&self, asked: Format) -> Result<Opened> {
        if let Wanted::Process(target) = &self.wanted {
            // A client of a process has no format of its own: Windows converts.
            let format = in_floats(asked).into();
            let (pid, includes_children) = process(target)?;
            let client = AudioClient::new_application_loopback_client(pid, includes_children);
            return initialized(client.map_err(error)?, format!("process {pid}"), format);
        }
        let (direction, id) = match &self.wanted {
            Wanted::Loopback(id) => (Direction::Render, id),
            Wanted::Input(id) => (Direction::Capture, id),
            Wanted::Process(_) => {
                return Err(Error::Unsupported("capture of a process".to_owned()));
            }
        };
        let enumerator = DeviceEnumerator::new().map_err(error)?;
        let device = match id {
            Some(id) => enumerator.get_device(id),
            None => enumerator.get_default_device(&direction),
        };
        let device = device.map_err(error)?;
        let client = device.get_iaudioclient().map_err(error)?;
        let mixed = client.get_mixformat().map_err(error)?;
        let id = device.get_id().map_err(error)?;
        initialized(client, id, of_wave(&mixed))
    }
}

impl Source for System {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        initialize();
        outlast_all(session, |session, outage| self.capture(session, outage))
    }
}

/// The process to capture, and whether with its children (the default).
fn process(target: &Target) -> Result<(u32, bool)> {
    match (&target.which, target.follow) {
        (_, Some(Follow::Restart)) => Err(Error::Unsupported("source.follow 'restart'".to_owned())),
        (
            &Which::Process {
                pid,
                start_ms: None,
            },
            follow,
        ) => Ok((pid, follow != Some(Follow::Nothing))),
        _ => Err(Error::Unsupported(
            "source.program and source.startTimeMs; name a process by source.pid".to_owned(),
        )),
    }
}

/// Initializes COM on this thread; fails if it is initialized already.
fn initialize() {
    let _ = wasapi::initialize_mta();
}

/// A client that was initialized.
struct Opened {
    client: AudioClient,
    device: String,
    format: StreamFormat,
}

fn initialized(mut client: AudioClient, device: String, format: StreamFormat) -> Result<Opened> {
    let mode = StreamMode::EventsShared {
        autoconvert: true,
        buffer_duration_hns: WASAPI_BUFFER_HNS,
    };
    let Format { rate, channels, .. } = format.format;
    let (rate, channels) = (rate as usize, channels as usize);
    // With the mask of the device's own mix format, the engine mixes nothing.
    let mask = Some(format.map.mask());
    let wave = WaveFormat::new(32, 32, &SampleType::Float, rate, channels, mask);
    // For an output, `Capture` is its loopback.
    let capture = Direction::Capture;
    client
        .initialize_client(&wave, &capture, &mode)
        .map_err(error)?;
    Ok(Opened {
        client,
        device,
        format,
    })
}

/// A client that captures.
struct Stream {
    client: AudioCaptureClient,
    ready: Handle,
    buffer: Vec<u8>,
    flow: Flow,
    /// True if Windows gives no times.
    is_estimated: bool,
    format: Format,
}

impl Stream {
    fn run(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        while !session.is_stopped() {
            match self.ready.wait_for_event(WASAPI_TURN_MS) {
                Ok(()) | Err(WasapiError::EventTimeout) => {}
                Err(failure) => return Err(error(failure)),
            }
            while self.read(session, outage)? {}
            if let Flow::Loopback(idle) = &mut self.flow {
                let time = idle.end_ns();
                let frames = idle.overdue(clock::now_ns());
                silence(session, frames, time)?;
            }
        }
        Ok(())
    }

    /// Reads one packet of the engine; `false`: none is there.
    fn read(&mut self, session: &mut Session, outage: &mut Outage) -> Result<bool> {
        let next = self.client.get_next_packet_size().map_err(error)?;
        let Some(frames @ 1..) = next else {
            return Ok(false);
        };
        let bytes = (frames * self.format.frame_bytes()) as usize;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        let (read, info) = self
            .client
            .read_from_device(&mut self.buffer)
            .map_err(error)?;
        self.deliver(session, outage, read, &info)?;
        Ok(true)
    }

    fn deliver(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        frames: u32,
        info: &BufferInfo,
    ) -> Result<()> {
        let time = self.time_of(frames, info);
        let bytes = (frames * self.format.frame_bytes()) as usize;
        let data = if info.flags.silent {
            Data::Silence(frames.into())
        } else {
            session.count(Counter::CopiedFrames, frames.into());
            Data::Bytes(&self.buffer[..bytes])
        };
        match &mut self.flow {
            Flow::Steady(periods) => {
                if info.flags.data_discontinuity {
                    session.interrupt()?;
                    periods.break_off();
                }
                periods.deliver(session, outage, Period { data, time })
            }
            Flow::Loopback(idle) => {
                outage.close_gap(session, time.ns)?;
                let end_ns = idle.end_ns();
                let silent = idle.before(time.ns);
                silence(session, silent, end_ns)?;
                idle.captured(frames.into());
                session.push(data, time)
            }
        }
    }

    /// Capture time of a packet's first frame: by Windows, in units of 100 ns of the clock that
    /// `process.hrtime` reads; else as if its last frame were captured now.
    fn time_of(&self, frames: u32, info: &BufferInfo) -> Time {
        if self.is_estimated || info.flags.timestamp_error || info.timestamp == 0 {
            let length_ns = self.format.duration_ns(frames.into());
            return Time {
                ns: clock::now_ns().saturating_sub(length_ns),
                is_estimated: true,
            };
        }
        Time::of_device(info.timestamp.saturating_mul(100))
    }
}

/// Continuity of a stream's frames.
enum Flow {
    /// Frames always come.
    Steady(Periods),
    /// Frames come while something plays, and silence stands for the rest.
    Loopback(Idle),
}

impl Flow {
    fn end_ns(&self) -> Option<u64> {
        match self {
            Self::Steady(periods) => periods.end_ns(),
            Self::Loopback(idle) => idle.end_ns(),
        }
    }
}

fn silence(session: &mut Session, frames: u64, from_ns: Option<u64>) -> Result<()> {
    if frames == 0 {
        return Ok(());
    }
    let time = Time {
        ns: from_ns.unwrap_or_default(),
        is_estimated: true,
    };
    session.push(Data::Silence(frames), time)
}

fn in_floats(format: Format) -> Format {
    Format {
        sample: Sample::F32,
        ..format
    }
}

fn of_wave(wave: &WaveFormat) -> StreamFormat {
    let format = Format {
        rate: wave.get_samplespersec().clamp(RATE_MIN, RATE_MAX),
        channels: u32::from(wave.get_nchannels()).clamp(1, CHANNELS_MAX),
        sample: Sample::F32,
    };
    let map = ChannelMap::of_mask(wave.get_dwchannelmask(), format.channels);
    StreamFormat { format, map }
}

/// `AUDCLNT_E_DEVICE_INVALIDATED`.
const DEVICE_INVALIDATED: u32 = 0x8889_0004;
/// `E_ACCESSDENIED`.
const ACCESS_DENIED: u32 = 0x8007_0005;
/// `HRESULT_FROM_WIN32(ERROR_NOT_FOUND)`.
const NOT_FOUND: u32 = 0x8007_0490;

fn error(failure: WasapiError) -> Error {
    let code = match &failure {
        WasapiError::Windows(error) => error.code().0.cast_unsigned(),
        _ => 0,
    };
    match code {
        DEVICE_INVALIDATED => Error::Unplugged(failure.to_string()),
        ACCESS_DENIED => Error::Permission(
            "Windows denies access to the microphone; allow it in Settings, Privacy & security, \
             Microphone"
                .to_owned(),
        ),
        NOT_FOUND => Error::NoDevice("none of this kind or ID".to_owned()),
        _ => Error::Backend {
            call: "WASAPI",
            reason: failure.to_string(),
        },
    }
}

/// Lists the devices.
///
/// # Errors
/// Windows has no audio service.
pub fn devices() -> Result<Vec<Device>> {
    initialize();
    let mut found = Vec::new();
    for (direction, kind) in [
        (Direction::Capture, Kind::Input),
        (Direction::Render, Kind::Loopback),
    ] {
        list(&direction, kind, &mut found).map_err(error)?;
    }
    Ok(found)
}

fn list(
    direction: &Direction,
    kind: Kind,
    found: &mut Vec<Device>,
) -> std::result::Result<(), WasapiError> {
    let enumerator = DeviceEnumerator::new()?;
    let default = enumerator.get_default_device(direction);
    let default = default.and_then(|device| device.get_id()).ok();
    let devices = enumerator.get_device_collection(direction)?;
    for index in 0..devices.get_nbr_devices()? {
        let device = devices.get_device_at_index(index)?;
        let id = device.get_id()?;
        found.push(Device {
            name: device.get_friendlyname()?,
            kind,
            is_default: default.as_ref() == Some(&id),
            format: of_wave(&device.get_device_format()?),
            backend: Backend::Wasapi,
            id,
        });
    }
    Ok(())
}

/// Lists the programs that play sound by the default output.
///
/// # Errors
/// There is no output.
pub fn programs() -> Result<Vec<Program>> {
    initialize();
    playing().map_err(error)
}

fn playing() -> std::result::Result<Vec<Program>, WasapiError> {
    let device = DeviceEnumerator::new()?.get_default_device(&Direction::Render)?;
    let sessions = device
        .get_iaudiosessionmanager()?
        .get_audiosessionenumerator()?;
    let mut programs: Vec<Program> = Vec::new();
    for index in 0..sessions.get_count()? {
        let session = sessions.get_session(index)?;
        let pid = session.get_process_id()?;
        let is_listed = programs.iter().any(|program| program.pid == pid);
        if pid == 0 || is_listed || session.get_state()? != SessionState::Active {
            continue;
        }
        let name = session.get_display_name()?;
        programs.push(Program {
            pid,
            start_ms: None,
            name,
        });
    }
    Ok(programs)
}

/// Calls `on_change` whenever devices have changed, until `control` stops it.
///
/// # Errors
/// Windows has no audio service.
pub fn watch(control: &Arc<Control>, on_change: &dyn Fn()) -> Result<()> {
    polled::watch(control, on_change, devices)
}
