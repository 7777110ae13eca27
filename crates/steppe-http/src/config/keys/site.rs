//! Keys of `[[site]]`, the short form of listeners, upstreams, filters and routes.
//!
//! Invariant: a site that passes [`check`] can be expanded; what it says beside others is judged there.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use steppe_config::choice::Choices;
use steppe_config::form::{FILE, FOLDER, Form, NAME as NAMED, Read, Refusal};
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, boolean, choice, key, list, of, one_or_many, place, text,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};
use steppe_config::typed::{Fields, Node, Typed, repeated, valid};
use steppe_net::config::forms::{LISTEN as LISTENED, SERVER};
use steppe_net::config::tls::{certificate, certificate_files};
use steppe_net::tls::config::CertificateFiles;
use steppe_net::{ListenAddress, ServerAddress};

use super::cache::{BYTES, STALE_IF_ERROR, STALE_WHILE_REVALIDATE};
use super::forms::field_value;
use super::route::files::FILE_PATH;
use super::route::host_text;
use crate::config::HostPattern;
use crate::host::HostPatternError;
use crate::limits::SITE_ADDRESSES_MAX;

/// `[[site]]`.
pub static TABLE: Table = Table::new(
    "site",
    "Sites: the short form of a listener, an upstream or folder, filters and routes. A site is expanded to these before \
     the file is read; `steppe expand` prints them.",
    keys! { NAME, HOSTS, PROXY, FILES, REDIRECT, FALLBACK, HTTPS, WWW, LISTEN, FILTERS, AUTH, CACHE, COMPRESS },
)
.needing(Needs::One(&["proxy", "files", "redirect"]));

/// The site's name.
pub static NAME: OptionalKey<String> = key(
    "name",
    text(&NAMED),
    "Name of its route and upstream in metrics and logs; names of its filters and further routes begin with it. Without \
     it, the first of `hosts`.",
);

/// The site's hosts.
pub static HOSTS: Key<Vec<HostPattern>> = key(
    "hosts",
    one_or_many(&text(&HOST)),
    "Hosts of the site: \"www.example.com\", or \"*.example.com\" for every name below it.",
)
.required();

static HOST: Form<HostPattern> =
    Form::new("a host such as \"example.com\" or \"*.example.com\"", host)
        .pattern("^.+$")
        .shown_by(host_text);

fn host(text: &str, _: &Path) -> Read<HostPattern> {
    if let Some((_, rest)) = text.split_once("://") {
        let host = shown(rest.split(['/', ':']).next().unwrap_or(rest));
        let refusal = Refusal::new(format!("`{}` is a URL, not a host", shown(text)));
        return Err(refusal.help(format!("write the host alone: \"{host}\"")));
    }
    HostPattern::parse(text).map_err(|error| match error {
        HostPatternError::Port(_) => Refusal::new(format!("`{}` has a port", shown(text)))
            .help("write the host alone: `listen` has the ports of a site"),
        error => Refusal::new(error.to_string())
            .help("write a name such as \"www.example.com\", \"*.example.com\", or an IP address"),
    })
}

/// Servers that it is forwarded to.
pub static PROXY: OptionalKey<Vec<ServerAddress>> = key(
    "proxy",
    one_or_many(&text(&SERVER)),
    "Server that requests are forwarded to, or a list of servers, which take turns: \"127.0.0.1:3000\".",
);

/// The folder that it serves.
pub static FILES: OptionalKey<PathBuf> = key(
    "files",
    text(&FOLDER),
    "Folder whose files are served, with \"index.html\" for a folder in it.",
);

/// Where its clients are sent.
pub static REDIRECT: OptionalKey<String> = key(
    "redirect",
    text(&REDIRECT_TO),
    "URL that clients are redirected to, with status 308. `{host}`, `{path}` (in normal form) and `{query}` (with its \
     `?`) insert the request's own: \"https://example.com{path}{query}\".",
);

static REDIRECT_TO: Form<String> = Form::new(
    "a URL such as \"https://example.com{path}{query}\"",
    redirect_to,
)
.pattern("^https?://.+$");

