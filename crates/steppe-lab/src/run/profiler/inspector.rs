//! Asks Node.js for sampling heap profiles, over the WebSocket of its inspector.
//!
//! The target listens on a port of its own choice and prints the address. Only loopback addresses are
//! believed. A session lasts as long as the run: V8 ends the sampling with it.
//!
//! Source: Chrome DevTools Protocol.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Message, WebSocket};

use crate::limits::{PROFILE_BYTES_MAX, PROFILE_LOG_BYTES_MAX, PROFILE_PROCESSES_MAX};
use crate::profile::{Profile, node};
use crate::scenario::Program;

/// The inspectors of all processes of a target, by address.
#[derive(Default)]
pub(in crate::run) struct Inspectors {
    known: Vec<String>,
    sessions: Vec<Session>,
}

struct Session {
    socket: WebSocket<Bounded>,
    /// Number of the last command.
    id: u64,
}

/// A stream whose reads and writes end at a moment, however the peer spreads its bytes.
struct Bounded {
    stream: TcpStream,
    deadline: Instant,
}

/// The head of an answer.
#[derive(Deserialize)]
struct Head {
    id: Option<u64>,
    error: Option<IgnoredAny>,
}

/// The result of an evaluated expression.
#[derive(Deserialize)]
struct Evaluated {
    result: Completion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completion {
    exception_details: Option<IgnoredAny>,
}

impl Inspectors {
    pub(super) fn prepare(program: &mut Program) -> Self {
        let said = program.env.get("NODE_OPTIONS").cloned();
        let said = said.or_else(|| std::env::var("NODE_OPTIONS").ok());
        let options = format!("{} --inspect=127.0.0.1:0", said.unwrap_or_default());
        let options = options.trim().to_owned();
        program.env.insert("NODE_OPTIONS".to_owned(), options);
        Self::default()
    }

    /// Begins to sample in each process that has printed its address since the last time.
    pub(super) fn attach(&mut self, log: &Path, deadline: Instant) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", log.display());
        let file = File::open(log).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(PROFILE_LOG_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let printed = String::from_utf8_lossy(&bytes);
        for url in addresses(&printed) {
            if self.known.iter().any(|known| known == url) {
                continue;
            }
            if self.known.len() >= PROFILE_PROCESSES_MAX {
                break;
            }
            self.known.push(url.to_owned());
            // The process has ended since then.
            let Ok(mut session) = Session::open(url, deadline) else {
                continue;
            };
            session.begin(deadline)?;
            self.sessions.push(session);
        }
        if self.sessions.is_empty() {
            let why = "no inspector of Node.js answers: the target printed no address (\"Debugger \
                       listening on ws://127.0.0.1:…\")";
            return Err(why.to_owned());
        }
        Ok(())
    }

    pub(super) fn fetch(
        &mut self,
        log: &Path,
        deadline: Instant,
        profile: &mut Profile,
    ) -> Result<(), String> {
        self.attach(log, deadline)?;
        let (mut answered, mut why) = (Vec::new(), None);
        for mut session in std::mem::take(&mut self.sessions) {
            match session.profile(deadline, profile) {
                Ok(()) => answered.push(session),
                Err(error) => why = Some(error),
            }
        }
        self.sessions = answered;
        match why.filter(|_| self.sessions.is_empty()) {
            None => Ok(()),
            Some(why) => Err(why),
        }
    }
}

impl Session {
    fn open(url: &str, deadline: Instant) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{url}: {error}");
        let address = address(url).ok_or_else(|| failed(&"not an address of this machine"))?;
        let time = deadline.saturating_duration_since(Instant::now());
        let stream = TcpStream::connect_timeout(&address, time).map_err(|error| failed(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(PROFILE_BYTES_MAX))
            .max_frame_size(Some(PROFILE_BYTES_MAX));
        let stream = Bounded { stream, deadline };
        let (socket, _) = tungstenite::client::client_with_config(url, stream, Some(config))
            .map_err(|error| failed(&error))?;
        Ok(Self { socket, id: 0 })
    }

    fn begin(&mut self, deadline: Instant) -> Result<(), String> {
        // V8 counts the allocations of an inlined function as its caller's. A refusal costs no more than
        // that.
        self.evaluate(NO_INLINING, deadline)?;
        self.call("HeapProfiler.enable", json!({}), deadline)?;
        let params = json!({ "samplingInterval": SAMPLING_INTERVAL });
        self.call("HeapProfiler.startSampling", params, deadline)?;
        Ok(())
    }

    fn profile(&mut self, deadline: Instant, profile: &mut Profile) -> Result<(), String> {
        // `collectGarbage` shrinks the young generation too, which takes a minute to grow again: in points
        // that are judged, that would look like growth.
        if !self.evaluate(COLLECT, deadline)? {
            self.call("HeapProfiler.collectGarbage", json!({}), deadline)?;
        }
        let answer = self.call("HeapProfiler.getSamplingProfile", json!({}), deadline)?;
        node::sampling_profile(&answer, profile)
            .map_err(|error| format!("the inspector of Node.js: {error}"))
    }

