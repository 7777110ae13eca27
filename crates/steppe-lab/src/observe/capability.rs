//! Capabilities: the figures of a target that can be read, found by trying on the target itself.

use std::fs::File;
use std::path::Path;

use super::Observer;
use super::perf::CountError;
use crate::record::Capability;

/// One capability, and the part of a verdict that is lost without it.
pub(crate) fn capability(name: &str, found: Result<String, String>) -> Capability {
    let lost = LOST
        .iter()
        .find(|(of, _)| *of == name)
        .map_or("", |(_, lost)| lost);
    Capability {
        name: name.to_owned(),
        available: found.is_ok(),
        detail: found.unwrap_or_else(|reason| reason),
        lost: lost.to_owned(),
    }
}

pub(super) fn of_target(observer: &mut Observer) -> Vec<Capability> {
    let slow = observer.slow();
    let seen = |is_seen: bool, how: &str, else_: &str| {
        if is_seen {
            Ok(how.to_owned())
        } else {
            Err(else_.to_owned())
        }
    };
    let processes = if observer.tree.is_cut() {
        let max = crate::limits::PROCESSES_MAX;
        Err(format!("the tree has more than {max} processes"))
    } else {
        Ok("parent links of /proc, and members of the target's own group".to_owned())
    };
    let is_seen = slow.rss_bytes.is_some();
    let other_user = "no permission to read its files in /proc; run as the same user or as root";
    let many = "the target has too many threads";
    let charge = slow.cgroup.unwrap_or_default();
    vec![
        capability("processes", processes),
        capability(
            "rss",
            seen(is_seen, "/proc/PID/statm", "no process is left"),
        ),
        capability("smaps", smaps(observer)),
        capability("hwm", high_water(observer)),
        capability(
            "cpu",
            seen(is_seen, observer.cpu_source(), "no process is left"),
        ),
        capability(
            "switches",
            seen(
                slow.voluntary_switches.is_some(),
                "/proc/PID/task/TID/status",
                many,
            ),
        ),
        capability(
            "open_files",
            seen(slow.open_files.is_some(), "/proc/PID/fd", other_user),
        ),
        capability(
            "sockets",
            seen(
                slow.sockets.is_some(),
                "/proc/PID/net/tcp and tcp6, matched with /proc/PID/fd",
                other_user,
            ),
        ),
        capability("syscalls", counted(&observer.syscalls, slow.syscalls)),
        capability(
            "instructions",
            counted(&observer.instructions, slow.instructions),
        ),
        capability("cgroup", group(observer, charge.bytes)),
        capability("cgroup_sock", group(observer, charge.sock_bytes)),
    ]
}

fn smaps(observer: &mut Observer) -> Result<String, String> {
    let living: Vec<u32> = observer.tree.living().collect();
    for pid in living {
        if let Err(error) = observer.reader.process(pid, "smaps_rollup")
            && exists(pid)
        {
            return Err(format!(
                "smaps_rollup of {pid} is refused ({error}), so anonymous memory and swap come from \
                 status; run as the same user with CAP_SYS_PTRACE, or as root"
            ));
        }
    }
    Ok("/proc/PID/smaps_rollup, in quiet moments only".to_owned())
}

fn high_water(observer: &Observer) -> Result<String, String> {
    for pid in observer.tree.living() {
        // Permission to open the file for writing is the test; opening it resets nothing.
        let opened = File::options()
            .write(true)
            .open(format!("/proc/{pid}/clear_refs"));
        if let Err(error) = opened
            && exists(pid)
        {
            return Err(format!(
                "clear_refs of {pid} is refused ({error}), so VmHWM can't be reset; run as the same \
                 user or as root"
            ));
        }
    }
    Ok("VmHWM, reset by /proc/PID/clear_refs".to_owned())
}

/// True while the process exists: then its file was refused, rather than gone.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
}

fn counted<T>(slot: &Option<Result<T, CountError>>, value: Option<u64>) -> Result<String, String> {
    match (slot, value) {
        (None, _) => Err("not asked for".to_owned()),
        (Some(Err(error)), _) => Err(error.to_string()),
        (Some(Ok(_)), None) => Err("its counters can't be read".to_owned()),
        (Some(Ok(_)), Some(_)) => Ok("perf events, inherited by the whole tree".to_owned()),
    }
}

fn group(observer: &Observer, bytes: Option<u64>) -> Result<String, String> {
    let place = observer.group.as_ref().map_err(Clone::clone)?;
    let path = place.path.display();
    match bytes {
        Some(_) => Ok(format!("{path}")),
        None => Err(format!("{path} has no such figure")),
    }
}

const LOST: &[(&str, &str)] = &[
    (
        "processes",
        "memory of some processes is missing in every figure",
    ),
    ("rss", "there is no verdict on memory"),
    (
        "smaps",
        "no PSS and USS: pages that processes share are counted for each",
    ),
    (
        "hwm",
        "growth under load that is gone at the quiet moment is seen only by samples",
    ),
    ("cpu", "no CPU time per operation"),
    ("switches", "no context switches per operation"),
    ("open_files", "a leak of file descriptors is not seen"),
    ("sockets", "sockets stuck in CLOSE_WAIT are not seen"),
    ("syscalls", "no system calls per operation"),
    (
        "instructions",
        "no instructions per operation: compare CPU time instead",
    ),
    (
        "cgroup",
        "page cache and kernel memory of the target are not seen",
    ),
    ("cgroup_sock", "memory in socket buffers is not seen"),
    (
        "governor",
        "CPU time and latency may change with the clock, not the target",
    ),
    (
        "thp",
        "steps in memory that no allocation made; slopes take longer to settle",
    ),
    (
        "file_limit",
        "connections and counters are refused when there are many",
    ),
    (
        "cpus",
        "target and generator slow each other down: latency means less",
    ),
    (
        "load",
        "latency and CPU time are noisier; memory is not affected",
    ),
    ("valgrind", "`leaks` needs a sanitizer build of the target"),
    (
        "swap",
        "memory that was swapped out is counted, but answers slowly",
    ),
    ("overcommit", "allocations may fail that succeed elsewhere"),
];
