//! Properties of CoreAudio's objects: devices and processes.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use objc2_core_audio::{
    AudioObjectGetPropertyData, AudioObjectGetPropertyDataSize, AudioObjectID,
    AudioObjectPropertyAddress, kAudioDevicePropertyDeviceIsAlive, kAudioDevicePropertyDeviceUID,
    kAudioDevicePropertyPreferredChannelLayout, kAudioDevicePropertyStreams,
    kAudioHardwarePropertyDefaultInputDevice, kAudioHardwarePropertyDevices,
    kAudioHardwarePropertyProcessObjectList, kAudioHardwarePropertyTranslatePIDToProcessObject,
    kAudioObjectPropertyElementMain, kAudioObjectPropertyName, kAudioObjectPropertyScopeGlobal,
    kAudioObjectPropertyScopeInput, kAudioObjectSystemObject, kAudioProcessPropertyBundleID,
    kAudioProcessPropertyIsRunningOutput, kAudioProcessPropertyPID,
    kAudioStreamPropertyVirtualFormat,
};
use objc2_core_audio_types::AudioStreamBasicDescription;
use objc2_core_foundation::{CFRetained, CFString};

use super::{Status, checked};
use crate::channel_map::{ChannelMap, StreamFormat};
use crate::format::{Format, Sample};
use crate::limits::{CHANNELS_MAX, DEVICES_MAX, NAME_BYTES_MAX, RATE_MAX, RATE_MIN};
use crate::source::coreaudio_layout as layout;

const SYSTEM: AudioObjectID = kAudioObjectSystemObject.cast_unsigned();

/// An input device.
#[derive(Debug, Clone)]
pub struct Entry {
    /// CoreAudio's object, valid until the next boot.
    pub object: u32,
    /// Persistent identifier.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Format of its first stream.
    pub format: StreamFormat,
}

fn address(selector: u32, scope: u32) -> AudioObjectPropertyAddress {
    AudioObjectPropertyAddress {
        mSelector: selector,
        mScope: scope,
        mElement: kAudioObjectPropertyElementMain,
    }
}

/// Reads a property that is plain old data.
fn value<T: Plain>(object: u32, selector: u32, scope: u32) -> Result<T, Status> {
    qualified(object, selector, scope, &[])
}

/// Types that CoreAudio fills completely and for which any bits are a value.
trait Plain: Copy {
    const ZERO: Self;
}

impl Plain for u32 {
    const ZERO: Self = 0;
}

impl Plain for *const CFString {
    const ZERO: Self = ptr::null();
}

impl Plain for AudioStreamBasicDescription {
    const ZERO: Self = Self {
        mSampleRate: 0.0,
        mFormatID: 0,
        mFormatFlags: 0,
        mBytesPerPacket: 0,
        mFramesPerPacket: 0,
        mBytesPerFrame: 0,
        mChannelsPerFrame: 0,
        mBitsPerChannel: 0,
        mReserved: 0,
    };
}

fn qualified<T: Plain>(
    object: u32,
    selector: u32,
    scope: u32,
    qualifier: &[u8],
) -> Result<T, Status> {
    let address = address(selector, scope);
    let mut result = T::ZERO;
    let mut size = narrow(size_of::<T>());
    // SAFETY: address, qualifier, size and result live through the call, and the result has room for
    // `size` bytes of a type for which any bits are a value.
    let status = unsafe {
        AudioObjectGetPropertyData(
            object,
            NonNull::from(&address),
            narrow(qualifier.len()),
            qualifier.as_ptr().cast(),
            NonNull::from(&mut size),
            NonNull::from(&mut result).cast::<c_void>(),
        )
    };
    checked(status)?;
    Ok(result)
}

fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(0)
}

/// Reads a property that is a list of objects, or of other 32-bit words.
fn objects(object: u32, selector: u32, scope: u32) -> Result<Vec<u32>, Status> {
    let address = address(selector, scope);
    let mut size = 0_u32;
    // SAFETY: address and size live through the call; there is no qualifier.
    let status = unsafe {
        AudioObjectGetPropertyDataSize(
            object,
            NonNull::from(&address),
            0,
            ptr::null(),
            NonNull::from(&mut size),
        )
    };
    checked(status)?;
    let count = (size as usize / size_of::<u32>()).min(DEVICES_MAX);
    let mut list = vec![0_u32; count.max(1)];
    let mut size = narrow(count * size_of::<u32>());
    // SAFETY: as above, and the list has room for `size` bytes.
    let status = unsafe {
        AudioObjectGetPropertyData(
            object,
            NonNull::from(&address),
            0,
            ptr::null(),
            NonNull::from(&mut size),
            NonNull::from(&mut list[..]).cast::<c_void>(),
        )
    };
    checked(status)?;
    list.truncate(size as usize / size_of::<u32>());
    Ok(list)
}

