//! A site as it is read: its name, its hosts, its addresses.

use std::collections::HashSet;

use steppe_config::form::{AnyForm, FromText};
use steppe_config::mistake::Span;
use steppe_config::sources::Sources;
use steppe_config::table::Spec;
use steppe_config::tree::Value;
use steppe_config::typed::{Fields, valid};
use steppe_net::ListenAddress;
use steppe_net::config::forms::LISTEN as LISTENED;

use crate::config::HostPattern;
use crate::config::keys::route::host_text;
use crate::config::keys::site::{HOSTS, HTTPS, LISTEN, NAME, WWW, Www, is_name};
use crate::limits::SITE_ADDRESSES_MAX;

/// A site whose values are valid.
pub(super) struct Site<'a> {
    /// The place of the site's header.
    pub(super) span: Span,
    /// The site as written in the file.
    pub(super) written: &'a Value,
    /// The values as they were read.
    pub(super) fields: &'a Fields,
    pub(super) name: String,
    /// The place of its name, or of the host that it is called after.
    pub(super) name_span: Span,
    pub(super) hosts: Vec<Host>,
    /// The site's certificate, as written in the file.
    pub(super) https: Option<&'a Value>,
    /// Addresses where the site is served.
    pub(super) served_on: Vec<Address>,
    /// Addresses where requests are redirected to https.
    pub(super) redirected_on: Vec<Address>,
}

/// A host of a site.
pub(super) struct Host {
    /// The name that is served.
    pub(super) served: String,
    /// The one with or without `www.`, which is redirected to it.
    pub(super) other: Option<String>,
    pub(super) span: Span,
}

/// An address, and what stands for it in the file.
pub(super) struct Address {
    pub(super) address: ListenAddress,
    pub(super) written: Value,
}

impl Address {
    /// The address that a value of these files is.
    pub(super) fn of(written: &Value, files: &Sources<'_>) -> Option<Self> {
        let folder = files.file(written.span.start).folder();
        let read = LISTENED.read(written.as_text()?, folder).ok()?;
        let FromText::Parsed(parsed) = read else {
            return None;
        };
        Some(Self {
            address: parsed.value::<ListenAddress>()?.clone(),
            written: written.clone(),
        })
    }

    /// The port of a TCP address that is known.
    pub(super) fn port(&self) -> Option<u16> {
        match &self.address {
            ListenAddress::Tcp(tcp) => Some(tcp.port()).filter(|port| *port != 0),
            ListenAddress::Unix(_) => None,
        }
    }
}

impl<'a> Site<'a> {
    /// `None`: a value of it is invalid, and its mistake was reported.
    pub(super) fn of(fields: &'a Fields, written: &'a Value, files: &Sources<'_>) -> Option<Self> {
        let span = written.span;
        if !fields.is_valid() {
            return None;
        }
        let www = fields.get(&WWW)?;
        if fields.items(&LISTEN).len() > SITE_ADDRESSES_MAX {
            return None;
        }
        let hosts = hosts(fields, www);
        let first = hosts.first()?;
        let (name, name_span) = match fields.get(&NAME)? {
            Some(name) => (name, place(fields)),
            None => (first.served.clone(), first.span),
        };
        let https = fields.get(&HTTPS)?.is_some();
        let https = https.then(|| written.entry(HTTPS.spec.name)).flatten();
        let (served_on, redirected_on) = match (fields.get(&LISTEN)?, https) {
            (Some(_), _) => (listen(written, files), Vec::new()),
            (None, None) => (usual(span, HTTP, files), Vec::new()),
            (None, Some(_)) => (usual(span, HTTPS_ADDRESS, files), usual(span, HTTP, files)),
        };
        Some(Self {
            span,
            written,
            fields,
            name,
            name_span,
            hosts,
            https: https.map(|entry| &entry.value),
            served_on,
            redirected_on,
        })
    }

    /// All of its addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.served_on.iter().chain(&self.redirected_on)
    }

    /// The value of a key as the file has it; `None`: it is absent.
    pub(super) fn value(&self, key: &'static Spec) -> Option<&'a Value> {
        // Defaults are not written.
        self.fields.value(key)?;
        Some(&self.written.entry(key.name)?.value)
    }
}

/// Where sites are served over http.
const HTTP: &str = "[::]:80";

/// Where sites are served over https.
const HTTPS_ADDRESS: &str = "[::]:443";

fn usual(span: Span, address: &str, files: &Sources<'_>) -> Vec<Address> {
    Address::of(&Value::text(span, address), files)
        .into_iter()
        .collect()
}

fn listen(written: &Value, files: &Sources<'_>) -> Vec<Address> {
    let Some(entry) = written.entry(LISTEN.spec.name) else {
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let one = Address::of(&entry.value, files).into_iter();
    let items = entry.value.items().iter();
    let all = one.chain(items.filter_map(|item| Address::of(item, files)));
    all.filter(|each| seen.insert(each.address.clone()))
        .collect()
}

fn place(fields: &Fields) -> Span {
    let name = fields.value(&NAME.spec);
    name.map_or(fields.span, |node| node.span)
}

/// Each host once.
fn hosts(fields: &Fields, www: Option<Www>) -> Vec<Host> {
    let mut seen = HashSet::new();
    let hosts = valid::<HostPattern>(fields.items(&HOSTS));
    let hosts = hosts.map(|(host, span)| {
        let text = host_text(host);
        let Some(www) = www.filter(|_| is_name(host)) else {
            let (served, other) = (text, None);
            return Host {
                served,
                other,
                span,
            };
        };
        let without = text.strip_prefix("www.").unwrap_or(&text).to_owned();
        let with = format!("www.{without}");
        let (served, other) = match www {
            Www::Add => (with, without),
            Www::Remove => (without, with),
        };
        Host {
            served,
            other: Some(other),
            span,
        }
    });
    hosts
        .filter(|host| seen.insert(host.served.clone()))
        .collect()
}
