//! Requests at a constant rate, whose responses may be chunked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// A load: the request, and its rate a second.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) request: String,
    pub(super) rate: f64,
}

/// The outcome of a load. Latencies begin when a request was due.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) completed: u64,
    pub(super) errors: u64,
    pub(super) p99_us: f64,
}

/// Connections, each with a thread that waits for its response.
const CONNECTIONS: u32 = 8;

pub(super) fn run(load: &Load, duration: Duration) -> Loaded {
    let began_at = Instant::now();
    let interval = Duration::from_secs_f64(f64::from(CONNECTIONS) / load.rate);
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|at| {
            let load = load.clone();
            let first_at = began_at + interval * at / CONNECTIONS;
            thread::spawn(move || ask(&load, (first_at, interval), began_at + duration))
        })
        .collect();
    let mut latencies = Vec::new();
    let mut errors = 0;
    for thread in threads {
        match thread.join() {
            Ok(Ok(more)) => latencies.extend(more),
            _ => errors += 1,
        }
    }
    latencies.sort_unstable();
    let p99 = latencies.get(latencies.len() * 99 / 100).copied();
    Loaded {
        completed: latencies.len() as u64,
        errors,
        p99_us: p99.unwrap_or_default().as_secs_f64() * 1e6,
    }
}

/// Latencies of one connection's requests.
fn ask(
    load: &Load,
    (first_at, interval): (Instant, Duration),
    until: Instant,
) -> Result<Vec<Duration>> {
    let (mut latencies, mut due) = (Vec::new(), first_at);
    let mut reader = connect(load)?;
    while due < until {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        exchange(&mut reader, load)?;
        latencies.push(due.elapsed());
        due += interval;
    }
    Ok(latencies)
}

/// Bytes of the content as it is transferred.
///
/// # Errors
/// When there is no whole response.
pub(super) fn content_bytes(load: &Load) -> Result<usize> {
    exchange(&mut connect(load)?, load)
}

fn connect(load: &Load) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(load.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(BufReader::with_capacity(64 << 10, stream))
}

fn exchange(reader: &mut BufReader<TcpStream>, load: &Load) -> Result<usize> {
    reader.get_mut().write_all(load.request.as_bytes())?;
    let status = line(reader)?;
    ensure!(
        status.starts_with("HTTP/1.1 200"),
        "{} says {status}",
        load.address
    );
    let mut length = None;
    loop {
        let field = line(reader)?.to_ascii_lowercase();
        if field.is_empty() {
            break;
        }
        if let Some(value) = field.strip_prefix("content-length:") {
            length = Some(value.trim().parse()?);
        }
    }
    if let Some(length) = length {
        skip(reader, length)?;
        return Ok(length);
    }
    let mut bytes = 0;
    loop {
        let size = usize::from_str_radix(&line(reader)?, 16).context("a chunk's size")?;
        skip(reader, size)?;
        ensure!(line(reader)?.is_empty(), "a chunk is longer than it says");
        if size == 0 {
            return Ok(bytes);
        }
        bytes += size;
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    ensure!(reader.read_line(&mut line)? > 0, "the connection ended");
    Ok(line.trim_end().to_owned())
}

fn skip(reader: &mut BufReader<TcpStream>, bytes: usize) -> Result<()> {
    let skipped = std::io::copy(&mut reader.take(bytes as u64), &mut std::io::sink())?;
    ensure!(skipped == bytes as u64, "the content was cut");
    Ok(())
}
