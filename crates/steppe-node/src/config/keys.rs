//! Every key of a configuration: its meaning, its values, its default, and whether it is supported
//! yet.
//!
//! Invariant: this is the only list of keys; a key that is marked later is refused by name. The
//! reader, the defaults, the schema, the manual and `/config` follow from it; a test finds a key
//! that no builder reads.

pub mod admin;
pub mod log;
pub mod node;
pub mod trace;

use steppe_config::form::ANY;
use steppe_config::include::INCLUDE as INCLUDE_NAME;
use steppe_config::key::{Key, OptionalKey, PlaceKey, key, of, place, section};
use steppe_config::keys;
use steppe_config::table::{Absent, Kind, Table};
use steppe_dns::config::{Forwarder, keys as dns};
use steppe_http::config::Gateway;
use steppe_http::config::keys::{gateway, site};
use steppe_plane::config::keys::discovery::{self, Discovery};
use steppe_plane::config::{Plane, keys as plane};

use crate::doh::FORWARDER;
use admin::Admin;
use log::Log;
use node::Node;
use trace::Trace;

/// The whole file.
pub static ROOT: Table = Table::new(
    "",
    "Configuration of a Steppe node.",
    keys! { INCLUDE, NODE, ADMIN, LOG, TRACE, SITE, HTTP, DNS, PLANE, DISCOVERY },
);

/// Other files, which are merged into the tree before it is read.
pub static INCLUDE: PlaceKey = place(
    INCLUDE_NAME,
    Kind::List(&Kind::Text(&ANY), 0),
    "Further files, by path or by a pattern such as \"sites/*.toml\", in byte order after this one; relative to the \
     folder of the file that names them. Lists of tables are appended; a table or a value that two files give is an \
     error. Included files may include others, four levels deep. At the top of the file, before the first table.",
);

pub static NODE: Key<Node> = section("node", &node::TABLE, node::build).or(Absent::Table);

pub static ADMIN: OptionalKey<Admin> = section("admin", &admin::TABLE, admin::build);

pub static LOG: Key<Log> = section("log", &log::TABLE, log::build).or(Absent::Table);

pub static TRACE: OptionalKey<Trace> = section("trace", &trace::TABLE, trace::build);

/// Sites, which are expanded into [`HTTP`] before the file is read.
pub static SITE: PlaceKey = place(
    "site",
    Kind::List(&Kind::Table(&site::TABLE), 0),
    site::TABLE.doc,
);

pub static HTTP: Key<Gateway> = section("http", &gateway::TABLE, |http| {
    gateway::build(http, FORWARDER)
})
.or(Absent::Table);

pub static DNS: OptionalKey<Forwarder> = section("dns", &dns::TABLE, dns::build);

pub static PLANE: OptionalKey<Plane> = section("plane", &plane::TABLE, plane::build);

pub static DISCOVERY: OptionalKey<Discovery> = key(
    "discovery",
    of(Kind::Tagged(&discovery::TABLE), discovery::build),
    discovery::TABLE.doc,
);

#[cfg(test)]
mod tests {
    use steppe_config::table::Support;

    use super::*;

    /// Collects maps of strings that are not secret as a whole: names are the file's own, and any
    /// may be one of a secret.
    fn open_maps(table: &'static Table, found: &mut Vec<String>) {
        for key in table.keys {
            let Support::Served { kind, .. } = &key.support else {
                continue;
            };
            let holds_strings = matches!(kind, Kind::Map(..)) && kind.tables().is_empty();
            if holds_strings && !key.is_secret {
                found.push(format!("{}.{}", table.name, key.name));
            }
            for inner in kind.tables() {
                open_maps(inner, found);
            }
        }
    }

    #[test]
    fn every_map_of_strings_is_masked_by_name() {
        let mut found = Vec::new();
        open_maps(&ROOT, &mut found);
        // Names of members are no values, and records are available to every client.
        let open = [
            "http.filter.request_json.rename",
            "http.filter.response_json.rename",
            "dns.hosts.records",
            "discovery.services",
        ];
        assert_eq!(found, open);
    }
}
