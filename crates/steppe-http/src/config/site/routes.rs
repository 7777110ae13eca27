//! Upstream, filters and routes of a site.

use std::collections::HashSet;

use steppe_config::mistake::Span;
use steppe_config::table::Spec;
use steppe_config::tree::{Entry, Value, ValueKind};

use super::sites::{Address, Host, Site};
use crate::config::keys::site::{
    AUTH, CACHE, CACHE_KEYS, COMPRESS, FALLBACK, FILES, FILTERS, HOSTS, PROXY, REDIRECT, is_cached,
};

/// Parts of `[http]` that sites stand for.
#[derive(Default)]
pub(super) struct Added {
    pub(super) upstreams: Vec<Entry>,
    pub(super) filters: Vec<Entry>,
    pub(super) routes: Vec<Value>,
}

/// Names of the filters of a file that cache.
pub(super) fn caches(tree: &Value) -> HashSet<String> {
    let http = tree.entry("http");
    let filters = http.and_then(|http| http.value.entry("filter"));
    let filters = filters.map_or(&[][..], |filters| filters.value.entries());
    let is_cache = |entry: &&Entry| {
        let kind = entry.value.entry("kind");
        kind.is_some_and(|kind| kind.value.as_text() == Some("cache"))
    };
    let caches = filters.iter().filter(is_cache);
    caches.map(|entry| entry.name.clone()).collect()
}

impl Added {
    /// The parts of one site, beside its listeners; `caches` are filters of the file.
    pub(super) fn of(site: &Site<'_>, caches: &HashSet<String>) -> Self {
        let mut parts = Self::default();
        let filters = parts.add_filters(site, caches);
        let target = parts.add_target(site);
        let mut route = vec![text("name", site.name_span, &site.name), hosts_of(site)];
        route.push(listener(site.span, &site.served_on));
        if !filters.is_empty() {
            let filters = Value::list(site.span, filters);
            route.push(Entry::new("filters", site.span, filters));
        }
        route.push(target);
        parts.routes.push(Value::table(site.span, route));
        parts.redirect_others(site);
        parts.redirect_http(site);
        parts
    }

    pub(super) fn append(&mut self, parts: Self) {
        self.upstreams.extend(parts.upstreams);
        self.filters.extend(parts.filters);
        self.routes.extend(parts.routes);
    }

    /// Adds the filters that keys of the site stand for; names of all, in order.
    fn add_filters(&mut self, site: &Site<'_>, caches: &HashSet<String>) -> Vec<Value> {
        let named = site.value(&FILTERS.spec).map_or(&[][..], Value::items);
        let mut filters = named.to_vec();
        if let Some(users) = site.value(&AUTH.spec) {
            let settings = vec![Entry::new("users_file", users.span, users.clone())];
            let is_cache = |name: &Value| name.as_text().is_some_and(|name| caches.contains(name));
            // A cache would answer without asking who is there.
            let at = filters.iter().position(is_cache).unwrap_or(filters.len());
            let name = self.add_filter(site, SiteFilter::of(&AUTH.spec, "basic-auth", settings));
            filters.insert(at, name);
        }
        if is_cached(site.fields) {
            let settings = cache_settings(site);
            filters.push(self.add_filter(site, SiteFilter::of(&CACHE.spec, "cache", settings)));
        }
        if site.fields.get(&COMPRESS) == Some(true) {
            filters.push(
                self.add_filter(site, SiteFilter::of(&COMPRESS.spec, "compress", Vec::new())),
            );
        }
        filters
    }

    /// Adds the filter that a key stands for; its name, at the place of the key's value.
    fn add_filter(&mut self, site: &Site<'_>, filter: SiteFilter) -> Value {
        let SiteFilter {
            key,
            kind,
            settings,
        } = filter;
        let at = site.value(key).map_or(site.span, |value| value.span);
        let name = format!("{}-{}", site.name, key.name);
        let mut entries = vec![text("kind", at, kind)];
        entries.extend(settings);
        let filter = Entry::new(name.clone(), at, Value::table(at, entries));
        self.filters.push(filter);
        Value::text(at, name)
    }

    /// The part of the route that says who answers; the upstream of servers is added.
    fn add_target(&mut self, site: &Site<'_>) -> Entry {
        if let Some(servers) = site.value(&PROXY.spec) {
            let at = servers.span;
            let servers = match &servers.kind {
                ValueKind::List(_) => servers.clone(),
                _ => Value::list(at, vec![servers.clone()]),
            };
            let servers = vec![Entry::new("servers", at, servers)];
            let upstream = Value::table(site.span, servers);
            let upstream = Entry::new(site.name.clone(), site.name_span, upstream);
            self.upstreams.push(upstream);
            return text("upstream", at, &site.name);
        }
        if let Some(root) = site.value(&FILES.spec) {
            let at = root.span;
            let mut files = vec![Entry::new("root", at, root.clone())];
            if let Some(fallback) = site.value(&FALLBACK.spec) {
                files.push(Entry::new("fallback", fallback.span, fallback.clone()));
            }
            return Entry::new("files", at, Value::table(at, files));
        }
        let to = site.value(&REDIRECT.spec).cloned();
        let to = to.unwrap_or_else(|| Value::text(site.span, ""));
        Entry::new("redirect", to.span, to)
    }

