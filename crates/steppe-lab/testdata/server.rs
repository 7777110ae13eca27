//! The common part of the programs with known behavior: a small HTTP/1.1 server and a count of live bytes.
//!
//! `/memory` says how many bytes are allocated and not freed, `/metrics` in Prometheus's text format how
//! many requests there were, as a counter and as a gauge that never falls; every other path calls the program's
//! own function and answers `ok`. A thread a connection, the system's allocator. It is as simple as
//! a program can be whose memory is understood: no timeouts, no limits, loopback only.

#[path = "server/counting.rs"]
mod counting;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that are neither `/memory` nor `/metrics`.
static SERVED: AtomicU64 = AtomicU64::new(0);

/// Serves at the address of the first argument, and calls `handle` for each request.
pub fn serve(handle: impl Fn() + Copy + Send + 'static) -> io::Result<()> {
    let address = argument(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || connection(&stream, handle));
    }
    Ok(())
}

/// The argument at `index`, as text.
pub fn argument(index: usize) -> Option<String> {
    std::env::args().nth(index)
}

/// The argument at `index` as a number, else `default`.
pub fn number(index: usize, default: u64) -> u64 {
    argument(index)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn connection(stream: &TcpStream, handle: impl Fn()) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::with_capacity(8192);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let is_memory = line.starts_with("GET /memory ");
        let is_metrics = line.starts_with("GET /metrics ");
        let (length, closes) = rest_of_head(&mut reader, &mut line)?;
        io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        if is_memory {
            let live = counting::live_bytes();
            let content = format!("{{\"live_bytes\": {live}}}\n");
            answer(stream, &content)?;
        } else if is_metrics {
            let served = SERVED.load(Ordering::Relaxed);
            let content = format!(
                "# TYPE requests_total counter\nrequests_total {served}\n# TYPE sessions gauge\n\
                 sessions {served}\n# TYPE pool gauge\npool 4\n"
            );
            answer(stream, &content)?;
        } else {
            SERVED.fetch_add(1, Ordering::Relaxed);
            handle();
            answer(stream, "ok\n")?;
        }
        if closes {
            return Ok(());
        }
    }
}

/// Reads up to the empty line: the length of the content, and whether this is the last request.
fn rest_of_head(reader: &mut impl BufRead, line: &mut String) -> io::Result<(u64, bool)> {
    let (mut length, mut closes) = (0, false);
    loop {
        line.clear();
        if reader.read_line(line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let field = line.trim_end();
        if field.is_empty() {
            return Ok((length, closes));
        }
        if let Some((name, value)) = field.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            closes |= name.eq_ignore_ascii_case("connection") && value.trim() == "close";
        }
    }
}

fn answer(mut stream: &TcpStream, content: &str) -> io::Result<()> {
    // One buffer on the stack, so that answering allocates nothing.
    let mut buffer = [0; 256];
    let mut rest = &mut buffer[..];
    let length = content.len();
    write!(
        rest,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{content}"
    )?;
    let left = rest.len();
    stream.write_all(&buffer[..buffer.len() - left])
}
