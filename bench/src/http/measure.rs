//! The phases: one proxy at a time under one kind of load.
//!
//! Invariant: a fault of a proxy is recorded in its `Results::errors`; an `Err` is the bench's own
//! failure and ends the run.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Bench, CONNECTIONS, Plan, TRANSFER_CONNECTIONS, h2};
use crate::load::stream::{Endpoint, Protocol};
use crate::load::tls::Agreed;
use crate::load::transfer::Direction;
use crate::load::{client, idle as idle_load, open_loop as open_load, transfer as bodies, wrk};
use crate::peer::{Proxy, Transport, origin};
use crate::process::{self, CpuUsage, Memory};
use crate::server::{Launch, Server};
use crate::syscalls::{Counts, Tracer, describe};

/// A proxy with one transport: its launch, and the endpoint for clients.
pub struct Subject {
    pub proxy: Proxy,
    pub transport: Transport,
    pub launch: Launch,
    pub endpoint: Endpoint,
}

/// A proxy that runs.
pub struct Contestant {
    pub subject: Subject,
    pub server: Server,
}

impl Contestant {
    /// Stops the server, and returns the subject to start it again.
    pub fn stop(self) -> Subject {
        self.subject
    }
}

/// All results of one proxy with one transport; vectors hold one entry a round.
#[derive(Default)]
pub struct Results {
    pub name: &'static str,
    pub transport: Transport,
    pub version: String,
    pub saturation: Vec<Saturation>,
    /// Many streams a connection, in the shapes of `h2::SHAPES`.
    pub streams: [Vec<Saturation>; h2::SHAPES.len()],
    pub open_loop: Vec<open_load::Latencies>,
    pub download: Vec<Transfer>,
    pub upload: Vec<Transfer>,
    /// Full handshakes with the P-256 certificate and X25519.
    pub p256: Vec<Handshake>,
    /// The same with the RSA-2048 certificate.
    pub rsa: Vec<Handshake>,
    /// With the P-256 certificate and X25519MLKEM768, where the proxy has it.
    pub post_quantum: Vec<Handshake>,
    /// Handshakes resumed with a ticket.
    pub resumed: Vec<Handshake>,
    /// The agreement with clients that offer X25519MLKEM768 and X25519.
    pub agreed: Option<Agreed>,
    /// Peak memory of the rounds, without the idle connections.
    pub peak_bytes: u64,
    pub syscalls: Option<Syscalls>,
    pub idle: Option<Idle>,
    /// Faults that make the run invalid.
    pub errors: Vec<String>,
    /// Figures that are missing, with the reason.
    pub notes: Vec<String>,
}

/// A run of small bodies at saturation.
#[derive(Debug, Clone)]
pub struct Saturation {
    pub requests_per_second: f64,
    pub cpu_us: f64,
    pub user_us: f64,
    pub system_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub rss_bytes: u64,
}

impl Saturation {
    pub fn of(summary: &wrk::Summary, usage: CpuUsage, memory: Memory) -> Self {
        let (cpu_us, user_us, system_us) = usage.microseconds_per(summary.requests);
        Self {
            requests_per_second: summary.requests_per_second(),
            cpu_us,
            user_us,
            system_us,
            p50_us: summary.p50_us,
            p99_us: summary.p99_us,
            p999_us: summary.p999_us,
            rss_bytes: memory.rss_bytes,
        }
    }
}

/// A run of large bodies in one direction.
#[derive(Debug, Clone)]
pub struct Transfer {
    pub cpu_seconds_per_gb: f64,
    pub gb_per_second: f64,
}

impl Transfer {
    pub fn of(usage: CpuUsage, gigabytes: f64, duration: Duration) -> Self {
        Self {
            cpu_seconds_per_gb: cpu_seconds_per_gb(usage, gigabytes),
            gb_per_second: gigabytes / duration.as_secs_f64(),
        }
    }
}

/// Handshakes of one kind.
#[derive(Debug, Clone)]
pub struct Handshake {
    pub cpu_us: f64,
    /// Handshakes for each second of the server's CPU time.
    pub per_cpu_second: f64,
}

/// System calls over a number of requests.
pub struct Syscalls {
    pub counts: Counts,
    pub requests: u64,
}

impl Syscalls {
    pub const RECEIVES: &[&str] = &["read", "readv", "recvfrom", "recvmsg"];
    pub const SENDS: &[&str] = &["write", "writev", "sendto", "sendmsg"];

    /// Calls of these names a request.
    pub fn of(&self, names: &[&str]) -> f64 {
        let counts = names.iter().filter_map(|name| self.counts.get(*name));
        counts.sum::<u64>() as f64 / self.requests.max(1) as f64
    }

