//! `doctor`: measurements that this machine allows, the cost of each missing one for a verdict, and its remedy.
//!
//! Nothing is concluded from version numbers: a child process is started like a target, in a control group of its
//! own, and every measurement is tried on it.

mod machine;

use std::io::{self, BufRead as _, BufReader, Write};
use std::process::{Child, Command, Stdio};

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

use crate::limits::TABLE_COLUMNS_MAX;
use crate::observe::capability::capability;
use crate::observe::cgroup::{Group, own_group};
use crate::observe::{Observer, Wanted};
use crate::record::{Capability, Machine};

pub use machine::machine;

/// Output format of `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: `machine` and `capabilities`, as in `manifest.json`.
    Json,
}

/// Capabilities of the lab on this machine: measurements of a target, and conditions of the machine.
pub fn examine() -> Vec<Capability> {
    let mut capabilities = of_a_target();
    capabilities.extend(machine::surroundings());
    capabilities
}

/// Prints the machine and its capabilities.
///
/// # Errors
/// When `out` can't be written.
pub fn print(
    machine: &Machine,
    capabilities: &[Capability],
    format: Format,
    out: &mut impl Write,
) -> io::Result<()> {
    match format {
        Format::Json => {
            let report = serde_json::json!({ "machine": machine, "capabilities": capabilities });
            writeln!(out, "{report:#}")
        }
        Format::Table => {
            let columns = ratatui::crossterm::terminal::size().map_or(TABLE_COLUMNS_MAX, |it| it.0);
            writeln!(out, "{}\n", in_short(machine))?;
            writeln!(out, "{}", table(capabilities, columns))?;
            let lacks = capabilities.iter().filter(|it| !it.available).count();
            match lacks {
                0 => writeln!(out, "\nNothing is missing."),
                1 => writeln!(
                    out,
                    "\nOne capability is missing; verdicts are possible without it."
                ),
                _ => writeln!(
                    out,
                    "\n{lacks} capabilities are missing; verdicts are possible without them."
                ),
            }
        }
    }
}

fn in_short(machine: &Machine) -> String {
    let cpu = machine
        .cpu_model
        .as_deref()
        .unwrap_or("CPU of unknown model");
    let memory_mib = machine.memory_bytes >> 20;
    format!(
        "Linux {} {}, {} CPUs ({cpu}), {memory_mib} MiB",
        machine.kernel, machine.architecture, machine.cpus
    )
}

fn table(capabilities: &[Capability], columns: u16) -> String {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns.min(TABLE_COLUMNS_MAX))
        .set_header(["", "capability", "source, or remedy"]);
    for capability in capabilities {
        let (mark, text) = if capability.available {
            ("ok", capability.detail.clone())
        } else {
            let (detail, lost) = (&capability.detail, &capability.lost);
            ("missing", format!("{detail}\nwithout it: {lost}"))
        };
        table.add_row([mark, &capability.name, &text]);
    }
    table.trim_fmt()
}

/// Capabilities for a target, tried on a child process.
fn of_a_target() -> Vec<Capability> {
    let grouped = own_group("doctor")
        .map_err(|error| error.to_string())
        .and_then(|group| {
            let place = group.path().display().to_string();
            let patient = Patient::start(Some(group));
            patient.ok_or_else(|| format!("a process can't be moved into {place}"))
        });
    let (patient, no_group) = match grouped {
        Ok(patient) => (Some(patient), None),
        Err(reason) => (Patient::start(None), Some(reason)),
    };
    let mut capabilities = patient.map_or_else(
        || vec![capability("rss", Err("`sh` can't be started".to_owned()))],
        |patient| patient.examine(),
    );
    if let Some(reason) = no_group {
        for lack in &mut capabilities {
            if lack.name.starts_with("cgroup") {
                *lack = capability(&lack.name, Err(reason.clone()));
            }
        }
    }
    capabilities
}

/// A child process to try measurements on. Dropped, it is killed, and its control group removed.
struct Patient {
    child: Child,
    group: Option<Group>,
}

impl Patient {
    fn start(group: Option<Group>) -> Option<Self> {
        let mut words = group.as_ref().map(Group::join_command).unwrap_or_default();
        words.extend(["sh", "-c", "echo; exec cat"].map(str::to_owned));
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut patient = Self { child, group };
        // The child prints a line once it is in its control group, or ends.
        let output = patient.child.stdout.take()?;
        let read = BufReader::new(output).read_line(&mut String::new());
        matches!(read, Ok(1..)).then_some(patient)
    }

    fn examine(&self) -> Vec<Capability> {
        let wanted = Wanted {
            syscalls: true,
            instructions: true,
            cgroup: self.group.as_ref().map(|group| group.path().to_owned()),
        };
        match Observer::attach(&[self.child.id()], wanted) {
            Ok(mut observer) => observer.capabilities(),
            Err(error) => vec![capability("rss", Err(error.to_string()))],
        }
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        // A child that could not join its group has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_tried_and_every_lack_is_explained() {
        let capabilities = examine();
        let names: Vec<&str> = capabilities.iter().map(|it| it.name.as_str()).collect();
        for name in [
            "rss",
            "smaps",
            "hwm",
            "syscalls",
            "instructions",
            "cgroup",
            "cgroup_sock",
            "sockets",
            "governor",
            "thp",
            "file_limit",
            "cpus",
            "load",
            "valgrind",
            "swap",
            "overcommit",
        ] {
            assert_eq!(names.iter().filter(|it| **it == name).count(), 1, "{name}");
        }
        for it in &capabilities {
            assert!(!it.detail.is_empty(), "{it:?}");
            assert!(!it.lost.is_empty(), "{it:?}");
        }
        // A process may always read these of its own child.
        for name in ["processes", "rss", "cpu", "open_files"] {
            assert!(
                capabilities
                    .iter()
                    .any(|it| it.name == name && it.available)
            );
        }
    }

    #[test]
    fn a_table_says_what_each_lack_costs() {
        let lack = capability("syscalls", Err("perf is refused; be root".to_owned()));
        let seen = capability("rss", Ok("/proc/PID/statm".to_owned()));
        let text = table(&[lack, seen], 60);
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        assert!(text.contains("perf is refused; be root"), "{text}");
        assert!(
            text.contains("without it: no system calls per operation"),
            "{text}"
        );
        assert_eq!(text.matches("without it").count(), 1);
    }

    #[test]
    fn json_is_what_a_manifest_says() {
        let machine = machine();
        let lack = capability("smaps", Err("refused".to_owned()));
        let mut out = Vec::new();
        print(
            &machine,
            std::slice::from_ref(&lack),
            Format::Json,
            &mut out,
        )
        .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let back: Machine = serde_json::from_value(report["machine"].clone()).unwrap();
        assert_eq!(back, machine);
        let back: Vec<Capability> = serde_json::from_value(report["capabilities"].clone()).unwrap();
        assert_eq!(back, [lack]);
    }
}
