//! Asks Java virtual machines for their class histogram, by the `jcmd` beside their `java`.
//!
//! `jcmd` asks by SIGQUIT, which ends a process without a handler: only machines with a handler are asked.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use rustix::process::{Pid, Signal, geteuid, kill_process_group};

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
            "no process `java` of the target answers jcmd (with -Xrs, none does)".to_owned(),
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

/// True if SIGQUIT (3) has a handler; `SigCgt` is a mask whose lowest bit is signal 1.
fn catches_quit(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << 2) != 0)
}

fn histogram(pid: u32, deadline: Instant) -> Result<String, String> {
    let jcmd = jcmd(pid);
    let child = Command::new(&jcmd)
        .args([&pid.to_string(), "GC.class_histogram"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A process group of its own, so that all its children are killed with it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{}: {error}; it comes with a JDK", jcmd.display()))?;
    answer(child, deadline).map_err(|why| format!("jcmd {pid}: {why}"))
}

/// The output of a child until `deadline`. The child leads a process group, which is killed.
fn answer(mut child: Child, deadline: Instant) -> Result<String, String> {
    let (send, receive) = sync_channel(1);
    if let Some(out) = child.stdout.take() {
        // The thread is not joined: a process that left the group may keep the other end open for any time.
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let read = out.take(PROFILE_BYTES_MAX as u64).read_to_end(&mut text);
            _ = send.send(read.map(|_| text));
        });
    }
    let answer = receive.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    // The output is complete, late or too long.
    _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    _ = child.wait();
    match answer {
        Ok(Ok(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// The `jcmd` of the same JDK where only root or the lab's user can have put it there, else the one in `PATH`:
/// the target chose the place of its `java`, and its `jcmd` runs as the lab's user.
fn jcmd(pid: u32) -> PathBuf {
    let space = |who: &str| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    let own_space = space("self");
    // A path of a container names another file here.
    let is_here = own_space.is_some() && own_space == space(&pid.to_string());
    let java = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let beside = java.parent().unwrap_or(Path::new("")).join("jcmd");
    let beside = beside.canonicalize().ok();
    let beside = beside.filter(|path| is_here && path.is_file() && is_trusted(path));
    beside.unwrap_or_else(|| PathBuf::from("jcmd"))
}

/// True if only root and the lab's user can change or replace a file, whose path has no links.
fn is_trusted(file: &Path) -> bool {
    file.ancestors().enumerate().all(|(steps, path)| {
        let Ok(found) = fs::symlink_metadata(path) else {
            return false;
        };
        let is_ours = [0, geteuid().as_raw()].contains(&found.uid());
        // In a folder with the sticky bit, as /tmp, only the owner of a folder may replace it.
        let is_sticky = steps > 1 && found.mode() & 0o1000 != 0;
        is_ours && (is_sticky || found.mode() & 0o022 == 0)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::kill_process;

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

    #[test]
    fn a_program_that_others_can_replace_is_not_trusted() {
        let name = format!("steppe-lab-trusted-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let file = folder.join("jcmd");
        fs::write(&file, "").unwrap();
        let trusted = |folder_mode, file_mode| {
            fs::set_permissions(&folder, Permissions::from_mode(folder_mode)).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
            is_trusted(&file)
        };
        assert!(trusted(0o755, 0o755));
        assert!(!trusted(0o755, 0o775) && !trusted(0o755, 0o757));
        assert!(!trusted(0o775, 0o755) && !trusted(0o1777, 0o755));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_keeps_the_output_of_jcmd_is_not_waited_for() {
        let name = format!("steppe-lab-keeper-{}", std::process::id());
        let note = std::env::temp_dir().join(name);
        _ = fs::remove_file(&note);
        let script = "setsid sh -c 'echo $$ > \"$0\"; exec sleep 60' \"$0\" & wait";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(&note)
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let keeper = loop {
            let text = fs::read_to_string(&note).unwrap_or_default();
            if text.ends_with('\n') {
                break Pid::from_raw(text.trim().parse().unwrap()).unwrap();
            }
            std::thread::yield_now();
        };
        let failed = answer(child, Instant::now());
        assert_eq!(failed.unwrap_err(), "no answer in time");
        // This fails if the keeper has ended, which means that `answer` waited for it.
        kill_process(keeper, Signal::KILL).unwrap();
        fs::remove_file(&note).unwrap();
    }
}
