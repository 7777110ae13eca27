//! Queries to the server: its devices and streams.

use std::ffi::{CStr, c_int, c_void};

use super::abi::{
    ClientInfo, Context, INVALID_INDEX, Library, OnClient, OnSinkInput, OnSource, Operation,
    SampleSpec, ServerInfo, SinkInputInfo, SourceInfo, sample,
};
use super::connection::{Connection, Fault, text};
use super::positions::map_of;
use crate::channel_map::StreamFormat;
use crate::format::{Format, Sample};
use crate::limits::{CHANNELS_MAX, DEVICES_MAX, RATE_MAX, RATE_MIN};

/// A source: a microphone, or the monitor of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// Name, which is the id.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Format of the source, or the nearest of the supported ones, in the server's own channel map.
    pub format: StreamFormat,
    /// For a monitor: index and name of its sink.
    pub monitor_of: Option<(u32, String)>,
    /// True if it is PipeWire's own.
    pub is_of_pipewire: bool,
}

/// The server's default devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDefaults {
    /// Name of a sink; empty for none.
    pub sink: String,
    /// Name of a source; empty for none.
    pub source: String,
}

/// A stream that a program plays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Playing {
    /// Index of the stream.
    pub index: u32,
    /// Index of the sink that it plays to.
    pub sink: u32,
    /// Index of its client.
    pub client: u32,
    /// True while the program has paused it.
    pub is_corked: bool,
    /// The program's process; 0 when it is not known.
    pub pid: u32,
    /// The program's name, for people.
    pub name: String,
    /// File name of the program's executable; empty when it is not known.
    pub binary: String,
}

/// A program that is connected to the server.
#[derive(Debug)]
struct Client {
    index: u32,
    /// True if it speaks PipeWire's own protocol: then the server knows its process better than the
    /// client does.
    is_native: bool,
    pid: u32,
    name: String,
    binary: String,
}

/// Answers of a query. A callback has their address, so they stay in a box.
struct Answers<T> {
    library: &'static Library,
    items: Vec<T>,
}

impl Connection {
    /// All sources.
    ///
    /// # Errors
    /// The server went away, or does not answer.
    pub fn sources(&self) -> Result<Vec<SourceEntry>, Fault> {
        let ask = self.library.pa_context_get_source_info_list;
        let on_source: OnSource = on_source;
        self.ask("pa_context_get_source_info_list", |answers| {
            // SAFETY: the context is ready or fails the call, and the answers outlive the operation.
            unsafe { ask(self.context.as_ptr(), on_source, answers) }
        })
    }

    /// All streams that programs play.
    ///
    /// # Errors
    /// The server went away, or does not answer.
    pub fn playing(&self) -> Result<Vec<Playing>, Fault> {
        let mut streams = self.sink_inputs()?;
        let clients = self.clients()?;
        for stream in &mut streams {
            if let Some(client) = clients.iter().find(|client| client.index == stream.client) {
                stream.complete(client);
            }
        }
        Ok(streams)
    }

    fn clients(&self) -> Result<Vec<Client>, Fault> {
        let ask = self.library.pa_context_get_client_info_list;
        let on_client: OnClient = on_client;
        self.ask("pa_context_get_client_info_list", |answers| {
            // SAFETY: as in `sources`.
            unsafe { ask(self.context.as_ptr(), on_client, answers) }
        })
    }

    fn sink_inputs(&self) -> Result<Vec<Playing>, Fault> {
        let ask = self.library.pa_context_get_sink_input_info_list;
        let on_input: OnSinkInput = on_sink_input;
        self.ask("pa_context_get_sink_input_info_list", |answers| {
            // SAFETY: as in `sources`.
            unsafe { ask(self.context.as_ptr(), on_input, answers) }
        })
    }

    /// Requests the default devices.
    ///
    /// # Errors
    /// The server went away, or does not answer.
    pub fn defaults(&self) -> Result<ServerDefaults, Fault> {
        let ask = self.library.pa_context_get_server_info;
        let call = "pa_context_get_server_info";
        let mut found = self.ask(call, |answers| {
            // SAFETY: as in `sources`.
            unsafe { ask(self.context.as_ptr(), on_server, answers) }
        })?;
        found.pop().ok_or_else(|| self.fault(call))
    }

    fn ask<T>(
        &self,
        call: &'static str,
        start: impl FnOnce(*mut c_void) -> *mut Operation,
    ) -> Result<Vec<T>, Fault> {
        let answers = Box::into_raw(Box::new(Answers {
            library: self.library,
            items: Vec::<T>::new(),
        }));
        let operation = start(answers.cast());
        let outcome = if operation.is_null() {
            Err(self.fault(call))
        } else {
            let outcome = self.turn_until(|| !self.is_running(operation), call);
            self.cancel(operation);
            outcome
        };
        // SAFETY: made above, and the operation that had it has ended or was canceled.
        let answers = unsafe { Box::from_raw(answers) };
        outcome.map(|()| answers.items)
    }
}

/// Appends an entry that a list's callback was given; its end and its errors have none.
///
/// # Safety
/// `answers` is that of [`Connection::ask`] with this type, and `info` is null or valid.
unsafe fn append<I, T>(
    info: *const I,
    answers: *mut c_void,
    entry: impl FnOnce(&I, &'static Library) -> T,
) {
    // SAFETY: null, or valid through the callback, as the caller says.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return;
    };
    // SAFETY: as the caller says; the loop's thread is the only one that has it.
    let answers = unsafe { &mut *answers.cast::<Answers<T>>() };
    if answers.items.len() < DEVICES_MAX {
        answers.items.push(entry(info, answers.library));
    }
}

