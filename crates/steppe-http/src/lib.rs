//! The HTTP gateway.

pub mod config;
pub mod limits;
pub mod path;
