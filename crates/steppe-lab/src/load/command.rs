//! Command loads: a program that drives the target, and reports its operations line by line.
//!
//! The program is started anew for each burst, in a process group of its own: Ctrl-C at the lab's terminal
//! is the lab's to handle, and processes that the program starts are killed with it. A pause interrupts the
//! program (SIGINT, then SIGKILL); the lines that it has written by then count. A program that fails, or
//! writes a line that is not of the protocol, is not started again.
//!
//! The program's own CPU time is not judged: it may run anywhere, and its CPU time may mean anything. Its
//! high-water mark is reported: a client's memory is part of the cost of a protocol.

mod line;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::error::{LoadError, LoadFailure};
use super::tally::{self, Counter, ErrorKind, Shared};
use super::{Burst, Interval};
use crate::limits::{
    COMMAND_BLOCK_BYTES, COMMAND_DRAIN_MAX, COMMAND_GRACE, COMMAND_LOOK_INTERVAL,
    COMMAND_SAID_BYTES_MAX, COMMAND_WEIGH_INTERVAL, ORDERS_MAX,
};
use crate::observe::high_water_bytes;
use crate::scenario::{CommandLoad, Load, Pace, Program};
use crate::target::Guard;
use line::{Lines, Message, Mistake};

/// A command load and the thread that watches over its program.
pub(super) struct CommandSource {
    name: String,
    orders: Sender<Control>,
    thread: Option<JoinHandle<()>>,
    counter: Counter,
    shared: Arc<Watched>,
}

enum Control {
    Resume(Burst),
    /// Interrupt the program, and answer once it has ended.
    Pause(SyncSender<()>),
    Stop,
}

/// State of the program, from its thread to the driver.
#[derive(Debug, Default)]
struct Watched {
    is_running: AtomicBool,
    /// Peak RSS of the programs in bytes since the last [`CommandSource::take`]; 0: unknown.
    hwm_bytes: AtomicU64,
    failure: Mutex<Option<LoadFailure>>,
}

/// State of the thread that starts the program and watches over it.
struct Watcher {
    name: String,
    program: Program,
    /// Value of `{rate}` in the arguments.
    rate: Option<String>,
    seed: u64,
    clock: Instant,
    log: File,
    tally: Shared,
    shared: Arc<Watched>,
    orders: Receiver<Control>,
}

/// A running program.
struct Running {
    child: Child,
    /// Kills the program if the lab is killed; `None` once the program is about to be reaped.
    guard: Option<Guard>,
    pid: Pid,
    /// `None` once the pipe was closed.
    stdout: Option<pipe::Receiver>,
    lines: Lines,
    has_said: bool,
    /// Deadline after which an interrupted program is killed.
    interrupted: Option<Instant>,
    mistake: Option<Mistake>,
    /// Offset in the log at which the output of this program begins.
    log_start: u64,
}

