//! The interface for JavaScript: the class `Native` and a few functions.
//!
//! All checks of options that the wrapper can't make are here or below; an error has the `code` of
//! [`Error::code`](crate::error::Error::code). **Invariant:** a capture's thread has ended before the
//! environment that owns its memory goes: a cleanup hook joins it.
#![expect(
    unsafe_code,
    reason = "the addon's edge: Node-API, and memory that JavaScript gave"
)]

mod bell;
mod guard;
pub mod options;
pub mod report;
pub mod system;

use std::ptr::NonNull;

use napi::Env;
use napi::bindgen_prelude::{Function, Uint8Array};
use napi_derive::napi;

use crate::capture::Capture;
use crate::channel_map::ChannelMap;
use crate::convert::Policy;
use crate::error::Error;
use crate::layout::Layout;
use crate::packetizer::Packetizer;
use crate::ring::Ring;
use crate::ring::sys::{Memory, Owned};
use crate::source::Source;
use bell::Bell;
use guard::Guard;
use options::Options;
use report::{EventReport, LayoutReport};

/// The `code` of an error in JavaScript.
pub struct Code(String);

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Error of a function that JavaScript called.
type Fault = napi::Error<Code>;

fn thrown(error: &Error) -> Fault {
    napi::Error::new(Code(error.code().to_owned()), error.to_string())
}

fn refused(error: &napi::Error) -> Fault {
    napi::Error::new(Code(error.status.as_ref().to_owned()), &error.reason)
}

/// The sizes of a ring's memory, for JavaScript to allocate it.
#[napi]
pub fn layout(slots: u32, slot_bytes: u32) -> Result<LayoutReport, Fault> {
    let layout = Layout::new(slots, slot_bytes).map_err(|error| thrown(&error))?;
    Ok(LayoutReport::from(layout))
}

/// Current time, in ns of the clock of packets' times.
///
/// Exact for 104 days after the machine started, then to 2 ns.
#[napi]
pub fn now_ns() -> f64 {
    crate::clock::now_ns() as f64
}

/// A capture.
#[napi]
pub struct Native {
    running: Guard<Running>,
    map: ChannelMap,
}

/// Parts that have to end before the environment does, in this order: the thread, the parts that it was to be
/// started with, the doorbell, and the memory.
struct Running {
    capture: Option<Capture>,
    /// Parts for `start` to start the thread with.
    ready: Option<Ready>,
    bell: Bell,
    /// Keeps the memory.
    _array: Uint8Array,
}

/// Parts that the thread of a capture takes.
struct Ready {
    source: Box<dyn Source>,
    packetizer: Packetizer,
    policy: Policy,
    bell: Bell,
}

impl Ready {
    fn start(self) -> crate::error::Result<Capture> {
        Capture::start(
            self.source,
            self.packetizer,
            self.policy,
            Box::new(self.bell),
        )
    }
}

#[napi]
impl Native {
    /// Builds a capture of these options in this memory, which is used by nothing else.
    #[napi(constructor)]
    pub fn new(
        env: Env,
        options: Options,
        memory: Uint8Array,
        on_doorbell: Function<(), ()>,
    ) -> Result<Self, Fault> {
        let (source, packetizer) = built(&options, &memory).map_err(|error| thrown(&error))?;
        let (kept, bell) = Bell::pair(&env, &on_doorbell).map_err(|error| refused(&error))?;
        let map = packetizer.stream_format().map;
        let running = Running {
            capture: None,
            ready: Some(Ready {
                source,
                packetizer,
                policy: options.policy().map_err(|error| thrown(&error))?,
                bell,
            }),
            bell: kept,
            _array: memory,
        };
        let running = Guard::new(&env, running).map_err(|error| refused(&error))?;
        Ok(Self { running, map })
    }

    /// Positions of the packets' channels.
    #[napi]
    pub fn channel_map(&self) -> Vec<String> {
        self.map.names()
    }

    /// Starts the capture's thread. The event `open` or `failed` follows.
    #[napi]
    pub fn start(&self) -> Result<(), Fault> {
        let started = self.running.with(|running| {
            let Some(ready) = running.ready.take() else {
                let message = "a capture can be started only once";
                return Err(Error::Options(message.to_owned()));
            };
            running.capture = Some(ready.start()?);
            Ok(())
        });
        started.unwrap_or(Ok(())).map_err(|error| thrown(&error))
    }

