//! libasound, loaded at run time: the part of its PCM interface that capture needs.
//!
//! Declarations follow alsa-lib's headers of version 1.2.
#![expect(unsafe_code, reason = "libasound is C")]

mod positions;
mod words;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::channel_map::ChannelMap;
use crate::format::{Format, Sample};
use crate::limits::{CHANNELS_MAX, DEVICES_MAX, NAME_BYTES_MAX, RATE_MAX, RATE_MIN};
use crate::source::sys::library;
use positions::Chmap;
use words::{Handler, Words};

/// `SND_PCM_STREAM_CAPTURE`.
const CAPTURE: c_int = 1;
/// `SND_PCM_ACCESS_MMAP_INTERLEAVED`.
const MMAP_INTERLEAVED: c_int = 0;
/// `SND_PCM_ACCESS_RW_INTERLEAVED`.
const RW_INTERLEAVED: c_int = 3;
/// `SND_PCM_FORMAT_S16_LE`.
const S16_LE: c_int = 2;
/// `SND_PCM_FORMAT_FLOAT_LE`.
const FLOAT_LE: c_int = 14;
/// `SND_PCM_TYPE_HW`, `_FILE` and `_NULL`: the PCMs that are mapped. PCMs that convert frames of others
/// may be mapped too, and some then give none: `plug` over PulseAudio's plugin (alsa-lib 1.2.8).
const MAPPED: [c_int; 3] = [0, 3, 4];
/// Periods of the device's buffer, which keeps them while this thread does not run.
const PERIODS: c_ulong = 16;

/// Format with which a PCM is listed: its own is known only when it is opened.
pub const ASSUMED: Format = Format {
    rate: 48_000,
    channels: 2,
    sample: Sample::S16,
};

library! {
    /// The functions of libasound that are called.
    Library = "libasound.so.2" {
        fn snd_pcm_open(*mut *mut c_void, *const c_char, c_int, c_int) -> c_int;
        fn snd_pcm_type(*mut c_void) -> c_int;
        fn snd_pcm_close(*mut c_void) -> c_int;
        fn snd_pcm_hw_params_malloc(*mut *mut c_void) -> c_int;
        fn snd_pcm_hw_params_free(*mut c_void);
        fn snd_pcm_hw_params_any(*mut c_void, *mut c_void) -> c_int;
        fn snd_pcm_hw_params_set_access(*mut c_void, *mut c_void, c_int) -> c_int;
        fn snd_pcm_hw_params_set_format(*mut c_void, *mut c_void, c_int) -> c_int;
        fn snd_pcm_hw_params_set_channels_near(*mut c_void, *mut c_void, *mut c_uint) -> c_int;
        fn snd_pcm_hw_params_set_rate_near(*mut c_void, *mut c_void, *mut c_uint, *mut c_int) -> c_int;
        fn snd_pcm_hw_params_set_period_size_near(*mut c_void, *mut c_void, *mut c_ulong, *mut c_int) -> c_int;
        fn snd_pcm_hw_params_set_buffer_size_near(*mut c_void, *mut c_void, *mut c_ulong) -> c_int;
        fn snd_pcm_hw_params(*mut c_void, *mut c_void) -> c_int;
        fn snd_pcm_get_chmap(*mut c_void) -> *mut Chmap;
        fn snd_pcm_start(*mut c_void) -> c_int;
        fn snd_pcm_wait(*mut c_void, c_int) -> c_int;
        fn snd_pcm_avail_update(*mut c_void) -> c_long;
        fn snd_pcm_mmap_begin(*mut c_void, *mut *const Area, *mut c_ulong, *mut c_ulong) -> c_int;
        fn snd_pcm_mmap_commit(*mut c_void, c_ulong, c_ulong) -> c_long;
        fn snd_pcm_readi(*mut c_void, *mut c_void, c_ulong) -> c_long;
        fn snd_pcm_delay(*mut c_void, *mut c_long) -> c_int;
        fn snd_pcm_recover(*mut c_void, c_int, c_int) -> c_int;
        fn snd_lib_error_set_local(Option<Handler>) -> Option<Handler>;
        fn snd_strerror(c_int) -> *const c_char;
        fn snd_device_name_hint(c_int, *const c_char, *mut *mut *mut c_void) -> c_int;
        fn snd_device_name_get_hint(*const c_void, *const c_char) -> *mut c_char;
        fn snd_device_name_free_hint(*mut *mut c_void) -> c_int;
    }
}