    /// Runs an expression with `require` at hand; false: the expression threw.
    fn evaluate(&mut self, expression: &str, deadline: Instant) -> Result<bool, String> {
        let params = json!({ "expression": expression, "includeCommandLineAPI": true });
        let answer = self.call("Runtime.evaluate", params, deadline)?;
        let answer = serde_json::from_slice::<Evaluated>(&answer);
        Ok(answer.is_ok_and(|answer| answer.result.exception_details.is_none()))
    }

    /// Sends a command and waits for its answer; skips events in between.
    fn call(&mut self, method: &str, params: Value, deadline: Instant) -> Result<Bytes, String> {
        let failed =
            |why: &dyn std::fmt::Display| format!("the inspector of Node.js: {method}: {why}");
        self.id += 1;
        let command = json!({ "id": self.id, "method": method, "params": params });
        let command = Message::text(command.to_string());
        self.socket.get_mut().deadline = deadline;
        self.socket.send(command).map_err(|error| failed(&error))?;
        loop {
            let message = self.socket.read().map_err(|error| failed(&error))?;
            let message = message.into_data();
            let Ok(head) = serde_json::from_slice::<Head>(&message) else {
                continue;
            };
            if head.id == Some(self.id) {
                return match head.error {
                    None => Ok(message),
                    Some(_) => Err(failed(&String::from_utf8_lossy(&message))),
                };
            }
        }
    }
}

impl Bounded {
    /// Time until the deadline. Never zero, which would mean forever.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now());
        left.filter(|left| !left.is_zero()).ok_or_else(late)
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer).map_err(named)
    }
}

impl Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(buffer).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Names the error of a socket past its deadline, which is `WouldBlock`.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => late(),
        _ => error,
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "no answer in time")
}

/// Addresses of inspectors that a target has printed.
fn addresses(printed: &str) -> impl Iterator<Item = &str> {
    let lines = printed.lines();
    let urls = lines.filter_map(|line| line.trim().strip_prefix("Debugger listening on "));
    urls.filter(|url| address(url).is_some())
}

/// The address in `ws://ADDRESS:PORT/…`, if it is a loopback one: a target may print anything.
fn address(url: &str) -> Option<SocketAddr> {
    let (authority, _) = url.strip_prefix("ws://")?.split_once('/')?;
    let address: SocketAddr = authority.parse().ok()?;
    address.ip().is_loopback().then_some(address)
}

/// Mean bytes between two samples: half of V8's default, at some 200 bytes a live sample.
const SAMPLING_INTERVAL: u32 = 16 << 10;
const NO_INLINING: &str = "require('v8').setFlagsFromString('--no-turbo-inlining')";
/// Forces a full collection, as `node --expose-gc` has it.
const COLLECT: &str = "require('v8').setFlagsFromString('--expose-gc'); \
                       require('vm').runInNewContext('gc')()";

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_inspectors_of_this_machine_are_believed() {
        let printed = "Debugger listening on ws://127.0.0.1:39341/10b63ec0-c911\n\
                       For help, see: https://nodejs.org/en/docs/inspector\n\
                       Debugger listening on ws://10.0.0.7:9229/a\n\
                       Debugger listening on ws://metadata/latest\n\
                       Debugger listening on ws://[::1]:9229/b\nDebugger attached.\n";
        let found: Vec<_> = addresses(printed).collect();
        assert_eq!(
            found,
            ["ws://127.0.0.1:39341/10b63ec0-c911", "ws://[::1]:9229/b"]
        );
    }

    /// The peer sends a long frame byte by byte.
    #[test]
    fn a_peer_that_trickles_is_given_up_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let url = format!("ws://{}/a", listener.local_addr().expect("bound"));
        let peer = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("connected");
            let mut socket = tungstenite::accept(stream).expect("a handshake");
            let stream = socket.get_mut();
            // A text of 65,535 bytes.
            let mut sent = stream.write_all(&[0x81, 126, 0xff, 0xff]);
            let mut bytes = 0;
            while sent.is_ok() {
                std::thread::sleep(Duration::from_millis(10));
                sent = stream.write_all(b"a");
                bytes += 1;
            }
            bytes
        });
        let mut session =
            Session::open(&url, Instant::now() + Duration::from_mins(1)).expect("opens");
        let deadline = Instant::now() + Duration::from_millis(300);
        let said = session.call("Runtime.evaluate", json!({}), deadline);
        assert!(said.is_err_and(|why| why.ends_with("no answer in time")));
        drop(session);
        assert!(peer.join().expect("ends") < 65_535, "the frame ended");
    }
}
