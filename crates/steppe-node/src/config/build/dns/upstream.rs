//! Upstreams of the DNS forwarder.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use std::net::SocketAddr;
use std::time::Duration;

use steppe_dns::config::{
    Addresses, CaseRandomization, ClientSubnet, Policy, Truncated, Trust, Upstream,
};

use crate::config::grammar;
use crate::config::typed::{Fields, Named, Typed};

pub(super) fn upstream(entry: &Named) -> Option<Upstream> {
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
        servers: upstream.take("servers")?,
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

fn trust(tls: &Fields) -> Option<Trust> {
    Some(Trust {
        ca: tls.optional("ca")?,
        verify: tls.take("verify")?,
        pins: tls.take("pins")?,
    })
}

fn bootstrap(upstream: &Fields) -> Option<Vec<SocketAddr>> {
    let texts: Vec<String> = upstream.take("bootstrap")?;
    let addresses = texts.iter().map(|text| grammar::dns_bootstrap(text).ok());
    addresses.collect()
}

fn client_subnet(upstream: &Fields) -> Option<ClientSubnet> {
    let ecs = upstream.node("ecs")?;
    match &ecs.typed {
        Typed::Choice("strip") => Some(ClientSubnet::Strip),
        Typed::Choice("pass") => Some(ClientSubnet::Pass),
        _ => {
            let add: String = ecs.fields()?.take("add")?;
            let (ipv4, ipv6) = grammar::subnet_prefixes(&add).ok()?;
            Some(ClientSubnet::Add { ipv4, ipv6 })
        }
    }
}
