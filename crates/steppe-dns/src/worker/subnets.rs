//! Client subnets: what servers are told of a client's network, and for whom their answers are. RFC 7871.
//!
//! An answer that depends on the network is kept for clients of the prefix that was told, and any other for
//! everybody. So an answer may be asked for more often than it had to be, and never reaches a client that
//! it is not for.

use std::time::Instant;

use super::exchanges::Exchange;
use crate::answer::Audience;
use crate::cache::{Cache, Key, Lookup, ServePolicy};
use crate::client::Client;
use crate::config::ClientSubnet;
use crate::wire::{ClientQuery, Message, Response, Subnet};

/// The network that servers are told.
pub(super) fn subnet_told(
    policy: ClientSubnet,
    query: &ClientQuery<'_>,
    client: &Client,
) -> Option<Subnet> {
    let named = query.options().subnet;
    match policy {
        ClientSubnet::Strip => None,
        ClientSubnet::Pass => named,
        // §7.1.2: a client may want that nobody is told.
        ClientSubnet::Add { .. } if named.is_some_and(|named| named.prefix == 0) => None,
        ClientSubnet::Add { ipv4, ipv6 } => {
            let prefix = if client.address.is_ipv4() { ipv4 } else { ipv6 };
            Some(Subnet::of(client.address, prefix))
        }
    }
}

/// Looks for an answer for the key's network, then for one for everybody.
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
    /// Whom a response is for. §7.3: one without the option, or with a scope of zero, is for everybody.
    pub(super) fn audience(&self, response: &Response<'_>) -> Audience {
        let opt = response.message().opt();
        let option = opt.and_then(|opt| opt.subnet_and_scope().ok().flatten());
        match option {
            Some((_, 1..)) if self.subnet.is_some() => Audience::Subnet,
            _ => Audience::All,
        }
    }
}

/// Whether a response is for the network that its server was told. §7.3: one for another is dropped, which
/// whoever forges it has to guess too.
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
