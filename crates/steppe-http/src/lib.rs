//! The HTTP gateway.

pub mod config;
pub mod path;