/// Reads a property that is a string; empty for none.
fn string(object: u32, selector: u32) -> String {
    let found = value::<*const CFString>(object, selector, kAudioObjectPropertyScopeGlobal);
    let Some(found) = found.ok().and_then(|found| NonNull::new(found.cast_mut())) else {
        return String::new();
    };
    // SAFETY: the property's string is given with a reference that is ours.
    let text = unsafe { CFRetained::from_raw(found) }.to_string();
    text.chars().take(NAME_BYTES_MAX).collect()
}

/// Lists the input devices.
pub fn inputs() -> Result<Vec<Entry>, Status> {
    let devices = objects(
        SYSTEM,
        kAudioHardwarePropertyDevices,
        kAudioObjectPropertyScopeGlobal,
    )?;
    let takes_in = |&device: &u32| {
        let streams = objects(
            device,
            kAudioDevicePropertyStreams,
            kAudioObjectPropertyScopeInput,
        );
        streams.is_ok_and(|streams| !streams.is_empty())
    };
    let entries = devices.into_iter().filter(takes_in).filter_map(entry);
    Ok(entries.collect())
}

fn entry(object: u32) -> Option<Entry> {
    Some(Entry {
        object,
        id: string(object, kAudioDevicePropertyDeviceUID),
        name: string(object, kAudioObjectPropertyName),
        format: input_format(object).ok()?,
    })
}

/// Format of a device's first stream: the HAL delivers floats, whatever the hardware has.
pub fn input_format(device: u32) -> Result<StreamFormat, Status> {
    let scope = kAudioObjectPropertyScopeInput;
    let streams = objects(device, kAudioDevicePropertyStreams, scope)?;
    let stream = streams.first().ok_or(Status::Code(super::BAD_DEVICE))?;
    let description: AudioStreamBasicDescription = value(
        *stream,
        kAudioStreamPropertyVirtualFormat,
        kAudioObjectPropertyScopeGlobal,
    )?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and is bounded"
    )]
    let rate = description.mSampleRate as u32;
    let format = Format {
        rate: rate.clamp(RATE_MIN, RATE_MAX),
        channels: description.mChannelsPerFrame.clamp(1, CHANNELS_MAX),
        sample: Sample::F32,
    };
    let map = input_map(device, format.channels);
    Ok(StreamFormat { format, map })
}

/// Positions of a device's channels, where its preferred layout is a mask or a list; see [`layout`].
fn input_map(device: u32, channels: u32) -> ChannelMap {
    let selector = kAudioDevicePropertyPreferredChannelLayout;
    let words = objects(device, selector, kAudioObjectPropertyScopeInput);
    let told = words
        .ok()
        .and_then(|words| layout::map_of(&words, channels));
    told.unwrap_or_else(|| ChannelMap::assumed(channels))
}

/// The default input device.
pub fn default_input() -> Option<u32> {
    let selector = kAudioHardwarePropertyDefaultInputDevice;
    let device: u32 = value(SYSTEM, selector, kAudioObjectPropertyScopeGlobal).ok()?;
    (device != 0).then_some(device)
}

/// True while a device exists.
pub fn is_alive(device: u32) -> bool {
    let selector = kAudioDevicePropertyDeviceIsAlive;
    value::<u32>(device, selector, kAudioObjectPropertyScopeGlobal).is_ok_and(|alive| alive != 0)
}

/// CoreAudio's object for a process.
pub fn process_of(pid: u32) -> Option<u32> {
    let selector = kAudioHardwarePropertyTranslatePIDToProcessObject;
    let scope = kAudioObjectPropertyScopeGlobal;
    let process: u32 = qualified(SYSTEM, selector, scope, &pid.to_ne_bytes()).ok()?;
    (process != 0).then_some(process)
}

/// Processes that play sound, and their names.
pub fn playing() -> Result<Vec<(u32, String)>, Status> {
    if !super::has_taps() {
        return Err(Status::TooOld);
    }
    let scope = kAudioObjectPropertyScopeGlobal;
    let processes = objects(SYSTEM, kAudioHardwarePropertyProcessObjectList, scope)?;
    let plays = |&process: &u32| {
        let selector = kAudioProcessPropertyIsRunningOutput;
        value::<u32>(process, selector, scope).is_ok_and(|plays| plays != 0)
    };
    let entry = |process| {
        let pid: u32 = value(process, kAudioProcessPropertyPID, scope).ok()?;
        Some((pid, string(process, kAudioProcessPropertyBundleID)))
    };
    let playing = processes.into_iter().filter(plays).filter_map(entry);
    Ok(playing.collect())
}