extern "C" fn on_source(_: *mut Context, info: *const SourceInfo, _: c_int, answers: *mut c_void) {
    // SAFETY: `sources` registered this with its answers.
    unsafe { append(info, answers, |info, _| source_entry(info)) };
}

extern "C" fn on_sink_input(
    _: *mut Context,
    info: *const SinkInputInfo,
    _: c_int,
    answers: *mut c_void,
) {
    // SAFETY: `sink_inputs` registered this with its answers.
    unsafe { append(info, answers, playing) };
}

extern "C" fn on_client(_: *mut Context, info: *const ClientInfo, _: c_int, answers: *mut c_void) {
    // SAFETY: `clients` registered this with its answers.
    unsafe { append(info, answers, client) };
}

extern "C" fn on_server(_: *mut Context, info: *const ServerInfo, answers: *mut c_void) {
    // SAFETY: `defaults` registered this with its answers.
    unsafe {
        append(info, answers, |info, _| ServerDefaults {
            sink: text(info.default_sink_name),
            source: text(info.default_source_name),
        });
    };
}

fn source_entry(info: &SourceInfo) -> SourceEntry {
    let is_monitor = info.monitor_of_sink != INVALID_INDEX;
    let format = format_of(info.sample_spec);
    SourceEntry {
        name: text(info.name),
        description: text(info.description),
        format: StreamFormat {
            format,
            map: map_of(&info.channel_map, format.channels),
        },
        monitor_of: is_monitor.then(|| (info.monitor_of_sink, text(info.monitor_of_sink_name))),
        is_of_pipewire: text(info.driver) == "PipeWire",
    }
}

/// Format in which the device is captured: its own, or the next one that loses nothing.
fn format_of(spec: SampleSpec) -> Format {
    let fits_s16 = [
        sample::U8,
        sample::ALAW,
        sample::ULAW,
        sample::S16LE,
        sample::S16BE,
    ];
    Format {
        rate: spec.rate.clamp(RATE_MIN, RATE_MAX),
        channels: u32::from(spec.channels).clamp(1, CHANNELS_MAX),
        sample: if fits_s16.contains(&spec.format) {
            Sample::S16
        } else {
            Sample::F32
        },
    }
}

fn playing(info: &SinkInputInfo, library: &'static Library) -> Playing {
    let property = |key: &CStr| property(library, info.proplist, key);
    let name = property(c"application.name");
    Playing {
        index: info.index,
        sink: info.sink,
        client: info.client,
        is_corked: info.corked != 0,
        pid: property(c"application.process.id").parse().unwrap_or(0),
        name: if name.is_empty() {
            text(info.name)
        } else {
            name
        },
        binary: property(c"application.process.binary"),
    }
}

impl Playing {
    /// Adds the client's properties: streams of PipeWire's own clients have no process.
    fn complete(&mut self, client: &Client) {
        if client.pid != 0 && (self.pid == 0 || client.is_native) {
            self.pid = client.pid;
        }
        if self.binary.is_empty() {
            self.binary.clone_from(&client.binary);
        }
        if self.name.is_empty() {
            self.name.clone_from(&client.name);
        }
    }
}

fn client(info: &ClientInfo, library: &'static Library) -> Client {
    let property = |key: &CStr| property(library, info.proplist, key);
    let pid = |key: &CStr| property(key).parse().unwrap_or(0);
    // The process that connected to PipeWire: for PulseAudio's clients that is pipewire-pulse.
    let socket_pid: u32 = pid(c"pipewire.sec.pid");
    let is_native = socket_pid != 0 && property(c"client.api") != "pipewire-pulse";
    Client {
        index: info.index,
        is_native,
        pid: if is_native {
            socket_pid
        } else {
            pid(c"application.process.id")
        },
        name: property(c"application.name"),
        binary: property(c"application.process.binary"),
    }
}

/// A property of a list; empty for none.
fn property(library: &Library, list: *const c_void, key: &CStr) -> String {
    if list.is_null() {
        return String::new();
    }
    // SAFETY: the list is valid through the callback that it was given to, and so is what it gives.
    text(unsafe { (library.pa_proplist_gets)(list, key.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_the_process_of_its_client() {
        let client = |is_native| Client {
            index: 1,
            is_native,
            pid: 20,
            name: "client".to_owned(),
            binary: "pw-cat".to_owned(),
        };
        let completed = |pid, is_native| {
            let mut stream = Playing {
                pid,
                name: "stream".to_owned(),
                ..Playing::default()
            };
            stream.complete(&client(is_native));
            (stream.pid, stream.name, stream.binary)
        };
        let with = |pid| (pid, "stream".to_owned(), "pw-cat".to_owned());
        assert_eq!(completed(0, true), with(20));
        assert_eq!(completed(0, false), with(20));
        assert_eq!(completed(10, false), with(10));
        // In a container, a program does not know its process ID outside.
        assert_eq!(completed(10, true), with(20));
    }

    #[test]
    fn devices_are_captured_in_a_format_that_loses_nothing() {
        let of = |format| {
            format_of(SampleSpec {
                format,
                rate: 44_100,
                channels: 2,
            })
        };
        assert_eq!(of(sample::S16LE).sample, Sample::S16);
        assert_eq!(of(sample::ULAW).sample, Sample::S16);
        // 24 and 32 bits.
        for format in [sample::FLOAT32LE, 7, 9, 11] {
            assert_eq!(of(format).sample, Sample::F32);
        }
        let odd = SampleSpec {
            format: sample::S16LE,
            rate: 1,
            channels: 0,
        };
        assert_eq!(
            (format_of(odd).rate, format_of(odd).channels),
            (RATE_MIN, 1)
        );
    }
}
