//! Operation of a node: its configuration and how it changes, the commands that read it, and admin.

mod admin;
mod config;
mod reload;
