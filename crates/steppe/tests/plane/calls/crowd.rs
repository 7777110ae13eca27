//! More bodies than there is memory for, by way of the gateway, in cgroups: no process is killed, as many requests as
//! there is memory for are answered, and the others are refused at once.
//!
//! By default 200 requests of 1 MiB a second for 4 s, against budgets of 64 MiB; `STEPPE_LONG=1` makes it 500 for 35 s,
//! held for 5 s, against 512 MiB. The long run asserts the promised rates and times; the short one asserts counts.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use steppe_testkit::{
    Cgroup, MemoryMeter, Port, Process, Steppe, eventually, heavy, is_long, raise_file_limit, skip,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::MIB;

const TEST: &str = "measured_a_crowd_at_the_gateway_is_answered_or_refused";
/// Memory beside the budget: programs, stacks, buffers of sockets.
const BESIDE_BYTES: u64 = 128 * MIB;
/// The share of the budget for requests: all but that of responses.
const REQUEST_SHARE: f64 = 0.75;
static BODY: [u8; 1 << 20] = [b'x'; 1 << 20];

struct Plan {
    budget_bytes: u64,
    rate: u32,
    length: Duration,
    hold: Duration,
}

/// The outcome of a request.
#[derive(Debug)]
enum Outcome {
    /// A complete answer.
    Served,
    /// A refusal with this status, so long after the head was sent.
    Refused(u16, Duration),
    Broken(String),
}

#[test]
fn measured_a_crowd_at_the_gateway_is_answered_or_refused() {
    let _alone = heavy();
    let plan = match is_long() {
        true => Plan {
            budget_bytes: 512 * MIB,
            rate: 500,
            length: Duration::from_secs(35),
            hold: Duration::from_secs(5),
        },
        false => Plan {
            budget_bytes: 64 * MIB,
            rate: 200,
            length: Duration::from_secs(4),
            hold: Duration::from_secs(1),
        },
    };
    if raise_file_limit() < 16_384 {
        return skip(TEST, "too few open files");
    }
    let limit = plan.budget_bytes + BESIDE_BYTES;
    let (of_node, of_worker) = match (Cgroup::with_memory(limit), Cgroup::with_memory(limit)) {
        (Ok(node), Ok(worker)) => (node, worker),
        (Err(reason), _) | (_, Err(reason)) => return skip(TEST, &reason),
    };
    let (mut node, plane) = node(&plan, &of_node);
    let mut worker = worker(&plan, plane, &of_worker);
    let meters = [node.id(), worker.id()].map(MemoryMeter::watch);
    let start = Instant::now();
    let outcomes = crowd(node.gateway(), &plan);
    let seconds = start.elapsed().as_secs_f64();
    let peaks = meters.map(|meter| meter.finish().high_water_bytes / MIB);
    let groups = [&of_node, &of_worker].map(|group| {
        let peak = group.peak_bytes().map(|bytes| bytes / MIB);
        let sockets = group.socket_peak_bytes().map(|bytes| bytes / MIB);
        (peak, sockets)
    });
    let seen = Seen::of(&outcomes);
    println!(
        "{TEST}: {seen:?} in {seconds:.1} s; high-water marks {peaks:?} MiB, cgroups {groups:?} MiB"
    );
    assert!(node.is_running(), "{}", node.said());
    assert!(worker.is_running(), "{}", worker.said());
    assert_eq!((of_node.kills(), of_worker.kills()), (0, 0));
    assert_eq!(seen.broken, 0, "{:?}", seen.why);
    seen.judge(&plan);
}

/// A node whose calls do not wait: a call without memory is refused at once.
fn node(plan: &Plan, cgroup: &Cgroup) -> (Steppe, SocketAddr) {
    let plane = Port::free().keep();
    let budget = plan.budget_bytes / MIB;
    let toml = format!(
        "[node]\nworkers = 2\nmemory_budget = \"{budget}MiB\"\n[admin]\nlisten = \"{{admin}}\"\n\
         [[plane.listener]]\nlisten = \"{plane}\"\n[plane]\nqueue.wait = \"0s\"\n\
         [[http.listener]]\nlisten = \"{{gateway}}\"\nprotocols = [\"h1\"]\nlimits.connections = 20000\n\
         [http.upstream.held]\nplane = \"echo\"\n\
         [[http.route]]\nname = \"held\"\npath = \"/{{rest*}}\"\nupstream = \"held\"\n"
    );
    let node = Steppe::builder().in_cgroup(cgroup).start(&toml);
    (node, plane)
}

fn worker(plan: &Plan, plane: SocketAddr, cgroup: &Cgroup) -> Process {
    let mut command: Command = cgroup.command(Steppe::program());
    command.args(["plane", "echo", "--register", &plane.to_string()]);
    command.args(["--budget", &format!("{}MiB", plan.budget_bytes / MIB)]);
    command.args(["--hold", &format!("{}ms", plan.hold.as_millis())]);
    let worker = Process::start("echo", command);
    eventually("it is registered", || worker.said().contains("serves "));
    worker
}

