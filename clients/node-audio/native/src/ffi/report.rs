//! Reports to JavaScript, as plain objects.

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

/// Format of a stream.
#[napi(object)]
pub struct FormatReport {
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Channels of a frame.
    pub channels: u32,
    /// Positions of the channels.
    pub channel_map: Vec<String>,
    /// Sample format: `s16`, `f32` or `mulaw`.
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

/// An event of a capture. `kind` determines which of the other fields are set.
#[napi(object)]
#[derive(Default)]
pub struct EventReport {
    /// Kind of event: `open`, `moved`, `suspended`, `resumed`, `reconnecting`, `reconnected`,
    /// `permission-suspected`, `failed` or `ended`.
    pub kind: String,
    /// For `open` and `moved`: the device's id.
    pub device: Option<String>,
    /// For `open`, `moved` and `reconnected`: format of the device.
    pub format: Option<FormatReport>,
    /// For `open` and `moved`: delay by resampling, in frames of the packets.
    pub delay_frames: Option<f64>,
    /// For `reconnected`: frames lost in between.
    pub lost_frames: Option<f64>,
    /// For `failed`: the error's code.
    pub code: Option<String>,
    /// For `failed` and `reconnecting`: the error, with a remedy.
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
    /// Identifier of the device.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// `input` or `loopback`.
    pub kind: String,
    /// True if it is used when no device is named.
    pub is_default: bool,
    /// Format of the device.
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

/// The list of devices, or an error.
#[napi(object)]
#[derive(Default)]
pub struct DevicesReport {
    /// Devices; empty on an error.
    pub devices: Vec<DeviceReport>,
    /// Code of the error.
    pub code: Option<String>,
    /// Message of the error, with a remedy.
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
    /// Process ID.
    pub pid: u32,
    /// Start time of the process, in ms since the machine started, if the system tells.
    pub start_time_ms: Option<f64>,
    /// Name for people.
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

/// The list of programs, or an error.
#[napi(object)]
#[derive(Default)]
pub struct ProgramsReport {
    /// Programs that play sound; empty on an error.
    pub programs: Vec<ProgramReport>,
    /// Code of the error.
    pub code: Option<String>,
    /// Message of the error, with a remedy.
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