fn redirect_to(text: &str, _: &Path) -> Read<String> {
    let rest = ["https://", "http://"].map(|scheme| text.strip_prefix(scheme));
    if rest.into_iter().flatten().any(|rest| !rest.is_empty()) {
        return field_value(text);
    }
    let refusal = Refusal::new(format!("`{}` is not a URL of http or https", shown(text)));
    Err(refusal.help("write \"https://example.com{path}{query}\""))
}

/// The file for paths without one.
pub static FALLBACK: OptionalKey<String> = key(
    "fallback",
    text(&FILE_PATH),
    "File of a single-page application that is served, with status 200, for paths that lead to no file, unless their last \
     segment has a dot: its path below `files`, such as \"/index.html\".",
);

/// The site's certificate; `None`: it is served over http.
pub static HTTPS: Key<Option<CertificateFiles>> = key(
    "https",
    of(
        Kind::Either(&[Kind::Choice(&HTTPS_CHOICES), Kind::Table(&CERTIFICATE)]),
        https,
    ),
    "\"off\": the site is served over http. A table with `cert` and `key`: it is served over https, and http is \
     redirected to it.",
)
.or(Absent::Text("off"));

static HTTPS_CHOICES: Choices<()> = Choices::of(&[("off", ())]).and_later(&["auto"]);

static CERTIFICATE: Table = certificate("site.https");

#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn https(node: &Node) -> Option<Option<CertificateFiles>> {
    match (&node.typed, node.fields()) {
        (Typed::Choice(_), _) => Some(None),
        (_, Some(files)) => certificate_files(files).map(Some),
        _ => None,
    }
}

/// The names that its hosts have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Www {
    /// With `www.` in front; the names without it are redirected.
    Add,
    /// Without `www.`; the names with it are redirected.
    Remove,
}

/// Redirects between names with and without `www.`
pub static WWW: OptionalKey<Www> = key(
    "www",
    choice(&Choices::of(&[("add", Www::Add), ("remove", Www::Remove)])),
    "\"add\": each of `hosts` is served with `www.` in front, and redirected to there without it. \"remove\": the other \
     way round. Path and query stay.",
);

/// The site's addresses.
pub static LISTEN: OptionalKey<Vec<ListenAddress>> = key(
    "listen",
    one_or_many(&text(&LISTENED)),
    "Address to listen on, or a list. Without it, \"[::]:80\"; with `https`, \"[::]:443\", and \"[::]:80\" redirects to \
     it. Where it is set, it is all: with `https`, each of these addresses has TLS, and none redirects to it.",
);

/// Names of its filters.
pub static FILTERS: Key<Vec<String>> = key(
    "filters",
    list(&text(&NAMED), 0),
    "Filters of `[http.filter]` by name, in order. Those of `auth`, `cache` and `compress` follow them; that of `auth` \
     stands before a `cache` filter among them.",
)
.or(Absent::Texts(&[]));

/// The users that it asks for.
pub static AUTH: OptionalKey<PathBuf> = key(
    "auth",
    text(&FILE),
    "File with users and hashes of their passwords, as `users_file` of a `basic-auth` filter: requests without one of \
     them get 401. Other filters that authenticate are named in `filters`.",
);

/// The site's cache.
pub static CACHE: PlaceKey = place(
    "cache",
    Kind::Either(&[Kind::Boolean, Kind::Table(&CACHE_TABLE)]),
    "Caches responses of the servers, as a `cache` filter does: `true`, or a table of settings.",
)
.or(Absent::No);

static CACHE_TABLE: Table =
    Table::new("site.cache", "Settings of the cache of a site.", CACHE_KEYS);

/// Settings of its cache, each a key of a `cache` filter.
pub static CACHE_KEYS: &[&Spec] = keys! { BYTES, STALE_WHILE_REVALIDATE, STALE_IF_ERROR };

/// True if its responses are compressed.
pub static COMPRESS: Key<bool> = key(
    "compress",
    boolean(),
    "Compresses responses for clients that accept it, as a `compress` filter does.",
)
.or(Absent::No);

/// True if it has a cache.
#[must_use]
pub fn is_cached(site: &Fields) -> bool {
    let cache = site.value(&CACHE.spec);
    cache.is_some_and(|node| !matches!(node.typed, Typed::Boolean(false)))
}

