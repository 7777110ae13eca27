//! Files of lists and of hosts: read off the workers, and charged to the budget.
//!
//! Invariant: the contents of files are charged while they are read, and before they are kept. A file that
//! can't be read changes nothing: the contents that were read before stay in force.

mod charge;
mod error;
mod hosts;
mod lines;
mod lists;

pub use error::FilesError;
pub(crate) use hosts::HostsInForce;
pub(crate) use lines::{for_each_line, open};
pub use lists::WhyLeftOut;
pub(crate) use lists::{Draft, ListsInForce, Reading};
