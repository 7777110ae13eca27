//! Hot-plug where devices are listed again and again rather than announced.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::device::Device;
use crate::error::Result;
use crate::limits::WATCH_EVERY_MS;
use crate::session::Control;

/// Calls `on_change` whenever a list is another one, until it is stopped.
///
/// # Errors
/// Those of `list`.
pub fn watch(
    control: &Arc<Control>,
    on_change: &dyn Fn(),
    list: impl Fn() -> Result<Vec<Device>>,
) -> Result<()> {
    let mut last = list()?;
    // What changed before this was told to nobody.
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