/// Finds the mistakes of what several keys of a site say together.
pub fn check(site: &Fields, mistakes: &mut Mistakes) {
    targets(site, mistakes);
    without_effect(site, mistakes);
    for (host, again, first) in repeated::<HostPattern>(site.items(&HOSTS)) {
        let message = format!("host `{}` is named twice", shown(&host_text(host)));
        let mistake = Mistake::new(again, message).label("again here");
        mistakes.push(mistake.also(first, "first here"));
    }
    for (address, again, first) in repeated::<ListenAddress>(site.items(&LISTEN)) {
        let mistake = Mistake::new(again, format!("{address} is named twice"));
        mistakes.push(mistake.label("again here").also(first, "first here"));
    }
    if let Some(node) = site.items(&LISTEN).get(SITE_ADDRESSES_MAX) {
        let message = format!("a site listens on at most {SITE_ADDRESSES_MAX} addresses");
        let mistake = Mistake::new(node.span, message).label("one too many");
        mistakes.push(mistake.help("`[::]:PORT` is every address of the machine"));
    }
    www(site, mistakes);
}

/// One thing alone answers.
fn targets(site: &Fields, mistakes: &mut Mistakes) {
    let targets = [
        (site.place_of(&PROXY), "servers answer"),
        (site.place_of(&FILES), "a folder answers"),
        (site.place_of(&REDIRECT), "a redirect answers"),
    ];
    let given = targets
        .into_iter()
        .filter_map(|(at, label)| Some((at?, label)));
    let mut given: Vec<_> = given.collect();
    given.sort_by_key(|(at, _)| at.start);
    if let [(first, of_first), (second, of_second), ..] = *given {
        let message = "a site has one of `proxy`, `files` and `redirect`";
        mistakes.push(
            Mistake::new(second, message)
                .label(of_second)
                .also(first, of_first)
                .help("take one of them out, or make a site of its own for it, with other hosts"),
        );
    }
}

/// Keys that say something of another target than that of the site.
fn without_effect(site: &Fields, mistakes: &mut Mistakes) {
    let (proxy, files) = (site.place_of(&PROXY), site.place_of(&FILES));
    if proxy.or(files).or(site.place_of(&REDIRECT)).is_none() {
        return;
    }
    let cache = site.place_of(&CACHE).filter(|_| is_cached(site));
    let compress = site
        .place_of(&COMPRESS)
        .filter(|_| site.get(&COMPRESS) == Some(true));
    let about_files = "set `files`, or take it out";
    let about_cache = match files {
        Some(_) => "take it out: files are read when they are asked for",
        None => "take it out",
    };
    let rows = [
        (
            "fallback",
            site.place_of(&FALLBACK),
            files,
            "`files`",
            about_files,
        ),
        ("cache", cache, proxy, "`proxy`", about_cache),
        (
            "compress",
            compress,
            proxy.or(files),
            "`proxy` or `files`",
            "take it out",
        ),
    ];
    for (name, at, target, needed, help) in rows {
        if let (Some(at), None) = (at, target) {
            let message = format!("`{name}` has no effect without {needed}");
            mistakes.push(Mistake::new(at, message).label("nothing to do").help(help));
        }
    }
}

/// An address has no names, and a wildcard has any.
fn www(site: &Fields, mistakes: &mut Mistakes) {
    let Some(at) = site.place_of(&WWW) else {
        return;
    };
    let hosts = valid::<HostPattern>(site.items(&HOSTS));
    for (host, span) in hosts.filter(|(host, _)| !is_name(host)) {
        let what = match host {
            HostPattern::Wildcard(_) => "a wildcard",
            HostPattern::Exact(_) => "an address",
        };
        let message = format!(
            "`www` needs names, and `{}` is {what}",
            shown(&host_text(host))
        );
        mistakes.push(
            Mistake::new(span, message)
                .label("no name")
                .also(at, "set here")
                .help("make a site of its own for it, without `www`"),
        );
    }
}

/// True for one name, which can have `www.` in front.
#[must_use]
pub fn is_name(host: &HostPattern) -> bool {
    match host {
        HostPattern::Wildcard(_) => false,
        HostPattern::Exact(name) => !name.starts_with('[') && name.parse::<Ipv4Addr>().is_err(),
    }
}
