//! The command, as a stranger calls it: every subcommand, on real processes.

mod action;
mod compare;
mod dashboard;
mod decided;
mod ends;
mod harness;
mod looks;
mod memory;
mod metrics;
mod profiles;
mod running;
mod sickness;
#[path = "../support/skip.rs"]
mod skip;
mod try_out;
