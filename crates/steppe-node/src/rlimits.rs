//! The limit on open files (`RLIMIT_NOFILE`), and the connections that it allows.
//!
//! Invariant: after [`lower_connections`] the listeners together accept no more connections than
//! the process has descriptors for, but that each keeps one. Spec: `getrlimit(2)`.

use steppe_http::config::ListenerLimits;
use steppe_net::raise_file_limit;

use crate::config::Config;

/// Raises the limit on open files, and lowers `connections` to the number that it allows.
///
/// If the limit cannot be raised far enough, every listener's `connections` is lowered by the same
/// factor; a warning names the listener if its limit is not the default.
pub fn lower_connections(config: &mut Config) {
    let listeners = &config.http.listeners;
    let wanted: usize = listeners
        .iter()
        .map(|listener| listener.limits.connections)
        .sum();
    let files = raise_file_limit(wanted);
    let allowed = files.connections();
    if wanted <= allowed {
        return;
    }
    config.set_connections(|listener| {
        let limit = listener.limits.connections;
        let lowered = u128::from(limit as u64) * allowed as u128 / wanted as u128;
        let lowered = usize::try_from(lowered).unwrap_or(limit).max(1);
        let (address, open_files) = (&listener.address, files.descriptors);
        // A default limit that is lowered is no cause for a warning at every start.
        if limit == ListenerLimits::default().connections {
            tracing::info!(
                listener = %address, lowered_to = lowered, open_files,
                "the default of limits.connections is lowered to {lowered}: as the limit on open files allows",
            );
        } else {
            tracing::warn!(
                listener = %address, wanted = limit, lowered_to = lowered, open_files,
                "limits.connections lowered to {lowered}: raise LimitNOFILE or ulimit -n",
            );
        }
        lowered
    });
}
