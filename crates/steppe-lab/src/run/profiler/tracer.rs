//! Has Python trace its memory, by a `sitecustomize.py` that the target finds in its `PYTHONPATH`.
//!
//! A process is asked by SIGURG, which is ignored without a handler, and writes its answer into a folder
//! that only the lab's user can read. Processes with the handler are known by their mappings: the script
//! maps itself, a forked child has the mapping as it has the handler, and `exec` and the end take both away.

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::limits::{PROFILE_BYTES_MAX, PROFILE_PROCESSES_MAX};
use crate::profile::{Profile, python};
use crate::scenario::Program;

/// The folder of the script and the answers; removed on drop.
pub(in crate::run) struct Tracer {
    folder: PathBuf,
}

impl Tracer {
    pub(super) fn prepare(program: &mut Program) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("steppe-lab-tracer-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(failed)?;
        // The canonical path, as it stands in a process's mappings.
        let folder = folder.canonicalize().map_err(failed)?;
        let tracer = Self {
            folder: folder.clone(),
        };
        fs::write(folder.join(SCRIPT_NAME), SCRIPT).map_err(failed)?;
        let mut path = folder.clone().into_os_string();
        let rest = program.env.get("PYTHONPATH").map(Into::into);
        if let Some(rest) = rest.or_else(|| std::env::var_os("PYTHONPATH")) {
            path.push(":");
            path.push(rest);
        }
        let path = path.to_string_lossy().into_owned();
        program.env.insert("PYTHONPATH".to_owned(), path);
        Ok(tracer)
    }

    pub(super) fn fetch(
        &self,
        processes: &[u32],
        deadline: Instant,
        profile: &mut Profile,
    ) -> Result<(), String> {
        let traced = processes.iter().filter(|pid| self.traces(**pid));
        let traced: Vec<u32> = traced.take(PROFILE_PROCESSES_MAX).copied().collect();
        if traced.is_empty() {
            let why = "no process of the target is a Python that reads PYTHONPATH (with -I, -E or -S \
                       it does not)";
            return Err(why.to_owned());
        }
        for pid in &traced {
            if let Some(pid) = Pid::from_raw(i32::try_from(*pid).unwrap_or_default()) {
                _ = kill_process(pid, Signal::URG);
            }
        }
        for pid in traced {
            self.take(pid, deadline, profile)?;
        }
        Ok(())
    }

    /// Waits for an answer and reads it. A process that has ended meanwhile holds nothing.
    fn take(&self, pid: u32, deadline: Instant, profile: &mut Profile) -> Result<(), String> {
        let answer = self.folder.join(format!("{pid}.json"));
        while !answer.exists() {
            if !self.traces(pid) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("Python (pid {pid}) did not answer in time"));
            }
            std::thread::sleep(POLL);
        }
        let json = read(&answer).map_err(|error| format!("{}: {error}", answer.display()))?;
        _ = fs::remove_file(&answer);
        python::traced(&json, profile).map_err(|error| format!("Python (pid {pid}): {error}"))
    }

    /// True if a process has the script's handler. A process that has ended, also a zombie, has it no more.
    fn traces(&self, pid: u32) -> bool {
        let Ok(mappings) = fs::File::open(format!("/proc/{pid}/maps")) else {
            return false;
        };
        let script = self.folder.join(SCRIPT_NAME);
        let mappings = BufReader::new(mappings).split(b'\n');
        mappings
            .map_while(Result::ok)
            .any(|mapping| mapping.ends_with(script.as_os_str().as_bytes()))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = fs::symlink_metadata(path)?;
    // Opening a pipe would block.
    if !file.is_file() || file.len() > PROFILE_BYTES_MAX as u64 {
        let text = format!("not a file of at most {PROFILE_BYTES_MAX} bytes");
        return Err(std::io::Error::other(text));
    }
    let mut json = Vec::new();
    let file = fs::File::open(path)?;
    file.take(PROFILE_BYTES_MAX as u64).read_to_end(&mut json)?;
    Ok(json)
}

/// The name that Python looks for.
const SCRIPT_NAME: &str = "sitecustomize.py";
const SCRIPT: &str = include_str!("sitecustomize.py");
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const FORKS: &str = "import os, time\n\
                         child = os.fork()\n\
                         if child: print(child, flush=True)\n\
                         time.sleep(600)";

    #[test]
    fn a_forked_process_is_traced_until_it_ends_and_leaves_no_file() {
        let mut program = Program::default();
        let tracer = Tracer::prepare(&mut program).expect("a folder");
        let mut parent = Command::new("python3")
            .args(["-c", FORKS])
            .envs(&program.env)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let mut said = String::new();
        BufReader::new(parent.stdout.as_mut().expect("is piped"))
            .read_line(&mut said)
            .expect("the child's process id");
        let child: u32 = said.trim().parse().expect("a number");
        assert!(tracer.traces(parent.id()) && tracer.traces(child));
        let files = fs::read_dir(&tracer.folder).expect("is there");
        let names = files.map(|file| file.expect("a file").file_name());
        let names: Vec<_> = names.filter(|name| name != "__pycache__").collect();
        assert_eq!(names, [SCRIPT_NAME]);
        let pid = Pid::from_raw(i32::try_from(child).expect("small")).expect("not 0");
        kill_process(pid, Signal::KILL).expect("is there");
        // Its parent does not wait for the child: it stays as a zombie.
        while tracer.traces(child) {
            std::thread::sleep(POLL);
        }
        assert!(tracer.traces(parent.id()));
        parent.kill().expect("is there");
        parent.wait().expect("has ended");
    }
}
