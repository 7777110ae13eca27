//! The DNS forwarder out of a file that was read.

mod limits;
mod listener;
mod log;
mod resolv_conf;
mod rules;
mod setting;
mod upstream;

use ipnet::IpNet;
use steppe_config::typed::{Fields, Node as Read, Typed};
use steppe_dns::config::{Cache, Forwarder, InProcess};

use crate::config::typed::ByName;
use upstream::upstream;

pub(super) fn forwarder(dns: &Fields) -> Option<Forwarder> {
    let entries = dns.map("upstream").iter();
    let names = rules::Names::of(dns);
    let listeners = dns.list("listener").iter();
    let listeners: Vec<_> = listeners
        .map(|each| listener::listener(each.fields()?))
        .collect::<Option<_>>()?;
    let rules = dns.list("rule").iter();
    let forwarder = Forwarder {
        access: access(dns.table("access")?)?,
        // The gateway's, which they are joined with.
        trusted_proxies: Vec::new(),
        cache: cache(dns.table("cache")?)?,
        upstreams: entries
            .map(|entry| upstream(entry, &listeners))
            .collect::<Option<_>>()?,
        listeners,
        lists: dns
            .map("list")
            .iter()
            .map(rules::list)
            .collect::<Option<_>>()?,
        hosts: rules::hosts(dns.table("hosts")?)?,
        rules: rules
            .map(|each| rules::rule(each.fields()?, &names))
            .collect::<Option<_>>()?,
        limits: limits::limits(dns.table("limits")?)?,
        query_log: log::queries(dns.table("log")?.node("queries")?)?,
        // Whoever asks says so when all is put together.
        in_process: InProcess::Silent,
    };
    Some(forwarder)
}

fn access(access: &Fields) -> Option<Vec<IpNet>> {
    let networks = access.list("allow").iter();
    let networks = networks.map(|node| node.typed.value::<Vec<IpNet>>().cloned());
    Some(networks.collect::<Option<Vec<_>>>()?.concat())
}

fn cache(cache: &Fields) -> Option<Cache> {
    let serve_stale = match cache.node("serve_stale") {
        None => None,
        Some(stale) => Some(setting::serve_stale(stale.fields()?)?),
    };
    Some(Cache {
        bytes: cache.take("bytes")?,
        min_ttl: cache.take("min_ttl")?,
        max_ttl: cache.take("max_ttl")?,
        negative_ttl_max: cache.take("negative_ttl_max")?,
        serve_stale,
        prefetch_percent: percent(cache.node("prefetch")?)?,
        snapshot: cache.optional("snapshot")?,
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
