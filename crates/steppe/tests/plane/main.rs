//! The request plane of a whole node: calls through the gateway, its commands, TLS, and workers found in etcd.

mod calls;
mod commands;
mod encrypted;
mod etcd;
mod rules;
