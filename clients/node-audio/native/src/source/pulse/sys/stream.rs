//! A recording stream of libpulse.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int, c_void};
use std::ptr::{self, NonNull};
use std::time::{Duration, UNIX_EPOCH};

use super::abi::{
    BufferAttr, Library, Operation, SampleSpec, Stream, TimeValue, TimingInfo, sample, stream_flag,
    stream_state,
};
use super::connection::{Connection, Fault, text};
use super::kept::{Fragment, Kept};
use super::positions::to_pulse;
use crate::channel_map::StreamFormat;
use crate::clock;
use crate::format::Sample;
use crate::limits::SERVER_ANSWER_MS_MAX;

/// Parameters of a recording.
#[derive(Debug, Clone)]
pub struct Request {
    /// Name of a source.
    pub source: String,
    /// The requested format: with the source's own map, the server mixes nothing.
    pub format: StreamFormat,
    /// Bytes of a fragment.
    pub fragment_bytes: u32,
    /// Index of the only stream to record, of those that play to the monitor's sink.
    pub of_stream: Option<u32>,
    /// True if the server may move the recording to another source.
    pub may_move: bool,
}

/// A recording stream; disconnected on drop.
pub struct Recording<'c> {
    connection: &'c Connection,
    stream: NonNull<Stream>,
    /// Written by callbacks.
    status: Box<Status>,
    /// Written by callbacks.
    arrivals: Box<Arrivals>,
    /// True if fragments are copied as they come: for one stream of a sink, which its program may end at any
    /// time.
    is_kept: bool,
    /// The request for a timing report that was not answered yet.
    asked: Cell<*mut Operation>,
}

/// The server's timing report of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time of the report, in ns of the monotonic clock.
    pub ns: u64,
    /// Bytes that the server had put into the stream.
    pub written: i64,
    /// Number of the byte that is read next here, by the server's count of bytes that it sent or skipped.
    pub read: i64,
    /// Age of the byte after the last written one, in ns; negative for an output that has rendered sound to be
    /// played later.
    pub latency_ns: i64,
}

impl<'c> Recording<'c> {
    /// Starts to record.
    ///
    /// # Errors
    /// There is no such source, or the server refuses.
    pub fn start(connection: &'c Connection, request: &Request) -> Result<Self, Fault> {
        let format = request.format.format;
        let spec = SampleSpec {
            format: match format.sample {
                Sample::S16 => sample::S16LE,
                Sample::F32 => sample::FLOAT32LE,
                Sample::Mulaw => sample::ULAW,
            },
            rate: format.rate,
            channels: u8::try_from(format.channels).unwrap_or(u8::MAX),
        };
        let context = connection.context.as_ptr();
        let new = connection.library.pa_stream_new;
        let name = c"capture".as_ptr();
        let map = to_pulse(&request.format.map);
        // SAFETY: the context is there; name, specification and map live through the call.
        let stream = unsafe { new(context, name, &raw const spec, &raw const map) };
        let recording = Self {
            connection,
            stream: NonNull::new(stream).ok_or_else(|| connection.fault("pa_stream_new"))?,
            status: Box::new(Status {
                library: connection.library,
                was_moved: Cell::new(false),
                is_ready: Cell::new(false),
                is_suspended: Cell::new(false),
            }),
            arrivals: Box::new(Arrivals {
                library: connection.library,
                timing: Cell::new(None),
                kept: RefCell::default(),
            }),
            is_kept: request.of_stream.is_some(),
            asked: Cell::new(ptr::null_mut()),
        };
        recording.connect(request)?;
        Ok(recording)
    }

    fn connect(&self, request: &Request) -> Result<(), Fault> {
        let (library, stream) = (self.connection.library, self.stream.as_ptr());
        let status: *mut c_void = ptr::from_ref(&*self.status).cast_mut().cast();
        // SAFETY: the status lives as long as the stream, in a box.
        unsafe { (library.pa_stream_set_moved_callback)(stream, Some(on_moved), status) };
        // SAFETY: as above.
        unsafe { (library.pa_stream_set_state_callback)(stream, Some(on_status), status) };
        // SAFETY: as above.
        unsafe { (library.pa_stream_set_suspended_callback)(stream, Some(on_status), status) };
        if self.is_kept {
            let arrivals = self.arrivals();
            // SAFETY: as above, of the arrivals.
            unsafe { (library.pa_stream_set_read_callback)(stream, Some(on_readable), arrivals) };
        }
        if let Some(index) = request.of_stream {
            // SAFETY: the stream is there, and not connected yet.
            let status = unsafe { (library.pa_stream_set_monitor_stream)(stream, index) };
            self.checked(status, "pa_stream_set_monitor_stream")?;
        }
        let source = CString::new(request.source.as_str()).unwrap_or_default();
        let attributes = BufferAttr {
            // The most that the server keeps for a client: 4 MiB.
            maxlength: u32::MAX,
            tlength: u32::MAX,
            prebuf: u32::MAX,
            minreq: u32::MAX,
            fragsize: request.fragment_bytes,
        };
        let mut flags = stream_flag::ADJUST_LATENCY;
        if !request.may_move {
            flags |= stream_flag::DONT_MOVE;
        }
        let connect = library.pa_stream_connect_record;
        // SAFETY: the stream is there; name and attributes live through the call.
        let status = unsafe { connect(stream, source.as_ptr(), &raw const attributes, flags) };
        self.checked(status, "pa_stream_connect_record")?;
        let is_decided = || self.state() != stream_state::CREATING;
        self.connection
            .turn_until(is_decided, "pa_stream_connect_record")?;
        if self.is_ready() {
            return Ok(());
        }
        Err(self.connection.fault("pa_stream_connect_record"))
    }