/// Requested parameters of a PCM, which sets the nearest that it has.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Rate, channels and samples.
    pub format: Format,
    /// Length of a period.
    pub period: Duration,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The function that failed.
    pub call: &'static str,
    /// A code of `errno`; 0 if the library is missing.
    pub code: c_int,
    /// libasound's description.
    pub text: String,
}

impl Fault {
    /// True if the PCM goes on after a recovery: it overran, or the machine slept.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(self.code, libc::EPIPE | libc::ESTRPIPE | libc::EINTR)
    }
}

/// `snd_pcm_channel_area_t`: where the samples of a channel are, in bits from an address.
#[repr(C)]
pub struct Area {
    address: *mut c_void,
    first: c_uint,
    step: c_uint,
}

/// Way to read frames.
enum Access {
    /// In place, where the device writes them.
    Shared,
    /// Through a buffer of one period, if the PCM can't be mapped.
    Copied(Vec<u8>),
}

/// Captured frames that were not given back yet.
pub struct Span<'a> {
    /// Whole frames.
    pub bytes: &'a [u8],
    /// Number of frames captured since the first one of the span, including it.
    pub behind: u64,
    /// True if the frames were copied.
    pub is_copy: bool,
}

/// A PCM that captures. Stays on the thread that opened it.
pub struct Pcm {
    library: &'static Library,
    pcm: NonNull<c_void>,
    format: Format,
    period: u32,
    access: Access,
    _words: Words,
}

impl Pcm {
    /// Opens and starts a PCM.
    ///
    /// # Errors
    /// libasound is missing, there is no such PCM, or it is busy.
    pub fn open(device: &str, request: &Request) -> Result<Self, Fault> {
        let library = Library::get().map_err(|reason| Fault {
            call: "dlopen",
            code: 0,
            text: format!("libasound can't be loaded ({reason})"),
        })?;
        let words = Words::keep(library);
        let name = CString::new(device).unwrap_or_default();
        let mut pcm = ptr::null_mut();
        // SAFETY: the result and the name live through the call.
        let status = unsafe { (library.snd_pcm_open)(&raw mut pcm, name.as_ptr(), CAPTURE, 0) };
        checked(library, status, "snd_pcm_open")?;
        let pcm = NonNull::new(pcm).ok_or_else(|| fault(library, -libc::ENODEV, "snd_pcm_open"))?;
        let mut opened = Self {
            library,
            pcm,
            format: request.format,
            period: 0,
            access: Access::Shared,
            _words: words,
        };
        opened.configure(request)?;
        // SAFETY: the PCM is there, and prepared by its parameters.
        let status = unsafe { (library.snd_pcm_start)(opened.pcm.as_ptr()) };
        checked(library, status, "snd_pcm_start")?;
        Ok(opened)
    }

    fn configure(&mut self, request: &Request) -> Result<(), Fault> {
        let mut parameters = ptr::null_mut();
        // SAFETY: the result lives through the call.
        let status = unsafe { (self.library.snd_pcm_hw_params_malloc)(&raw mut parameters) };
        checked(self.library, status, "snd_pcm_hw_params_malloc")?;
        let configured = self.configure_by(parameters, request);
        // SAFETY: allocated above.
        unsafe { (self.library.snd_pcm_hw_params_free)(parameters) };
        configured
    }

    /// Maps the PCM's buffer, or else allocates one to copy into.
    fn configure_by(&mut self, parameters: *mut c_void, request: &Request) -> Result<(), Fault> {
        // SAFETY: the PCM is there.
        let kind = unsafe { (self.library.snd_pcm_type)(self.pcm.as_ptr()) };
        let is_mapped = MAPPED.contains(&kind);
        if is_mapped && self.set(parameters, request, MMAP_INTERLEAVED).is_ok() {
            return Ok(());
        }
        self.set(parameters, request, RW_INTERLEAVED)?;
        let bytes = self.period * self.format.frame_bytes();
        self.access = Access::Copied(vec![0; bytes as usize]);
        Ok(())
    }

