//! Finds the files that a scenario names and that do not exist, before anything is started.
//!
//! Left out: files that a program finds by itself (its arguments), and libraries without a path, which
//! the loader finds.

use std::io;
use std::path::Path;

use super::environment::program;
use crate::scenario::{LoadKind, Program, Scenario};
use crate::target::{executable, preloadable};

/// A file that a run would not find, or may not run.
#[derive(Debug, thiserror::Error)]
#[error("{key} names {file}: {source}")]
pub struct Missing {
    /// Key in the scenario, in quotes, with the name of its table.
    pub key: String,
    /// The file as the scenario has it.
    pub file: String,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

/// All missing files, in the order of the scenario.
pub fn missing(scenario: &Scenario) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut look = |key: String, file: String, found: io::Result<()>| {
        let is_new = |key: &str| missing.iter().all(|known: &Missing| known.key != key);
        if let Err(source) = found
            && is_new(&key)
        {
            missing.push(Missing { key, file, source });
        }
    };
    for variant in &scenario.variants {
        let name = &variant.name;
        let Some(target) = scenario.target.command() else {
            break;
        };
        let key = match variant.cmd {
            Some(_) => format!("`cmd` of variant `{name}`"),
            None => "`target.cmd`".to_owned(),
        };
        let command = program(target, variant);
        look(key, first(&command), found(&command));
        if let Some(preload) = &variant.preload {
            let key = format!("`preload` of variant `{name}`");
            look(key, shown(preload), preloadable(preload));
        }
    }
    for service in &scenario.services {
        let key = format!("`cmd` of service `{}`", service.name);
        look(key, first(&service.command), found(&service.command));
    }
    for load in &scenario.loads {
        if let LoadKind::Command(command) = &load.kind {
            // A path is relative to where the lab was started, wherever the program is to run.
            let command = Program {
                cwd: None,
                ..command.command.clone()
            };
            let key = format!("`cmd` of load `{}`", load.name);
            look(key, first(&command), found(&command));
        }
    }
    let leaks = scenario.leaks.as_ref();
    let target = scenario.target.command();
    if let (Some(cmd), Some(target)) = (leaks.and_then(|leaks| leaks.command.clone()), target) {
        let command = Program {
            cmd,
            ..target.clone()
        };
        look("`leaks.cmd`".to_owned(), first(&command), found(&command));
    }
    missing
}

fn found(program: &Program) -> io::Result<()> {
    executable(program).map(|_| ())
}

fn first(program: &Program) -> String {
    program.cmd.first().cloned().unwrap_or_default()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
