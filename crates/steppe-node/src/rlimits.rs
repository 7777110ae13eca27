//! A configuration made to fit what the process may have.

use steppe_net::raise_file_limit;

use crate::config::Config;

/// Lowers what the process's limit on open files can't carry, all alike, and says so.
pub fn fit_connections(config: &mut Config) {
    let listeners = &mut config.http.listeners;
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
