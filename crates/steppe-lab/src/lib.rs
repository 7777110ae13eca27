//! Soaks any server and says, in one word, whether its memory stays flat.
//!
//! A run joins load, the memory of a tree of processes, sockets, system calls and latency on one
//! clock, in a folder that anybody can read afterwards; statistics judge it against a budget. The
//! same parts serve other programs as a library: [`stats`] judges series, [`observe`] looks at
//! processes, [`load`] drives a server, [`run`] joins them, [`report`] shows what came of it.
//!
//! It knows no server in particular: other protocols come in through the `command` load.

#![forbid(unsafe_code)]

pub mod cli;
pub mod doctor;
pub mod judge;
pub mod limits;
pub mod load;
pub mod observe;
pub mod profile;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod stats;
pub mod target;
pub mod watch;
