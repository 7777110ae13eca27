//! Asks Java virtual machines for their class histogram, by the `jcmd` that stands beside their `java`.
//!
//! `jcmd` asks by SIGQUIT, which ends a process that does not handle it: only machines that do are asked.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use crate::limits::{PROFILE_BYTES_MAX, PROFILE_PROCESSES_MAX};
use crate::profile::{Profile, java};

pub(super) fn fetch(
    processes: &[u32],
    deadline: Instant,
    profile: &mut Profile,
) -> Result<(), String> {
    let machines = processes.iter().filter(|pid| is_machine(**pid));
    let machines: Vec<u32> = machines.take(PROFILE_PROCESSES_MAX).copied().collect();
    if machines.is_empty() {
        return Err(
            "the target has no process `java` that can be asked (one with -Xrs can't)".to_owned(),
        );
    }
    for pid in machines {
        let text = histogram(pid, deadline)?;
        java::histogram(&text, profile).map_err(|error| format!("jcmd {pid}: {error}"))?;
    }
    Ok(())
}

fn is_machine(pid: u32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    program.ends_with("java") && catches_quit(&status)
}

/// Whether SIGQUIT (3) has a handler; `SigCgt` is a mask whose lowest bit is signal 1.
fn catches_quit(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << 2) != 0)
}

fn histogram(pid: u32, deadline: Instant) -> Result<String, String> {
    let jcmd = jcmd(pid);
    let mut child = Command::new(&jcmd)
        .args([&pid.to_string(), "GC.class_histogram"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}; it comes with a JDK", jcmd.display()))?;
    let (send, receive) = sync_channel(1);
    let reader = child.stdout.take().map(|out| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let read = out.take(PROFILE_BYTES_MAX as u64).read_to_end(&mut text);
            _ = send.send(read.map(|_| text));
        })
    });
    let answer = receive.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    // It has said everything, or is too late, or says too much.
    _ = child.kill();
    _ = child.wait();
    _ = reader.map(std::thread::JoinHandle::join);
    match answer {
        Ok(Ok(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Ok(Err(error)) => Err(format!("jcmd {pid}: {error}")),
        Err(_) => Err(format!("jcmd {pid}: no answer in time")),
    }
}

/// The one of the same JDK, else whichever is in `PATH`.
fn jcmd(pid: u32) -> PathBuf {
    let java = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let beside = java.parent().unwrap_or(Path::new("")).join("jcmd");
    if beside.is_file() {
        beside
    } else {
        PathBuf::from("jcmd")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_handle_the_signal_is_not_asked() {
        assert!(catches_quit("Name:\tjava\nSigCgt:\t0000000181005ccf\n"));
        assert!(!catches_quit("SigCgt:\t0000000000000003\n"));
        assert!(!catches_quit("Name:\tjava\n"));
        let own = std::process::id();
        let failed = fetch(&[own], Instant::now(), &mut Profile::default());
        assert!(failed.is_err_and(|why| why.contains("no process `java`")));
    }
}
