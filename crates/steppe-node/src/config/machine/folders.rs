//! Checks of folders that a node writes to: of logs, of sockets, of the DNS cache file.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access as permitted};
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_dns::config::keys as dns;
use steppe_http::config::keys::access;
use steppe_net::ListenAddress;
use steppe_telemetry::Destination;

use crate::bind_help::SOCKET_FOLDER;
use crate::config::check;
use crate::config::keys::{DNS, LOG, log};

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    check::check_folders(file, mistakes);
    let access_log = file.within(&LOG).and_then(|log| log.within(&log::ACCESS));
    let query_log = file.within(&DNS).and_then(|dns| dns.within(&dns::LOG));
    let query_log = query_log.and_then(|log| log.within(&dns::log::QUERIES));
    let files = [
        access_log.and_then(|log| log.value(&access::FILE.spec)),
        query_log.and_then(|log| log.value(&dns::log::FILE_OF_LINES.spec)),
    ];
    for node in files.into_iter().flatten() {
        log_file(node, mistakes);
    }
    for node in check::streams(file) {
        if let Some(ListenAddress::Unix(path)) = node.typed.value() {
            let problem = problem_of(path, SOCKET_FOLDER);
            problem.into_iter().for_each(|it| it.tell(node, mistakes));
        }
    }
    snapshot(file, mistakes);
}

fn log_file(node: &Node, mistakes: &mut Mistakes) {
    let path = node.typed.value::<PathBuf>().cloned();
    if let Some(Destination::File(path)) = path.map(Destination::at) {
        let help = "create the folder of the log; a unit does it with `LogsDirectory=`";
        let problem = problem_of(&path, help);
        problem.into_iter().for_each(|it| it.tell(node, mistakes));
    }
}

/// Checks the folder of the DNS cache file. A start continues without it.
fn snapshot(file: &Fields, mistakes: &mut Mistakes) {
    let cache = file.within(&DNS).and_then(|dns| dns.within(&dns::CACHE));
    let Some(node) = cache.and_then(|cache| cache.value(&dns::SNAPSHOT.spec)) else {
        return;
    };
    let help = "create the folder of the file; a unit does it with `StateDirectory=`";
    let path = node.typed.value::<PathBuf>();
    if let Some(problem) = path.and_then(|path| problem_of(path, help)) {
        let message = format!("the DNS cache will not be kept: {}", problem.message);
        let mistake = Mistake::warning(node.span, message).label("not written");
        mistakes.push(mistake.help(problem.help));
    }
}

/// The problem of a file that can't be written.
struct Problem {
    message: String,
    help: &'static str,
    /// True if another user may have the permission.
    is_of_user: bool,
}

impl Problem {
    fn tell(self, node: &Node, mistakes: &mut Mistakes) {
        let mistake = match self.is_of_user {
            true => Mistake::note(node.span, self.message).label("not by this user"),
            false => Mistake::new(node.span, self.message).label("not there"),
        };
        mistakes.push(mistake.help(self.help));
    }
}

fn problem_of(path: &Path, help: &'static str) -> Option<Problem> {
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    let error = look(path, folder).err()?;
    let message = format!("cannot write {}: {error}", path.display());
    Some(match error.kind() {
        ErrorKind::PermissionDenied => Problem {
            message,
            help: "the user that runs the node needs write access to the folder",
            is_of_user: true,
        },
        ErrorKind::IsADirectory => Problem {
            message,
            help: "name a file",
            is_of_user: false,
        },
        _ => Problem {
            message,
            help,
            is_of_user: false,
        },
    })
}

fn look(path: &Path, folder: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(permitted(path, Access::WRITE_OK)?),
        Err(_) if !folder.metadata()?.is_dir() => Err(ErrorKind::NotADirectory.into()),
        Err(_) => Ok(permitted(folder, Access::WRITE_OK | Access::EXEC_OK)?),
    }
}
