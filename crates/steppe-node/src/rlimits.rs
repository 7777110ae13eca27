//! Limits of a configuration, lowered to those of the process (`setrlimit(2)`).

use steppe_http::config::Listener;
use steppe_net::raise_file_limit;

/// Raises the limit on open files to what the connections of all listeners need; where it can't
/// be raised so far, lowers their limits, all alike, and says so.
pub fn fit_connections(listeners: &mut [Listener]) {
    let wanted: usize = listeners
        .iter()
        .map(|listener| listener.limits.connections)
        .sum();
    let files = raise_file_limit(wanted);
    let fits = files.connections();
    if wanted <= fits {
        return;
    }
    for listener in listeners {
        let limit = listener.limits.connections;
        let lowered = u128::from(limit as u64) * fits as u128 / wanted as u128;
        listener.limits.connections = usize::try_from(lowered).unwrap_or(limit).max(1);
        tracing::warn!(
            listener = %listener.address,
            wanted = limit,
            lowered_to = listener.limits.connections,
            open_files = files.descriptors,
            "connection limit lowered to what the limit on open files carries",
        );
    }
}
