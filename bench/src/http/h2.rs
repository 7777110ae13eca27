//! The phases of HTTP/2 and gRPC: many requests at once on each of a few connections.

pub mod report;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::measure::{Contestant, Results, Saturation, Subject, Transfer, WARM_UP_SECONDS};
use super::{Bench, TRANSFER_CONNECTIONS};
use crate::load::h2::{self as client, Decoder};
use crate::load::h2load::{Load, Report};
use crate::load::stream::{Endpoint, Protocol};
use crate::load::transfer::Direction;
use crate::peer::{Setup, Transport, origin};
use crate::process;

/// Connections of every shape.
pub const CONNECTIONS: usize = 32;
/// Requests in flight at most.
pub const STREAMS_MAX: usize = CONNECTIONS * 100;

/// The shape of a load: the layer below HTTP/2, and the streams of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub wire: Wire,
    /// Concurrent streams on each connection.
    pub streams: usize,
}

/// The layer below HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Tls,
    Clear,
}

/// `Results::streams` has one place for each.
pub const SHAPES: [Shape; 4] = [
    Shape::new(Wire::Tls, 10),
    Shape::new(Wire::Tls, 100),
    Shape::new(Wire::Clear, 10),
    Shape::new(Wire::Clear, 100),
];

impl Shape {
    const fn new(wire: Wire, streams: usize) -> Self {
        Self { wire, streams }
    }

    fn load(self, subject: &Subject) -> Load {
        let (url, address) = match self.wire {
            Wire::Tls => {
                let endpoint = &subject.endpoint;
                (endpoint.url(origin::SMALL_PATH), endpoint.address)
            }
            Wire::Clear => {
                let clear = clear(subject);
                (clear.url(origin::SMALL_PATH), clear.address)
            }
        };
        Load {
            url,
            address,
            connections: CONNECTIONS,
            streams: self.streams,
            content: None,
        }
    }
}

/// The endpoint of a proxy for HTTP/2 without TLS.
pub fn clear(subject: &Subject) -> Endpoint {
    Endpoint {
        address: subject.proxy.clear_address(subject.transport),
        tls: None,
        protocol: Protocol::Http2,
    }
}

/// Sends a request to each listener, before anything is measured.
///
/// # Errors
/// When a response is not the origin's.
pub async fn probe(subject: &Subject) -> Result<()> {
    if subject.transport == Transport::Grpc {
        // The server of gRPC takes no GET: the first calls of ghz are the probe.
        return Ok(());
    }
    let large = (origin::LARGE_PATH, origin::LARGE_BYTES);
    let small = (origin::SMALL_PATH, origin::SMALL_BYTES);
    for endpoint in [&subject.endpoint, &clear(subject)] {
        for (path, expected) in [small, large] {
            let request = client::get(endpoint.scheme(), &endpoint.host(), path);
            let mut stream = endpoint.connect().await?;
            let received = client::exchange(&mut stream, &request, &mut Decoder::default()).await;
            let received = received.with_context(|| format!("probe by HTTP/2: {path}"))?;
            ensure!(
                received == expected,
                "content of {received} bytes instead of {expected}"
            );
        }
    }
    Ok(())
}

/// Warms up a server before its idle connections are measured.
///
/// # Errors
/// When h2load fails.
pub async fn warm_up(subject: &Subject, bench: &Bench) -> Result<()> {
    let load = SHAPES[0].load(subject);
    let run = load.run(WARM_UP_REQUESTS, &bench.setup.run_dir);
    run.await.map(drop)
}

/// Half a second of the fastest, and four requests on each stream.
const WARM_UP_REQUESTS: u64 = 4 * STREAMS_MAX as u64;

/// Requests so many small bodies over one connection in this shape.
///
/// # Errors
/// When h2load fails, or an answer is not the origin's.
pub async fn one_connection(
    shape: Shape,
    subject: &Subject,
    requests: u64,
    run_dir: &Path,
) -> Result<()> {
    let load = Load {
        connections: 1,
        ..shape.load(subject)
    };
    let report = load.run(requests, run_dir).await?;
    let answered = report.summary.requests;
    ensure!(
        answered == requests,
        "{answered} of {requests} were answered"
    );
    Ok(())
}

