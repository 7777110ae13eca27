//! What a load needs before its first operation: checked, looked up and read once.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use super::command;
use super::endpoint::Endpoint;
use super::error::LoadError;
use super::request::{HttpPlan, Template};
use crate::limits::{FILES_BESIDE_CONNECTIONS, LOAD_THREADS_MAX, LOAD_WORKERS_MAX};
use crate::scenario::{Load, LoadKind, Pace};

/// A protocol, with everything that can be made ready before the first operation.
#[derive(Clone)]
pub(super) enum Plan {
    Http1(Arc<HttpPlan>),
}

/// Says at once, and not by failed connections, that the loads take too many files.
///
/// # Errors
/// When they do.
pub(super) fn reserve_files(loads: &[Load]) -> Result<(), LoadError> {
    let connections = loads.iter().map(|load| match &load.kind {
        LoadKind::Http1(http) | LoadKind::Http2(http) => u64::from(http.connections),
        LoadKind::Dns(dns) => u64::from(dns.connections),
        LoadKind::Command(_) => 0,
    });
    let needed = connections.sum::<u64>() + FILES_BESIDE_CONNECTIONS;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if needed > limit => Err(LoadError::Files { needed, limit }),
        _ => Ok(()),
    }
}

fn invalid(load: &Load, reason: String) -> LoadError {
    LoadError::Invalid {
        load: load.name.clone(),
        reason,
    }
}

/// Whether a load can be as it is described. Nothing is looked up, read or started.
///
/// # Errors
/// What is wrong with it.
pub fn check(load: &Load) -> Result<(), LoadError> {
    let refused = |reason| Err(invalid(load, reason));
    if let Pace::Open { rate_per_s } = load.pace
        && !(rate_per_s.is_finite() && rate_per_s > 0.0)
    {
        return refused(format!("{rate_per_s} operations a second is no rate"));
    }
    if load.timeout.is_zero() {
        return refused("its timeout is nothing".to_owned());
    }
    workers(load)?;
    match &load.kind {
        LoadKind::Http1(http) => Template::http1(http).map(drop),
        LoadKind::Command(command) => return command::check(load, command),
        _ => Err("this kind of load is not there yet".to_owned()),
    }
    .or_else(refused)
}

/// How many operations a load has at a time.
///
/// # Errors
/// When that is none, or too many.
pub(super) fn workers(load: &Load) -> Result<u32, LoadError> {
    let (connections, streams) = match &load.kind {
        LoadKind::Http1(http) => (http.connections, 1),
        LoadKind::Http2(http) => (http.connections, http.streams),
        LoadKind::Dns(dns) => (dns.connections, 1),
        LoadKind::Command(_) => (1, 1),
    };
    let workers = u64::from(connections) * u64::from(streams);
    if workers == 0 || load.threads == 0 {
        let reason = "it needs a connection, a stream and a thread at least".to_owned();
        return Err(invalid(load, reason));
    }
    if load.threads > LOAD_THREADS_MAX {
        let reason = format!(
            "{} threads, where {LOAD_THREADS_MAX} is the limit",
            load.threads
        );
        return Err(invalid(load, reason));
    }
    u32::try_from(workers)
        .ok()
        .filter(|_| workers <= LOAD_WORKERS_MAX)
        .ok_or_else(|| {
            let reason =
                format!("{workers} requests at a time, where {LOAD_WORKERS_MAX} is the limit");
            invalid(load, reason)
        })
}

impl Plan {
    /// Of a load that is no command.
    ///
    /// # Errors
    /// When it can't be as it is described, or leads nowhere.
    pub(super) fn new(load: &Load) -> Result<Self, LoadError> {
        let refused = |reason| invalid(load, reason);
        match &load.kind {
            LoadKind::Http1(http) => {
                let (endpoint, template) = Template::http1(http).map_err(refused)?;
                http_plan(load, &endpoint, template).map(Self::Http1)
            }
            _ => Err(refused("this kind of load is not there yet".to_owned())),
        }
    }
}

fn http_plan(
    load: &Load,
    endpoint: &Endpoint,
    template: Template,
) -> Result<Arc<HttpPlan>, LoadError> {
    let addresses = endpoint.resolve().map_err(|source| LoadError::Resolve {
        load: load.name.clone(),
        host: endpoint.host.clone(),
        source,
    })?;
    Ok(Arc::new(HttpPlan::new(addresses, template)))
}