    /// Sets all parameters, with this access.
    fn set(
        &mut self,
        parameters: *mut c_void,
        request: &Request,
        access: c_int,
    ) -> Result<(), Fault> {
        let (library, pcm) = (self.library, self.pcm.as_ptr());
        // SAFETY: both are there.
        let status = unsafe { (library.snd_pcm_hw_params_any)(pcm, parameters) };
        checked(library, status, "snd_pcm_hw_params_any")?;
        let set = library.snd_pcm_hw_params_set_access;
        // SAFETY: as above.
        let status = unsafe { set(pcm, parameters, access) };
        checked(library, status, "snd_pcm_hw_params_set_access")?;
        self.set_sample(parameters, request.format.sample)?;
        self.set_channels(parameters, request.format.channels)?;
        self.set_rate(parameters, request.format.rate)?;
        self.set_period(parameters, request.period)?;
        // SAFETY: as above.
        let status = unsafe { (library.snd_pcm_hw_params)(pcm, parameters) };
        checked(library, status, "snd_pcm_hw_params")
    }

    /// Sets the requested sample format, or else the other one.
    fn set_sample(&mut self, parameters: *mut c_void, wanted: Sample) -> Result<(), Fault> {
        let both = match wanted {
            Sample::F32 => [(Sample::F32, FLOAT_LE), (Sample::S16, S16_LE)],
            Sample::S16 | Sample::Mulaw => [(Sample::S16, S16_LE), (Sample::F32, FLOAT_LE)],
        };
        let set = self.library.snd_pcm_hw_params_set_format;
        let mut status = 0;
        for (sample, code) in both {
            // SAFETY: PCM and parameters are there.
            status = unsafe { set(self.pcm.as_ptr(), parameters, code) };
            if status >= 0 {
                self.format.sample = sample;
                return Ok(());
            }
        }
        checked(self.library, status, "snd_pcm_hw_params_set_format")
    }

    fn set_channels(&mut self, parameters: *mut c_void, wanted: u32) -> Result<(), Fault> {
        let set = self.library.snd_pcm_hw_params_set_channels_near;
        let mut channels: c_uint = wanted;
        // SAFETY: PCM and parameters are there, and the number lives through the call.
        let status = unsafe { set(self.pcm.as_ptr(), parameters, &raw mut channels) };
        checked(self.library, status, "snd_pcm_hw_params_set_channels_near")?;
        if !(1..=CHANNELS_MAX).contains(&channels) {
            let mut strange = fault(self.library, -libc::EINVAL, "snd_pcm_hw_params");
            strange.text = format!("{channels} channels; expected 1 to {CHANNELS_MAX}");
            return Err(strange);
        }
        self.format.channels = channels;
        Ok(())
    }

    fn set_rate(&mut self, parameters: *mut c_void, wanted: u32) -> Result<(), Fault> {
        let set = self.library.snd_pcm_hw_params_set_rate_near;
        let (mut rate, pcm): (c_uint, _) = (wanted, self.pcm.as_ptr());
        // SAFETY: PCM and parameters are there, and the number lives through the call.
        let status = unsafe { set(pcm, parameters, &raw mut rate, ptr::null_mut()) };
        checked(self.library, status, "snd_pcm_hw_params_set_rate_near")?;
        self.format.rate = rate.clamp(RATE_MIN, RATE_MAX);
        Ok(())
    }

    fn set_period(&mut self, parameters: *mut c_void, wanted: Duration) -> Result<(), Fault> {
        let (library, pcm) = (self.library, self.pcm.as_ptr());
        let ns = u64::try_from(wanted.as_nanos()).unwrap_or(u64::MAX);
        let frames = u32::try_from(self.format.frames_in(ns)).unwrap_or(u32::MAX);
        let mut period = c_ulong::from(frames.max(1));
        let set = library.snd_pcm_hw_params_set_period_size_near;
        // SAFETY: PCM and parameters are there, and the number lives through the call.
        let status = unsafe { set(pcm, parameters, &raw mut period, ptr::null_mut()) };
        checked(library, status, "snd_pcm_hw_params_set_period_size_near")?;
        let mut buffer = period.saturating_mul(PERIODS);
        let set = library.snd_pcm_hw_params_set_buffer_size_near;
        // SAFETY: as above.
        let status = unsafe { set(pcm, parameters, &raw mut buffer) };
        checked(library, status, "snd_pcm_hw_params_set_buffer_size_near")?;
        self.period = u32::try_from(period).unwrap_or(frames).max(1);
        Ok(())
    }

    /// Format that the PCM gives.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Positions of its channels, if the driver reports them.
    #[must_use]
    pub fn channel_map(&self) -> ChannelMap {
        // SAFETY: the PCM is there, and configured.
        let chmap = unsafe { (self.library.snd_pcm_get_chmap)(self.pcm.as_ptr()) };
        // SAFETY: null, or what the call gave.
        let map = unsafe { positions::map_of(chmap, self.format.channels) };
        // SAFETY: libasound gave it as `free` expects it, or null.
        unsafe { libc::free(chmap.cast()) };
        map
    }

