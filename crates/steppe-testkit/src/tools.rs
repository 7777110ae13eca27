//! curl and wrk, with their output taken apart.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::peer::PATIENCE;
use crate::{Head, Process, Scratch, Wire};

/// A run of curl.
#[derive(Debug)]
pub struct Curl {
    command: Command,
    scratch: Scratch,
}

/// The result of a run of curl.
#[derive(Debug)]
pub struct CurlOutput {
    /// curl's own exit code: 0 when the transfer was whole.
    pub exit: i32,
    /// The head of the final response.
    pub head: Head,
    /// Heads of every response, interim ones included.
    pub heads: Vec<Head>,
    /// The content.
    pub body: Vec<u8>,
    /// The trailer section of the final response.
    pub trailers: Vec<(String, String)>,
    /// curl's figures (`--write-out '%{json}'`).
    pub figures: serde_json::Value,
    /// Standard error of curl.
    pub errors: String,
}

impl Curl {
    /// Prepares to get `url`.
    pub fn new(url: &str) -> Self {
        let scratch = Scratch::new("curl");
        let mut command = Command::new("curl");
        command.args([
            "-sS",
            "--max-time",
            "120",
            "--noproxy",
            "*",
            "-w",
            "%{json}",
        ]);
        command
            // A test need not know whether the run has TLS.
            .args((Wire::of_run() == Wire::Tls).then_some("--insecure"))
            .arg("-D")
            .arg(scratch.join("heads"))
            .arg("-o")
            .arg(scratch.join("body"))
            .arg(url);
        Self { command, scratch }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.command.args(args);
        self
    }

    /// Gives curl a file as standard input, for `-T -`.
    ///
    /// # Panics
    /// When the file can't be read.
    #[must_use]
    pub fn input(mut self, path: &Path) -> Self {
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.command.stdin(file);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When curl isn't there.
    pub fn run(mut self) -> CurlOutput {
        let output = self
            .command
            .output()
            .unwrap_or_else(|error| panic!("can't run curl: {error}"));
        CurlOutput {
            exit: output.status.code().unwrap_or(-1),
            figures: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            ..CurlOutput::read(&self.scratch)
        }
    }

    /// Starts curl without any input, for a look at the response so far. Output is not buffered.
    ///
    /// # Panics
    /// When curl isn't there.
    pub fn start(self) -> CurlRun {
        let curl = self.args(["--no-buffer"]);
        CurlRun {
            process: Process::start("curl", curl.command),
            scratch: curl.scratch,
        }
    }
}

/// curl under way.
#[derive(Debug)]
pub struct CurlRun {
    process: Process,
    scratch: Scratch,
}

impl CurlRun {
    /// The response so far: `exit`, `figures` and `errors` are not known yet.
    pub fn so_far(&self) -> CurlOutput {
        CurlOutput::read(&self.scratch)
    }

    /// Waits for the end of curl; `errors` has the figures too.
    ///
    /// # Panics
    /// When it takes too long.
    pub fn finish(mut self) -> CurlOutput {
        let status = self.process.wait(PATIENCE);
        CurlOutput {
            exit: status.code().unwrap_or(-1),
            errors: self.process.said(),
            ..CurlOutput::read(&self.scratch)
        }
    }
}

impl CurlOutput {
    /// Reads the files that curl has written.
    fn read(scratch: &Scratch) -> Self {
        let file = |name| std::fs::read(scratch.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&file("heads")).into_owned();
        let sections = text.split_inclusive("\r\n\r\n");
        let (heads, others): (Vec<&str>, Vec<&str>) =
            sections.partition(|section| section.starts_with("HTTP/"));
        let heads: Vec<Head> = (heads.iter())
            .map(|head| Head::parse(head.as_bytes()))
            .collect();
        // Trailer sections have no start line.
        let trailers = format!("\r\n{}", others.concat());
        Self {
            exit: -1,
            head: heads.last().cloned().unwrap_or_default(),
            heads,
            body: file("body"),
            trailers: Head::parse(trailers.as_bytes()).fields,
            figures: serde_json::Value::Null,
            errors: String::new(),
        }
    }
}

/// A run of wrk.
#[derive(Debug)]
pub struct Wrk {
    command: Command,
}

/// The figures of wrk's report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrkOutput {
    /// Responses received.
    pub requests: u64,
    /// Responses a second.
    pub requests_per_second: f64,
    /// Responses outside 2xx and 3xx.
    pub refused: u64,
    /// Failed connects, reads, writes and timeouts.
    pub errors: u64,
    /// The report as it came.
    pub text: String,
}