/// Runs small bodies at saturation in each shape of this wire.
///
/// # Errors
/// When h2load or the server ends.
pub async fn requests(
    contestant: &Contestant,
    results: &mut Results,
    bench: &Bench,
    wire: Wire,
) -> Result<()> {
    let shapes = SHAPES.iter().enumerate();
    for (place, shape) in shapes.filter(|(_, shape)| shape.wire == wire) {
        let load = shape.load(&contestant.subject);
        let run_dir = &bench.setup.run_dir;
        let warm = load.run(WARM_UP_REQUESTS, run_dir).await?.summary;
        let requests = WARM_UP_REQUESTS.max(as_many(warm.requests_per_second(), bench));
        let process = contestant.server.process();
        let before = process::cpu(process)?;
        let report = load.run(requests, run_dir).await?;
        let usage = process::cpu(process)?.since(&before);
        judge(results, &report, origin::SMALL_BYTES);
        let run = Saturation::of(&report.summary, usage, process::memory(process)?);
        eprintln!(
            "{:>9.0} req/s over {} streams{}, {:.2} µs CPU a request",
            run.requests_per_second,
            shape.streams,
            contestant.subject.transport.suffix(),
            run.cpu_us
        );
        if place % 2 == 0 {
            eprint!("{:<23} ", "");
        }
        results.streams[place].push(run);
    }
    Ok(())
}

/// Requests of a run at this rate; 0 for a rate that is NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of requests"
)]
fn as_many(rate: f64, bench: &Bench) -> u64 {
    (rate * bench.plan.seconds as f64) as u64
}

/// 1 MB bodies each way over TLS.
///
/// # Errors
/// When h2load or the server ends.
pub async fn bodies(contestant: &Contestant, results: &mut Results, bench: &Bench) -> Result<()> {
    for direction in [Direction::Download, Direction::Upload] {
        let endpoint = &contestant.subject.endpoint;
        let load = Load {
            connections: TRANSFER_CONNECTIONS,
            ..body_load(endpoint, direction, &bench.setup)
        };
        let bodies = (bench.plan.transfer.as_secs() * BODIES_A_SECOND).max(1);
        let process = contestant.server.process();
        let before = process::cpu(process)?;
        let report = load.run(bodies, &bench.setup.run_dir).await?;
        let usage = process::cpu(process)?.since(&before);
        judge(results, &report, direction.response_bytes());
        let moved = report.summary.requests as f64 * origin::LARGE_BYTES as f64 / 1e9;
        let transfer = Transfer::of(usage, moved, report.summary.duration);
        eprintln!(
            "{:>9.2} GB/s {} by HTTP/2, {:.3} s CPU a GB",
            transfer.gb_per_second,
            direction.name(),
            transfer.cpu_seconds_per_gb
        );
        let peak_bytes = process::memory(process)?.peak_bytes;
        results.peak_bytes = results.peak_bytes.max(peak_bytes);
        match direction {
            Direction::Download => {
                results.download.push(transfer);
                eprint!("{:<23} ", "");
            }
            Direction::Upload => results.upload.push(transfer),
        }
    }
    Ok(())
}

/// A load of 1 MB bodies one after another on one connection.
pub fn body_load(endpoint: &Endpoint, direction: Direction, setup: &Setup) -> Load {
    let (path, content) = match direction {
        Direction::Download => (origin::LARGE_PATH, None),
        Direction::Upload => (origin::UPLOAD_PATH, Some(origin::large(setup))),
    };
    Load {
        url: endpoint.url(path),
        address: endpoint.address,
        connections: 1,
        streams: 1,
        content,
    }
}

/// Bodies for each second of a phase: about the rate of the fastest proxies.
const BODIES_A_SECOND: u64 = 500;

/// Unary calls, 64 at a time over 32 connections.
///
/// # Errors
/// When ghz or the server ends.
pub async fn grpc(contestant: &Contestant, results: &mut Results, bench: &Bench) -> Result<()> {
    let ghz = bench.ghz.as_ref().context("a phase without its ghz")?;
    let address = contestant.subject.endpoint.address;
    let process = contestant.server.process();
    ghz.run(address, WARM_UP_SECONDS).await?;
    let before = process::cpu(process)?;
    let summary = ghz.run(address, bench.plan.seconds).await?;
    let usage = process::cpu(process)?.since(&before);
    if let Some(errors) = summary.errors.describe() {
        results.fault("calls", &errors);
    }
    let run = Saturation::of(&summary, usage, process::memory(process)?);
    let (rate, cpu_us) = (run.requests_per_second, run.cpu_us);
    eprintln!("{rate:>9.0} calls/s, {cpu_us:.2} µs CPU a call");
    results.saturation.push(run);
    Ok(())
}

/// Records failed streams, and content of another length than the origin's, as faults.
fn judge(results: &mut Results, report: &Report, content_bytes: usize) {
    if let Some(errors) = report.summary.errors.describe() {
        results.fault("streams", &errors);
    }
    let expected = report.summary.requests * content_bytes as u64;
    if report.summary.requests == 0 || report.content_bytes != expected {
        let was = report.content_bytes;
        results.fault(
            "streams",
            &format!("content of {was} bytes in all, instead of {expected}"),
        );
    }
}