    pub fn per_request(&self) -> f64 {
        self.counts.values().sum::<u64>() as f64 / self.requests.max(1) as f64
    }
}

/// Memory of idle kept-alive connections.
pub struct Idle {
    pub connections: usize,
    pub bytes_each: f64,
}

impl Results {
    pub fn new(subject: &Subject) -> Self {
        Self {
            name: subject.proxy.name(),
            transport: subject.transport,
            version: subject.launch.version.clone(),
            ..Self::default()
        }
    }

    pub fn fault(&mut self, phase: &str, what: &str) {
        let fault = format!("{}{} {phase}: {what}", self.name, self.transport.suffix());
        eprintln!("  INVALID: {fault}");
        self.errors.push(fault);
    }
}

/// One request of each kind, before anything is measured.
pub async fn probe(endpoint: &Endpoint) -> Result<()> {
    let small = client::get(endpoint.host(), origin::SMALL_PATH);
    client::probe(endpoint, &small, origin::SMALL_BYTES)
        .await
        .context("probe with a small body")?;
    for direction in [Direction::Download, Direction::Upload] {
        let request = direction.request(endpoint);
        client::probe(endpoint, &request, direction.response_bytes())
            .await
            .with_context(|| format!("probe with a 1 MB {}", direction.name()))?;
    }
    Ok(())
}

/// wrk with as many requests as its connections carry, after a second of warm-up.
pub async fn saturation(
    contestant: &Contestant,
    results: &mut Results,
    bench: &Bench,
) -> Result<()> {
    let process = contestant.server.process();
    load(&contestant.subject, results, bench, WARM_UP_SECONDS).await?;
    let before = process::cpu(process)?;
    let summary = load(&contestant.subject, results, bench, bench.plan.seconds).await?;
    let usage = process::cpu(process)?.since(&before);
    let memory = process::memory(process)?;
    let run = Saturation::of(&summary, usage, memory);
    let transport = contestant.subject.transport;
    let (rate, cpu_us) = (run.requests_per_second, run.cpu_us);
    let room = if transport.has_streams() {
        transport.suffix()
    } else {
        ""
    };
    eprintln!("{rate:>9.0} req/s{room}, {cpu_us:.2} µs CPU a request");
    results.peak_bytes = results.peak_bytes.max(memory.peak_bytes);
    results.saturation.push(run);
    Ok(())
}

/// The open loop at half of what the proxy reached in this round.
pub async fn open_loop(contestant: &Contestant, results: &mut Results, plan: &Plan) -> Result<()> {
    let saturated = results
        .saturation
        .last()
        .map_or(0.0, |run| run.requests_per_second);
    let rate = plan.rate.unwrap_or(saturated / 2.0).max(1.0);
    let duration = Duration::from_secs(plan.seconds);
    let address = contestant.subject.endpoint.address;
    let run = open_load::run(address, origin::SMALL_PATH, rate, CONNECTIONS, duration).await?;
    eprintln!(
        "{:>9.0} req/s open loop, p99 {:.0} µs",
        run.rate, run.p99_us
    );
    if run.errors > 0 {
        let first = run.first_error.as_deref().unwrap_or("no response in time");
        results.fault(
            "open loop",
            &format!("{} failed requests, first: {first}", run.errors),
        );
    }
    results.open_loop.push(run);
    Ok(())
}

/// 1 MB bodies one way.
pub async fn transfer(
    contestant: &Contestant,
    results: &mut Results,
    plan: &Plan,
    direction: Direction,
) -> Result<()> {
    let process = contestant.server.process();
    let endpoint = &contestant.subject.endpoint;
    let before = process::cpu(process)?;
    let run = bodies::run(endpoint, direction, TRANSFER_CONNECTIONS, plan.transfer).await;
    let usage = process::cpu(process)?.since(&before);
    let transfer = Transfer::of(usage, run.gigabytes(), run.duration);
    let (speed, cpu) = (transfer.gb_per_second, transfer.cpu_seconds_per_gb);
    eprintln!(
        "{speed:>9.2} GB/s {}, {cpu:.3} s CPU a GB",
        direction.name()
    );
    if let Some(error) = &run.first_error {
        results.fault(
            direction.name(),
            &format!("{} failed, first: {error}", run.errors),
        );
    }
    let peak_bytes = process::memory(process)?.peak_bytes;
    results.peak_bytes = results.peak_bytes.max(peak_bytes);
    match direction {
        Direction::Download => results.download.push(transfer),
        Direction::Upload => results.upload.push(transfer),
    }
    Ok(())
}

