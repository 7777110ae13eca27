//! The forwarder of a whole node, queried by its own commands, by scripted peers and by other programs.

mod chain;
mod clients;
mod commands;
mod connections;
mod examples;
mod fetched_lists;
mod flood;
mod forwarder;
mod leaving;
mod listeners;
mod outage;
mod query_secure;