    /// Waits for a period; `false`: none came in this time.
    ///
    /// # Errors
    /// See [`Fault::is_interruption`].
    pub fn wait(&self, timeout: Duration) -> Result<bool, Fault> {
        // Rounded up, so that whatever is due at the end of the wait is due then.
        let ms = timeout.as_micros().div_ceil(1_000);
        let ms = c_int::try_from(ms).unwrap_or(c_int::MAX);
        // SAFETY: the PCM is there.
        let status = unsafe { (self.library.snd_pcm_wait)(self.pcm.as_ptr(), ms) };
        checked(self.library, status, "snd_pcm_wait")?;
        Ok(status > 0)
    }

    /// Gives the available frames to `deliver`, if there are any.
    ///
    /// # Errors
    /// See [`Fault::is_interruption`], and those of `deliver`.
    pub fn read<E: From<Fault>>(
        &mut self,
        deliver: impl FnOnce(Span<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut access = std::mem::replace(&mut self.access, Access::Shared);
        let outcome = match &mut access {
            Access::Shared => self.read_shared(deliver),
            Access::Copied(buffer) => self.read_copied(buffer, deliver),
        };
        self.access = access;
        outcome
    }

    fn read_shared<E: From<Fault>>(
        &self,
        deliver: impl FnOnce(Span<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (library, pcm) = (self.library, self.pcm.as_ptr());
        // SAFETY: the PCM is there.
        let available = unsafe { (library.snd_pcm_avail_update)(pcm) };
        let mut frames = counted(library, available, "snd_pcm_avail_update")?;
        if frames == 0 {
            return Ok(());
        }
        let (mut areas, mut offset) = (ptr::null(), 0);
        let begin = library.snd_pcm_mmap_begin;
        // SAFETY: the PCM is there and was opened to be mapped; the results live through the call.
        let status = unsafe { begin(pcm, &raw mut areas, &raw mut offset, &raw mut frames) };
        checked(library, status, "snd_pcm_mmap_begin")?;
        let behind = self.delay();
        // SAFETY: given by `snd_pcm_mmap_begin`, with as many frames as it says, and not committed yet.
        let bytes = unsafe { self.mapped(areas, offset, frames)? };
        let span = Span {
            bytes,
            behind,
            is_copy: false,
        };
        let delivered = deliver(span);
        // SAFETY: what `snd_pcm_mmap_begin` gave, which nobody looks at any more.
        let committed = unsafe { (library.snd_pcm_mmap_commit)(pcm, offset, frames) };
        delivered?;
        counted(library, committed, "snd_pcm_mmap_commit")?;
        Ok(())
    }

    /// The frames in a mapped PCM's buffer.
    ///
    /// # Safety
    /// Areas, offset and frames are those that `snd_pcm_mmap_begin` gave, and the frames are not committed
    /// for as long as the bytes are used.
    unsafe fn mapped(
        &self,
        areas: *const Area,
        offset: c_ulong,
        frames: c_ulong,
    ) -> Result<&[u8], Fault> {
        let strange = || fault(self.library, -libc::EINVAL, "snd_pcm_mmap_begin");
        let frame_bytes = self.format.frame_bytes();
        let span = |frames: c_ulong| Some(usize::try_from(frames).ok()? * frame_bytes as usize);
        // SAFETY: null, or an area for each channel.
        let area = unsafe { areas.as_ref() }.ok_or_else(strange)?;
        let is_interleaved = area.first == 0 && area.step == frame_bytes * 8;
        let (true, Some(start), Some(len)) = (is_interleaved, span(offset), span(frames)) else {
            return Err(strange());
        };
        // SAFETY: the PCM's buffer, in which these frames lie.
        let first = unsafe { area.address.cast::<u8>().add(start) };
        // SAFETY: mapped and initialized for as long as the PCM is there. A device that comes around to
        // them, which is an overrun, leaves bytes of any value, which bytes may have.
        Ok(unsafe { std::slice::from_raw_parts(first, len) })
    }

    fn read_copied<E: From<Fault>>(
        &self,
        buffer: &mut [u8],
        deliver: impl FnOnce(Span<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (library, pcm) = (self.library, self.pcm.as_ptr());
        let frame_bytes = self.format.frame_bytes() as usize;
        let frames = (buffer.len() / frame_bytes) as c_ulong;
        // SAFETY: the PCM is there, and the buffer has room for so many frames of its format.
        let read = unsafe { (library.snd_pcm_readi)(pcm, buffer.as_mut_ptr().cast(), frames) };
        let read = counted(library, read, "snd_pcm_readi")?;
        let read = usize::try_from(read).unwrap_or(0);
        if read == 0 {
            return Ok(());
        }
        deliver(Span {
            bytes: &buffer[..read * frame_bytes],
            behind: self.delay().saturating_add(read as u64),
            is_copy: true,
        })
    }

    /// Number of frames that were captured and not read yet.
    fn delay(&self) -> u64 {
        let mut frames: c_long = 0;
        // SAFETY: the PCM is there, and the number lives through the call.
        let status = unsafe { (self.library.snd_pcm_delay)(self.pcm.as_ptr(), &raw mut frames) };
        if status < 0 {
            return 0;
        }
        u64::try_from(frames).unwrap_or(0)
    }

    /// Recovers after an interruption.
    ///
    /// # Errors
    /// The recovery failed.
    pub fn recover(&self, fault: &Fault) -> Result<(), Fault> {
        let (library, pcm) = (self.library, self.pcm.as_ptr());
        // SAFETY: the PCM is there; 1: nothing is printed.
        let status = unsafe { (library.snd_pcm_recover)(pcm, -fault.code, 1) };
        checked(library, status, "snd_pcm_recover")?;
        // SAFETY: the PCM is there. The call fails if the recovery has started the PCM.
        unsafe { (library.snd_pcm_start)(pcm) };
        Ok(())
    }
}

impl Drop for Pcm {
    fn drop(&mut self) {
        // SAFETY: the PCM is there, and nobody uses it after this.
        unsafe { (self.library.snd_pcm_close)(self.pcm.as_ptr()) };
    }
}

fn checked(library: &Library, status: c_int, call: &'static str) -> Result<(), Fault> {
    if status < 0 {
        return Err(fault(library, status, call));
    }
    Ok(())
}

/// Converts a result that is a number of frames, or a negative status.
fn counted(library: &Library, result: c_long, call: &'static str) -> Result<c_ulong, Fault> {
    let status = c_int::try_from(result.min(0)).unwrap_or(c_int::MIN);
    checked(library, status, call)?;
    Ok(c_ulong::try_from(result).unwrap_or(0))
}

/// A fault with libasound's first message, if there was one.
fn fault(library: &Library, status: c_int, call: &'static str) -> Fault {
    // SAFETY: any number is accepted, and the text is static.
    let mut text = unsafe { text((library.snd_strerror)(status)) };
    let said = words::take();
    if !said.is_empty() {
        text = format!("{text}: {said}");
    }
    Fault {
        call,
        code: -status,
        text,
    }
}

/// A C string, bounded; empty for none.
///
/// # Safety
/// It is null or terminated.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: terminated, as the caller says.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(NAME_BYTES_MAX)]).into_owned()
}

/// Names and descriptions of the PCMs that capture. `Err`: the reason why libasound can't be loaded.
pub fn captures() -> Result<Vec<(String, String)>, &'static str> {
    let library = Library::get()?;
    let _words = Words::keep(library);
    let mut hints: *mut *mut c_void = ptr::null_mut();
    // SAFETY: the interface's name and the result live through the call; -1: all cards.
    let status = unsafe { (library.snd_device_name_hint)(-1, c"pcm".as_ptr(), &raw mut hints) };
    if status < 0 || hints.is_null() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for index in 0..DEVICES_MAX {
        // SAFETY: the list ends with a null pointer, at which this stops.
        let hint = unsafe { *hints.add(index) };
        if hint.is_null() {
            break;
        }
        if hint_text(library, hint, c"IOID") != "Output" {
            let name = hint_text(library, hint, c"NAME");
            let description = hint_text(library, hint, c"DESC").replace('\n', ", ");
            found.push((name, description));
        }
    }
    // SAFETY: the list that was given above.
    unsafe { (library.snd_device_name_free_hint)(hints) };
    Ok(found)
}

fn hint_text(library: &Library, hint: *const c_void, id: &CStr) -> String {
    // SAFETY: a hint of the list, and a name that lives through the call.
    let owned = unsafe { (library.snd_device_name_get_hint)(hint, id.as_ptr()) };
    // SAFETY: null, or a terminated string that is ours.
    let copy = unsafe { text(owned) };
    // SAFETY: libasound gave it as `free` expects it, or null.
    unsafe { libc::free(owned.cast()) };
    copy
}
