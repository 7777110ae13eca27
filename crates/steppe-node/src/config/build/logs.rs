//! Where lines of logs go.

use std::path::{Path, PathBuf};

use steppe_telemetry::Destination;

/// The file that standard output is called as: opening it would fail where that is a socket.
const STDOUT: &str = "/dev/stdout";

/// Where lines go that are written to this path.
pub(in crate::config) fn destination(path: PathBuf) -> Destination {
    if path == Path::new(STDOUT) {
        Destination::Stdout
    } else {
        Destination::File(path)
    }
}
