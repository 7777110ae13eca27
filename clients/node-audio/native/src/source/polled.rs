//! Hot-plug notification by polling a list of devices.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::device::Device;
use crate::error::Result;
use crate::limits::WATCH_EVERY_MS;
use crate::session::Control;

/// Calls `on_change` whenever the list has changed, until `control` stops it.
///
/// # Errors
/// Those of `list`.
pub fn watch(
    control: &Arc<Control>,
    on_change: &dyn Fn(),
    list: impl Fn() -> Result<Vec<Device>>,
) -> Result<()> {
    let mut last = list()?;
    // Changes before the first list were not reported.
    on_change();
    while !control.is_stopped() {
        thread::park_timeout(Duration::from_millis(WATCH_EVERY_MS));
        let now = list()?;
        if now != last {
            on_change();
        }
        last = now;
    }
    Ok(())
}
