//! The machine of the figures: printed with them, since they mean nothing without it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The machine as its `/proc` has it.
struct Machine {
    cores: usize,
    cpuinfo: String,
    /// The kernel's release.
    kernel: String,
    /// The load average of the last minute.
    load: String,
}

impl Machine {
    fn read() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpuinfo: fs::read_to_string("/proc/cpuinfo").unwrap_or_default(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default(),
            load: load.split(' ').next().unwrap_or("unknown").to_owned(),
        }
    }
}

/// Cores, CPU model, kernel and load average in one line.
pub fn describe() -> String {
    let machine = Machine::read();
    let (cores, cpu) = (machine.cores, cpu_model(&machine.cpuinfo));
    let (kernel, load) = (machine.kernel.trim(), &machine.load);
    format!("{cores} cores, {cpu}, Linux {kernel}, load {load} at the start")
}

/// Today in the form of an HTTP date.
#[expect(clippy::disallowed_methods, reason = "a report carries its date")]
pub fn date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

/// The same for a page of figures: date and machine, without the build of its kernel.
pub fn dated() -> String {
    let machine = Machine::read();
    let (day, cores, cpu) = (day(&date()), machine.cores, cpu_model(&machine.cpuinfo));
    let (kernel, load) = (release(&machine.kernel), &machine.load);
    let virtual_machine = match machine.cpuinfo.contains(" hypervisor") {
        true => ", virtual machine",
        false => "",
    };
    format!(
        "{day}, {cores} cores ({cpu}{virtual_machine}), Linux {kernel}, load {load} at the start"
    )
}

/// The day of an HTTP date, with the month in full.
fn day(date: &str) -> String {
    let parts: Vec<&str> = date.split(' ').collect();
    let [_, day, month, year, ..] = parts[..] else {
        return date.to_owned();
    };
    let in_full = MONTHS.iter().find(|name| name.starts_with(month));
    format!(
        "{} {} {year}",
        day.trim_start_matches('0'),
        in_full.unwrap_or(&month)
    )
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The first two numbers of a kernel's release.
fn release(kernel: &str) -> String {
    let parts: Vec<&str> = kernel.trim().splitn(3, '.').take(2).collect();
    parts.join(".")
}

/// The root of this workspace, and its target folder.
///
/// # Errors
/// When the current folder is unknown.
pub fn workspace() -> Result<(PathBuf, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().context("the bench has no parent")?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    Ok((root.to_owned(), std::path::absolute(target)?))
}

/// Raises this process's file limit as far as it may, for its children too, and returns it.
pub fn raise_file_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let ceiling = limit.maximum.unwrap_or(wanted);
    // A privileged process may lift the hard limit; if it may not, the second attempt stays below.
    for maximum in [ceiling.max(wanted), ceiling] {
        let raised = Rlimit {
            current: Some(maximum),
            maximum: Some(maximum),
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return maximum;
        }
    }
    limit.current.unwrap_or(wanted)
}

/// An installed program, also where servers are that a user's `PATH` leaves out.
///
/// # Errors
/// When it isn't installed; the package of that name is Debian's.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/local/sbin", "/usr/sbin"].map(Into::into));
    let mut candidates = folders.map(|folder| folder.join(name));
    let found = candidates.find(|candidate| candidate.is_file());
    found.with_context(|| format!("{name} is not installed (Debian: apt-get install {name})"))
}

fn cpu_model(cpuinfo: &str) -> &str {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        assert!(program("sh").expect("every system has one").is_absolute());
        let error = program("no-such-proxy")
            .expect_err("nobody has it")
            .to_string();
        let expected = "no-such-proxy is not installed (Debian: apt-get install no-such-proxy)";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_page_has_the_day_in_full_and_the_release_in_short() {
        assert_eq!(day("Sun, 06 Nov 1994 08:49:37 GMT"), "6 November 1994");
        assert_eq!(release("6.18.44-build\n"), "6.18");
        assert_eq!(release("6.1\n"), "6.1");
    }

    #[test]
    fn cpu_model_is_the_first_one_named() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(cpu_model(cpuinfo), "AMD EPYC");
        assert_eq!(cpu_model("processor\t: 0\n"), "unknown CPU");
    }
}
