//! Client subnets: the subnet that servers are sent, and the clients that their answers are for. RFC 7871.
//!
//! An answer that depends on the network is cached for clients of the prefix that was sent, and any other for
//! all clients. So servers may be asked more often than necessary, but an answer never reaches a client that it
//! is not for.

use std::time::Instant;

use super::exchanges::Exchange;
use crate::answer::Audience;
use crate::cache::{Cache, Key, Lookup, ServePolicy};
use crate::client::Client;
use crate::config::ClientSubnet;
use crate::wire::{ClientQuery, Message, Response, Subnet};

/// The client subnet that servers are sent.
pub(super) fn subnet_told(
    policy: ClientSubnet,
    query: &ClientQuery<'_>,
    client: &Client,
) -> Option<Subnet> {
    let named = query.options().subnet;
    match policy {
        ClientSubnet::Strip => None,
        ClientSubnet::Pass => named,
        // §7.1.2: with a prefix length of 0, a client asks that its network not be sent.
        ClientSubnet::Add { .. } if named.is_some_and(|named| named.prefix == 0) => None,
        ClientSubnet::Add { ipv4, ipv6 } => {
            let prefix = if client.address.is_ipv4() { ipv4 } else { ipv6 };
            Some(Subnet::of(client.address, prefix))
        }
    }
}

/// Looks up an answer for the key's subnet, then one for all clients.
pub(super) fn look_up(
    cache: &Cache,
    key: &Key<'_>,
    (serve, now): (&ServePolicy, Instant),
    out: &mut [u8],
) -> (Lookup, Audience) {
    if key.subnet.is_some()
        && let hit @ Lookup::Hit(_) = cache.lookup(key, serve, now, out)
    {
        return (hit, Audience::Subnet);
    }
    let for_all = Key {
        subnet: None,
        ..*key
    };
    (cache.lookup(&for_all, serve, now, out), Audience::All)
}

impl Exchange {
    /// The clients that a response is for. §7.3: one without the option, or with a scope of zero, is for all.
    pub(super) fn audience(&self, response: &Response<'_>) -> Audience {
        let opt = response.message().opt();
        let option = opt.and_then(|opt| opt.subnet_and_scope().ok().flatten());
        match option {
            Some((_, 1..)) if self.subnet.is_some() => Audience::Subnet,
            _ => Audience::All,
        }
    }
}

/// True if a response is for the subnet that its server was sent. §7.3: a response for another one is dropped, so
/// a forger has to guess the subnet too.
pub(super) fn is_for(told: Option<Subnet>, message: &Message<'_>) -> bool {
    let Some((told, opt)) = told.zip(message.opt()) else {
        return true;
    };
    match opt.subnet_and_scope() {
        Ok(Some((subnet, _))) => subnet == told,
        Ok(None) => true,
        Err(_) => false,
    }
}
