//! Ends a process when the lab is killed.
//!
//! A lab that gets SIGKILL ends nothing itself. So a shell sits beside each process that it starts, and
//! reads from a pipe whose other end the lab holds. The kernel closes that end when the lab is gone,
//! however it ended, and the shell then kills the whole process group, and all processes in the
//! target's control group: children too, and those that left the process group.
//!
//! A parent-death signal (`prctl(2)`) would reach the first process only, not its children, and has to
//! be requested between fork and exec, which no safe code can. Left out: processes that leave the
//! process group where there is no control group, and the moment between the start of a process and the
//! line that names it to its guard.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of the lab. A guard that is dropped does nothing.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
}

impl Guard {
    /// Starts the guard. `procs` is the `cgroup.procs` of a control group that holds nothing but the
    /// target.
    ///
    /// # Errors
    /// Where no shell can be started.
    pub fn start(procs: Option<&Path>) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guard"])
            .args(procs)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own: signals to the lab's group must not reach the shell.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Names the process group that is to end with the lab.
    ///
    /// # Errors
    /// When the guard is gone.
    pub fn watch(&mut self, group: u32) -> io::Result<()> {
        match &mut self.shell.stdin {
            Some(pipe) => writeln!(pipe, "{group}"),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Kill before the pipe is closed, which would set the guard off.
        _ = self.shell.kill();
        _ = self.shell.wait();
    }
}

/// `$1` is the process list of the control group, if there is one. Killed processes leave it a moment
/// later, and may have started others meanwhile.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
read -r group
read -r end
[ -n "$group" ] && kill -s KILL -- "-$group"
[ -f "$1" ] || exit
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  while read -r pid; do kill -s KILL "$pid"; done < "$1"
  rmdir "${1%/*}" && exit
  sleep 0.1
done
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn an_end_of_the_pipe_kills_the_group() {
        let mut sleeper = sleeper();
        let mut guard = Guard::start(None).unwrap();
        guard.watch(sleeper.id()).unwrap();
        // The kernel does the same when the lab is gone.
        drop(guard.shell.stdin.take());
        assert!(guard.shell.wait().unwrap().code().is_some());
        assert!(!sleeper.wait().unwrap().success());
    }

    #[test]
    fn a_guard_that_is_dropped_kills_nobody() {
        let mut sleeper = sleeper();
        let mut guard = Guard::start(None).unwrap();
        guard.watch(sleeper.id()).unwrap();
        drop(guard);
        assert_eq!(sleeper.try_wait().unwrap(), None);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
