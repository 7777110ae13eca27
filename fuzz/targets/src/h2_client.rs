//! A client of HTTP/2 that sends frames in any order: the gateway goes on, and keeps nothing of it.
//!
//! A byte is the kind of a frame, those behind it its parts. The preface is always right: a wrong one needs
//! no model.

mod frames;
mod gateway;
#[path = "../../../crates/steppe-http/tests/support/in_process.rs"]
mod in_process;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use frames::Frames;
use gateway::Running;

/// The gateway, which runs for all inputs.
static GATEWAY: LazyLock<Running> = LazyLock::new(Running::start);

/// Ends a hung run: before libFuzzer's own limit of an input, which would not name the step, and in tests late
/// enough for any load of the machine.
const PATIENCE: Duration = Duration::from_secs(if cfg!(fuzzing) { 4 } else { 30 });

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    ask(&GATEWAY, &Frames::of(input));
    ask(&GATEWAY, &Frames::one_request());
    let end = Instant::now() + PATIENCE;
    while GATEWAY.held_bytes() > 0 {
        let held = GATEWAY.held_bytes();
        assert!(Instant::now() < end, "it keeps {held} bytes");
        std::thread::yield_now();
    }
}

/// Sends frames and reads what comes, until the gateway ends the connection.
///
/// # Panics
/// Where it does not.
fn ask(running: &Running, frames: &[u8]) {
    let mut client = running.connect();
    client.set_write_timeout(Some(PATIENCE)).expect("a socket");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    // The gateway may close the connection before it has read all frames.
    let _ = client.write_all(frames);
    let _ = client.shutdown(Shutdown::Write);
    let mut answer = [0; 16 << 10];
    loop {
        match client.read(&mut answer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            // By the fuzzer's own clock.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the connection does not end: {error}"),
        }
    }
}
