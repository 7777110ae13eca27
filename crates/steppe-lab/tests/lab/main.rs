//! The `steppe-lab` command, from outside: every subcommand, on real processes.

mod action;
mod dashboard;
mod decided;
mod ends;
mod harness;
mod looks;
mod measured {
    //! Tests that judge times: `cargo xtask test` runs them alone, last, and again where they fail.
    mod compare;
    mod sickness;
}
mod memory;
mod metrics;
mod profiles;
mod running;
mod sickness;
mod try_out;
