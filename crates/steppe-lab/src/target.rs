//! Processes that a run starts (the target, services beside it), and targets that run already.
//!
//! Invariant: a started process is gone when its [`Process`] is dropped, with everything that it
//! started in its process group; when the lab itself is killed, its [`Guard`] does that. A
//! [`RunningTarget`] is never ended. Left out: looking at processes, which `observe` does.

mod ask;
mod exposition;
mod guard;
mod ready;
mod running;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::limits::{COMPLAINT_LEN_MAX, COMPLAINTS_MAX, LOG_SEARCH_BYTES, LOG_TAIL_BYTES};
use crate::scenario::Program;

pub use ask::{AskError, MetricClient};
pub use exposition::Exposition;
pub use guard::Guard;
pub use ready::{NotReady, is_taken, wait_until_ready};
#[cfg(test)]
pub(crate) use running::tests::sleeper;
pub use running::{RunningError, RunningTarget};

/// A process that was started, with its output in a file.
pub struct Process {
    name: String,
    child: Child,
    /// Guard of the process until it is reaped: after that its id may be another process's.
    guard: Option<Guard>,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

/// The program of a process, and its surroundings.
#[derive(Debug, Clone, Default)]
pub struct Launch<'a> {
    /// Name of the process in messages.
    pub name: &'a str,
    /// The command line and environment.
    pub program: Program,
    /// Library for `LD_PRELOAD`.
    pub preload: Option<&'a Path>,
    /// `cgroup.procs` of the control group that the process is to start in.
    pub group: Option<&'a Path>,
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file for its output can't be opened.
    #[error("can't write the log {path}")]
    Log {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The library to preload does not exist.
    #[error("can't preload {path}: {source}")]
    Preload {
        /// Path of the library in the scenario.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Without a guard, nothing would end the process if the lab were killed.
    #[error("can't start the shell that ends {name} with the lab: {source}")]
    Guard {
        /// Name of the process in the scenario.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The program could not be run.
    #[error("can't start {name}: {program}: {source}")]
    Spawn {
        /// Name of the process in the scenario.
        name: String,
        /// First word of its command line.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Process {
    /// Starts a process in a process group of its own: Ctrl-C on the terminal does not reach it.
    ///
    /// # Errors
    /// Where the program does not exist or can't be run.
    pub fn start(launch: &Launch<'_>, log: &Path) -> Result<Self, StartError> {
        let no_log = |source| StartError::Log {
            path: log.to_owned(),
            source,
        };
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(no_log)?;
        let errors = out.try_clone().map_err(no_log)?;
        let mut command = command(launch);
        command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .process_group(0);
        let not_started = |source| StartError::Spawn {
            name: launch.name.to_owned(),
            program: launch.program.cmd.first().cloned().unwrap_or_default(),
            source,
        };
        // The loader would only print a warning, and run the program without the library.
        if let Some(path) = launch.preload {
            preloadable(path).map_err(|source| StartError::Preload {
                path: path.to_owned(),
                source,
            })?;
        }
        // Without this check, a missing program in a control group would show only as exit code 127
        // of its shell.
        executable(&launch.program).map_err(not_started)?;
        let no_guard = |source| StartError::Guard {
            name: launch.name.to_owned(),
            source,
        };
        let mut guard = Guard::start(launch.group).map_err(no_guard)?;
        let child = command.spawn().map_err(not_started)?;
        let mut process = Self {
            name: launch.name.to_owned(),
            child,
            guard: None,
            log: log.to_owned(),
            ended: None,
        };
        // A process without its guard must not run: dropping `process` here ends it.
        guard.watch(process.id()).map_err(no_guard)?;
        process.guard = Some(guard);
        Ok(process)
    }

    /// Name of the process in the scenario.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Id of the first process; its children are found by their parent.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has ended. Kills the rest of its process group then, which nothing
    /// else ends.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() && self.has_exited() {
            // Kill before the wait: until then no other group can have its number.
            self.kill_group();
            self.wait();
        }
        self.ended
    }

    /// True if the process has exited. Leaves its status to be waited for, so that its id stays its
    /// own.
    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = self.pid();
        pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))))
    }

    /// The last lines of its output, for messages; bounded.
    pub fn last_words(&self) -> String {
        tail(&self.log, LOG_TAIL_BYTES).unwrap_or_default()
    }

    /// The last different lines of its output that speak of an error, in their order, bounded.
    pub fn complaints(&self) -> Vec<String> {
        complaints(&tail(&self.log, LOG_SEARCH_BYTES).unwrap_or_default())
    }

    /// Path of the file with its output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends SIGTERM, and kills the process after `patience`, or when `give_up` returns true.
    /// Children that it left are killed.
    ///
    /// `Err`: the process did not end by itself, and was killed.
    ///
    /// # Errors
    /// With the exit status, when the process had to be killed.
    pub fn stop(
        &mut self,
        patience: Duration,
        give_up: &dyn Fn() -> bool,
    ) -> Result<ExitStatus, ExitStatus> {
        _ = self.signal(Signal::TERM);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if give_up() {
                break;
            }
            std::thread::sleep(POLL);
        }
        self.kill_group();
        Err(self.wait())
    }

    /// Sends a signal to the first process.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = self.pid().filter(|_| self.ended.is_none());
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }

    fn kill_group(&self) {
        if let Some(pid) = self.pid() {
            _ = kill_process_group(pid, Signal::KILL);
        }
    }

    fn wait(&mut self) -> ExitStatus {
        self.guard = None;
        let status = self
            .child
            .wait()
            .unwrap_or_else(|_| ExitStatus::from_raw(0));
        self.ended = Some(status);
        status
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill_group();
            self.wait();
        }
    }
}

