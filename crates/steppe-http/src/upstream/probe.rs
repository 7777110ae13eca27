//! Active health checks of servers.
//!
//! Each address of each server is probed by a task of its own, over a connection of the
//! probe's own, on the runtime that starts it and not on the workers. Intervals are jittered
//! by a tenth, so that nodes do not probe in step.
//!
//! Invariant: the tasks end when the value that started them is dropped.
//!
//! Non-goals: the content of a response; its status decides. Spec: RFC 9110 §9.3.1.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use steppe_mem::Budget;
use steppe_net::ServerAddress;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::SWEEP_EVERY;
use super::random::{Random, seed};
use super::state::{Target, UpstreamState, Upstreams};
use super::target::{ProbeFailure, TargetState};
use crate::config::Health;
use crate::field::FieldList;
use crate::h1::parse::{self, HeadLimits};
use crate::limits::{PROBE_BYTES_MAX, PROBE_LIST_BYTES_MAX, RESPONSE_FIELDS_MAX};
use crate::proxy_protocol::EncodedHeader;

/// The probe tasks of the upstreams that have `health`; dropping it stops them.
#[derive(Debug)]
pub struct Probes {
    _tasks: JoinSet<()>,
}

impl Probes {
    /// Starts the tasks. Must be called within a runtime.
    #[must_use]
    pub fn start(upstreams: &Upstreams) -> Self {
        let mut tasks = JoinSet::new();
        for upstream in upstreams.current() {
            if let Some(health) = upstream.settings().health.clone() {
                tasks.spawn(watch(upstream, Arc::new(health)));
            }
        }
        Self { _tasks: tasks }
    }
}

/// Keeps one probe task for every address of the upstream's servers.
async fn watch(upstream: Arc<UpstreamState>, health: Arc<Health>) {
    let mut tasks = JoinSet::new();
    let mut probed: Vec<(Target, tokio::task::AbortHandle)> = Vec::new();
    loop {
        upstream.sync(std::time::Instant::now());
        let targets = upstream.targets();
        probed.retain(|(known, task)| {
            let is_current = targets.iter().any(|target| target.is_same(known));
            if !is_current {
                task.abort();
            }
            is_current
        });
        for target in targets {
            if !probed.iter().any(|(known, _)| known.is_same(&target)) {
                let probe = probe(Arc::clone(&upstream), Arc::clone(&health), target.clone());
                probed.push((target, tasks.spawn(probe)));
            }
        }
        // An aborted task has no result.
        while tasks.try_join_next().is_some() {}
        sleep(SWEEP_EVERY).await;
    }
}

async fn probe(upstream: Arc<UpstreamState>, health: Arc<Health>, target: Target) {
    let random = Random::new(seed());
    let (mut good, mut bad) = (0_u32, 0_u32);
    sleep(health.interval * percent(&random, 0) / 100).await;
    loop {
        let result = timeout(health.timeout, ask(&upstream, &health, &target)).await;
        let result = result.unwrap_or(Err(ProbeFailure::Timeout));
        let is_good = record(&target.state, &health, result);
        (good, bad) = if is_good {
            (good.saturating_add(1), 0)
        } else {
            (0, bad.saturating_add(1))
        };
        if good >= health.healthy_after {
            upstream.probed(&target.state, false);
        } else if bad >= health.unhealthy_after {
            upstream.probed(&target.state, true);
        }
        sleep(health.interval * percent(&random, 90) / 100).await;
    }
}

/// A random percentage from `least` to `least + 19`.
fn percent(random: &Random, least: u32) -> u32 {
    least + u32::try_from(random.below(20)).expect("below 20")
}

fn record(state: &TargetState, health: &Health, result: Result<u16, ProbeFailure>) -> bool {
    let (is_good, last) = match result {
        Ok(status) => (health.expect.contains(status), status),
        Err(failure) => (false, failure as u16),
    };
    let total = if is_good {
        &state.probe.passed
    } else {
        &state.probe.failed
    };
    total.fetch_add(1, Ordering::Relaxed);
    state.probe.last.store(last, Ordering::Relaxed);
    is_good
}

