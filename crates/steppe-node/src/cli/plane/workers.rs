//! `steppe plane workers`: the workers of each service, by a node's report or by etcd.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use hyper::Method;
use serde_json::Value;
use steppe_plane::DialedWorker;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::etcd::EtcdAddress;
use crate::admin_client::Target;
use crate::cli::code::Code;
use crate::cli::console::{print, say};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The node's admin address, http://HOST:PORT, https://HOST:PORT or unix:PATH; or
    /// etcd://HOST:PORT/PREFIX for announced workers
    #[arg(default_value = "http://127.0.0.1:9900")]
    address: String,
    /// File with CA certificates (PEM) for https, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with the admin token, if the node has `admin.token_file`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub(super) const HELP: &str = "\
Examples:
  steppe plane workers
  steppe plane workers unix:/run/steppe/admin.sock --json
  steppe plane workers etcd://127.0.0.1:2379/steppe

A node lists its connected workers, their open calls and bytes, and calls that wait for a worker.
etcd lists the announced workers.
Exit codes: 0; 2 if the command line is wrong; 5 if there is no response.";

/// Time for etcd's first list.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(options: &Options) -> ExitCode {
    let found = match EtcdAddress::is_meant(&options.address) {
        false => connected(options),
        true => match options.address.parse() {
            Ok(etcd) => announced(options, &etcd),
            Err(problem) => {
                say(&format!("steppe: {}: {problem}\n", options.address));
                return Code::Usage.into();
            }
        },
    };
    match found {
        Ok(text) => print(&text),
        Err(error) => {
            say(&format!("steppe: {error:#}\n"));
            Code::NoAnswer.into()
        }
    }
}

/// The report of a node.
fn connected(options: &Options) -> anyhow::Result<String> {
    let target = Target::new(
        &options.address,
        options.ca.as_deref(),
        options.token_file.as_deref(),
    )?;
    let answer = target.ask_for_text(Method::GET, "/plane")?;
    if options.json {
        return Ok(format!("{}\n", answer.trim_end()));
    }
    let report: Value = serde_json::from_str(&answer).context("not a response of a Steppe node")?;
    let services = report["services"].as_array();
    Ok(table(services.context("not a response of a Steppe node")?))
}

/// A line for each worker, and one for each service without workers.
fn table(services: &[Value]) -> String {
    if services.is_empty() {
        return "no worker has registered a service\n".to_owned();
    }
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let number = |value: &Value| {
        value
            .as_u64()
            .map_or("-".to_owned(), |number| number.to_string())
    };
    let head = ["SERVICE", "WORKER", "CALLS", "OF", "BYTES", "WAITING"];
    let mut rows = vec![head.map(str::to_owned)];
    for service in services {
        let name = || text(&service["name"]);
        let waiting = number(&service["waiting"]);
        let workers = service["workers"].as_array().map_or(&[][..], Vec::as_slice);
        if workers.is_empty() {
            let none = ["-"; 4].map(str::to_owned);
            let [worker, calls, of, bytes] = none;
            rows.push([name(), worker, calls, of, bytes, waiting]);
            continue;
        }
        for worker in workers {
            rows.push([
                name(),
                text(&worker["address"]),
                number(&worker["calls"]),
                number(&worker["calls_max"]),
                number(&worker["bytes"]),
                waiting.clone(),
            ]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut lines = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(lines, "{}", cells.join("  ").trim_end());
    }
    lines
}

/// The workers announced in etcd.
fn announced(options: &Options, etcd: &EtcdAddress) -> anyhow::Result<String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let workers = runtime
        .context("cannot start the runtime")?
        .block_on(first(etcd))?;
    if options.json {
        let workers = workers.iter().map(
            |worker| serde_json::json!({ "address": worker.address, "services": worker.services }),
        );
        let workers: Vec<_> = workers.collect();
        return Ok(format!("{}\n", serde_json::json!({ "workers": workers })));
    }
    if workers.is_empty() {
        return Ok(format!("no worker is announced: {etcd}\n"));
    }
    let lines = workers
        .iter()
        .map(|worker| format!("{}  {}\n", worker.address, worker.services.join(" ")));
    Ok(lines.collect())
}

/// The first list of workers that etcd sends.
async fn first(etcd: &EtcdAddress) -> anyhow::Result<Vec<DialedWorker>> {
    let (tell, told) = oneshot::channel();
    let mut tell = Some(tell);
    let directory = etcd.directory(None);
    let follow = directory.follow(|workers| {
        if let Some(tell) = tell.take() {
            let _ = tell.send(workers.to_vec());
        }
    });
    let list = async {
        tokio::select! {
            list = told => list.ok(),
            never = follow => match never {},
        }
    };
    let list = timeout(PATIENCE, list).await.ok().flatten();
    list.with_context(|| format!("{etcd}: no response in time"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_a_worker_and_one_for_a_service_without() {
        let services = json!([
            { "name": "echo", "waiting": 0, "workers": [
                { "address": "127.0.0.1:40000", "calls": 2, "calls_max": 10, "bytes": 1000 },
                { "address": "127.0.0.1:40001", "calls": 0, "calls_max": null, "bytes": 0 },
            ] },
            { "name": "infer", "waiting": 3, "workers": [] },
        ]);
        let expected = "\
SERVICE  WORKER           CALLS  OF  BYTES  WAITING
echo     127.0.0.1:40000  2      10  1000   0
echo     127.0.0.1:40001  0      -   0      0
infer    -                -      -   -      3
";
        assert_eq!(table(services.as_array().expect("a list")), expected);
    }
}
