//! The DNS forwarder out of a file that was read.

mod rules;

use std::time::Duration;

use ipnet::IpNet;
use steppe_dns::config::{
    Addresses, Cache, CaseRandomization, Forwarder, Limits, Listener, Policy, Rebinding,
    ServeStale, Stale, Transport, Truncated, Upstream,
};
use steppe_net::ListenAddress;

use crate::config::grammar;
use crate::config::typed::{Fields, Named, Node as Read, Typed};

pub(super) fn forwarder(dns: &Fields) -> Option<Forwarder> {
    let entries = dns.map("upstream").iter();
    let names = rules::Names::of(dns);
    let listeners = dns.list("listener").iter();
    let rules = dns.list("rule").iter();
    let forwarder = Forwarder {
        listeners: listeners
            .map(|each| listener(each.fields()?))
            .collect::<Option<_>>()?,
        access: access(dns.table("access")?)?,
        cache: cache(dns.table("cache")?)?,
        upstreams: entries.map(upstream).collect::<Option<_>>()?,
        lists: dns
            .map("list")
            .iter()
            .map(rules::list)
            .collect::<Option<_>>()?,
        hosts: rules::hosts(dns.table("hosts")?)?,
        rules: rules
            .map(|each| rules::rule(each.fields()?, &names))
            .collect::<Option<_>>()?,
        limits: limits(dns.table("limits")?)?,
    };
    // The table serves "off" alone.
    let _: &str = dns.table("log")?.take("queries")?;
    Some(forwarder)
}

fn listener(listener: &Fields) -> Option<Listener> {
    let ListenAddress::Tcp(address) = listener.take("listen")? else {
        return None;
    };
    let protocols: Vec<&str> = listener.take("protocols")?;
    let transport = |name: &&str| match *name {
        "udp" => Some(Transport::Udp),
        "tcp" => Some(Transport::Tcp),
        _ => None,
    };
    Some(Listener {
        address,
        transports: protocols.iter().map(transport).collect::<Option<_>>()?,
    })
}

fn access(access: &Fields) -> Option<Vec<IpNet>> {
    let allow: Vec<String> = access.take("allow")?;
    let networks = allow.iter().map(|text| grammar::clients(text).ok());
    Some(networks.collect::<Option<Vec<_>>>()?.concat())
}

fn cache(cache: &Fields) -> Option<Cache> {
    let serve_stale = match cache.node("serve_stale") {
        None => None,
        Some(stale) => Some(serve_stale(stale.fields()?)?),
    };
    Some(Cache {
        bytes: cache.take("bytes")?,
        min_ttl: cache.take("min_ttl")?,
        max_ttl: cache.take("max_ttl")?,
        negative_ttl_max: cache.take("negative_ttl_max")?,
        serve_stale,
        prefetch_percent: percent(cache.node("prefetch")?)?,
    })
}

fn percent(prefetch: &Read) -> Option<u8> {
    match prefetch.typed {
        Typed::Choice(_) => Some(0),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is above 0 and at most 1"
        )]
        Typed::Share(share) => Some((share * 100.0).round() as u8),
        _ => None,
    }
}

fn serve_stale(stale: &Fields) -> Option<ServeStale> {
    Some(ServeStale {
        up_to: stale.take("up_to")?,
        after: stale.take("after")?,
        only: match stale.take("only")? {
            "positive" => Stale::Positive,
            "all" => Stale::All,
            _ => return None,
        },
    })
}

fn upstream(entry: &Named) -> Option<Upstream> {
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
    // The table serves "strip" alone, which a query that is written anew does by itself.
    let _: &str = upstream.take("ecs")?;
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
    })
}

fn limits(limits: &Fields) -> Option<Limits> {
    Some(Limits {
        cname_depth: limits.take("cname_depth")?,
        rebinding: match limits.take("rebinding")? {
            "refuse" => Rebinding::Refuse,
            "allow" => Rebinding::Allow,
            _ => return None,
        },
    })
}
