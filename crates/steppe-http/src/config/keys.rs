//! Keys of the gateway in a configuration: their tables, what they say together, and the types that are built of them.
//!
//! Invariant: every key of a table here is read by its builder here. Non-goals: what they
//! say beside keys of other sections, which `steppe-node` judges.

use std::time::Duration;

pub mod access;
mod api_keys;
pub mod authorize;
mod basic_auth;
pub(super) mod cache;
pub mod check;
mod compress;
mod cors;
mod error_pages;
pub mod filter;
pub mod forms;
mod forward_auth;
pub mod gateway;
mod ip;
mod jwt;
pub mod listener;
mod rate_limit;
mod redirect;
mod request_id;
pub mod route;
mod security_headers;
pub mod site;
pub mod tls;
mod transform;
pub mod upstream;

/// The most of many times.
const DAY: Duration = Duration::from_secs(86_400);
