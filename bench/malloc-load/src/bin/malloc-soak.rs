//! `malloc-soak`: a case in one process, for as long as its observer needs.
//!
//! `malloc-soak serve ADDRESS:PORT STEPS` runs so many steps of random mixed with 400 slots for each
//! request: for the lab. `malloc-soak crew ADDRESS:PORT REQUESTS` does the same with 96 threads, which
//! serve so many requests and then sleep until the next one comes.
//! `malloc-soak turns` reads a line with a number of seconds, works for so long, prints its figures,
//! and waits for the next line: for `steppe-bench malloc --soak`.

use std::env;
use std::io::{self, BufRead, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use steppe_malloc_load::cases::mixed::Mixed;
use steppe_malloc_load::cases::server::Crew;
use steppe_malloc_load::served::{self, Served};
use steppe_malloc_load::{status, sys};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut mixed = Mixed::new(WORKING_SET);
    let outcome = match arguments[..] {
        ["serve", address, steps] => serve(&mut mixed, address, steps),
        ["crew", address, requests] => serve(&mut Crew::new(), address, requests),
        ["turns"] => take_turns(&mut mixed),
        _ => Err(io::Error::other(
            "usage: malloc-soak serve ADDRESS:PORT STEPS | malloc-soak crew ADDRESS:PORT REQUESTS | malloc-soak turns",
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

const WORKING_SET: usize = 400;

fn serve(served: &mut impl Served, address: &str, steps: &str) -> io::Result<()> {
    let steps = steps.parse().map_err(io::Error::other)?;
    served::serve(&TcpListener::bind(address)?, served, steps)
}

/// A line a turn: operations, CPU time in microseconds, resident KiB.
fn take_turns(mixed: &mut Mixed) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let seconds: f64 = line.trim().parse().map_err(io::Error::other)?;
        let length = Duration::try_from_secs_f64(seconds).map_err(io::Error::other)?;
        line.clear();
        let (operations, cpu) = work(mixed, length);
        let resident = status::read().anonymous_kib;
        writeln!(output, "{operations} {} {resident}", cpu.as_micros())?;
        output.flush()?;
    }
    Ok(())
}

fn work(mixed: &mut Mixed, length: Duration) -> (u64, Duration) {
    let (start, cpu) = (Instant::now(), sys::cpu_time());
    let mut operations = 0;
    while start.elapsed() < length {
        mixed.step(BETWEEN_CLOCKS);
        operations += BETWEEN_CLOCKS;
    }
    (operations, sys::cpu_time().saturating_sub(cpu))
}

/// Operations between two readings of the clock: about a millisecond of them.
const BETWEEN_CLOCKS: u64 = 100_000;
