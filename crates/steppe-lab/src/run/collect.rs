//! Forces a garbage collection in the quiet moment, in the scenario's way.
//!
//! The target keeps the memory that is left afterwards. Leaves out whether memory went back to the
//! system: that shows in the point that is taken then.

use super::environment::Target;
use crate::limits::COLLECTION_PATIENCE;
use crate::scenario::Collect;
use crate::target::MetricClient;

/// Asks for a collection. `Err` is the reason why there was none, where it is known: a signal is not
/// answered.
pub(super) fn collect(how: &Collect, target: &Target, client: &MetricClient) -> Result<(), String> {
    match how {
        Collect::Url(url) => {
            let answer = client.get(url, COLLECTION_PATIENCE);
            let (status, _) = answer.map_err(|error| error.to_string())?;
            if (200..300).contains(&status) {
                return Ok(());
            }
            Err(format!("{url}: status {status}"))
        }
        Collect::Signal(signal) => target.signal(*signal).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use rustix::process::Signal;

    use super::*;
    use crate::scenario::{Program, Ready, Running};
    use crate::target::{Launch, Process, RunningTarget, wait_until_ready};

    /// A shell that prints a line when it is asked to collect, and its log's folder.
    fn shell(name: &str, client: &MetricClient) -> (Process, std::path::PathBuf) {
        let script = "trap 'echo collected' USR2; echo up; while :; do sleep 0.02; done";
        let program = Program {
            cmd: ["sh", "-c", script].map(str::to_owned).to_vec(),
            ..Program::default()
        };
        let launch = Launch {
            name,
            program,
            ..Launch::default()
        };
        let log = std::env::temp_dir().join(format!("steppe-lab-{name}-{}", std::process::id()));
        _ = std::fs::remove_file(&log);
        let mut process = Process::start(&launch, &log).unwrap();
        until(&mut process, "up", client);
        (process, log)
    }

    fn until(process: &mut Process, line: &str, client: &MetricClient) {
        let ready = Ready::Log(line.to_owned());
        wait_until_ready(process, &ready, LONG, client, &|| false).unwrap();
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_signal_reaches_the_target() {
        let client = MetricClient::new().unwrap();
        let (mut process, log) = shell("collected", &client);
        let running = Running::Pid(process.id());
        let running = Target::Running(RunningTarget::find(&running).unwrap());
        collect(&Collect::Signal(Signal::USR2), &running, &client).unwrap();
        until(&mut process, "collected", &client);
        _ = process.stop(LONG, &|| false);
        // No process is left to signal.
        let failed = collect(&Collect::Signal(Signal::USR2), &running, &client);
        assert!(failed.is_err());
        let failed = collect(
            &Collect::Signal(Signal::USR2),
            &Target::Started(process),
            &client,
        );
        assert!(failed.is_err());
        _ = std::fs::remove_file(log);
    }

    /// The result of a collection against a server that answers with `status`, and the request that
    /// it got.
    fn asked(status: &'static str, path: &str) -> (Result<(), String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let client = MetricClient::new().unwrap();
        let (process, log) = shell(&format!("asked-{}", &status[..3]), &client);
        let said = collect(&Collect::Url(url), &Target::Started(process), &client);
        _ = std::fs::remove_file(log);
        (said, server.join().unwrap())
    }

    #[test]
    fn a_url_is_asked_and_its_status_counts() {
        let (said, head) = asked("200 OK", "/debug/pprof/heap?gc=1");
        assert_eq!(said, Ok(()));
        assert!(head.starts_with("GET /debug/pprof/heap?gc=1 "), "{head}");
        let (said, _) = asked("404 Not Found", "/gc");
        assert!(said.is_err_and(|why| why.ends_with("/gc: status 404")));
    }
}
