//! The configuration and the commands that read it: accepted files, refused files, and their reports.

mod broken;
mod broken_output;
mod cli;
mod dns_rules;
mod dns_upstreams;
mod documents;
mod embedded_default;
mod examples;
mod log_messages;
mod machine;
mod memory;
mod observability;
mod open_files;
mod operations;
mod random;
mod schema;
mod sites;
