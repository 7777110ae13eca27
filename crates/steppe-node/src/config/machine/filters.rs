//! Checks of the files of filters: keys of tokens and of clients, users, error pages.

use std::path::PathBuf;
use std::time::Instant;

use steppe_config::mistakes::Mistakes;
use steppe_config::typed::Fields;
use steppe_http::config::keys::{filter, gateway};
use steppe_http::config::{ErrorContent, ErrorPages, Filter, FilterKind, Gateway, Jwt};
use steppe_http::gateway::LoadedFiles;
use steppe_net::tls::read;

use super::problems::Problems;
use crate::config::keys::HTTP;
use crate::config::sites;

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    let (http, sites) = (file.within(&HTTP), sites::places(file));
    for entry in http.map_or(&[][..], |http| http.entries(&gateway::FILTER)) {
        // The index of an upstream makes no difference to files.
        if let Some(filter) = filter::build(entry, &|_| Some(0)) {
            let name = match sites.get(&entry.value.span) {
                Some(key) => format!("`{key}` of a site"),
                None => format!("filter `{}`", entry.name),
            };
            let problems = Problems::new(&entry.value, name, mistakes);
            check_filter(filter, problems);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "files of filters are read as at a start"
)]
fn check_filter(filter: Filter, problems: Problems<'_>) {
    let help = match &filter.kind {
        FilterKind::ApiKeys(_) => {
            "`steppe key new --name NAME` prints a key and its line of the file"
        }
        FilterKind::BasicAuth(_) => "`htpasswd -B FILE NAME` writes a line for a user",
        FilterKind::ErrorPages(_) => "write the page, or take it out",
        FilterKind::Jwt(_) => "name a file with the key of the algorithm that signs the tokens",
        _ => return,
    };
    let mut problems = problems.with_help(help);
    if let Some(path) = read_later(&filter)
        && let Err(error) = read(&path)
    {
        problems.tell(error);
    }
    for part in parts(filter) {
        let gateway = Gateway {
            filters: vec![part],
            ..Gateway::default()
        };
        if let Err(error) = LoadedFiles::check(&gateway, Instant::now()) {
            problems.tell(error.cause);
        }
    }
}

/// The file of a filter that is read only when the node serves.
fn read_later(filter: &Filter) -> Option<PathBuf> {
    match &filter.kind {
        FilterKind::Jwt(jwt) => jwt.remote.as_ref()?.ca.clone(),
        _ => None,
    }
}

/// Copies of the filter, with one of its files each.
fn parts(filter: Filter) -> Vec<Filter> {
    let Filter { name, kind } = filter;
    let kinds = match kind {
        FilterKind::ErrorPages(pages) => of_pages(pages),
        FilterKind::Jwt(jwt) => of_keys(jwt),
        kind => vec![kind],
    };
    let part = |kind| Filter {
        name: name.clone(),
        kind,
    };
    kinds.into_iter().map(part).collect()
}

fn of_pages(ErrorPages { of, pages }: ErrorPages) -> Vec<FilterKind> {
    let files = pages.into_iter();
    let files = files.filter(|page| matches!(page.content, ErrorContent::File(_)));
    let part = |page| {
        let pages = vec![page];
        FilterKind::ErrorPages(ErrorPages { of, pages })
    };
    files.map(part).collect()
}

fn of_keys(jwt: Jwt) -> Vec<FilterKind> {
    let none = Jwt {
        keys: Vec::new(),
        sets: Vec::new(),
        ..jwt
    };
    let keys = jwt.keys.into_iter().map(|key| Jwt {
        keys: vec![key],
        ..none.clone()
    });
    let sets = jwt.sets.into_iter().map(|set| Jwt {
        sets: vec![set],
        ..none.clone()
    });
    keys.chain(sets).map(FilterKind::Jwt).collect()
}