    /// Adds a route that redirects.
    fn redirect(&mut self, site: &Site<'_>, redirect: SiteRedirect<'_>) {
        let SiteRedirect {
            what: (what, number),
            hosts,
            addresses,
            to,
        } = redirect;
        let at = hosts.value.span;
        let name = match number {
            0 => format!("{}-{what}", site.name),
            _ => format!("{}-{what}-{}", site.name, number + 1),
        };
        let entries = vec![
            text("name", site.name_span, &name),
            hosts,
            listener(site.span, addresses.iter().copied()),
            text("redirect", at, &to),
        ];
        self.routes.push(Value::table(site.span, entries));
    }

    /// Redirects names with or without `www.`, where the site is served.
    fn redirect_others(&mut self, site: &Site<'_>) {
        let scheme = scheme_of(site);
        let mut number = 0;
        for Host {
            served,
            other,
            span,
        } in &site.hosts
        {
            let Some(other) = other else {
                continue;
            };
            for addresses in by_port(&site.served_on) {
                let port = port_text(scheme, addresses.first().and_then(|first| first.port()));
                self.redirect(
                    site,
                    SiteRedirect {
                        what: ("www", number),
                        hosts: text("host", *span, other),
                        addresses: &addresses,
                        to: format!("{scheme}://{served}{port}{{path}}{{query}}"),
                    },
                );
                number += 1;
            }
        }
    }

    /// Redirects http to https: each host to the one that is served.
    fn redirect_http(&mut self, site: &Site<'_>) {
        if site.redirected_on.is_empty() {
            return;
        }
        let port = site.served_on.iter().find_map(Address::port);
        let port = port_text("https", port);
        let addresses: Vec<&Address> = site.redirected_on.iter().collect();
        let named: Vec<_> = site
            .hosts
            .iter()
            .filter(|host| host.other.is_some())
            .collect();
        if named.is_empty() {
            let redirect = SiteRedirect {
                what: ("http", 0),
                hosts: hosts_of(site),
                addresses: &addresses,
                to: format!("https://{{host}}{port}{{path}}{{query}}"),
            };
            return self.redirect(site, redirect);
        }
        for (number, host) in named.into_iter().enumerate() {
            let Host {
                served,
                other,
                span,
            } = host;
            let both = [Some(served), other.as_ref()].into_iter().flatten();
            let both = both.map(|name| Value::text(*span, name)).collect();
            let redirect = SiteRedirect {
                what: ("http", number),
                hosts: Entry::new("host", *span, Value::list(*span, both)),
                addresses: &addresses,
                to: format!("https://{served}{port}{{path}}{{query}}"),
            };
            self.redirect(site, redirect);
        }
    }
}

/// A filter that a key of a site stands for.
struct SiteFilter {
    key: &'static Spec,
    kind: &'static str,
    settings: Vec<Entry>,
}

impl SiteFilter {
    fn of(key: &'static Spec, kind: &'static str, settings: Vec<Entry>) -> Self {
        Self {
            key,
            kind,
            settings,
        }
    }
}

/// A route that redirects.
struct SiteRedirect<'a> {
    /// The end of its name, and the number of those before it with the same end.
    what: (&'static str, usize),
    hosts: Entry,
    addresses: &'a [&'a Address],
    to: String,
}

fn text(name: &str, at: Span, text: &str) -> Entry {
    Entry::new(name, at, Value::text(at, text))
}

/// The hosts that are served.
fn hosts_of(site: &Site<'_>) -> Entry {
    let written = site.value(&HOSTS.spec);
    let as_written = written.filter(|_| site.hosts.iter().all(|host| host.other.is_none()));
    let at = written.map_or(site.span, |hosts| hosts.span);
    if let Some(hosts) = as_written {
        return Entry::new("host", at, hosts.clone());
    }
    let hosts = site.hosts.iter();
    let hosts: Vec<_> = hosts
        .map(|host| Value::text(host.span, &*host.served))
        .collect();
    Entry::new("host", at, Value::list(at, hosts))
}

fn listener<'a>(at: Span, addresses: impl IntoIterator<Item = &'a Address>) -> Entry {
    let addresses: Vec<_> = addresses
        .into_iter()
        .map(|each| each.written.clone())
        .collect();
    let value = match <[Value; 1]>::try_from(addresses) {
        Ok([one]) => one,
        Err(several) => Value::list(at, several),
    };
    Entry::new("listener", at, value)
}

fn cache_settings(site: &Site<'_>) -> Vec<Entry> {
    let (Some(read), Some(written)) = (site.fields.within(&CACHE), site.value(&CACHE.spec)) else {
        return Vec::new();
    };
    let given = CACHE_KEYS.iter().filter(|key| read.value(key).is_some());
    given
        .filter_map(|key| written.entry(key.name).cloned())
        .collect()
}

fn scheme_of(site: &Site<'_>) -> &'static str {
    match site.https {
        Some(_) => "https",
        None => "http",
    }
}

/// A port as a URL has it.
fn port_text(scheme: &str, port: Option<u16>) -> String {
    match (scheme, port) {
        ("http", Some(80)) | ("https", Some(443)) | (_, None) => String::new(),
        (_, Some(port)) => format!(":{port}"),
    }
}

/// Addresses with one port, each group at the place of its first.
fn by_port(addresses: &[Address]) -> Vec<Vec<&Address>> {
    let mut groups: Vec<Vec<&Address>> = Vec::new();
    for address in addresses {
        let of_port = |group: &&mut Vec<&Address>| group[0].port() == address.port();
        match groups.iter_mut().find(of_port) {
            Some(group) => group.push(address),
            None => groups.push(vec![address]),
        }
    }
    groups
}
