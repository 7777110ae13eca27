//! Preparation of a load before its first operation: settings are checked, names resolved and files read.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use super::command;
use super::dns::DnsPlan;
use super::endpoint::Endpoint;
use super::error::LoadError;
use super::request::{HttpPlan, Template};
use super::tls::{HTTP1, HTTP2, Tls};
use crate::limits::{FILES_BESIDE_CONNECTIONS, LOAD_THREADS_MAX, LOAD_WORKERS_MAX};
use crate::scenario::{HttpLoad, Load, LoadKind, Pace};

/// A load that is prepared for its first operation, by protocol.
#[derive(Clone)]
pub(super) enum Plan {
    Http1(Arc<HttpPlan>),
    Http2(Arc<HttpPlan>),
    Dns(Arc<DnsPlan>),
}

/// Checks the limit on open files, so that a lack shows at once and not by failed connections.
///
/// # Errors
/// When the loads need more files than the limit allows.
pub(super) fn check_open_files(loads: &[Load]) -> Result<(), LoadError> {
    let connections = loads.iter().map(|load| u64::from(connections(load).0));
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

/// Checks the settings of a load. No name is resolved, no file read and no thread started.
///
/// # Errors
/// With the reason, when the settings are invalid.
pub fn check(load: &Load) -> Result<(), LoadError> {
    let refused = |reason| Err(invalid(load, reason));
    if let Pace::Open { rate_per_s } = load.pace
        && !(rate_per_s.is_finite() && rate_per_s > 0.0)
    {
        return refused(format!("`rate_per_s` is {rate_per_s}: a rate is above 0"));
    }
    if load.timeout.is_zero() {
        return refused("its timeout is 0".to_owned());
    }
    check_size(load)?;
    match &load.kind {
        LoadKind::Http1(http) => Template::http1(http).map(drop),
        LoadKind::Http2(http) => Template::http2(http).map(drop),
        LoadKind::Command(command) => return command::check(load, command),
        LoadKind::Dns(dns) => DnsPlan::new(dns).map(drop),
    }
    .or_else(refused)
}

/// Connections of a load, and concurrent operations on each.
pub(super) fn connections(load: &Load) -> (u32, u32) {
    match &load.kind {
        LoadKind::Http1(http) => (http.connections, 1),
        LoadKind::Http2(http) => (http.connections, http.streams),
        LoadKind::Dns(dns) => (dns.connections, 1),
        LoadKind::Command(_) => (1, 1),
    }
}

fn check_size(load: &Load) -> Result<(), LoadError> {
    let refused = |reason| Err(invalid(load, reason));
    let (connections, streams) = connections(load);
    let workers = u64::from(connections) * u64::from(streams);
    let threads = load.threads;
    if workers == 0 || threads == 0 {
        return refused("it needs at least one connection, one stream and one thread".to_owned());
    }
    if threads > LOAD_THREADS_MAX {
        return refused(format!(
            "{threads} threads exceed the limit of {LOAD_THREADS_MAX}"
        ));
    }
    if workers > LOAD_WORKERS_MAX {
        let limit = LOAD_WORKERS_MAX;
        return refused(format!(
            "{workers} concurrent requests exceed the limit of {limit}"
        ));
    }
    Ok(())
}

impl Plan {
    /// Prepares a load that is no command.
    ///
    /// # Errors
    /// When the load is invalid, or its host has no address.
    pub(super) fn new(load: &Load) -> Result<Self, LoadError> {
        let refused = |reason| invalid(load, reason);
        match &load.kind {
            LoadKind::Http1(http) => {
                let (endpoint, template) = Template::http1(http).map_err(refused)?;
                http_plan(load, http, endpoint, (template, HTTP1)).map(Self::Http1)
            }
            LoadKind::Http2(http) => {
                let (endpoint, template) = Template::http2(http).map_err(refused)?;
                http_plan(load, http, endpoint, (template, HTTP2)).map(Self::Http2)
            }
            LoadKind::Dns(dns) => {
                let plan = DnsPlan::new(dns).map_err(refused)?;
                Ok(Self::Dns(Arc::new(plan)))
            }
            LoadKind::Command(_) => Err(refused("its program generates it".to_owned())),
        }
    }
}

fn http_plan(
    load: &Load,
    http: &HttpLoad,
    endpoint: Endpoint,
    (template, protocol): (Template, &'static [u8]),
) -> Result<Arc<HttpPlan>, LoadError> {
    let addresses = endpoint.resolve().map_err(|source| LoadError::Resolve {
        load: load.name.clone(),
        host: endpoint.host,
        source,
    })?;
    let tls = endpoint.tls_name.map(|name| Tls::new(http, name, protocol));
    let tls = tls.transpose().map_err(|reason| invalid(load, reason))?;
    Ok(Arc::new(HttpPlan::new(addresses, tls, template)))
}
