//! A server that a run started: waited for until it accepts, stopped when dropped.
//!
//! Invariant: each server leads a process group of its own, and the whole group is gone when the
//! guard is, whatever ended the run. Only a SIGKILL of the bench itself leaves servers behind; the
//! next run then names the port that is taken.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpStream;

/// The start of a server: program, arguments and environment, and the address to wait for.
#[derive(Debug, Clone)]
pub struct Launch {
    pub name: String,
    pub version: String,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(&'static str, String)>,
    /// Address on which the server accepts when it is up.
    pub address: SocketAddr,
}

/// A running server.
pub struct Server {
    child: Child,
    log: PathBuf,
    name: String,
    is_stopped: bool,
}

impl Server {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Errors
    /// When its port is taken, when it can't be started, ends at once, or doesn't accept in time;
    /// with the last lines that it wrote.
    pub async fn start(launch: &Launch, run_dir: &Path) -> Result<Self> {
        Self::start_within(launch, run_dir, START_TIMEOUT).await
    }

    /// Starts a server that may take up to `limit` until it accepts.
    ///
    /// # Errors
    /// As of `start`.
    pub async fn start_within(launch: &Launch, run_dir: &Path, limit: Duration) -> Result<Self> {
        ensure_free(launch.address, &launch.name)?;
        let log = run_dir.join(format!("{}.log", launch.name));
        let output =
            File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = Command::new(&launch.program)
            .args(&launch.arguments)
            .envs(launch.environment.iter().cloned())
            .current_dir(run_dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        let mut server = Self {
            child,
            log,
            name: launch.name.clone(),
            is_stopped: false,
        };
        server.accepts(launch.address, limit).await?;
        Ok(server)
    }

    /// Stops the server and starts it anew.
    ///
    /// # Errors
    /// As of `start`.
    pub async fn restart(&mut self, launch: &Launch, run_dir: &Path) -> Result<()> {
        self.stop();
        *self = Self::start(launch, run_dir).await?;
        Ok(())
    }

    /// The process that leads the server's group.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// # Errors
    /// When the server ended, with the last lines that it wrote.
    pub fn ensure_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "{} ended with {status}: {}",
                self.name,
                last_lines(&self.log)
            );
        }
        Ok(())
    }

    async fn accepts(&mut self, address: SocketAddr, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while TcpStream::connect(address).await.is_err() {
            self.ensure_alive()?;
            let in_time = Instant::now() < deadline;
            ensure!(
                in_time,
                "{} does not accept on {address}: {}",
                self.name,
                last_lines(&self.log)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn signal_group(&self, signal: Signal) {
        let leader = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // An error means that the group is empty, as it should be.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Stops the server's whole process group, once: the kernel may reuse its number afterwards.
    pub fn stop(&mut self) {
        if std::mem::replace(&mut self.is_stopped, true) {
            return;
        }
        self.signal_group(Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        // The leader may have left members behind, and may itself still drain.
        self.signal_group(Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

const START_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// # Errors
/// When another process listens on `address`.
pub fn ensure_free(address: SocketAddr, name: &str) -> Result<()> {
    std::net::TcpListener::bind(address)
        .map(drop)
        .with_context(|| format!("{address}, which {name} needs, is taken: stop who listens there"))
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(8).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let error = ensure_free(address, "nginx")
            .expect_err("it is taken")
            .to_string();
        assert_eq!(
            error,
            format!("{address}, which nginx needs, is taken: stop who listens there")
        );
        drop(listener);
        // Another test may have taken a port that was just given back.
        let is_free_again = |_| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let address = listener.local_addr().expect("it is bound");
            drop(listener);
            ensure_free(address, "nginx").is_ok()
        };
        assert!((0..20).any(is_free_again), "no port is free again");
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
        let run_dir = std::env::temp_dir();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        drop(listener);
        let launch = Launch {
            name: "steppe-bench-test".to_owned(),
            version: String::new(),
            program: "sh".into(),
            arguments: vec!["-c".into(), "echo no such luck; exit 3".into()],
            environment: Vec::new(),
            address,
        };
        let error = Server::start(&launch, &run_dir)
            .await
            .err()
            .expect("it ends")
            .to_string();
        fs::remove_file(run_dir.join("steppe-bench-test.log")).expect("it was written");
        assert!(
            error.contains("exit status: 3") && error.contains("no such luck"),
            "{error}"
        );
    }
}
