//! Checks of the machine: files, folders, addresses and ports that a configuration names.
//!
//! Invariant: each part of a configuration is judged by what loads it at a start, on its own, so
//! that everything wrong is found at once, whatever is wrong elsewhere. Non-goals: contents of
//! lists and hosts files, which take long, and the memory that they need.

mod files;
mod filters;
mod folders;
mod problems;
mod sockets;
mod tls;

use steppe_config::mistakes::Mistakes;
use steppe_config::typed::Fields;

pub use files::Machine;

/// Finds what this machine lacks of what a file names.
pub(super) fn check(file: &Fields, machine: &Machine, mistakes: &mut Mistakes) {
    tls::check(file, mistakes);
    filters::check(file, mistakes);
    files::check(file, machine, mistakes);
    folders::check(file, mistakes);
    sockets::check(file, mistakes);
}