impl Wrk {
    /// Prepares a run of one thread.
    pub fn new(url: &str, connections: usize, seconds: u64) -> Self {
        let mut command = Command::new("wrk");
        command.args(["-t1", "--latency", "--timeout", "10"]);
        command
            .arg(format!("-c{connections}"))
            .arg(format!("-d{seconds}s"))
            .arg(url);
        Self { command }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.command.args(args);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When wrk isn't there or reports nothing.
    pub fn run(mut self) -> WrkOutput {
        let output = self
            .command
            .output()
            .unwrap_or_else(|error| panic!("can't run wrk: {error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        parse_wrk(&text).unwrap_or_else(|| panic!("wrk reported nothing: {text}{errors}"))
    }
}

/// wrk under way, until it is told to stop.
#[derive(Debug)]
pub struct Load {
    process: Process,
}

impl Load {
    /// Loads `url` over so many connections.
    ///
    /// # Panics
    /// When wrk isn't there.
    #[must_use]
    pub fn start(url: &str, connections: usize) -> Self {
        // Far longer than any test: the load is stopped.
        let wrk = Wrk::new(url, connections, 24 * 60 * 60);
        Self {
            process: Process::start("wrk", wrk.command),
        }
    }

    /// Ends wrk and returns its figures, as at its own end.
    ///
    /// # Panics
    /// When wrk ended before, or reports nothing.
    #[track_caller]
    #[must_use]
    pub fn stop(mut self) -> WrkOutput {
        assert!(self.process.is_running(), "wrk: {}", self.process.said());
        self.process.signal(Signal::INT);
        self.process.wait(PATIENCE);
        let text = self.process.said();
        parse_wrk(&text).unwrap_or_else(|| panic!("wrk reported nothing: {text}"))
    }
}

fn parse_wrk(text: &str) -> Option<WrkOutput> {
    let mut output = WrkOutput {
        text: text.to_owned(),
        ..WrkOutput::default()
    };
    let mut complete = false;
    for line in text.lines().map(str::trim) {
        if line.contains(" requests in ") {
            output.requests = line.split(' ').next()?.parse().ok()?;
        } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
            output.requests_per_second = rate.trim().parse().ok()?;
            complete = true;
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            output.refused = count.trim().parse().ok()?;
        } else if let Some(counts) = line.strip_prefix("Socket errors:") {
            let numbers = counts
                .split([' ', ','])
                .filter_map(|word| word.parse::<u64>().ok());
            output.errors = numbers.sum();
        }
    }
    complete.then_some(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_wrk_is_taken_apart() {
        let text = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 2 connections\n  \
                    240 requests in 1.10s, 1.00MB read\n  \
                    Socket errors: connect 1, read 2, write 0, timeout 4\n  \
                    Non-2xx or 3xx responses: 5\nRequests/sec:    218.18\nTransfer/sec:   0.9MB\n";
        let output = parse_wrk(text).expect("the report is complete");
        assert_eq!(
            (output.requests, output.refused, output.errors),
            (240, 5, 7)
        );
        assert_eq!(output.requests_per_second, 218.18);
        assert_eq!(parse_wrk("unable to connect"), None);
    }
}
