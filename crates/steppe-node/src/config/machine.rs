//! Checks of the machine: files, folders, addresses and ports that a configuration names.
//!
//! Invariant: each part of a configuration is checked by the code that loads it at a start, on its
//! own, so that all mistakes are found at once. Non-goals: contents of lists and hosts files, which
//! take long, and the memory that they need.

mod files;
mod filters;
mod folders;
mod problems;
mod sockets;
mod tls;

use steppe_config::mistakes::Mistakes;
use steppe_config::typed::Fields;

pub use files::Machine;

/// Reports the files, folders and addresses of a file that this machine lacks.
pub(super) fn check(file: &Fields, machine: &Machine, mistakes: &mut Mistakes) {
    tls::check(file, mistakes);
    filters::check(file, mistakes);
    files::check(file, machine, mistakes);
    folders::check(file, mistakes);
    sockets::check(file, mistakes);
}
