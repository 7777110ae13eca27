//! Steppe beside its build of another commit: the figures that are compared, and their instructions.
//!
//! Invariant: what is counted is a fixed number of operations one after another, or few at a time
//! on one connection: how many events a loop finds ready at once, and with it what a request takes,
//! then hangs on the machine as little as can be. The count is the difference of a short and a long
//! run, so that connections and handshakes before the first request are in none.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::timeout;

use super::fleet::Stopped;
use super::h2::{self, SHAPES};
use super::measure::{Results, Subject};
use super::report::{cpu_per_gb, saturated};
use super::tls::report::cpu_us;
use super::tls::{Kind, Resumption};
use crate::before::comparison::{Comparison, Costs, Instructions};
use crate::before::counts::Counts;
use crate::callgrind::{Counted, marginal};
use crate::load::client::{self, Decoder, exchange};
use crate::load::stream::{Endpoint, Protocol};
use crate::load::transfer::Direction;
use crate::peer::{Proxy, Setup, Transport, origin};

/// A figure of CPU, compared where it was measured.
struct Figure {
    transport: Transport,
    name: &'static str,
    unit: &'static str,
    costs: fn(&Results) -> Vec<f64>,
    work: Work,
}

/// The work whose instructions are counted.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Small bodies by HTTP/1.1.
    Requests,
    /// 1 MB by HTTP/1.1.
    Body(Direction),
    Handshakes(Kind),
    Resumed,
    /// Small bodies in one of the shapes of HTTP/2.
    Streams(usize),
    /// 1 MB by HTTP/2.
    StreamBody(Direction),
    /// The program that calls takes no fixed number.
    Uncounted,
}

const FIGURES: [Figure; 21] = [
    requests(Transport::Plain, "small bodies"),
    down(Transport::Plain, "1 MB down"),
    up(Transport::Plain, "1 MB up"),
    requests(Transport::TlsDownstream, "TLS, small bodies"),
    handshake(Kind::P256, "TLS, P-256 handshake", |r| cpu_us(&r.p256)),
    handshake(Kind::Rsa, "TLS, RSA-2048 handshake", |r| cpu_us(&r.rsa)),
    handshake(Kind::PostQuantum, "TLS, X25519MLKEM768 handshake", |r| {
        cpu_us(&r.post_quantum)
    }),
    Figure {
        work: Work::Resumed,
        ..handshake(Kind::P256, "TLS, resumed handshake", |r| cpu_us(&r.resumed))
    },
    down(Transport::TlsDownstream, "TLS, 1 MB down"),
    up(Transport::TlsDownstream, "TLS, 1 MB up"),
    requests(Transport::TlsUpstream, "TLS to the origin, small bodies"),
    streams(0, "HTTP/2 over TLS, 10 streams", |r| stream_cpu_us(r, 0)),
    streams(1, "HTTP/2 over TLS, 100 streams", |r| stream_cpu_us(r, 1)),
    streams(2, "h2c, 10 streams", |r| stream_cpu_us(r, 2)),
    streams(3, "h2c, 100 streams", |r| stream_cpu_us(r, 3)),
    Figure {
        work: Work::StreamBody(Direction::Download),
        ..down(Transport::Http2, "HTTP/2 over TLS, 1 MB down")
    },
    Figure {
        work: Work::StreamBody(Direction::Upload),
        ..up(Transport::Http2, "HTTP/2 over TLS, 1 MB up")
    },
    Figure {
        transport: Transport::H2cUpstream,
        ..streams(2, "h2c to the origin, 10 streams", |r| stream_cpu_us(r, 2))
    },
    requests(Transport::H2cUpstream, "h2c to the origin, small bodies"),
    Figure {
        work: Work::Uncounted,
        ..requests(Transport::Grpc, "gRPC, unary calls")
    },
    requests(Transport::Cached, "out of a cache, small bodies"),
];

const fn requests(transport: Transport, name: &'static str) -> Figure {
    Figure {
        transport,
        name,
        unit: "µs",
        costs: |results| saturated(results, |run| run.cpu_us),
        work: Work::Requests,
    }
}

const fn down(transport: Transport, name: &'static str) -> Figure {
    Figure {
        transport,
        name,
        unit: "s/GB",
        costs: |results| cpu_per_gb(&results.download),
        work: Work::Body(Direction::Download),
    }
}

const fn up(transport: Transport, name: &'static str) -> Figure {
    Figure {
        transport,
        name,
        unit: "s/GB",
        costs: |results| cpu_per_gb(&results.upload),
        work: Work::Body(Direction::Upload),
    }
}

const fn handshake(kind: Kind, name: &'static str, costs: fn(&Results) -> Vec<f64>) -> Figure {
    Figure {
        transport: Transport::TlsDownstream,
        name,
        unit: "µs",
        costs,
        work: Work::Handshakes(kind),
    }
}

const fn streams(shape: usize, name: &'static str, costs: fn(&Results) -> Vec<f64>) -> Figure {
    Figure {
        transport: Transport::Http2,
        name,
        unit: "µs",
        costs,
        work: Work::Streams(shape),
    }
}

fn stream_cpu_us(results: &Results, shape: usize) -> Vec<f64> {
    results.streams[shape]
        .iter()
        .map(|run| run.cpu_us)
        .collect()
}

/// A build that ran with one transport.
struct Ran<'a> {
    subject: &'a Subject,
    results: &'a Results,
}

