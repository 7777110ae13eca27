//! Hosts and names that no two sites may have, and no site together with what the file has in the long form.

use std::collections::{HashMap, HashSet};

use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::tree::Value;
use steppe_net::ListenAddress;

use super::routes::Added;
use super::sites::Site;

/// Sites without a host that another one before them has on the same address; the others are told.
pub(super) fn with_own_hosts<'a>(sites: Vec<Site<'a>>, mistakes: &mut Mistakes) -> Vec<Site<'a>> {
    let are_own = hosts(&sites, mistakes).into_iter();
    let sites = sites.into_iter().zip(are_own);
    sites
        .filter_map(|(site, is_own)| is_own.then_some(site))
        .collect()
}

/// For each site, whether no host of it is one of another site.
fn hosts(sites: &[Site<'_>], mistakes: &mut Mistakes) -> Vec<bool> {
    let mut are_own = Vec::new();
    let mut claimed: HashMap<(&ListenAddress, &str), Span> = HashMap::new();
    for site in sites {
        let mut told = HashSet::new();
        let names = site.hosts.iter().flat_map(|host| {
            let names = [Some(&host.served), host.other.as_ref()];
            names.into_iter().flatten().map(|name| (name, host.span))
        });
        for (name, span) in names {
            for each in site.addresses() {
                let address = &each.address;
                let Some(first) = claimed.insert((address, name), span) else {
                    continue;
                };
                claimed.insert((address, name), first);
                // One mistake, however many addresses they share.
                if told.insert(name) {
                    let message = format!("two sites have the host `{}` on {address}", shown(name));
                    mistakes.push(
                        Mistake::new(span, message)
                            .label("again here")
                            .also(first, "first here")
                            .help("take it out of one of them, or let them `listen` on different addresses"),
                    );
                }
            }
        }
        are_own.push(told.is_empty());
    }
    are_own
}

/// Names of upstreams, filters and routes, and where each was given.
pub(super) struct TakenNames(HashMap<(&'static str, String), Span>);

impl TakenNames {
    /// Collects the names in a file.
    pub(super) fn of(tree: &Value) -> Self {
        let http = tree.entry("http").map(|http| &http.value);
        let part = |name| {
            http.and_then(|http| http.entry(name))
                .map(|part| &part.value)
        };
        let mut names = HashMap::new();
        for what in ["upstream", "filter"] {
            let entries = part(what).map_or(&[][..], Value::entries).iter();
            names.extend(entries.map(|entry| ((what, entry.name.clone()), entry.name_span)));
        }
        let routes = part("route").map_or(&[][..], Value::items).iter();
        let routes = routes.filter_map(|route| {
            let name = &route.entry("name")?.value;
            Some((("route", name.as_text()?.to_owned()), name.span))
        });
        names.extend(routes);
        Self(names)
    }

    /// True if no name of what a site stands for was given before; else the first that was is told.
    pub(super) fn are_free(
        &mut self,
        site: &Site<'_>,
        parts: &Added,
        mistakes: &mut Mistakes,
    ) -> bool {
        let upstreams = parts
            .upstreams
            .iter()
            .map(|entry| ("upstream", &*entry.name));
        let filters = parts.filters.iter().map(|entry| ("filter", &*entry.name));
        let routes = parts.routes.iter().filter_map(|route| {
            let name = &route.entry("name")?.value;
            Some(("route", name.as_text()?))
        });
        let all = routes.chain(upstreams).chain(filters);
        let all: Vec<_> = all.map(|(what, name)| (what, name.to_owned())).collect();
        let taken = all.iter().find_map(|key| Some((key, *self.0.get(key)?)));
        if let Some(((what, name), first)) = taken {
            let message = format!("the name `{}` is that of another {what}", shown(name));
            mistakes.push(
                Mistake::new(site.name_span, message)
                    .label(format!("this site is called `{}`", shown(&site.name)))
                    .also(first, "has the name")
                    .help("give the site another `name`"),
            );
            return false;
        }
        self.0
            .extend(all.into_iter().map(|key| (key, site.name_span)));
        true
    }
}
