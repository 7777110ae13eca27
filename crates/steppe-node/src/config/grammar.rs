//! Strings of a configuration.
//!
//! Invariant: text that reads is within the grammar and its bounds; nothing is guessed.

use steppe_config::form::{Read, Refusal};
use steppe_net::config::forms::{decimal_port, network, server_name};

mod dns;
mod filter;
mod plane;
mod trace;

pub(super) use dns::records::{dns_client_id, dns_record, hours, name_patterns, time_zone, url};
pub(super) use dns::{clients, dns_bootstrap, dns_name, dns_server, dns_type, subnet_prefixes};
pub(super) use filter::{
    json, member_path, origin, pattern, rate_key, rate_store, text_source, token_source,
};
pub(super) use plane::{etcd_endpoint, etcd_prefix, services};
pub(super) use trace::collector;
