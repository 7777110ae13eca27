//! The native addon of `@steppe/audio`: captures sound into memory that JavaScript reads in place.
//!
//! A source runs on a thread of its own ([`capture`]) and writes frames into slots of one `SharedArrayBuffer`
//! ([`ring`], with the memory layout of [`layout`]). JavaScript is woken once for any number of packets ([`session`]),
//! reads them in place, and releases a slot by one atomic operation. There is one copy from the sound system's buffer
//! to the slot, and none after it.
//!
//! **Invariant:** the thread of a source neither allocates, takes a lock nor logs for a packet; nor does the thread
//! that joins two sources.
//!
//! **Invariant:** each lost frame is counted, and reported by the packet after it.
//!
//! Non-goals: the use of packets in JavaScript, and playback.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `layout.rs`: layout of the memory shared with JavaScript (`MEMORY.md`)
//! - `ring.rs`, `ring/`: producer of the ring, shared memory as atomics (`sys.rs`), native consumer (`consumer.rs`)
//! - `packetizer.rs`, `packetizer/`: source frames to packets in slots
//! - `frames.rs`, `gaps.rs`: frames on their way into a slot; frames that are missing between two packets
//! - `gate.rs`: voice-activity gate
//! - `level.rs`: peak and RMS level
//! - `convert.rs`, `convert/`: format conversion: channel mixing, resampling, sample formats, µ-law
//! - `align.rs`, `align/`: alignment of two sources on one clock
//! - `clock.rs`, `clock/`: monotonic clock, and device clock as frame times (`device.rs`)
//! - `format.rs`: sample and stream formats
//! - `channel_map.rs`: positions of channels
//! - `capture.rs`: a capture: a source on its thread
//! - `session.rs`: state of a capture shared with its source: control, events, wakes
//! - `thread.rs`: thread that is joined on drop
//! - `source.rs`: trait of a source
//!   - `periods.rs`: periods of a device, with their times
//!   - `linux.rs`: choice of PulseAudio or ALSA
//!   - `pulse.rs`, `pulse/`: PulseAudio and PipeWire, through libpulse
//!   - `alsa.rs`, `alsa/`: ALSA, through libasound
//!   - `macos.rs`, `macos/`: CoreAudio
//!   - `coreaudio_layout.rs`: channel layouts of CoreAudio
//!   - `windows.rs`: WASAPI
//!   - `synthetic.rs`: synthetic device: sine, silence, ramp
//!   - `pair.rs`: two sources combined
//!   - `idle.rs`: silence in place of an idle loopback
//!   - `mixer.rs`, `mixer/`: streams of one program mixed on one timeline
//!   - `outage.rs`: recovery of a lost stream
//!   - `suspicion.rs`: detection of a denied permission
//!   - `polled.rs`: hot-plug detection by polling
//!   - `sys.rs`: loading of system libraries at run time
//! - `device.rs`: devices and programs that can be captured
//! - `process.rs`: start times and parents of processes, of `/proc`
//! - `watch.rs`: hot-plug notification
//! - `wait.rs`, `wait/`: blocking wait for a packet (futex)
//! - `event.rs`: events of a capture
//! - `error.rs`: errors, with code and message
//! - `ffi.rs`, `ffi/`: Node-API interface: class `Native`, options, reports, thread-safe function (`bell.rs`)
//! - `limits.rs`: every bound of the addon, with its reason

#![cfg_attr(
    test,
    expect(clippy::float_cmp, reason = "values that are exact in binary")
)]

pub mod layout;
pub mod limits;

pub mod channel_map;
pub mod device;
pub mod error;
pub mod event;
pub mod format;
pub mod frames;

pub mod clock;
pub mod convert;
pub mod gate;
pub mod level;

pub mod align;
pub mod capture;
mod gaps;
pub mod packetizer;
#[cfg(any(target_os = "linux", test))]
pub mod process;
pub mod ring;
pub mod session;
pub mod source;
pub mod thread;
pub mod wait;
pub mod watch;

pub mod ffi;
