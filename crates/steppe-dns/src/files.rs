//! Files of lists and of hosts: read off the workers, and charged to the budget.
//!
//! Invariant: what was read is charged before it is kept, and while it is read. A file that can't be read
//! changes nothing: what was read before stays in force.

mod charge;
mod error;
mod hosts;
mod lines;
mod lists;

use steppe_mem::Budget;

use crate::config::Forwarder;
use crate::siphash::SipKey;

pub use error::FilesError;
pub(crate) use hosts::HostsInForce;
pub(crate) use lines::{for_each_line, open};
pub use lists::WhyLeftOut;
pub(crate) use lists::{Draft, ListsInForce, Reading};

/// Reads the files of a configuration, to see that they can be: lines that are broken are logged.
///
/// # Errors
/// What is wrong, and the key that says so.
pub fn check_files(config: &Forwarder) -> Result<(), (&'static str, FilesError)> {
    let lease = Budget::new(u64::MAX).root().lease();
    // Nobody asks for names that meet here.
    let key = SipKey([0, 0]);
    let reading = Reading {
        key,
        lease: &lease,
        kept: &[],
        draft: None,
    };
    let lists = ListsInForce::load(&config.lists, &reading);
    lists.map_err(|error| ("dns.list", error))?;
    let hosts = HostsInForce::load(&config.hosts, key, &lease);
    hosts.map_err(|error| ("dns.hosts", error))?;
    Ok(())
}
