//! A target that runs already: found by its process id or its control group, and left running.
//!
//! Invariant: none of its processes is ended or started, and a process that gets the id of one that ended is
//! not taken for it: the folder below `/proc` that is held open stays that of the first. Leaves out looking
//! at it, which `observe` does.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs::ProcError;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::observe::cgroup::{self, FindError};
use crate::scenario::Running;

/// A process, or a control group of processes, that the lab did not start.
#[derive(Debug)]
pub struct RunningTarget {
    name: String,
    roots: Vec<Process>,
    group: Option<PathBuf>,
}

/// Why a running target can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The process has ended, never existed, or is hidden.
    #[error("there is no process {0}; `pgrep -a NAME` finds one by its name")]
    NoProcess(u32),
    /// The process is a zombie.
    #[error("process {0} has ended, and its parent has not waited for it")]
    Ended(u32),
    /// The process is a thread of the kernel.
    #[error("process {0} is a thread of the kernel, which has no memory of its own")]
    Kernel(u32),
    /// The process is another user's.
    #[error(
        "process {pid} ({name}) belongs to user {uid}: no permission to observe it ({source}); run \
         the lab as that user, or as root"
    )]
    Refused {
        /// The process id.
        pid: u32,
        /// Name of its executable.
        name: String,
        /// User id of its owner.
        uid: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// There is no such group, or none that counts memory.
    #[error(transparent)]
    Group(#[from] FindError),
    /// The group has no process.
    #[error("{0} holds no process that can be seen from here")]
    Empty(PathBuf),
    /// The lab is in the group: it would judge itself, its load included.
    #[error("the lab itself runs in {0}: start it in another group, or name a group below")]
    Own(PathBuf),
    /// The lab descends from the process: it would judge itself, its load included.
    #[error(
        "the lab itself descends from process {0}: start it elsewhere, or name a process below"
    )]
    Ancestor(u32),
    /// Another error of the system.
    #[error("process {pid} can't be observed: {source}")]
    Other {
        /// The process id.
        pid: u32,
        /// The error.
        #[source]
        source: ProcError,
    },
}

impl RunningTarget {
    /// Finds the target, and checks that it may be looked at.
    ///
    /// # Errors
    /// Where there is no such process or group, or it may not be looked at.
    pub fn find(running: &Running) -> Result<Self, RunningError> {
        match running {
            Running::Pid(pid) => {
                let root = find_process(*pid)?;
                if is_above_lab(*pid) {
                    return Err(RunningError::Ancestor(*pid));
                }
                Ok(Self {
                    name: format!("{} (pid {pid})", name_of(&root)),
                    roots: vec![root],
                    group: None,
                })
            }
            Running::Cgroup(path) => Self::of_group(path),
        }
    }

