//! The command, as a stranger calls it: every subcommand, on real processes.

mod action;
mod dashboard;
mod decided;
mod ends;
mod harness;
mod looks;
mod measured {
    //! What judges times: `cargo xtask test` runs it alone, last, and again where it fails.
    mod compare;
    mod sickness;
}
mod memory;
mod metrics;
mod profiles;
mod running;
mod sickness;
mod try_out;
