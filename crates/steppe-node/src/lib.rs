//! The node: what joins gateway, configuration, admin and the process around them.

pub mod admin;
pub mod allocator;
pub mod demo;
pub mod memory;
