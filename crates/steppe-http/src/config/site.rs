//! Sites, the short form of a configuration, expanded to listeners, upstreams, filters and routes.
//!
//! Invariant: all that is added could stand in a file, and each value of it has the place of what the site says, so
//! that later mistakes quote the site. A mistake of a site is told here, in terms of the site. Non-goals: names of
//! filters that are not defined, which are told where those of routes are.
//!
//! # Map of files
//! - `sites.rs`: a site as it is read: its name, hosts and addresses
//! - `claims.rs`: hosts and names that no two of them may have
//! - `listeners.rs`: listeners that sites share with each other and with those of the file
//! - `routes.rs`: upstream, filters and routes of a site

mod claims;
mod listeners;
mod routes;
mod sites;

use steppe_config::mistake::Span;
use steppe_config::mistakes::Mistakes;
use steppe_config::read::Taken;
use steppe_config::sources::Sources;
use steppe_config::tree::{Entry, Value, ValueKind};
use steppe_config::typed::{Node, Typed};

use super::keys::site as keys;
use routes::Added;
use sites::Site;

/// Adds what sites stand for to the tree of a file, and finds their mistakes. Sites with an invalid value stand for
/// nothing.
///
/// `files` are those that the places in both count in: relative paths count from their folders.
pub fn expand(tree: &mut Value, sites: &Taken, files: &Sources<'_>, mistakes: &mut Mistakes) {
    let sites = claims::with_own_hosts(valid(sites, files, mistakes), mistakes);
    let Some(first) = sites.first() else {
        return;
    };
    let at = first.span;
    let listeners = listeners::added(tree, &sites, files, mistakes);
    let mut names = claims::TakenNames::of(tree);
    let caches = routes::caches(tree);
    let mut added = Added::default();
    for site in &sites {
        let parts = Added::of(site, &caches);
        if names.are_free(site, &parts, mistakes) {
            added.append(parts);
        }
    }
    let Some(http) = tree.at_or_insert(Entry::new("http", at, Value::table(at, Vec::new()))) else {
        return;
    };
    push_items(http, "listener", at, listeners);
    push_entries(http, "upstream", at, added.upstreams);
    push_entries(http, "filter", at, added.filters);
    push_items(http, "route", at, added.routes);
}

fn valid<'a>(sites: &'a Taken, files: &Sources<'_>, mistakes: &mut Mistakes) -> Vec<Site<'a>> {
    let Typed::List(read) = &sites.read.typed else {
        return Vec::new();
    };
    let read = read.iter().map(Node::fields).zip(sites.written.items());
    let mut valid = Vec::new();
    for (fields, written) in read {
        let Some(fields) = fields else {
            continue;
        };
        keys::check(fields, mistakes);
        valid.extend(Site::of(fields, written, files));
    }
    valid
}

/// Where `http` has something else at this name, the reader tells.
fn push_items(http: &mut Value, name: &str, at: Span, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let there = http.at_or_insert(Entry::new(name, at, Value::list(at, Vec::new())));
    if let Some(ValueKind::List(there)) = there.map(|value| &mut value.kind) {
        there.extend(items);
    }
}

fn push_entries(http: &mut Value, name: &str, at: Span, entries: Vec<Entry>) {
    if entries.is_empty() {
        return;
    }
    let there = http.at_or_insert(Entry::new(name, at, Value::table(at, Vec::new())));
    if let Some(ValueKind::Table(there)) = there.map(|value| &mut value.kind) {
        there.extend(entries);
    }
}
