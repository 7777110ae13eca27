//! Process taps, macOS 14.2 and later: sound of programs as an input of an aggregate device.
//!
//! The functions of taps are looked up at run time: the addon loads on an older macOS too.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::OnceLock;

use libloading::os::unix::Library;
use objc2::AnyThread;
use objc2::rc::Retained;
use objc2::runtime::AnyClass;
use objc2_core_audio::{
    AudioHardwareCreateAggregateDevice, AudioHardwareDestroyAggregateDevice, AudioObjectID,
    CATapDescription, kAudioAggregateDeviceIsPrivateKey, kAudioAggregateDeviceNameKey,
    kAudioAggregateDeviceTapAutoStartKey, kAudioAggregateDeviceTapListKey,
    kAudioAggregateDeviceUIDKey, kAudioSubTapDriftCompensationKey, kAudioSubTapUIDKey,
};
use objc2_core_foundation::CFDictionary;
use objc2_foundation::{NSArray, NSDictionary, NSNumber, NSObject, NSString};

use super::{Status, checked};

type Create = unsafe extern "C-unwind" fn(Option<&CATapDescription>, *mut AudioObjectID) -> i32;
type Destroy = unsafe extern "C-unwind" fn(AudioObjectID) -> i32;
type Dictionary = NSDictionary<NSString, NSObject>;

/// The functions of taps.
struct Functions {
    create: Create,
    destroy: Destroy,
}

fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<Functions> {
    AnyClass::get(c"CATapDescription")?;
    let library = Library::this();
    // SAFETY: the signature is that of AudioHardwareTapping.h.
    let create = unsafe { library.get::<Create>(b"AudioHardwareCreateProcessTap\0") };
    // SAFETY: as above.
    let destroy = unsafe { library.get::<Destroy>(b"AudioHardwareDestroyProcessTap\0") };
    Some(Functions {
        create: *create.ok()?,
        destroy: *destroy.ok()?,
    })
}

/// True if this macOS has taps.
pub fn has_taps() -> bool {
    functions().is_some()
}

/// A tap, and the private aggregate device whose input it is.
pub struct Tap {
    functions: &'static Functions,
    tap: AudioObjectID,
    device: AudioObjectID,
}

impl Tap {
    /// A tap of one process, or of all, mixed down to stereo. Tapped sound stays audible.
    pub fn create(process: Option<u32>) -> Result<Self, Status> {
        let functions = functions().ok_or(Status::TooOld)?;
        let description = describe(process);
        let mut tap = 0;
        // SAFETY: the description and the result live through the call.
        let status = unsafe { (functions.create)(Some(&description), &raw mut tap) };
        checked(status)?;
        let mut created = Self {
            functions,
            tap,
            device: 0,
        };
        let aggregate = aggregate(&description);
        // SAFETY: an NSDictionary is a CFDictionary (toll-free bridging), and lives through the call.
        let aggregate = unsafe { &*Retained::as_ptr(&aggregate).cast::<CFDictionary>() };
        let device = NonNull::from(&mut created.device);
        // SAFETY: both live through the call.
        let status = unsafe { AudioHardwareCreateAggregateDevice(aggregate, device) };
        checked(status)?;
        Ok(created)
    }

    /// The aggregate device.
    pub fn device(&self) -> u32 {
        self.device
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.device != 0 {
            // SAFETY: created here, and nobody records it any more.
            unsafe { AudioHardwareDestroyAggregateDevice(self.device) };
        }
        // SAFETY: created here.
        unsafe { (self.functions.destroy)(self.tap) };
    }
}

fn describe(process: Option<u32>) -> Retained<CATapDescription> {
    let processes: Vec<Retained<NSNumber>> = process.map(NSNumber::new_u32).into_iter().collect();
    let processes = NSArray::from_retained_slice(&processes);
    let alloc = CATapDescription::alloc();
    let description = if process.is_some() {
        // SAFETY: the list has objects of processes.
        unsafe { CATapDescription::initStereoMixdownOfProcesses(alloc, &processes) }
    } else {
        // SAFETY: the list, which is empty, has those that are left out.
        unsafe { CATapDescription::initStereoGlobalTapButExcludeProcesses(alloc, &processes) }
    };
    // SAFETY: a setter.
    unsafe { description.setPrivate(true) };
    // SAFETY: a setter.
    unsafe { description.setName(&NSString::from_str("steppe-audio")) };
    description
}

/// The description of an aggregate device that has nothing but the tap.
fn aggregate(description: &CATapDescription) -> Retained<Dictionary> {
    // SAFETY: a getter.
    let tap_id = unsafe { description.UUID() }.UUIDString();
    let yes = || object(NSNumber::new_bool(true));
    let sub_tap = dictionary(&[
        (kAudioSubTapUIDKey, object(tap_id.clone())),
        (kAudioSubTapDriftCompensationKey, yes()),
    ]);
    let id = NSString::from_str(&format!("steppe-audio-{tap_id}"));
    let name = NSString::from_str("steppe-audio");
    let taps = NSArray::from_retained_slice(&[sub_tap]);
    dictionary(&[
        (kAudioAggregateDeviceNameKey, object(name)),
        (kAudioAggregateDeviceUIDKey, object(id)),
        (kAudioAggregateDeviceTapListKey, object(taps)),
        (kAudioAggregateDeviceTapAutoStartKey, yes()),
        (kAudioAggregateDeviceIsPrivateKey, yes()),
    ])
}

/// An object as the root of its class.
fn object<T: objc2::Message>(value: Retained<T>) -> Retained<NSObject> {
    // SAFETY: all that is given here derives from NSObject.
    unsafe { Retained::cast_unchecked(value) }
}

fn dictionary(entries: &[(&CStr, Retained<NSObject>)]) -> Retained<Dictionary> {
    let keys: Vec<Retained<NSString>> = entries
        .iter()
        .map(|(key, _)| NSString::from_str(&key.to_string_lossy()))
        .collect();
    let keys: Vec<&NSString> = keys.iter().map(|key| &**key).collect();
    let values: Vec<&NSObject> = entries.iter().map(|(_, value)| &**value).collect();
    NSDictionary::from_slices(&keys, &values)
}