/// Sends all requests, each at its time.
fn crowd(gateway: SocketAddr, plan: &Plan) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let count = plan.rate * u32::try_from(plan.length.as_secs()).expect("short");
    runtime.block_on(async {
        let mut ticks = interval(Duration::from_secs(1) / plan.rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut requests = JoinSet::new();
        for _ in 0..count {
            ticks.tick().await;
            requests.spawn(request(gateway));
        }
        requests.join_all().await
    })
}

async fn request(gateway: SocketAddr) -> Outcome {
    let asked = timeout(Duration::from_secs(60), ask(gateway));
    match asked.await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::Broken(error.to_string()),
        Err(_) => Outcome::Broken("no answer".to_owned()),
    }
}

/// Posts a body, and reads the answer even if it comes before the body is out.
async fn ask(gateway: SocketAddr) -> io::Result<Outcome> {
    let mut socket = TcpStream::connect(gateway).await?;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: held\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        BODY.len()
    );
    socket.write_all(head.as_bytes()).await?;
    let sent = Instant::now();
    let (mut reading, mut writing) = socket.split();
    let mut answer = Vec::with_capacity(64 << 10);
    let first = {
        // A gateway that refuses reads no more: an error of the socket then is not the answer.
        let body = async {
            let _ = writing.write_all(&BODY).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            read = reading.read_buf(&mut answer) => read?,
            () = body => 0,
        }
    };
    let after = sent.elapsed();
    let status = std::str::from_utf8(answer.get(9..12).unwrap_or_default());
    let status = status.ok().and_then(|status| status.parse().ok());
    let status: u16 = status.ok_or_else(|| io::Error::other(format!("{first} bytes came")))?;
    let has_when = says_when(&answer);
    let (bytes, is_whole) = rest(&mut reading, answer).await?;
    match status {
        200 if bytes > BODY.len() && is_whole => Ok(Outcome::Served),
        200 => Ok(Outcome::Broken(format!("it ends at {bytes} bytes"))),
        _ if !has_when => Ok(Outcome::Broken(format!("{status} says not when"))),
        _ => Ok(Outcome::Refused(status, after)),
    }
}

/// Reads the rest of the answer; returns the total number of bytes, and true if the last chunk was among them.
async fn rest(reading: &mut ReadHalf<'_>, mut last: Vec<u8>) -> io::Result<(usize, bool)> {
    const END: &[u8] = b"0\r\n\r\n";
    let mut bytes = last.len();
    loop {
        last.drain(..last.len().saturating_sub(END.len()));
        let read = reading.read_buf(&mut last).await?;
        bytes += read;
        if read == 0 {
            return Ok((bytes, last.ends_with(END)));
        }
    }
}

fn says_when(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    text.contains("\r\nretry-after: ")
}

/// All outcomes, counted.
#[derive(Debug, Default)]
struct Seen {
    served: u32,
    refused: u32,
    broken: u32,
    /// Descriptions of the first few broken ones.
    why: Vec<String>,
    statuses: Vec<u16>,
    /// The times to a refusal, at p50 and p99.
    refused_after: [Duration; 2],
}

impl Seen {
    fn of(outcomes: &[Outcome]) -> Self {
        let (mut seen, mut times) = (Self::default(), Vec::new());
        for outcome in outcomes {
            match outcome {
                Outcome::Served => seen.served += 1,
                Outcome::Refused(status, after) => {
                    seen.refused += 1;
                    seen.statuses.push(*status);
                    times.push(*after);
                }
                Outcome::Broken(why) => {
                    seen.broken += 1;
                    seen.why.push(why.clone());
                }
            }
        }
        seen.why.truncate(5);
        seen.statuses.sort_unstable();
        seen.statuses.dedup();
        times.sort_unstable();
        if !times.is_empty() {
            seen.refused_after = [50, 99].map(|at| times[(times.len() - 1) * at / 100]);
        }
        seen
    }

    fn judge(&self, plan: &Plan) {
        let is_overload = self
            .statuses
            .iter()
            .all(|status| [429, 503].contains(status));
        assert!(is_overload && self.refused > 0, "{self:?}");
        let room = plan.budget_bytes as f64 * REQUEST_SHARE / MIB as f64;
        if !is_long() {
            // However busy the machine is, most of the memory was used.
            assert!(f64::from(self.served) >= 0.8 * room, "{self:?}");
            return;
        }
        let goodput = f64::from(self.served) / plan.length.as_secs_f64();
        let least = 0.8 * room / plan.hold.as_secs_f64();
        assert!(
            goodput >= least,
            "{goodput:.1} a second of {least:.1}: {self:?}"
        );
        assert!(
            self.refused_after[1] <= Duration::from_millis(100),
            "{self:?}"
        );
    }
}
