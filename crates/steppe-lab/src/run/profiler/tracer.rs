//! Has Python trace its memory, by a `sitecustomize.py` that the target finds in its `PYTHONPATH`.
//!
//! A process is asked by SIGURG, which whoever has no handler ignores, and writes its answer into a folder
//! that only the lab's user can read.

use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::limits::{PROFILE_BYTES_MAX, PROFILE_PROCESSES_MAX};
use crate::profile::{Profile, python};
use crate::scenario::Program;

/// Its folder, which is removed when it is dropped.
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
        let tracer = Self {
            folder: folder.clone(),
        };
        fs::write(folder.join("sitecustomize.py"), SCRIPT).map_err(failed)?;
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
        let has_tracer = |pid: &&u32| self.folder.join(format!("{pid}.traced")).exists();
        let traced = processes.iter().filter(has_tracer);
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
            if !is_alive(pid) {
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
}

impl Drop for Tracer {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = fs::symlink_metadata(path)?;
    // A pipe would be waited for.
    if !file.is_file() || file.len() > PROFILE_BYTES_MAX as u64 {
        let text = format!("not a file of at most {PROFILE_BYTES_MAX} bytes");
        return Err(std::io::Error::other(text));
    }
    let mut json = Vec::new();
    let file = fs::File::open(path)?;
    file.take(PROFILE_BYTES_MAX as u64).read_to_end(&mut json)?;
    Ok(json)
}

const SCRIPT: &str = include_str!("sitecustomize.py");
const POLL: Duration = Duration::from_millis(20);
