//! Commands that run several at a time: test programs, and the further jobs of the tests' step.
//!
//! Each writes its output to a file of its own, so that lines never mix, and is shown when it has ended: in one line
//! where it passed, whole where it failed. A job that runs long is named once a minute.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::libtest::{TestCounts, failed_tests};
use crate::process;
use crate::report::Timing;

/// A command with a name.
pub struct Job {
    /// As it is shown; its output lies in a file of this name.
    pub name: String,
    /// The command itself. Its output goes to the file.
    pub command: Command,
}

/// A job that has ended.
pub struct Ended {
    /// The job's.
    pub name: String,
    /// Its duration, and CPU-seconds with those of the children that it waited for.
    pub timing: Timing,
    /// True when it exited with 0.
    pub succeeded: bool,
    /// Sums of the harness's result lines; none for other commands.
    pub counts: TestCounts,
    /// Names of tests that failed.
    pub failed: Vec<String>,
    /// Its output.
    pub said: String,
}

/// Runs the jobs, the first first, `lanes` at a time; `seen` has each as it ends.
///
/// # Errors
/// A job can't be started, or its output can't be kept.
pub fn run(jobs: Vec<Job>, lanes: usize, mut seen: impl FnMut(&Ended)) -> Result<Vec<Ended>> {
    let queue = Mutex::new(VecDeque::from(jobs));
    let running = Mutex::new(BTreeMap::new());
    let (sender, ends) = mpsc::sync_channel::<Result<Ended>>(lanes);
    thread::scope(|scope| {
        for _ in 0..lanes {
            let (sender, queue, running) = (sender.clone(), &queue, &running);
            scope.spawn(move || {
                loop {
                    let next = queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(job) = next else { return };
                    note(running, |running| {
                        running.insert(job.name.clone(), Instant::now());
                    });
                    let name = job.name.clone();
                    let ended = job.run();
                    note(running, |running| {
                        running.remove(&name);
                    });
                    if sender.send(ended).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Of this closure, so that a lane that sends after an error is not waited for.
        let ends = ends;
        let mut all = Vec::new();
        loop {
            match ends.recv_timeout(SILENCE) {
                Ok(ended) => {
                    let ended = match ended {
                        Ok(ended) => ended,
                        Err(error) => {
                            // The lanes end after their present jobs, whose results are dropped.
                            queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                            drop(ends);
                            return Err(error);
                        }
                    };
                    seen(&ended);
                    all.push(ended);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    note(&running, |running| println!("{}", still_running(running)));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(all),
            }
        }
    })
}

/// After so long without an end, the jobs that run are named.
const SILENCE: Duration = Duration::from_secs(60);

type Running = BTreeMap<String, Instant>;

fn note(running: &Mutex<Running>, work: impl FnOnce(&mut Running)) {
    work(&mut running.lock().unwrap_or_else(PoisonError::into_inner));
}

fn still_running(running: &Running) -> String {
    let jobs = running.iter();
    let jobs = jobs.map(|(name, since)| format!("{name} ({} s)", since.elapsed().as_secs()));
    format!("still running: {}", jobs.collect::<Vec<_>>().join(", "))
}

impl Job {
    /// Runs it to its end.
    ///
    /// # Errors
    /// It can't be started, or its output can't be kept.
    pub fn run(mut self) -> Result<Ended> {
        let log = log_file(&self.name)?;
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        self.command.stdin(Stdio::null());
        self.command.stdout(file.try_clone()?).stderr(file);
        let start = Instant::now();
        let child = self.command.spawn();
        let child = child.with_context(|| format!("cannot start {}", self.name))?;
        let (status, cpu_seconds) = wait(child)?;
        let seconds = start.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok(Ended {
            timing: Timing {
                name: self.name.clone(),
                seconds,
                cpu_seconds,
            },
            name: self.name,
            succeeded: status.success(),
            counts: TestCounts::of(&said),
            failed: failed_tests(&said),
            said,
        })
    }
}

impl Ended {
    /// One line that says how it ended.
    pub fn line(&self) -> String {
        let verdict = if self.succeeded { "ok" } else { "FAILED" };
        let tests = match self.counts {
            TestCounts {
                passed: 0,
                failed: 0,
            } => String::new(),
            TestCounts { passed, failed } => format!(": {passed} passed, {failed} failed"),
        };
        let seconds = self.timing.seconds;
        format!("{verdict:6} {}{tests} ({seconds:.1} s)", self.name)
    }
}

/// Waits for a child; its status, and seconds of processors of it and of all children that it waited for.
fn wait(mut child: Child) -> Result<(ExitStatus, Option<f64>)> {
    // It stays until it is waited for below, and with it its account in /proc.
    let pid = Pid::from_child(&child);
    let _ = waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    );
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()));
    let cpu = stat.ok().and_then(|stat| process::cpu_seconds_of(&stat));
    Ok((child.wait()?, cpu))
}

/// Where the output of a job lies.
fn log_file(name: &str) -> Result<PathBuf> {
    let folder = process::target_directory().join("test-output");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{}.log", file_name(name))))
}

/// A job's name as the name of a file.
pub fn file_name(name: &str) -> String {
    name.replace(['/', ' ', ':', '(', ')'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job {
            name: name.to_owned(),
            command,
        }
    }

    #[test]
    fn each_job_has_its_end_and_its_processor_time() {
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let jobs = vec![
            shell("jobs test: spins", &format!("({spin}); echo done")),
            shell(
                "jobs test: fails",
                "echo; echo failures:; echo '    a::b'; echo; \
                 echo 'test result: FAILED. 2 passed; 1 failed'; exit 1",
            ),
        ];
        let mut seen = Vec::new();
        let mut ended = run(jobs, 2, |ended| seen.push(ended.name.clone())).unwrap();
        ended.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(seen.len(), 2);
        let [fails, spins] = &ended[..] else {
            panic!("two jobs")
        };
        assert!(spins.succeeded && spins.said == "done\n", "{}", spins.said);
        assert!(spins.timing.cpu_seconds.is_some_and(|cpu| cpu > 0.0));
        assert!(!fails.succeeded);
        assert_eq!((fails.counts.passed, fails.counts.failed), (2, 1));
        assert_eq!(fails.failed, ["a::b"]);
        assert!(
            fails
                .line()
                .starts_with("FAILED jobs test: fails: 2 passed, 1 failed")
        );
    }

    #[test]
    fn jobs_behind_one_that_can_not_be_started_are_given_up() {
        let missing = Job {
            name: "jobs test: first".to_owned(),
            command: Command::new("no-such-program-of-ours"),
        };
        let others = (0..9).map(|number| shell(&format!("jobs test: other {number}"), "true"));
        let jobs = std::iter::once(missing).chain(others).collect();
        assert!(run(jobs, 2, |_| ()).is_err());
    }

    #[test]
    fn a_command_that_is_not_there_is_an_error() {
        let job = Job {
            name: "jobs test: missing".to_owned(),
            command: Command::new("no-such-program-of-ours"),
        };
        assert!(job.run().is_err());
    }
}