/// Compares both builds in what was measured with one transport. Their servers have been stopped.
pub async fn compare(stopped: &Stopped, setup: &Setup) -> Vec<Comparison> {
    let (Some(now), Some(before)) = (ran(stopped, Proxy::Steppe), ran(stopped, Proxy::Before))
    else {
        return Vec::new();
    };
    let is_measured = |figure: &&Figure| {
        figure.transport == stopped.transport && !(figure.costs)(now.results).is_empty()
    };
    let figures: Vec<&Figure> = FIGURES.iter().filter(is_measured).collect();
    let now_counts = count_all(&now, &figures, setup).await;
    let before_counts = count_all(&before, &figures, setup).await;
    let counts = now_counts.into_iter().zip(before_counts);
    let figures = figures.into_iter().zip(counts);
    figures
        .map(|(figure, (now_counts, before_counts))| Comparison {
            name: figure.name.to_owned(),
            unit: figure.unit,
            costs: Costs {
                now: (figure.costs)(now.results),
                before: (figure.costs)(before.results),
            },
            instructions: Instructions::of(now_counts, before_counts),
        })
        .collect()
}

fn ran(stopped: &Stopped, proxy: Proxy) -> Option<Ran<'_>> {
    let mut all = stopped.subjects.iter().zip(&stopped.results);
    let (subject, results) = all.find(|(subject, _)| subject.proxy == proxy)?;
    Some(Ran { subject, results })
}

/// Instructions an operation of each figure; of those that can't be counted, none.
async fn count_all(ran: &Ran<'_>, figures: &[&Figure], setup: &Setup) -> Vec<Counts> {
    let mut all = Vec::new();
    for figure in figures {
        let name = &ran.subject.launch.name;
        let mut counts = Counts::default();
        for _ in 0..ATTEMPTS {
            eprint!("counting: {name:<20} {}: ", figure.name);
            match Counting::run(ran.subject, setup, figure.work).await {
                Ok(counted) => {
                    eprintln!("{:.0} instructions", counted.median());
                    counts = counted;
                    break;
                }
                Err(error) => eprintln!("no instructions: {error:#}"),
            }
        }
        all.push(counts);
    }
    all
}

/// A request that stays without an answer ends a count: another process is then tried.
const ATTEMPTS: usize = 4;
/// Time limit of a request, which takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A build under callgrind.
struct Counting<'a> {
    subject: &'a Subject,
    setup: &'a Setup,
    server: Counted,
}

impl<'a> Counting<'a> {
    /// Starts a server under callgrind and counts until it has settled.
    async fn run(subject: &'a Subject, setup: &'a Setup, work: Work) -> Result<Counts> {
        work.lengths()?;
        let mut counting = Self {
            subject,
            setup,
            server: Counted::start(&subject.launch, &setup.run_dir).await?,
        };
        counting.count(work).await
    }

    /// Counts until it has settled.
    async fn count(&mut self, work: Work) -> Result<Counts> {
        let [few, many] = work.lengths()?;
        // The first operation of a kind sets things up for all: it is in no count.
        self.counted(work, few).await?;
        let mut counts = Counts::default();
        while !counts.is_settled() {
            let short = self.counted(work, few).await?;
            let long = self.counted(work, many).await?;
            counts.push(marginal([(short, few), (long, many)])?);
        }
        Ok(counts)
    }

    /// Instructions of so many operations, and of what they need beforehand.
    async fn counted(&mut self, work: Work, times: u64) -> Result<u64> {
        let Self {
            subject,
            setup,
            server,
        } = self;
        let (proxy, credentials) = (subject.proxy, &setup.credentials);
        let counted = match work {
            Work::Requests => server.during(exchanges(subject, None, times)).await,
            Work::Body(way) => server.during(exchanges(subject, Some(way), times)).await,
            Work::Handshakes(kind) => server.during(kind.run(proxy, credentials, times)).await,
            Work::Resumed => {
                let resumption = Resumption::prepare(proxy, credentials, times).await?;
                server.during(resumption.run()).await
            }
            Work::Streams(shape) => {
                let load = h2::one_connection(SHAPES[shape], subject, times, &setup.run_dir);
                server.during(load).await
            }
            Work::StreamBody(direction) => {
                let load = h2::body_load(&subject.endpoint, direction, setup);
                let load = async { load.run(times, &setup.run_dir).await.map(drop) };
                server.during(load).await
            }
            Work::Uncounted => bail!("calls by ghz have no fixed number"),
        };
        Ok(counted?.0)
    }
}

impl Work {
    /// Operations of the short and of the long run: a second or two under callgrind.
    fn lengths(self) -> Result<[u64; 2]> {
        Ok(match self {
            Self::Requests | Self::Streams(_) => [1_000, 5_000],
            Self::Body(_) | Self::StreamBody(_) | Self::Handshakes(_) | Self::Resumed => [20, 120],
            Self::Uncounted => bail!("calls by ghz have no fixed number"),
        })
    }
}

/// Requests one after another on one connection: small bodies, or 1 MB one way.
async fn exchanges(subject: &Subject, body: Option<Direction>, times: u64) -> Result<()> {
    // HTTP/1.1 is spoken beside HTTP/2 where there is no TLS.
    let endpoint = match subject.endpoint.protocol {
        Protocol::Http1 => subject.endpoint.clone(),
        Protocol::Http2 => Endpoint {
            protocol: Protocol::Http1,
            ..h2::clear(subject)
        },
    };
    let (request, expected) = match body {
        Some(direction) => (direction.request(&endpoint), direction.response_bytes()),
        None => {
            let request = client::get(endpoint.host(), origin::SMALL_PATH);
            (request, origin::SMALL_BYTES)
        }
    };
    let mut stream = endpoint.connect().await?;
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 * 1024]);
    for _ in 0..times {
        let received = exchange(&mut stream, &request, &mut decoder, &mut buffer);
        let received = timeout(ANSWER_TIMEOUT, received).await;
        let received = received.context("a request is not answered")??;
        ensure!(received == expected, "a body of {received} bytes");
    }
    Ok(())
}