    /// Leaves frames out until `resume`; the device goes on.
    #[napi]
    pub fn pause(&self) {
        self.with_capture(Capture::pause);
    }

    /// Lets frames pass again.
    #[napi]
    pub fn resume(&self) {
        self.with_capture(Capture::resume);
    }

    /// Makes the capture keep the event loop alive, as it does from the start.
    #[napi(js_name = "ref")]
    pub fn reference(&self, env: Env) {
        self.running.with(|running| running.bell.reference(&env));
    }

    /// Lets the event loop end while the capture goes on.
    #[napi]
    pub fn unref(&self, env: Env) {
        self.running.with(|running| running.bell.unreference(&env));
    }

    /// Events that were not fetched yet, the oldest first.
    #[napi]
    pub fn events(&self) -> Vec<EventReport> {
        let mut events = Vec::new();
        self.with_capture(|capture| {
            events.extend(std::iter::from_fn(|| capture.event()).map(EventReport::from));
        });
        events
    }

    /// Ends the capture, and returns when its thread has ended. The memory stays as it is.
    #[napi]
    pub fn close(&self, env: Env) {
        self.running.close(&env);
    }

    fn with_capture(&self, act: impl FnOnce(&Capture)) {
        self.running
            .with(|running| running.capture.as_ref().map(act));
    }
}

fn built(
    options: &Options,
    array: &Uint8Array,
) -> crate::error::Result<(Box<dyn Source>, Packetizer)> {
    let settings = options.settings()?;
    let layout = Layout::new(options.slots, options.slot_bytes)?;
    let memory = memory_of(array)
        .ok_or_else(|| Error::Options("the memory is not aligned to 8 bytes".to_owned()))?;
    // SAFETY: JavaScript gives each capture memory of its own, as the constructor asks.
    let owned = unsafe { Owned::new(memory) };
    let ring = Ring::new(owned, layout).ok_or_else(|| {
        Error::Options(format!(
            "the memory has {} bytes; the ring needs {}",
            memory.len(),
            layout.bytes
        ))
    })?;
    let source = options.source(settings)?;
    Ok((source, Packetizer::new(ring, settings)?))
}

/// The memory of an array, which lives as long as the array is kept.
fn memory_of(array: &Uint8Array) -> Option<Memory> {
    let len = u32::try_from(array.len()).ok()?;
    let base = NonNull::new(array.as_ptr().cast_mut())?;
    // SAFETY: the array's buffer is neither moved nor resized, being a SharedArrayBuffer of fixed
    // length, and whoever uses the value keeps the array: `Running` until its thread has ended, a
    // `Waiter` for each call.
    unsafe { Memory::from_raw(base, len) }
}

/// A blocking reader of packets for a Worker, which has no event loop to wake.
#[napi]
pub struct Waiter {
    running: Guard<Waiting>,
}

/// A blocking reader, and the array that keeps its memory: the reader is dropped first.
struct Waiting {
    waiter: crate::wait::Waiter,
    _array: Uint8Array,
}

#[napi]
impl Waiter {
    /// A reader of the memory of a capture, which may belong to another thread. The ring counts the reader until
    /// it is closed, collected, or its environment ends.
    #[napi(constructor)]
    pub fn new(env: Env, memory: Uint8Array) -> Result<Self, Fault> {
        let found = memory_of(&memory).filter(|found| found.len() >= crate::layout::QUEUE_OFFSET);
        let error = || {
            thrown(&Error::Options(
                "the memory is not that of a ring".to_owned(),
            ))
        };
        let waiting = Waiting {
            waiter: crate::wait::Waiter::new(found.ok_or_else(error)?),
            _array: memory,
        };
        let running = Guard::new(&env, waiting).map_err(|error| refused(&error))?;
        Ok(Self { running })
    }

    /// Waits until `HEAD` is not `seen`, the capture ends, or `timeout_ms` have passed, at most 100. Returns
    /// `HEAD`; `seen` once the reader is closed.
    #[napi]
    pub fn wait(&self, seen: u32, timeout_ms: u32) -> u32 {
        let waited = self
            .running
            .with(|waiting| waiting.waiter.wait(seen, timeout_ms));
        waited.unwrap_or(seen)
    }

    /// Ends the reader.
    #[napi]
    pub fn close(&self, env: Env) {
        self.running.close(&env);
    }
}
