//! Active health checks.
//!
//! Each server is probed at each of its addresses, over a connection of the probe's
//! own, by a task of the control thread: workers have no part in it. Connection and
//! request go the same way as an exchange's: through a connector and a codec. Times
//! between two requests vary by a tenth, so that nodes do not probe in step.
//!
//! Invariant: the tasks end when the value that started them is dropped.
//!
//! Non-goals: what a response says beyond its status. Spec: RFC 9110 §9.3.1.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use steppe_mem::{Buffer, Lease};
use steppe_net::{ServerAddress, clock};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::SWEEP_EVERY;
use super::call::{content, final_head, put};
use super::channel::{UpstreamCodecs, UpstreamStream};
use super::connector::{Connector, Peer};
use super::random::{Random, seed};
use super::state::{Target, UpstreamState, Upstreams};
use super::target::{Failure, ProbeFailure, TargetState};
use crate::config::{Health, HealthRequest};
use crate::error::GatewayError;
use crate::exchange::{Outgoing, Part};
use crate::grpc::{self, health};
use crate::head::{ContentLength, RequestHead};
use crate::metrics::{CloseReason, Traffic};
use crate::socket_buffers::SocketBuffers;

/// The probe tasks of the upstreams that have `health`; dropping it stops them.
#[derive(Debug)]
pub struct Probes {
    _tasks: JoinSet<()>,
}

/// The codecs, buffers and lease of all probes.
#[derive(Debug)]
pub(crate) struct ProbeSettings {
    pub(crate) codecs: UpstreamCodecs,
    pub(crate) buffers: Arc<SocketBuffers>,
    pub(crate) lease: Lease,
}

impl Probes {
    /// Starts to probe. Must be called within a runtime that spawns local tasks.
    pub(crate) fn start(upstreams: &Upstreams, settings: &ProbeSettings) -> Self {
        let mut tasks = JoinSet::new();
        for upstream in upstreams.current() {
            if let Some(health) = upstream.settings().health.clone() {
                let connector = Connector::new(
                    Arc::clone(settings.codecs.of(upstream.settings().protocol)),
                    Arc::clone(&settings.buffers),
                    settings.lease.clone(),
                    Traffic::uncounted(),
                );
                let probed = Rc::new(Probed {
                    upstream,
                    health,
                    connector,
                });
                tasks.spawn_local(watch(probed));
            }
        }
        Self { _tasks: tasks }
    }
}

/// An upstream whose servers are probed.
#[derive(Debug)]
struct Probed {
    upstream: Arc<UpstreamState>,
    health: Health,
    connector: Connector,
}

/// Has a task for every address that the servers have.
#[expect(
    clippy::disallowed_methods,
    reason = "the one task that follows the servers of a probed upstream"
)]
async fn watch(probed: Rc<Probed>) {
    let mut tasks = JoinSet::new();
    let mut known: Vec<(Target, tokio::task::AbortHandle)> = Vec::new();
    loop {
        probed.upstream.sync(clock::now());
        let targets = probed.upstream.targets();
        known.retain(|(known, task)| {
            let is_current = targets.iter().any(|target| target.is_same(known));
            if !is_current {
                task.abort();
            }
            is_current
        });
        for target in targets {
            if !known.iter().any(|(known, _)| known.is_same(&target)) {
                let probe = probe(Rc::clone(&probed), target.clone());
                known.push((target, tasks.spawn_local(probe)));
            }
        }
        // An aborted task has no result.
        while tasks.try_join_next().is_some() {}
        sleep(SWEEP_EVERY).await;
    }
}

