//! What the binary `steppe` is made of: it joins gateway, configuration, admin
//! and the process around them.
//!
//! A library so that tests and fuzz targets reach it; `main.rs` is a shell around it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

pub mod admin;
mod admin_client;
pub mod allocator;
pub mod cli;
pub mod config;
pub mod container;
pub mod demo;
mod doh;
mod key_client;
mod list_client;
pub mod memory;
pub mod node;
pub mod notify;
mod plane_upstream;
pub mod reload;
mod rlimits;
pub mod services;
pub mod top;
mod trace_export;
mod web_client;