    fn checked(&self, status: c_int, call: &'static str) -> Result<(), Fault> {
        if status < 0 {
            return Err(self.connection.fault(call));
        }
        Ok(())
    }

    fn state(&self) -> i32 {
        // SAFETY: the stream is there.
        unsafe { (self.connection.library.pa_stream_get_state)(self.stream.as_ptr()) }
    }

    /// True while it records, as of the last state callback: asking libpulse costs a system call each time.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status.is_ready.get()
    }

    /// Name of the recorded source.
    #[must_use]
    pub fn source(&self) -> String {
        let name = self.connection.library.pa_stream_get_device_name;
        // SAFETY: the stream is ready or gives none, and the name lives until the next turn.
        text(unsafe { name(self.stream.as_ptr()) })
    }

    /// True if the server moved the stream to another source since the last call.
    #[must_use]
    pub fn take_moved(&self) -> bool {
        self.status.was_moved.take()
    }

    /// True while the source is suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.status.is_suspended.get()
    }

    /// Bytes that can be read now.
    #[must_use]
    pub fn readable_bytes(&self) -> usize {
        if self.is_kept {
            return self.arrivals.kept.borrow().len();
        }
        // SAFETY: the stream is there.
        let bytes =
            unsafe { (self.connection.library.pa_stream_readable_size)(self.stream.as_ptr()) };
        // The result of a failure.
        if bytes == usize::MAX { 0 } else { bytes }
    }

    /// Requests a timing report, unless a request is pending.
    pub fn ask_timing(&self) {
        if !self.asked.get().is_null() {
            return;
        }
        let update = self.connection.library.pa_stream_update_timing_info;
        let arrivals = self.arrivals();
        // SAFETY: the stream is there, and the box of the arrivals lives until the operation was canceled.
        let operation = unsafe { update(self.stream.as_ptr(), Some(on_timing), arrivals) };
        self.asked.set(operation);
    }

    fn arrivals(&self) -> *mut c_void {
        ptr::from_ref(&*self.arrivals).cast_mut().cast()
    }

    /// Requests a timing report and waits for it.
    ///
    /// # Errors
    /// The server does not answer, or the connection ended.
    pub fn timing(&self) -> Result<Option<Timing>, Fault> {
        self.ask_timing();
        let has_come = || {
            let asked = self.asked.get();
            asked.is_null() || !self.connection.is_running(asked)
        };
        self.connection
            .turn_until(has_come, "pa_stream_update_timing_info")?;
        Ok(self.take_timing())
    }

    /// The requested report, once it has come.
    #[must_use]
    pub fn take_timing(&self) -> Option<Timing> {
        let operation = self.asked.get();
        if operation.is_null() || self.connection.is_running(operation) {
            return None;
        }
        self.asked.set(ptr::null_mut());
        self.connection.release(operation);
        self.arrivals.timing.take()
    }

    /// Gives the next fragment to `use_it`, and drops it then. `None`: there is none yet.
    ///
    /// # Errors
    /// The stream ended.
    pub fn next<R>(&self, use_it: impl FnOnce(Fragment<'_>) -> R) -> Result<Option<R>, Fault> {
        if self.is_kept {
            return Ok(self.arrivals.kept.borrow_mut().next(use_it));
        }
        let outcome = read(self.connection.library, self.stream, use_it);
        outcome.map_err(|call| self.connection.fault(call))
    }
}

