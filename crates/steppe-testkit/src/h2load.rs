//! h2load, with its report taken apart.

use std::net::SocketAddr;
use std::process::Command;

use crate::peer::PATIENCE;
use crate::{Process, Scratch};

/// h2load under way.
#[derive(Debug)]
pub struct H2load {
    process: Process,
    _scratch: Scratch,
}

/// The counts of h2load's report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct H2loadOutput {
    /// Requests to send.
    pub total: u64,
    /// Responses that came whole, with a status below 400.
    pub succeeded: u64,
    /// Requests without such a response.
    pub failed: u64,
    /// Responses with a status of 200 to 299.
    pub ok: u64,
    /// Responses with a status of 400 and more.
    pub refused: u64,
    /// The report as it came.
    pub text: String,
}

impl H2load {
    /// Requests `url` so often, over four connections of ten streams each. The URL's host is only sent
    /// in requests: h2load connects to `address`.
    ///
    /// # Panics
    /// When h2load isn't there.
    pub fn start(url: &str, address: SocketAddr, requests: u32) -> Self {
        let scratch = Scratch::new("h2load");
        let mut command = Command::new("h2load");
        command
            .args(["-c", "4", "-m", "10", "-n", &requests.to_string()])
            .arg(format!("--connect-to={address}"))
            .arg(url)
            .current_dir(scratch.path());
        Self {
            process: Process::start("h2load", command),
            _scratch: scratch,
        }
    }

    /// True while h2load runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it takes too long, or reports nothing.
    #[track_caller]
    pub fn finish(mut self) -> H2loadOutput {
        self.process.wait(6 * PATIENCE);
        let text = self.process.said();
        parse(&text).unwrap_or_else(|| panic!("h2load reported nothing: {text}"))
    }
}

fn parse(text: &str) -> Option<H2loadOutput> {
    let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let requests = after("requests: ")?;
    let statuses = after("status codes: ")?;
    Some(H2loadOutput {
        total: count(requests, "total")?,
        succeeded: count(requests, "succeeded")?,
        failed: count(requests, "failed")?,
        ok: count(statuses, "2xx")?,
        refused: count(statuses, "4xx")? + count(statuses, "5xx")?,
        text: text.to_owned(),
    })
}

/// The number before `of` in a list with commas.
fn count(list: &str, of: &str) -> Option<u64> {
    let mut entries = list.split(", ");
    entries.find_map(|entry| entry.strip_suffix(of)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_h2load_is_taken_apart() {
        let text = "finished in 1.00s, 2000.00 req/s, 1.00MB/s\n\
                    requests: 2000 total, 1999 started, 1998 done, 1990 succeeded, 10 failed, 8 errored, \
                    0 timeout\n\
                    status codes: 1990 2xx, 0 3xx, 3 4xx, 5 5xx\n";
        let output = parse(text).expect("the report is complete");
        assert_eq!((output.total, output.succeeded), (2000, 1990));
        assert_eq!((output.failed, output.ok, output.refused), (10, 1990, 8));
        assert_eq!(parse("finished"), None);
    }
}