async fn probe(probed: Rc<Probed>, target: Target) {
    let Probed {
        upstream, health, ..
    } = &*probed;
    let random = Random::new(seed());
    let (mut good, mut bad) = (0_u32, 0_u32);
    sleep(health.interval * percent(&random, 0) / 100).await;
    loop {
        let result = timeout(health.timeout, probed.ask(&target)).await;
        let result = result.unwrap_or(Err(ProbeFailure::Timeout));
        if let Err(ProbeFailure::OverBudget) = result {
            // It says nothing about the server.
            sleep(health.interval * percent(&random, 90) / 100).await;
            continue;
        }
        let is_good = record(&target.state, health, result);
        (good, bad) = if is_good {
            (good.saturating_add(1), 0)
        } else {
            (0, bad.saturating_add(1))
        };
        if good >= health.healthy_after {
            upstream.note_healthy(&target.state);
        } else if bad >= health.unhealthy_after {
            upstream.note_unhealthy(&target.state);
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
        Err(failure) => (false, failure.code()),
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

impl Probed {
    /// The status of the final response to one request.
    async fn ask(&self, target: &Target) -> Result<u16, ProbeFailure> {
        let endpoints = &self.upstream.endpoints()[target.server];
        let host = match endpoints.server() {
            ServerAddress::Unix(_) => "localhost".to_owned(),
            other => other.to_string(),
        };
        let peer = Peer {
            endpoints,
            ip: target.state.ip,
            settings: self.upstream.settings(),
            tls: self.upstream.tls(),
            // A probe is made for nobody.
            ends: None,
            timeout: self.health.timeout,
        };
        let charge = self.connector.reserve(self.connector.lease());
        let charge = charge.map_err(GatewayError::from)?;
        let channel = self.connector.connect(peer, charge).await;
        let channel = channel.map_err(|failure| match failure {
            Failure::ConnectTimeout => ProbeFailure::Timeout,
            failure if failure.is_tls() => ProbeFailure::Tls(failure),
            _ => ProbeFailure::Connect,
        })?;
        let (mut stream, _channel) = channel.open_stream();
        let lease = self.connector.lease();
        let (request, message) = match &self.health.asks {
            HealthRequest::Path(path) => (get(host.as_bytes(), path.as_bytes(), lease)?, None),
            HealthRequest::Grpc(service) => {
                let (head, message) = call(host.as_bytes(), service, lease)?;
                (head, Some(message))
            }
        };
        let is_call = message.is_some();
        stream.start(&Outgoing {
            head: &request,
            authority: "",
            lease,
        })?;
        if let Some(message) = message {
            put(&mut *stream, Part::Chunk(message.into())).await?;
        }
        put(&mut *stream, Part::End(None)).await?;
        let status = final_head(&mut *stream).await?.status;
        if is_call && status == 200 && !is_serving(&mut *stream).await? {
            return Err(ProbeFailure::NotServing);
        }
        Ok(status)
    }
}

fn get(host: &[u8], target: &[u8], lease: &Lease) -> Result<RequestHead, GatewayError> {
    let mut head = RequestHead::new(b"GET", host, target, lease)?;
    head.fields.append(b"user-agent", b"steppe-probe")?;
    head.fields.append(b"accept", b"*/*")?;
    Ok(head)
}

/// A call of `grpc.health.v1` for `service`, and its message.
fn call(host: &[u8], service: &str, lease: &Lease) -> Result<(RequestHead, Buffer), GatewayError> {
    let mut head = RequestHead::new(b"POST", host, health::PATH, lease)?;
    head.fields.append(b"user-agent", b"steppe-probe")?;
    (head.fields).append(b"content-type", grpc::MEDIA_TYPE.as_bytes())?;
    head.takes_trailers = true;
    head.length = ContentLength::Unknown;
    let request = health::request(service);
    let mut message = Buffer::take(lease, request.len())?;
    message.put(&request).expect("it was taken for it");
    Ok((head, message))
}

/// Reads the server's word on the service: none, where it knows no such service.
async fn is_serving(stream: &mut dyn UpstreamStream) -> Result<bool, ProbeFailure> {
    let answer = content(stream, health::ANSWER_BYTES_MAX).await?;
    Ok(health::is_serving(&answer))
}

impl From<GatewayError> for ProbeFailure {
    fn from(error: GatewayError) -> Self {
        match error.reason {
            CloseReason::UpstreamReset => Self::Cut,
            CloseReason::BadResponse => Self::MalformedResponse,
            CloseReason::OverBudget => Self::OverBudget,
            _ => Self::Connect,
        }
    }
}
