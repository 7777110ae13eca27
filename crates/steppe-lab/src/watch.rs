//! STUB
#![allow(missing_docs, unused)]
use std::time::Duration;
pub struct WatchOptions {
    pub pid: u32,
    pub length: Option<Duration>,
    pub interval: Duration,
    pub json: bool,
}
pub fn run(o: WatchOptions) -> Result<u8, std::io::Error> {
    Ok(0)
}
