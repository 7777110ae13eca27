//! A device's I/O: its thread puts samples into a queue, and never waits.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use objc2_core_audio::{
    AudioConvertHostTimeToNanos, AudioDeviceCreateIOProcID, AudioDeviceDestroyIOProcID,
    AudioDeviceIOProcID, AudioDeviceStart, AudioDeviceStop, AudioObjectID,
};
use objc2_core_audio_types::{AudioBuffer, AudioBufferList, AudioTimeStamp};
use rtrb::{Consumer, Producer, RingBuffer};

use super::property::{input_format, is_alive};
use super::{Status, checked};
use crate::channel_map::StreamFormat;

/// Periods that the queue holds: more than a second of the shortest.
const PERIODS: usize = 1_024;

/// A period of the device.
#[derive(Debug, Clone, Copy)]
pub struct Period {
    /// Number of its frames.
    pub frames: u64,
    /// Capture time of its first frame, in ns of the monotonic clock.
    pub time_ns: u64,
}

/// State of the device's thread.
struct Inlet {
    samples: Producer<f32>,
    periods: Producer<Period>,
    channels: u32,
    lost: Arc<AtomicU64>,
}

/// A device that records until this is dropped.
pub struct Recording {
    device: AudioObjectID,
    procedure: AudioDeviceIOProcID,
    inlet: NonNull<Inlet>,
    samples: Consumer<f32>,
    periods: Consumer<Period>,
    lost: Arc<AtomicU64>,
    format: StreamFormat,
}

impl Recording {
    /// Starts a device.
    pub fn start(device: AudioObjectID) -> Result<Self, Status> {
        let described = input_format(device)?;
        let format = described.format;
        let second = format.rate as usize * format.channels as usize;
        let (samples_in, samples) = RingBuffer::new(second);
        let (periods_in, periods) = RingBuffer::new(PERIODS);
        let lost = Arc::new(AtomicU64::new(0));
        let inlet = Box::new(Inlet {
            samples: samples_in,
            periods: periods_in,
            channels: format.channels,
            lost: lost.clone(),
        });
        let mut recording = Self {
            device,
            procedure: None,
            inlet: NonNull::from(Box::leak(inlet)),
            samples,
            periods,
            lost,
            format: described,
        };
        let procedure = NonNull::from(&mut recording.procedure);
        let data = recording.inlet.as_ptr().cast::<c_void>();
        // SAFETY: the inlet lives until the procedure was destroyed, in `drop`.
        let status = unsafe { AudioDeviceCreateIOProcID(device, Some(on_period), data, procedure) };
        checked(status)?;
        // SAFETY: the procedure was created for this device.
        let status = unsafe { AudioDeviceStart(device, recording.procedure) };
        checked(status)?;
        Ok(recording)
    }

    /// Format of the recording.
    pub fn format(&self) -> StreamFormat {
        self.format
    }

    /// True while the device exists.
    pub fn is_alive(&self) -> bool {
        is_alive(self.device)
    }

    /// Frames that found the queue full since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }

    /// Gives the oldest period's samples to `use_it`, in one piece or two.
    pub fn take(&mut self, mut use_it: impl FnMut(&[f32], u64)) -> Option<Period> {
        let period = self.periods.pop().ok()?;
        let channels = self.format.format.channels as usize;
        let samples = usize::try_from(period.frames).unwrap_or(0) * channels;
        let chunk = self.samples.read_chunk(samples).ok()?;
        let (first, second) = chunk.as_slices();
        use_it(first, (first.len() / channels) as u64);
        use_it(second, (second.len() / channels) as u64);
        chunk.commit_all();
        Some(period)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.procedure.is_some() {
            // SAFETY: the procedure is this device's.
            unsafe { AudioDeviceStop(self.device, self.procedure) };
            // SAFETY: as above; it does not run any more when this returns.
            unsafe { AudioDeviceDestroyIOProcID(self.device, self.procedure) };
        }
        // SAFETY: leaked in `start`, and used by nobody any more.
        drop(unsafe { Box::from_raw(self.inlet.as_ptr()) });
    }
}

/// Runs on the device's thread.
unsafe extern "C-unwind" fn on_period(
    _: AudioObjectID,
    _: NonNull<AudioTimeStamp>,
    input: NonNull<AudioBufferList>,
    input_time: NonNull<AudioTimeStamp>,
    _: NonNull<AudioBufferList>,
    _: NonNull<AudioTimeStamp>,
    inlet: *mut c_void,
) -> i32 {
    // SAFETY: the recording's inlet, which only this thread uses until the procedure was destroyed.
    let inlet = unsafe { &mut *inlet.cast::<Inlet>() };
    // SAFETY: CoreAudio's, through this call.
    let list = unsafe { input.as_ref() };
    // SAFETY: as above.
    let host_time = unsafe { input_time.as_ref() }.mHostTime;
    if list.mNumberBuffers > 0 {
        // SAFETY: a conversion of a number.
        let time_ns = unsafe { AudioConvertHostTimeToNanos(host_time) };
        // The first stream of the device: its format is the one that was read.
        put(inlet, &list.mBuffers[0], time_ns);
    }
    0
}

fn put(inlet: &mut Inlet, buffer: &AudioBuffer, time_ns: u64) {
    if buffer.mData.is_null() || buffer.mNumberChannels != inlet.channels {
        return;
    }
    let count = buffer.mDataByteSize as usize / size_of::<f32>();
    // SAFETY: the buffer has so many floats, through the callback that `put` is called in.
    let samples = unsafe { std::slice::from_raw_parts(buffer.mData.cast::<f32>(), count) };
    let frames = (count / inlet.channels as usize) as u64;
    let has_room = inlet.samples.slots() >= count && inlet.periods.slots() > 0;
    if !has_room {
        inlet.lost.fetch_add(frames, Relaxed);
        return;
    }
    if let Ok(mut chunk) = inlet.samples.write_chunk(count) {
        let (first, second) = chunk.as_mut_slices();
        let (now, later) = samples.split_at(first.len());
        first.copy_from_slice(now);
        second.copy_from_slice(later);
        chunk.commit_all();
        // There is room, as checked above.
        let _ = inlet.periods.push(Period { frames, time_ns });
    }
}