impl CommandSource {
    /// # Errors
    /// When the load is invalid, or its log or its thread can't be created.
    pub(super) fn start(
        load: &Load,
        command: &CommandLoad,
        (seed, clock): (u64, Instant),
        log: PathBuf,
    ) -> Result<Self, LoadError> {
        check(load, command)?;
        let opened = File::options()
            .create(true)
            .append(true)
            .read(true)
            .open(&log);
        let counter = Counter::new(false);
        let shared = Arc::new(Watched::default());
        let (orders, taken) = channel(ORDERS_MAX);
        let watcher = Watcher {
            name: load.name.clone(),
            program: command.command.clone(),
            rate: rate(load),
            seed,
            clock,
            log: opened.map_err(|source| LoadError::Log { path: log, source })?,
            tally: counter.shared(),
            shared: Arc::clone(&shared),
            orders: taken,
        };
        let failed = |source| LoadError::Thread {
            load: load.name.clone(),
            source,
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("load-command".to_owned())
            .spawn(move || watcher.run(&runtime))
            .map_err(failed)?;
        Ok(Self {
            name: load.name.clone(),
            orders,
            thread: Some(thread),
            counter,
            shared,
        })
    }

    pub(super) fn resume(&self, burst: Burst) {
        self.shared.is_running.store(true, Ordering::Release);
        let _ = self.orders.try_send(Control::Resume(burst));
    }

    pub(super) fn pause(&self, quiet: SyncSender<()>) {
        let _ = self.orders.try_send(Control::Pause(quiet));
    }

    /// True when the program of the last burst has ended.
    pub(super) fn is_over(&self) -> bool {
        !self.shared.is_running.load(Ordering::Acquire)
    }

    pub(super) fn take(&mut self) -> Interval {
        let sum = self.counter.swap();
        let hwm_bytes = self.shared.hwm_bytes.swap(0, Ordering::Relaxed);
        Interval {
            hwm_bytes: Some(hwm_bytes).filter(|bytes| *bytes > 0),
            ..Interval::of(&self.name, sum, super::GeneratorUse::default())
        }
    }

    pub(super) fn failure(&self, clock: Instant) -> Option<LoadFailure> {
        let is_gone = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let panicked = || LoadFailure::panicked(&self.name, clock);
        let failure = self.shared.failure().clone();
        failure.or_else(|| is_gone.then(panicked))
    }
}

impl Drop for CommandSource {
    fn drop(&mut self) {
        let _ = self.orders.try_send(Control::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

impl Watched {
    fn failure(&self) -> std::sync::MutexGuard<'_, Option<LoadFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Errors
/// When the load is invalid.
pub(super) fn check(load: &Load, command: &CommandLoad) -> Result<(), LoadError> {
    let words = &command.command.cmd;
    let invalid = |reason: &str| {
        Err(LoadError::Invalid {
            load: load.name.clone(),
            reason: reason.to_owned(),
        })
    };
    if words.is_empty() {
        return invalid("it has no command");
    }
    let asks_for_rate = words.iter().any(|word| word.contains("{rate}"));
    if asks_for_rate && rate(load).is_none() {
        return invalid("`{rate}` in its command needs `rate_per_s`");
    }
    if load.threads != 1 || !load.ramp.is_zero() {
        return invalid(
            "`threads` and `ramp` don't apply to a command load: pass them as arguments \
                        of its program",
        );
    }
    Ok(())
}

fn rate(load: &Load) -> Option<String> {
    match load.pace {
        Pace::Open { rate_per_s } => Some(rate_per_s.to_string()),
        Pace::Closed => None,
    }
}

impl Watcher {
    fn run(mut self, runtime: &Runtime) {
        runtime.block_on(async {
            while let Some(order) = self.orders.recv().await {
                match order {
                    Control::Resume(burst) => {
                        let is_over = self.burst(burst).await;
                        self.shared.is_running.store(false, Ordering::Release);
                        if is_over {
                            return;
                        }
                    }
                    // No program runs.
                    Control::Pause(quiet) => drop(quiet.try_send(())),
                    Control::Stop => return,
                }
            }
        });
    }

    /// Runs the program once. True: the driver is gone, or has sent [`Control::Stop`].
    async fn burst(&mut self, burst: Burst) -> bool {
        if self.shared.failure().is_some() {
            return false;
        }
        match self.launch(burst) {
            Ok(running) => self.watch(running).await,
            Err(error) => {
                let program = &self.program.cmd[0];
                self.fail(format!("can't start `{program}`: {error}"), None);
                false
            }
        }
    }

    fn launch(&mut self, burst: Burst) -> io::Result<Running> {
        // Whole seconds, which a shell and most tools take. Rounded down, so that the program has
        // time left to report.
        let seconds = burst.length.as_secs().max(1).to_string();
        let epoch = burst.epoch.to_string();
        // Programs take seeds of many widths; all take one of 31 bits.
        let seed = (self.seed & 0x7fff_ffff).to_string();
        let rate = self.rate.as_deref().unwrap_or_default();
        let fill = |word: &String| {
            word.replace("{seconds}", &seconds)
                .replace("{epoch}", &epoch)
                .replace("{seed}", &seed)
                .replace("{rate}", rate)
        };
        let log_start = self.log.seek(SeekFrom::End(0))?;
        let mut command = Command::new(executable(&self.program.cmd[0])?);
        command
            .args(self.program.cmd[1..].iter().map(fill))
            .envs(&self.program.env)
            .env("STEPPE_LAB_SECONDS", &seconds)
            .env("STEPPE_LAB_EPOCH", &epoch)
            .env("STEPPE_LAB_SEED", &seed)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log.try_clone()?)
            .process_group(0);
        if let Some(folder) = &self.program.cwd {
            command.current_dir(folder);
        }
        let guard = Guard::start(None)?;
        Running::new(command.spawn()?, guard, log_start)
    }

    /// Waits for the program's end, and takes its lines. True: the driver is gone, or has sent
    /// [`Control::Stop`].
    async fn watch(&mut self, mut running: Running) -> bool {
        let mut quiet = Vec::new();
        let mut is_stopped = false;
        let mut look = tokio::time::interval(COMMAND_LOOK_INTERVAL);
        let mut weigh = tokio::time::interval(COMMAND_WEIGH_INTERVAL);
        let mut block = vec![0; COMMAND_BLOCK_BYTES];
        let status = loop {
            tokio::select! {
                read = running.read(&mut block) => running.hear(&block[..read], &self.tally),
                order = self.orders.recv() => match order {
                    Some(Control::Pause(sender)) => {
                        quiet.push(sender);
                        running.interrupt();
                    }
                    Some(Control::Resume(_)) => {}
                    Some(Control::Stop) | None => {
                        is_stopped = true;
                        running.kill();
                    }
                },
                _ = weigh.tick() => {
                    let bytes = high_water_bytes(running.pid).unwrap_or(0);
                    self.shared.hwm_bytes.fetch_max(bytes, Ordering::Relaxed);
                }
                _ = look.tick() => {
                    if let Some(status) = running.look() {
                        break status;
                    }
                }
            }
            if running.is_overdue() || running.mistake.is_some() {
                running.kill();
            }
        };
        running.drain(&mut block, &self.tally).await;
        self.judge(&running, status);
        for sender in quiet {
            let _ = sender.try_send(());
        }
        is_stopped
    }

    fn judge(&mut self, running: &Running, status: io::Result<ExitStatus>) {
        let said = self.said(running.log_start);
        let was_ended = running.interrupted.is_some();
        match (&running.mistake, status) {
            (Some(mistake), _) => self.fail(mistake.to_string(), said),
            (None, Err(error)) => {
                self.fail(format!("waiting for its program failed: {error}"), said);
            }
            (None, Ok(_)) if was_ended => {}
            (None, Ok(status)) if !status.success() => self.fail(ended(status), said),
            (None, Ok(_)) if !running.has_said => {
                let reason = "its program exited with status 0 and wrote no line of the protocol: \
                              nothing was measured (docs/lab/protocol.md)";
                self.fail(reason.to_owned(), said);
            }
            (None, Ok(_)) => {}
        }
    }

    fn fail(&self, reason: String, said: Option<String>) {
        *self.shared.failure() = Some(LoadFailure {
            load: self.name.clone(),
            at: self.clock.elapsed(),
            reason,
            said,
        });
    }

    /// The last output of the program in the log of this burst.
    fn said(&mut self, log_start: u64) -> Option<String> {
        let end = self.log.seek(SeekFrom::End(0)).ok()?;
        let start = log_start.max(end.saturating_sub(COMMAND_SAID_BYTES_MAX));
        self.log.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        let mut part = (&self.log).take(COMMAND_SAID_BYTES_MAX);
        part.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let shown: String = text
            .trim()
            .chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .collect();
        (!shown.is_empty()).then_some(shown)
    }
}

impl Running {
    fn new(mut child: Child, mut guard: Guard, log_start: u64) -> io::Result<Self> {
        let gone = || io::Error::other("it has no process id");
        let id = i32::try_from(child.id()).map_err(|_| gone())?;
        let pid = Pid::from_raw(id).ok_or_else(gone)?;
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stdout = stdout.map(pipe::Receiver::from_owned_fd).transpose()?;
        guard.watch(child.id())?;
        Ok(Self {
            child,
            guard: Some(guard),
            pid,
            stdout,
            lines: Lines::default(),
            has_said: false,
            interrupted: None,
            mistake: None,
            log_start,
        })
    }

    /// Reads bytes of the program's stdout. Never returns once the pipe is closed.
    ///
    /// # Cancel safety
    /// No bytes are lost.
    async fn read(&mut self, block: &mut [u8]) -> usize {
        if let Some(stdout) = &mut self.stdout {
            match stdout.read(block).await {
                Ok(read) if read > 0 => return read,
                _ => self.stdout = None,
            }
        }
        std::future::pending().await
    }

    fn hear(&mut self, bytes: &[u8], tally: &Shared) {
        if self.mistake.is_some() {
            return;
        }
        let mut tally = tally::lock(tally);
        let heard = self.lines.push(bytes, |word| {
            self.has_said = true;
            count(&mut tally, word);
        });
        self.mistake = heard.err();
    }

    /// Reads the rest of the pipe after the program's end.
    async fn drain(&mut self, block: &mut [u8], tally: &Shared) {
        let end = Instant::now() + COMMAND_DRAIN_MAX;
        while self.stdout.is_some() && self.mistake.is_none() && Instant::now() < end {
            // Everything that was written before the end is in the pipe; a process that still
            // holds it open has left the group.
            match timeout(COMMAND_LOOK_INTERVAL, self.read(block)).await {
                Ok(read) => self.hear(&block[..read], tally),
                Err(_) => break,
            }
        }
        // A line that was cut off by a signal does not count.
        if self.interrupted.is_none() && self.mistake.is_none() {
            match self.lines.end() {
                Ok(Some(word)) => {
                    self.has_said = true;
                    count(&mut tally::lock(tally), word);
                }
                Ok(None) => {}
                Err(mistake) => self.mistake = Some(mistake),
            }
        }
    }

    fn interrupt(&mut self) {
        if self.interrupted.is_none() {
            self.signal(Signal::INT);
            self.interrupted = Some(Instant::now() + COMMAND_GRACE);
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.interrupted.get_or_insert_with(Instant::now);
    }

    fn is_overdue(&self) -> bool {
        self.interrupted.is_some_and(|end| Instant::now() >= end)
    }

    /// Sends a signal to the program's process group. An error is ignored: the group is gone already.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Checks if the program has ended; then kills the processes that it left, and reaps it. Until it is
    /// reaped, no other process group can have its number.
    fn look(&mut self) -> Option<io::Result<ExitStatus>> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), how) {
            Ok(None) => None,
            Ok(Some(_)) => {
                self.signal(Signal::KILL);
                self.guard = None;
                Some(self.child.wait())
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}

fn count(tally: &mut tally::Tally, word: Message) {
    match word {
        Message::Latency { latency_us, count } => tally.succeed_many(latency_us, count),
        Message::Operations(count) => tally.operations = tally.operations.saturating_add(count),
        Message::Errors { count: 0, .. } => {}
        Message::Errors { count, kind } => {
            let kind = kind.map_or(ErrorKind::Known("unnamed"), ErrorKind::Said);
            tally.fail(kind, count);
        }
        Message::Refused(count) => tally.refused = tally.refused.saturating_add(count),
        Message::Intended(count) => tally.intend(count),
    }
}

/// The path of a program, relative to the folder that the lab was started in, and not to the load's `cwd`.
fn executable(word: &str) -> io::Result<PathBuf> {
    if word.contains('/') {
        std::path::absolute(word)
    } else {
        Ok(PathBuf::from(word))
    }
}

fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("its program was ended by signal {signal}"),
        None => format!("its program ended with {status}"),
    }
}
