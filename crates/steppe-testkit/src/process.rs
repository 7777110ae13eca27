//! A child process that ends with its guard, and its output.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running program whose standard error (and output) is kept.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts `command` with its output captured.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start(name: &str, mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("can't start {name}: {error} ({command:?})"));
        let said = Arc::new(Mutex::new(String::new()));
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            readers.push(keep_lines(out, Arc::clone(&said)));
        }
        if let Some(err) = child.stderr.take() {
            readers.push(keep_lines(err, Arc::clone(&said)));
        }
        Self {
            name: name.into(),
            child,
            said,
            readers,
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output and standard error so far.
    pub fn said(&self) -> String {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// True while the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// When it still runs after `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.readers
                    .drain(..)
                    .for_each(|reader| drop(reader.join()));
                return status;
            }
            assert!(
                Instant::now() < end,
                "{} still runs after {limit:?}; it said:\n{}",
                self.name,
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}---", self.name, self.said());
        }
    }
}

fn keep_lines(
    from: impl std::io::Read + Send + 'static,
    said: Arc<Mutex<String>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            let text = String::from_utf8_lossy(&line).into_owned();
            said.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(&text);
            line.clear();
        }
    })
}
