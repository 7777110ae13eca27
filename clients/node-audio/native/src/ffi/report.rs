//! What native code says to JavaScript, as plain objects.

use napi_derive::napi;

use crate::channel_map::StreamFormat;
use crate::device::{Device, Kind, Program};
use crate::error::Result;
use crate::event::{Event, Opened};
use crate::layout::Layout;

/// The sizes of a ring's memory.
#[napi(object)]
pub struct LayoutReport {
    /// Bytes in all.
    pub bytes: u32,
    /// Bytes from a slot's data to the next one's.
    pub stride: u32,
    /// Offset of the slot table.
    pub table: u32,
    /// Offset of the first slot's data.
    pub data: u32,
}

impl From<Layout> for LayoutReport {
    fn from(layout: Layout) -> Self {
        Self {
            bytes: layout.bytes,
            stride: layout.stride,
            table: layout.table,
            data: layout.data,
        }
    }
}

/// What frames are made of.
#[napi(object)]
pub struct FormatReport {
    /// In Hz.
    pub sample_rate: u32,
    /// Samples of a frame.
    pub channels: u32,
    /// Positions of the channels.
    pub channel_map: Vec<String>,
    /// `s16`, `f32` or `mulaw`.
    pub sample: String,
}

impl From<StreamFormat> for FormatReport {
    fn from(StreamFormat { format, map }: StreamFormat) -> Self {
        Self {
            channel_map: map.names(),
            sample_rate: format.rate,
            channels: format.channels,
            sample: format.sample.name().to_owned(),
        }
    }
}

/// An event of a capture. `kind` says which of the others are there.
#[napi(object)]
#[derive(Default)]
pub struct EventReport {
    /// `open`, `moved`, `suspended`, `resumed`, `reconnecting`, `reconnected`,
    /// `permission-suspected`, `failed` or `ended`.
    pub kind: String,
    /// Of `open` and `moved`: the device's id.
    pub device: Option<String>,
    /// Of `open`, `moved` and `reconnected`: what the device gives.
    pub format: Option<FormatReport>,
    /// Of `open` and `moved`: what resampling delays samples by, in frames of the packets.
    pub delay_frames: Option<f64>,
    /// Of `reconnected`: frames lost in between.
    pub lost_frames: Option<f64>,
    /// Of `failed`: the error's code.
    pub code: Option<String>,
    /// Of `failed` and `reconnecting`: what is wrong, and what to do.
    pub message: Option<String>,
}

impl EventReport {
    fn of(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            ..Self::default()
        }
    }

    fn of_device(kind: &str, opened: Opened) -> Self {
        Self {
            device: Some(opened.device),
            format: Some(opened.format.into()),
            delay_frames: Some(opened.delay_frames),
            ..Self::of(kind)
        }
    }
}

impl From<Event> for EventReport {
    fn from(event: Event) -> Self {
        match event {
            Event::Open(opened) => Self::of_device("open", opened),
            Event::Moved(opened) => Self::of_device("moved", opened),
            Event::Suspended => Self::of("suspended"),
            Event::Resumed => Self::of("resumed"),
            Event::Reconnecting { reason } => Self {
                message: Some(reason),
                ..Self::of("reconnecting")
            },
            Event::Reconnected {
                lost_frames,
                format,
            } => Self {
                format: Some(format.into()),
                #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 frames")]
                lost_frames: Some(lost_frames as f64),
                ..Self::of("reconnected")
            },
            Event::PermissionSuspected => Self::of("permission-suspected"),
            Event::Failed(error) => Self {
                code: Some(error.code().to_owned()),
                message: Some(error.to_string()),
                ..Self::of("failed")
            },
            Event::Ended => Self::of("ended"),
        }
    }
}

/// A device.
#[napi(object)]
pub struct DeviceReport {
    /// What names it.
    pub id: String,
    /// For people.
    pub name: String,
    /// `input` or `loopback`.
    pub kind: String,
    /// Whether it is taken when none is named.
    pub is_default: bool,
    /// What it gives.
    pub format: FormatReport,
    /// `pulse`, `alsa`, `wasapi` or `coreaudio`.
    pub backend: String,
}

impl From<Device> for DeviceReport {
    fn from(device: Device) -> Self {
        let kind = match device.kind {
            Kind::Input => "input",
            Kind::Loopback => "loopback",
        };
        Self {
            id: device.id,
            name: device.name,
            kind: kind.to_owned(),
            is_default: device.is_default,
            format: device.format.into(),
            backend: device.backend.name().to_owned(),
        }
    }
}

/// Devices; or none, and why.
#[napi(object)]
#[derive(Default)]
pub struct DevicesReport {
    /// Those that there are.
    pub devices: Vec<DeviceReport>,
    /// Of an error: its code.
    pub code: Option<String>,
    /// Of an error: what is wrong, and what to do.
    pub message: Option<String>,
}

impl From<Result<Vec<Device>>> for DevicesReport {
    fn from(found: Result<Vec<Device>>) -> Self {
        match found {
            Ok(devices) => Self {
                devices: devices.into_iter().map(DeviceReport::from).collect(),
                ..Self::default()
            },
            Err(error) => Self {
                code: Some(error.code().to_owned()),
                message: Some(error.to_string()),
                ..Self::default()
            },
        }
    }
}

/// A program that plays sound.
#[napi(object)]
pub struct ProgramReport {
    /// Its process.
    pub pid: u32,
    /// When the process started, in ms since the machine did, if the system tells.
    pub start_time_ms: Option<f64>,
    /// For people.
    pub name: String,
}

impl From<Program> for ProgramReport {
    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 ms")]
    fn from(program: Program) -> Self {
        Self {
            pid: program.pid,
            start_time_ms: program.start_ms.map(|ms| ms as f64),
            name: program.name,
        }
    }
}

/// Programs; or none, and why.
#[napi(object)]
#[derive(Default)]
pub struct ProgramsReport {
    /// Those that play sound.
    pub programs: Vec<ProgramReport>,
    /// Of an error: its code.
    pub code: Option<String>,
    /// Of an error: what is wrong, and what to do.
    pub message: Option<String>,
}

impl From<Result<Vec<Program>>> for ProgramsReport {
    fn from(found: Result<Vec<Program>>) -> Self {
        match found {
            Ok(programs) => Self {
                programs: programs.into_iter().map(ProgramReport::from).collect(),
                ..Self::default()
            },
            Err(error) => Self {
                code: Some(error.code().to_owned()),
                message: Some(error.to_string()),
                ..Self::default()
            },
        }
    }
}
