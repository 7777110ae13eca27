//! Listeners that sites share with each other, and with those of the file.
//!
//! Invariant: a listener of the file is used as it stands; where a site needs another one, that is a mistake.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::sources::Sources;
use steppe_config::tree::{Entry, Value, ValueKind};
use steppe_net::ListenAddress;

use super::sites::{Address, Site};

/// Listeners of sites, in the order in which they are needed first, but for those that the file has.
pub(super) fn added(
    tree: &Value,
    sites: &[Site<'_>],
    files: &Sources<'_>,
    mistakes: &mut Mistakes,
) -> Vec<Value> {
    let written = written(tree, files);
    let mut shared = SiteListeners::default();
    for site in sites {
        let served = site.served_on.iter().map(|address| (address, site.https));
        let redirected = site.redirected_on.iter().map(|address| (address, None));
        for (address, https) in served.chain(redirected) {
            let use_ = Use {
                site,
                address,
                https,
                files,
            };
            match written.get(&address.address) {
                Some(listener) => use_.check(listener, mistakes),
                None => shared.add(&use_, mistakes),
            }
        }
    }
    shared
        .listeners
        .into_iter()
        .map(SiteListener::value)
        .collect()
}

/// Listeners of the file by their addresses.
fn written<'a>(tree: &'a Value, files: &Sources<'_>) -> HashMap<ListenAddress, &'a Value> {
    let http = tree.entry("http");
    let listeners = http.and_then(|http| http.value.entry("listener"));
    let listeners = listeners.map_or(&[][..], |entry| entry.value.items());
    let address = |listener: &Value| Address::of(&listener.entry("listen")?.value, files);
    let listeners = listeners.iter();
    listeners
        .filter_map(|listener| Some((address(listener)?.address, listener)))
        .collect()
}

/// An address that a site needs, and how.
struct Use<'a> {
    site: &'a Site<'a>,
    address: &'a Address,
    /// The certificate that it is served with; `None`: over http.
    https: Option<&'a Value>,
    files: &'a Sources<'a>,
}

impl Use<'_> {
    fn has_certificate(&self, tls: &Value, files: &Value) -> bool {
        let listed = tls.entry("certificates");
        let mut listed = listed.map_or(&[][..], |listed| listed.value.items()).iter();
        listed.any(|each| pair(each, self.files) == pair(files, self.files))
    }

    /// Finds what a listener of the file lacks.
    fn check(&self, listener: &Value, mistakes: &mut Mistakes) {
        let address = &self.address.address;
        let tls = listener.entry("tls");
        let is_redirecting = listener
            .entry("redirect_https")
            .is_some_and(|entry| !matches!(entry.value.kind, ValueKind::Boolean(false)));
        let (message, label, help) = match (self.https, tls) {
            (Some(_), None) => (
                format!("the `http.listener` on {address} has no `tls`"),
                "this site has `https`",
                "add `tls` with this certificate to the listener, or take the listener out: sites bring their own",
            ),
            (Some(files), Some(tls)) if !self.has_certificate(&tls.value, files) => (
                format!("the `http.listener` on {address} does not have this certificate"),
                "of this site",
                "add it to `tls.certificates` of the listener, or take the listener out: sites bring their own",
            ),
            (None, Some(_)) if self.site.https.is_some() => (
                format!(
                    "the `http.listener` on {address} has `tls`: http can't be redirected there"
                ),
                "this site redirects http",
                "set `listen` of the site, which then redirects no http",
            ),
            (None, Some(_)) => (
                format!("the `http.listener` on {address} has `tls`"),
                "this site has no `https`",
                "add `https`, or another `listen`",
            ),
            (None, None) if is_redirecting && self.site.https.is_none() => (
                format!("the `http.listener` on {address} redirects every request to https"),
                "this site has no `https`",
                "add `https`, or another `listen`",
            ),
            _ => return,
        };
        let at = self
            .https
            .map_or(self.address.written.span, |https| https.span);
        let mistake = Mistake::new(at, message).label(label);
        mistakes.push(mistake.also(listener.span, "the listener").help(help));
    }
}

/// Certificate and key, in the folder of the file that names them.
fn pair(value: &Value, files: &Sources<'_>) -> Pair {
    ["cert", "key"].map(|name| {
        let path = &value.entry(name)?.value;
        let folder = files.file(path.span.start).folder();
        Some(folder.join(path.as_text()?))
    })
}

/// Paths of a certificate and its key.
type Pair = [Option<PathBuf>; 2];

/// Listeners that sites share.
#[derive(Default)]
struct SiteListeners<'a> {
    numbers: HashMap<ListenAddress, usize>,
    listeners: Vec<SiteListener<'a>>,
}

/// A listener of sites.
struct SiteListener<'a> {
    /// The header of the site that needs it first.
    span: Span,
    address: &'a Address,
    certificates: Vec<&'a Value>,
    pairs: HashSet<Pair>,
}

impl<'a> SiteListeners<'a> {
    fn add(&mut self, use_: &Use<'a>, mistakes: &mut Mistakes) {
        let address = use_.address;
        let number = *self
            .numbers
            .entry(address.address.clone())
            .or_insert_with(|| {
                self.listeners.push(SiteListener {
                    span: use_.site.span,
                    address,
                    certificates: use_.https.into_iter().collect(),
                    pairs: use_
                        .https
                        .map(|https| pair(https, use_.files))
                        .into_iter()
                        .collect(),
                });
                self.listeners.len() - 1
            });
        let listener = &mut self.listeners[number];
        match (use_.https, listener.certificates.is_empty()) {
            (Some(files), false) if listener.pairs.insert(pair(files, use_.files)) => {
                listener.certificates.push(files);
            }
            (Some(_), false) | (None, true) => {}
            (Some(_), true) | (None, false) => {
                let address = &address.address;
                let message = format!("sites with and without `https` on {address}");
                let (label, of_first) = match use_.https {
                    Some(_) => ("with", "without"),
                    None => ("without", "with"),
                };
                mistakes.push(
                    Mistake::new(use_.address.written.span, message)
                        .label(label)
                        .also(listener.address.written.span, of_first)
                        .help("let one of them `listen` on another address"),
                );
            }
        }
    }
}

impl SiteListener<'_> {
    fn value(self) -> Value {
        let at = self.span;
        let mut entries = vec![Entry::new("listen", at, self.address.written.clone())];
        if let Some(first) = self.certificates.first().map(|files| files.span) {
            let protocols = ["h1", "h2"].map(|name| Value::text(at, name));
            entries.push(Entry::new(
                "protocols",
                at,
                Value::list(at, protocols.into()),
            ));
            let certificates = self.certificates.into_iter().cloned().collect();
            let certificates = Entry::new("certificates", first, Value::list(first, certificates));
            entries.push(Entry::new(
                "tls",
                first,
                Value::table(first, vec![certificates]),
            ));
        }
        Value::table(at, entries)
    }
}