    fn of_group(path: &Path) -> Result<Self, RunningError> {
        let place = cgroup::find(path)?;
        let members = place.members_with_below();
        if members.contains(&std::process::id()) {
            return Err(RunningError::Own(place.path));
        }
        let mut roots = Vec::new();
        for pid in members {
            match find_process(pid) {
                Ok(root) => roots.push(root),
                // The process has ended meanwhile.
                Err(RunningError::NoProcess(_) | RunningError::Ended(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if roots.is_empty() {
            return Err(RunningError::Empty(place.path));
        }
        Ok(Self {
            name: format!("control group {}", place.path.display()),
            roots,
            group: Some(place.path),
        })
    }

    /// Name of the target in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ids of the processes that were found.
    pub fn roots(&self) -> Vec<u32> {
        let ids = self.roots.iter().map(|root| root.pid.cast_unsigned());
        ids.collect()
    }

    /// The folder of its control group, if it was named by its group.
    pub fn group(&self) -> Option<&Path> {
        self.group.as_deref()
    }

    /// The way it ended, if it has: of a group, when no process is left in it.
    pub fn ended(&self) -> Option<String> {
        let has_newcomers = || {
            let group = self.group.as_deref().map(cgroup::Place::at);
            group.is_some_and(|place| !place.members_with_below().is_empty())
        };
        let lives = self.roots.iter().any(lives) || has_newcomers();
        (!lives).then(|| "its exit status is known only to its parent".to_owned())
    }

    /// The command line of its first process, and the path of its executable where that may be read.
    pub fn command(&self) -> (Vec<String>, Option<PathBuf>) {
        let first = self.roots.first();
        let line = first.and_then(|root| root.cmdline().ok());
        let executable = first.and_then(|root| root.exe().ok());
        (line.unwrap_or_default(), executable)
    }

    /// Sends a signal to its first process.
    ///
    /// # Errors
    /// Where it has ended, or is another user's.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let first = self.roots.first().filter(|root| lives(root));
        let pid = first.and_then(|root| Pid::from_raw(root.pid));
        Ok(kill_process(pid.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "control group {}", path.display()),
        }
    }
}

fn find_process(pid: u32) -> Result<Process, RunningError> {
    let raw = i32::try_from(pid).map_err(|_| RunningError::NoProcess(pid))?;
    let told = |source| match source {
        ProcError::NotFound(_) => RunningError::NoProcess(pid),
        source => RunningError::Other { pid, source },
    };
    let process = Process::new(raw).map_err(told)?;
    let stat = process.stat().map_err(told)?;
    if ENDED.contains(&stat.state) {
        return Err(RunningError::Ended(pid));
    }
    if stat.vsize == 0 {
        return Err(RunningError::Kernel(pid));
    }
    // A caller that may not list its files may not read its memory either (proc_pid_fd(5)).
    if let Err(source) = fs::read_dir(format!("/proc/{pid}/fd"))
        && lives(&process)
    {
        return Err(RunningError::Refused {
            pid,
            name: name_of(&process),
            uid: process.uid().unwrap_or_default(),
            source,
        });
    }
    Ok(process)
}

/// True if a process is the lab, or one that the lab descends from.
fn is_above_lab(pid: u32) -> bool {
    let parent = |of: &Process| Process::new(of.stat().ok()?.ppid).ok();
    let mut line = std::iter::successors(Process::myself().ok(), parent);
    line.any(|process| process.pid.cast_unsigned() == pid)
}

fn lives(process: &Process) -> bool {
    let stat = process.stat();
    stat.is_ok_and(|stat| !ENDED.contains(&stat.state))
}

/// The kernel's name of a process, without control characters.
fn name_of(process: &Process) -> String {
    let name = process.stat().map(|stat| stat.comm).unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).collect()
}

/// States of a process that has ended: zombie, dead.
const ENDED: [char; 3] = ['Z', 'X', 'x'];

#[cfg(test)]
pub(super) mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process of `sleep 60`, whose arguments can be read: a program has none for a moment after it began.
    pub(crate) fn sleeper() -> Child {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let arguments = format!("/proc/{}/cmdline", child.id());
        while std::fs::read(&arguments).unwrap().is_empty() {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn a_process_is_found_and_its_end_is_seen() {
        let mut child = sleeper();
        let target = RunningTarget::find(&Running::Pid(child.id())).unwrap();
        assert_eq!(target.roots(), [child.id()]);
        assert_eq!(target.command().0, ["sleep", "60"]);
        assert_eq!(target.ended(), None);
        child.kill().unwrap();
        while target.ended().is_none() {
            std::thread::yield_now();
        }
        let zombie = RunningTarget::find(&Running::Pid(child.id())).unwrap_err();
        assert!(matches!(zombie, RunningError::Ended(_)), "{zombie}");
        child.wait().unwrap();
        assert!(target.ended().is_some() && target.signal(Signal::USR1).is_err());
        let gone = RunningTarget::find(&Running::Pid(child.id())).unwrap_err();
        assert!(matches!(gone, RunningError::NoProcess(_)), "{gone}");
    }

    #[test]
    fn the_lab_is_not_judged_with_who_started_it() {
        for pid in [std::process::id(), std::os::unix::process::parent_id()] {
            let error = RunningTarget::find(&Running::Pid(pid)).unwrap_err();
            assert!(matches!(error, RunningError::Ancestor(_)), "{error}");
        }
    }

    #[test]
    fn what_is_no_group_is_told_so() {
        let none = Running::Cgroup("/nowhere/at/all".into());
        let error = RunningTarget::find(&none).unwrap_err().to_string();
        assert!(error.starts_with("there is no control group"), "{error}");
        let folder = Running::Cgroup("/proc".into());
        let error = RunningTarget::find(&folder).unwrap_err().to_string();
        assert!(error.contains("is not a control group"), "{error}");
    }
}