async fn ask(
    upstream: &UpstreamState,
    health: &Health,
    target: &Target,
) -> Result<u16, ProbeFailure> {
    let failed = |_: io::Error| ProbeFailure::Connect;
    let endpoints = &upstream.endpoints()[target.server];
    let server = endpoints.server();
    let host = match server {
        ServerAddress::Unix(_) => "localhost".to_owned(),
        other => other.to_string(),
    };
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: {host}\r\nuser-agent: steppe-probe\r\naccept: */*\r\n\
         connection: close\r\n\r\n",
        health.path
    );
    // The probe is on behalf of no client.
    let header = upstream.settings().proxy_protocol;
    let header = header.map(|version| EncodedHeader::new(version, None));
    let before = header.as_ref().map_or(&b""[..], EncodedHeader::as_bytes);
    let request = [before, request.as_bytes()].concat();
    match (server, endpoints.socket_address(target.state.ip)) {
        (ServerAddress::Unix(path), _) => {
            let stream = UnixStream::connect(path).await.map_err(failed)?;
            exchange(stream, &request).await
        }
        (_, Some(address)) => {
            let stream = TcpStream::connect(address).await.map_err(failed)?;
            exchange(stream, &request).await
        }
        (_, None) => Err(ProbeFailure::Connect),
    }
}

/// The status of the final response.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> Result<u16, ProbeFailure> {
    let cut = |_: io::Error| ProbeFailure::Cut;
    stream.write_all(request).await.map_err(cut)?;
    let mut bytes = vec![0; PROBE_BYTES_MAX];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            return Err(ProbeFailure::Garbage);
        }
        match stream.read(&mut bytes[filled..]).await.map_err(cut)? {
            0 => return Err(ProbeFailure::Cut),
            count => filled += count,
        }
        if let Some(status) = final_status(&bytes[..filled])? {
            return Ok(status);
        }
    }
}

/// `None` while more bytes are needed.
fn final_status(mut bytes: &[u8]) -> Result<Option<u16>, ProbeFailure> {
    const LIMITS: HeadLimits = HeadLimits {
        bytes: PROBE_BYTES_MAX,
        fields: RESPONSE_FIELDS_MAX,
    };
    // The budget is that of peers' exchanges; what a probe may hold is bounded here.
    let lease = Budget::new(PROBE_LIST_BYTES_MAX).root().lease();
    loop {
        let mut fields = FieldList::take();
        let line = parse::response(bytes, LIMITS, &mut fields, &lease);
        match line.map_err(|_| ProbeFailure::Garbage)? {
            None => return Ok(None),
            Some(line) if line.status >= 200 => return Ok(Some(line.status)),
            Some(line) => bytes = &bytes[line.head_bytes..],
        }
    }
}

impl Target {
    fn is_same(&self, other: &Self) -> bool {
        self.server == other.server && Arc::ptr_eq(&self.state, &other.state)
    }
}

const _: () = assert!(PROBE_BYTES_MAX >= 1024, "a usual head fits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_status_counts() {
        let status = |text: &str| final_status(text.as_bytes());
        assert_eq!(status("HTTP/1.1 204 No Content\r\n\r\n"), Ok(Some(204)));
        assert_eq!(status("HTTP/1.1 204 No Content\r\n"), Ok(None));
        let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        assert_eq!(status(interim), Ok(None));
        assert_eq!(
            status(&format!("{interim}HTTP/1.1 503 No\r\n\r\n")),
            Ok(Some(503))
        );
        let many = "a:\r\n".repeat(RESPONSE_FIELDS_MAX);
        assert_eq!(
            status(&format!("HTTP/1.1 200\r\n{many}\r\n")),
            Ok(Some(200))
        );
        assert_eq!(status("SSH-2.0-x\r\n\r\n"), Err(ProbeFailure::Garbage));
    }
}