/// Checks that a library to preload exists. A bare name is left to the loader.
///
/// # Errors
/// With the system's error for its path.
pub fn preloadable(preload: &Path) -> io::Result<()> {
    if preload.components().count() > 1 {
        preload.metadata()?;
    }
    Ok(())
}

/// The path of a command line's program, as the system will find it.
///
/// # Errors
/// With the system's error where it does not exist.
pub fn executable(program: &Program) -> io::Result<PathBuf> {
    let not_found = || io::Error::from(Errno::NOENT);
    let name = program.cmd.first().ok_or_else(not_found)?;
    if name.contains('/') {
        let folder = program.cwd.as_deref().unwrap_or(Path::new("."));
        return folder.join(name).canonicalize();
    }
    let path = program.env.get("PATH").map(Into::into);
    let path = path
        .or_else(|| std::env::var_os("PATH"))
        .unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found
        .filter_map(|path| path.canonicalize().ok())
        .find(|path| path.is_file())
        .ok_or_else(not_found)
}

/// The command of a process. A shell joins the control group and execs the program, so that the
/// program's first byte is charged to the group already.
fn command(launch: &Launch<'_>) -> Command {
    let cmd = &launch.program.cmd;
    let program = cmd.first().map_or("", String::as_str);
    let mut command = match launch.group {
        Some(group) => {
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
                .arg(group)
                .args(cmd);
            command
        }
        None => {
            let mut command = Command::new(program);
            command.args(cmd.iter().skip(1));
            command
        }
    };
    command.envs(&launch.program.env);
    if let Some(preload) = launch.preload {
        // The loader resolves paths in the target's folder, which may be another.
        let path = if preload.components().count() > 1 {
            std::path::absolute(preload).ok()
        } else {
            None
        };
        command.env("LD_PRELOAD", path.as_deref().unwrap_or(preload));
    }
    if let Some(folder) = &launch.program.cwd {
        command.current_dir(folder);
    }
    command
}

fn tail(log: &Path, bytes_max: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    Ok(text.trim_end().chars().map(plain).collect())
}

fn complaints(output: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in output.lines().rev() {
        let small = line.to_lowercase();
        let is_complaint = COMPLAINTS.iter().any(|word| small.contains(word));
        let line: String = line.trim().chars().take(COMPLAINT_LEN_MAX).collect();
        if is_complaint && !found.contains(&line) {
            found.push(line);
        }
        if found.len() == COMPLAINTS_MAX {
            break;
        }
    }
    found.reverse();
    found
}

/// Parts of lines that speak of an error, in lower case.
const COMPLAINTS: [&str; 8] = [
    "error",
    "fail",
    "fatal",
    "panic",
    "exception",
    "too many",
    "cannot",
    "refused",
];
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