/// Gives the next fragment of a stream to `use_it`, and drops it then; or returns the name of the call that
/// failed.
fn read<R>(
    library: &Library,
    stream: NonNull<Stream>,
    use_it: impl FnOnce(Fragment<'_>) -> R,
) -> Result<Option<R>, &'static str> {
    let (mut data, mut len) = (ptr::null::<c_void>(), 0_usize);
    // SAFETY: the caller's stream is there, and both results are written.
    let status = unsafe { (library.pa_stream_peek)(stream.as_ptr(), &raw mut data, &raw mut len) };
    if status < 0 {
        return Err("pa_stream_peek");
    }
    if len == 0 {
        return Ok(None);
    }
    let result = if data.is_null() {
        use_it(Fragment::Hole(len))
    } else {
        // SAFETY: libpulse keeps these bytes until the fragment is dropped, below.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
        use_it(Fragment::Bytes(bytes))
    };
    // SAFETY: a fragment was peeked.
    let status = unsafe { (library.pa_stream_drop)(stream.as_ptr()) };
    if status < 0 {
        return Err("pa_stream_drop");
    }
    Ok(Some(result))
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let (library, stream) = (self.connection.library, self.stream.as_ptr());
        let asked = self.asked.get();
        if !asked.is_null() {
            self.connection.cancel(asked);
        }
        // SAFETY: the stream is there; its callbacks are taken back before the status goes.
        unsafe { (library.pa_stream_set_moved_callback)(stream, None, ptr::null_mut()) };
        // SAFETY: as above.
        unsafe { (library.pa_stream_set_state_callback)(stream, None, ptr::null_mut()) };
        // SAFETY: as above.
        unsafe { (library.pa_stream_set_suspended_callback)(stream, None, ptr::null_mut()) };
        // SAFETY: as above, of the arrivals.
        unsafe { (library.pa_stream_set_read_callback)(stream, None, ptr::null_mut()) };
        // SAFETY: as above. It fails where there is no connection any more.
        unsafe { (library.pa_stream_disconnect)(stream) };
        // SAFETY: this is the only reference.
        unsafe { (library.pa_stream_unref)(stream) };
    }
}

/// State of a stream, set by callbacks.
struct Status {
    library: &'static Library,
    was_moved: Cell<bool>,
    is_ready: Cell<bool>,
    is_suspended: Cell<bool>,
}

extern "C" fn on_moved(stream: *mut Stream, status: *mut c_void) {
    // SAFETY: the recording's status, which it keeps until it takes the callback back; the loop's
    // thread is the one that reads it.
    unsafe { &*status.cast::<Status>() }.was_moved.set(true);
    // The other source may be suspended, or resumed.
    on_status(stream, status);
}

extern "C" fn on_status(stream: *mut Stream, status: *mut c_void) {
    // SAFETY: as in `on_moved`.
    let status = unsafe { &*status.cast::<Status>() };
    // SAFETY: the stream is there while it calls back.
    let state = unsafe { (status.library.pa_stream_get_state)(stream) };
    status.is_ready.set(state == stream_state::READY);
    // SAFETY: as above.
    let suspended = unsafe { (status.library.pa_stream_is_suspended)(stream) };
    status.is_suspended.set(suspended == 1);
}

/// The last report, and the fragments that the server has sent.
struct Arrivals {
    library: &'static Library,
    /// The last timing report.
    timing: Cell<Option<Timing>>,
    kept: RefCell<Kept>,
}

extern "C" fn on_readable(stream: *mut Stream, _: usize, arrivals: *mut c_void) {
    // SAFETY: the recording's box, which it keeps until it takes the callback back; the loop's thread is the one
    // that reads it.
    let arrivals = unsafe { &*arrivals.cast::<Arrivals>() };
    let Some(stream) = NonNull::new(stream) else {
        return;
    };
    let mut kept = arrivals.kept.borrow_mut();
    // A failure is that of the stream, and shows in its state.
    while let Ok(Some(())) = read(arrivals.library, stream, |fragment| kept.push(fragment)) {}
}

extern "C" fn on_timing(stream: *mut Stream, success: c_int, arrivals: *mut c_void) {
    // SAFETY: the recording's box, which it keeps until it cancels the operation; the loop's thread is
    // the one that reads it.
    let arrivals = unsafe { &*arrivals.cast::<Arrivals>() };
    // SAFETY: the stream is there while it calls back.
    let info = unsafe { (arrivals.library.pa_stream_get_timing_info)(stream) };
    // SAFETY: null, or a structure of the stream's that stays through the callback.
    let info = unsafe { info.as_ref() };
    let told = info.filter(|_| success != 0).and_then(timing);
    // Bytes in `kept` were read from libpulse, and are read next here.
    let kept = i64::try_from(arrivals.kept.borrow().len()).unwrap_or(0);
    arrivals.timing.set(told.map(|timing| Timing {
        read: timing.read - kept,
        ..timing
    }));
}

fn timing(info: &TimingInfo) -> Option<Timing> {
    if info.write_index_corrupt != 0 || info.read_index_corrupt != 0 {
        return None;
    }
    let ns = |microseconds: u64| i64::try_from(microseconds.saturating_mul(1_000)).ok();
    Some(Timing {
        ns: clock::now_ns().checked_sub(passed_ns(info.timestamp))?,
        written: info.write_index,
        read: info.read_index,
        latency_ns: ns(info.source_usec)?.checked_sub(ns(info.sink_usec)?)?,
    })
}

/// Time since a time of the wall clock, which may have been set since: at most the time limit of an answer.
fn passed_ns(time: TimeValue) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let microseconds = u64::try_from(time.microseconds).unwrap_or(0);
    let then = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(microseconds);
    let passed = then.elapsed().unwrap_or_default();
    let longest = Duration::from_millis(SERVER_ANSWER_MS_MAX);
    u64::try_from(passed.min(longest).as_nanos()).unwrap_or(0)
}
