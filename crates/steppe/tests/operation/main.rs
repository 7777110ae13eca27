//! Operation of a node: its configuration and changes of it, everyday jobs, the commands that read it, and admin.

mod admin;
mod config;
mod jobs;
mod reload;
