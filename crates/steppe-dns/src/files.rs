//! Files of lists and of hosts: read off the workers, and charged to the budget.
//!
//! Invariant: what was read is charged before it is kept, and while it is read. A file that can't be read
//! changes nothing: what was read before stays in force.

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
