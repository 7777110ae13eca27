//! Operation of a node: its configuration and how it changes, everyday jobs, the commands that read it, and admin.

mod admin;
mod config;
mod jobs;
mod reload;
