//! Keys of the filter that allows and refuses networks.

use ipnet::IpNet;
use steppe_config::key::{OptionalKey, key, list, text};
use steppe_config::keys;
use steppe_config::table::{Needs, Table};
use steppe_config::typed::Fields;
use steppe_net::config::forms::NETWORK;

use crate::config::IpRules;

/// `[http.filter.NAME]` of the kind `ip`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Allows or refuses clients by network. Refused requests get 403.",
    keys! { ALLOW, DENY },
)
.needing(Needs::Any(&["allow", "deny"]));

static ALLOW: OptionalKey<Vec<IpNet>> = key(
    "allow",
    list(&text(&NETWORK), 1),
    "Networks that are allowed. Without it, all. The address is the client's, as far as \
     `trusted_proxies` vouch for it.",
);

static DENY: OptionalKey<Vec<IpNet>> = key(
    "deny",
    list(&text(&NETWORK), 1),
    "Networks that are refused, even if `allow` has them. IPv4 clients have their IPv4 address on \
     IPv6 sockets too: a network of IPv4-mapped addresses is an error.",
);

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<IpRules> {
    Some(IpRules {
        allow: filter.get(&ALLOW)?.unwrap_or_default(),
        deny: filter.get(&DENY)?.unwrap_or_default(),
    })
}