/// A short run under strace; a machine that forbids attaching only loses this column.
pub async fn syscalls(contestant: &Contestant, results: &mut Results, bench: &Bench) -> Result<()> {
    eprint!("system calls: {:<10} ", results.name);
    load(&contestant.subject, results, bench, WARM_UP_SECONDS).await?;
    match traced(contestant, results, bench).await {
        Ok(syscalls) => {
            eprintln!("{}", describe(&syscalls.counts, syscalls.requests));
            results.syscalls = Some(syscalls);
        }
        Err(error) => {
            eprintln!("not counted");
            results.notes.push(format!(
                "{}: system calls not counted: {error:#}",
                results.name
            ));
        }
    }
    Ok(())
}

/// Fresh server, warmed up, then `plan.idle` connections that have served one request each.
pub async fn idle(subject: Subject, results: &mut Results, bench: &Bench) -> Result<()> {
    eprint!("idle connections: {:<20} ", subject.launch.name);
    let mut server = Server::start(&subject.launch, &bench.setup.run_dir).await?;
    match subject.endpoint.protocol {
        Protocol::Http1 => {
            load(&subject, results, bench, WARM_UP_SECONDS).await?;
        }
        Protocol::Http2 => h2::warm_up(&subject, bench).await?,
    }
    tokio::time::sleep(SETTLE).await;
    let before = process::memory(server.process())?.rss_bytes;
    let connections = match idle_load::open(&subject.endpoint, bench.plan.idle).await {
        Ok(connections) => connections,
        Err(error) => {
            results.fault("idle connections", &format!("{error:#}"));
            return server.ensure_alive();
        }
    };
    tokio::time::sleep(SETTLE).await;
    let after = process::memory(server.process())?.rss_bytes;
    let closed = idle_load::closed(&connections);
    if closed > 0 {
        results.fault(
            "idle connections",
            &format!("{closed} of {} closed", bench.plan.idle),
        );
    }
    let bytes_each = bytes_each(before, after, connections.len());
    eprintln!("{bytes_each:.0} bytes each of {}", connections.len());
    results.idle = Some(Idle {
        connections: connections.len(),
        bytes_each,
    });
    Ok(())
}

pub const WARM_UP_SECONDS: u64 = 1;
const TRACED_SECONDS: u64 = 2;
/// Time for a proxy to close connections and free memory after a load.
const SETTLE: Duration = Duration::from_secs(1);

async fn load(
    subject: &Subject,
    results: &mut Results,
    bench: &Bench,
    seconds: u64,
) -> Result<wrk::Summary> {
    let url = match subject.endpoint.protocol {
        Protocol::Http1 => subject.endpoint.url(origin::SMALL_PATH),
        // wrk speaks HTTP/1.1 only, which this listener takes too.
        Protocol::Http2 => {
            let clear = subject.proxy.clear_address(subject.transport);
            format!("http://{clear}{}", origin::SMALL_PATH)
        }
    };
    let summary = wrk::run(&url, CONNECTIONS, seconds, &bench.wrk).await?;
    if let Some(errors) = summary.errors.describe() {
        results.fault("at saturation", &errors);
    }
    if summary.requests == 0 {
        results.fault("at saturation", "no request was answered");
    }
    Ok(summary)
}

async fn traced(contestant: &Contestant, results: &mut Results, bench: &Bench) -> Result<Syscalls> {
    let tracer = Tracer::attach(contestant.server.process(), &bench.setup.run_dir).await?;
    let summary = load(&contestant.subject, results, bench, TRACED_SECONDS).await;
    let counts = tracer.detach().await?;
    Ok(Syscalls {
        counts,
        requests: summary?.requests,
    })
}

fn cpu_seconds_per_gb(usage: CpuUsage, gigabytes: f64) -> f64 {
    usage.total.as_secs_f64() / gigabytes
}

/// Memory of each connection. RSS can shrink when a proxy frees at the same time: the figure is then
/// negative, and printed so.
fn bytes_each(before: u64, after: u64, connections: usize) -> f64 {
    (after as f64 - before as f64) / connections.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_a_gigabyte_is_in_seconds() {
        let usage = CpuUsage {
            total: Duration::from_millis(1_500),
            user_share: 0.5,
        };
        assert_eq!(cpu_seconds_per_gb(usage, 3.0), 0.5);
    }

    #[test]
    fn idle_bytes_may_shrink() {
        assert_eq!(bytes_each(1_000, 41_000, 10), 4_000.0);
        assert_eq!(bytes_each(2_000, 1_000, 10), -100.0);
    }

    #[test]
    fn calls_are_spread_over_requests() {
        let counts = [("recvfrom".to_owned(), 20), ("writev".to_owned(), 21)].into();
        assert_eq!(
            Syscalls {
                counts,
                requests: 10
            }
            .per_request(),
            4.1
        );
    }
}
