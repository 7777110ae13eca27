//! The machine, and conditions on it that make measurements noisy.

use std::fs;
use std::process::Command;

use rustix::process::{Resource, getrlimit};

use crate::limits::FILE_LIMIT_WANTED;
use crate::observe::capability::capability;
use crate::observe::cgroup::{Place, Version};
use crate::record::{Capability, Machine};

/// Kernel, CPUs, memory and settings of this machine.
pub fn machine() -> Machine {
    let cpu = read("/proc/cpuinfo");
    let version = Place::of_process(std::process::id()).map(|place| place.version);
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu_model: cpu.as_deref().and_then(cpu_model),
        cpus: cpus(),
        memory_bytes: read("/proc/meminfo")
            .and_then(|text| meminfo_bytes(&text, "MemTotal"))
            .unwrap_or_default(),
        governor: read(GOVERNOR),
        transparent_huge_pages: read(HUGE_PAGES).as_deref().and_then(chosen),
        cgroup: version.map(|version| match version {
            Version::V1 => "v1".to_owned(),
            Version::V2 => "v2".to_owned(),
        }),
        load_average: read("/proc/loadavg").as_deref().and_then(load_average),
    }
}

/// Conditions of this machine that could disturb a measurement. "Available" means that the condition does not.
pub(super) fn surroundings() -> Vec<Capability> {
    let machine = machine();
    vec![
        capability("governor", governor(machine.governor.as_deref())),
        capability("thp", huge_pages(machine.transparent_huge_pages.as_deref())),
        capability(
            "file_limit",
            file_limit(getrlimit(Resource::Nofile).current),
        ),
        capability("cpus", enough_cpus(machine.cpus)),
        capability("load", idle(machine.load_average, machine.cpus)),
        capability("valgrind", valgrind()),
        capability("swap", swap(read("/proc/meminfo").as_deref())),
        capability("overcommit", overcommit(read(OVERCOMMIT).as_deref())),
    ]
}

fn governor(governor: Option<&str>) -> Result<String, String> {
    match governor {
        Some("performance") => Ok("performance".to_owned()),
        Some(other) => Err(format!(
            "{other}; `cpupower frequency-set -g performance` keeps the clock steady"
        )),
        None => Err("unknown (common on virtual machines)".to_owned()),
    }
}

fn huge_pages(setting: Option<&str>) -> Result<String, String> {
    match setting {
        Some("always") => Err(format!(
            "always: memory grows in steps of 2 MiB; `echo madvise > {HUGE_PAGES}`"
        )),
        Some(other) => Ok(other.to_owned()),
        None => Ok("not supported by this kernel".to_owned()),
    }
}

fn file_limit(limit: Option<u64>) -> Result<String, String> {
    match limit {
        Some(limit) if limit < FILE_LIMIT_WANTED => Err(format!(
            "{limit} open files; `ulimit -n {FILE_LIMIT_WANTED}` before the lab is started"
        )),
        Some(limit) => Ok(format!("{limit} open files")),
        None => Ok("no limit".to_owned()),
    }
}

fn enough_cpus(cpus: u32) -> Result<String, String> {
    if cpus >= CPUS_WANTED {
        return Ok(format!("{cpus} CPUs"));
    }
    Err(format!(
        "{cpus} CPUs, shared by target and generator; keep the load well below their capacity"
    ))
}

fn idle(load_average: Option<f64>, cpus: u32) -> Result<String, String> {
    let load = load_average.ok_or("unknown")?;
    let text = format!("{load:.2} in the last minute");
    if load <= f64::from(cpus) * LOAD_SHARE_MAX {
        Ok(text)
    } else {
        Err(format!(
            "{text}: other processes use the CPUs; wait, or stop them"
        ))
    }
}

fn valgrind() -> Result<String, String> {
    let output = Command::new("valgrind").arg("--version").output();
    let version = output.ok().filter(|it| it.status.success());
    let version = version.ok_or("not installed (package `valgrind`)")?;
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

fn swap(meminfo: Option<&str>) -> Result<String, String> {
    let meminfo = meminfo.ok_or("unknown")?;
    let total = meminfo_bytes(meminfo, "SwapTotal").unwrap_or_default();
    let free = meminfo_bytes(meminfo, "SwapFree").unwrap_or_default();
    let used_mib = total.saturating_sub(free) >> 20;
    match (total, used_mib) {
        (0, _) => Ok("none".to_owned()),
        (_, 0) => Ok("none in use".to_owned()),
        _ => Err(format!(
            "{used_mib} MiB in use; `swapoff -a` while it is measured"
        )),
    }
}

fn overcommit(setting: Option<&str>) -> Result<String, String> {
    match setting {
        Some("2") => Err(
            "strict: reserved memory counts, not used memory; `sysctl vm.overcommit_memory=0`"
                .to_owned(),
        ),
        Some(other) => Ok(format!("vm.overcommit_memory = {other}")),
        None => Err("unknown".to_owned()),
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

fn load_average(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The setting that is chosen: the word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";
/// Fewest CPUs without a remark: two for the target and two for the load.
const CPUS_WANTED: u32 = 4;
/// Highest load average of an idle machine, as a share of its CPUs.
const LOAD_SHARE_MAX: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_found() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("madvise"), None);
        let meminfo = "MemTotal:       24684092 kB\nSwapTotal:  4 kB\nSwapFree: 4 kB\n";
        assert_eq!(meminfo_bytes(meminfo, "MemTotal"), Some(24_684_092 << 10));
        assert_eq!(meminfo_bytes(meminfo, "Mem"), None);
        assert_eq!(load_average("1.81 1.02 0.89 2/96 31485"), Some(1.81));
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU @ 2 GHz"));
    }

    #[test]
    fn what_disturbs_is_said_with_what_to_do() {
        let lacks = [
            governor(Some("powersave")),
            huge_pages(Some("always")),
            file_limit(Some(1024)),
            idle(Some(1.5), 4),
            swap(Some("SwapTotal: 9000 kB\nSwapFree: 1000 kB\n")),
            overcommit(Some("2")),
        ];
        for (lack, needle) in lacks.into_iter().zip([
            "cpupower",
            "madvise",
            "ulimit -n",
            "other processes use",
            "swapoff",
            "sysctl",
        ]) {
            let text = lack.unwrap_err();
            assert!(text.contains(needle), "{text}");
        }
        assert!(enough_cpus(2).is_err());
        assert!(governor(None).is_err());
    }

    #[test]
    fn what_does_not_disturb_is_well() {
        assert!(governor(Some("performance")).is_ok());
        assert!(huge_pages(Some("never")).is_ok());
        assert!(file_limit(None).is_ok());
        assert!(enough_cpus(8).is_ok());
        assert!(idle(Some(0.2), 2).is_ok());
        assert!(swap(Some("SwapTotal: 0 kB\nSwapFree: 0 kB\n")).is_ok());
        assert!(overcommit(Some("1")).is_ok());
    }

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let machine = machine();
        assert!(machine.memory_bytes > 0);
        assert!(machine.cpus > 0);
        assert!(!machine.kernel.is_empty());
    }
}
