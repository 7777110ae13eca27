//! Upstreams of the DNS forwarder.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use steppe_config::typed::{Fields, Named};
use steppe_dns::config::{
    Addresses, CaseRandomization, ClientSubnet, Listener, Policy, Server, Truncated, Trust,
    Upstream,
};

use super::resolv_conf;
use crate::config::typed::ByName;

/// `listeners`: where the forwarder itself answers.
pub(super) fn upstream(entry: &Named, listeners: &[Listener]) -> Option<Upstream> {
    let upstream = entry.value.fields()?;
    let policy = match upstream.take("policy")? {
        "hedge" => Policy::Hedge,
        "race" => Policy::Race,
        "fastest" => Policy::Fastest,
        "round-robin" => Policy::RoundRobin,
        "failover" => Policy::Failover,
        _ => return None,
    };
    let max_ttl: Option<Duration> = match upstream.node("cache") {
        None => None,
        Some(cache) => Some(cache.fields()?.take("max_ttl")?),
    };
    Some(Upstream {
        name: entry.name.clone(),
        servers: servers(upstream, listeners)?,
        policy,
        concurrent: u8::try_from(upstream.take::<u64>("concurrent")?).ok()?,
        timeout: upstream.take("timeout")?,
        truncated: match upstream.take("retry_tcp")? {
            true => Truncated::AskByTcp,
            false => Truncated::Pass,
        },
        case: match upstream.take("case_randomization")? {
            true => CaseRandomization::On,
            false => CaseRandomization::Off,
        },
        addresses: match upstream.take("private")? {
            true => Addresses::Any,
            false => Addresses::Public,
        },
        max_ttl,
        trust: trust(upstream.table("tls")?)?,
        bootstrap: bootstrap(upstream)?,
        client_subnet: client_subnet(upstream)?,
    })
}

fn servers(upstream: &Fields, listeners: &[Listener]) -> Option<Vec<Server>> {
    let mut servers: Vec<Server> = upstream.optional("servers")?.unwrap_or_default();
    if let Some(path) = upstream.optional::<PathBuf>("resolv_conf")? {
        let is_own = |address: SocketAddr| {
            listeners.iter().any(|listener| {
                let own = listener.address;
                let is_any = own.ip().is_unspecified() && address.ip().is_loopback();
                own.port() == address.port() && (own.ip() == address.ip() || is_any)
            })
        };
        servers.extend(resolv_conf::servers(&path, is_own));
    }
    Some(servers)
}

fn trust(tls: &Fields) -> Option<Trust> {
    Some(Trust {
        ca: tls.optional("ca")?,
        verify: tls.take("verify")?,
        pins: tls.take("pins")?,
    })
}

fn bootstrap(upstream: &Fields) -> Option<Vec<SocketAddr>> {
    upstream.take("bootstrap")
}

fn client_subnet(upstream: &Fields) -> Option<ClientSubnet> {
    let ecs = upstream.node("ecs")?;
    let Some(fields) = ecs.fields() else {
        return ecs.typed.value().cloned();
    };
    let (ipv4, ipv6) = fields.take("add")?;
    Some(ClientSubnet::Add { ipv4, ipv6 })
}
