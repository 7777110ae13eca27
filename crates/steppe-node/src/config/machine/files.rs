//! Checks of the token of admin, of lists, and of hosts files.

use std::fs::File;
use std::path::{Path, PathBuf};

use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Typed, valid};
use steppe_dns::config::keys as dns;

use super::problems::Problems;
use crate::config::keys::{ADMIN, DNS, admin};

/// Readers of files that belong to other parts of the node.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Checks a token file of admin; the error is the problem.
    pub read_token: fn(&Path) -> Result<(), String>,
}

pub(super) fn check(file: &Fields, machine: &Machine, mistakes: &mut Mistakes) {
    token(file, machine, mistakes);
    let Some(dns) = file.within(&DNS) else {
        return;
    };
    let hosts = dns.within(&dns::HOSTS);
    if let Some(node) = hosts.and_then(|hosts| hosts.value(&dns::HOSTS_FILES.spec)) {
        each(Problems::new(node, "`dns.hosts`".to_owned(), mistakes));
    }
    for list in dns.entries(&dns::LIST) {
        let fields = list.value.fields();
        if let Some(node) = fields.and_then(|list| list.value(&dns::LIST_FILES.spec)) {
            let name = format!("list `{}`", list.name);
            each(Problems::new(node, name, mistakes));
        }
    }
}

fn token(file: &Fields, machine: &Machine, mistakes: &mut Mistakes) {
    let admin = file.within(&ADMIN);
    let Some(node) = admin.and_then(|admin| admin.value(&admin::TOKEN_FILE.spec)) else {
        return;
    };
    let Some(path) = node.typed.value::<PathBuf>() else {
        return;
    };
    let help = "`openssl rand -hex 32` makes a token";
    let mut problems = Problems::new(node, "`admin`".to_owned(), mistakes).with_help(help);
    match open(path) {
        Err(error) => problems.unreadable(path, &error),
        Ok(()) => {
            if let Err(problem) = (machine.read_token)(path) {
                problems.unusable(Some(path), problem);
            }
        }
    }
}

/// Checks each file of a list of files.
fn each(mut problems: Problems<'_>) {
    let Typed::List(files) = &problems.node.typed else {
        return;
    };
    for (path, _) in valid::<PathBuf>(files) {
        if let Err(error) = open(path) {
            problems.unreadable(path, &error);
        }
    }
}

/// Opens a file to read; a folder can be opened, but not read.
fn open(path: &Path) -> std::io::Result<()> {
    match File::open(path)?.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(()),
    }
}
