//! Checks of certificates, keys and authorities: of listeners, of servers, of admin.

use std::path::PathBuf;
use std::time::Instant;

use steppe_config::key::Key;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Named, Node};
use steppe_dns::config::keys as dns;
use steppe_http::config::keys::tls::CERTIFICATES;
use steppe_http::config::keys::{gateway, listener, upstream};
use steppe_net::config::tls;
use steppe_net::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, ListenerConfig, MinVersion, ServerTrust,
};
use steppe_net::tls::{ListenerTls, ServerTls, read};
use steppe_plane::config::keys as plane;

use super::problems::Problems;
use crate::config::keys::{ADMIN, DISCOVERY, DNS, HTTP, PLANE, admin};
use crate::config::sites;

const HELP: &str = "`steppe cert FILE` shows the certificates of a file, and their problems";

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    let http = file
        .within(&HTTP)
        .map(|http| http.items(&gateway::LISTENER));
    let dns = file.within(&DNS).map(|dns| dns.items(&dns::LISTENER));
    let plane = file
        .within(&PLANE)
        .map(|plane| plane.items(&plane::LISTENER));
    let of_dns = (&dns::listener::TLS.spec, &dns::listener::CERTIFICATES);
    let of_plane = (&plane::listener::TLS.spec, &plane::listener::CERTIFICATES);
    let sites = sites::places(file);
    for (section, listeners, (tls, certificates)) in [
        ("http", http, (&listener::TLS.spec, &CERTIFICATES)),
        ("dns", dns, of_dns),
        ("plane", plane, of_plane),
    ] {
        let listeners = listeners.unwrap_or_default().iter();
        for node in listeners.filter_map(|listener| listener.fields()?.value(tls)) {
            let name = match sites.get(&node.span) {
                Some(key) => format!("`{key}` of a site"),
                None => format!("`{section}.listener.tls`"),
            };
            let problems = Problems::new(node, name, mistakes).with_help(HELP);
            self::listener(problems, certificates);
        }
    }
    admin(file, mistakes);
    servers(file, mistakes);
}

fn listener(mut problems: Problems<'_>, certificates: &'static Key<Vec<CertificateFiles>>) {
    let tls = problems.node.fields();
    let Some(config) = tls.and_then(|tls| tls::listener(tls, certificates, Vec::new())) else {
        return;
    };
    let mut usable = None;
    for files in &config.certificates {
        let part = of_certificate(files.clone());
        if are_readable(&mut problems, paths(files)) && is_loaded(&mut problems, &part) {
            usable.get_or_insert(part);
        }
    }
    for (rest, paths) in clients(&config) {
        if let (true, Some(part)) = (are_readable(&mut problems, paths), &usable) {
            let certificates = part.certificates.clone();
            is_loaded(
                &mut problems,
                &ListenerConfig {
                    certificates,
                    ..rest
                },
            );
        }
    }
}

/// The parts of a listener besides its certificates, a file at a time, and the files of each part.
fn clients(config: &ListenerConfig) -> Vec<(ListenerConfig, Vec<PathBuf>)> {
    let mut parts = Vec::new();
    let without = |client: ClientAuth, ticket_keys: Option<PathBuf>| ListenerConfig {
        certificates: Vec::new(),
        min_version: config.min_version,
        client,
        ticket_keys,
        alpn: Vec::new(),
    };
    if let ClientAuth::Optional(trust) | ClientAuth::Required(trust) = &config.client {
        let lists = trust.crls.iter().map(|list| vec![list.clone()]);
        for crls in [Vec::new()].into_iter().chain(lists) {
            let paths = [vec![trust.ca.clone()], crls.clone()].concat();
            let trust = ClientTrust {
                crls,
                ..trust.clone()
            };
            parts.push((without(ClientAuth::Required(trust), None), paths));
        }
    }
    if let Some(keys) = &config.ticket_keys {
        parts.push((
            without(ClientAuth::None, Some(keys.clone())),
            vec![keys.clone()],
        ));
    }
    parts
}

fn of_certificate(files: CertificateFiles) -> ListenerConfig {
    ListenerConfig {
        certificates: vec![files],
        min_version: MinVersion::default(),
        client: ClientAuth::None,
        ticket_keys: None,
        alpn: Vec::new(),
    }
}

fn paths(files: &CertificateFiles) -> Vec<PathBuf> {
    let CertificateFiles { cert, key, ocsp } = files;
    [cert, key].into_iter().chain(ocsp).cloned().collect()
}

/// True if all files can be read; the others are reported.
fn are_readable(problems: &mut Problems<'_>, paths: Vec<PathBuf>) -> bool {
    let mut are_readable = true;
    for path in paths {
        if let Err(error) = read(&path) {
            problems.tell(error);
            are_readable = false;
        }
    }
    are_readable
}

#[expect(
    clippy::disallowed_methods,
    reason = "files of TLS are read as at a start"
)]
fn is_loaded(problems: &mut Problems<'_>, config: &ListenerConfig) -> bool {
    let loaded = ListenerTls::load(config, "check", None, Instant::now());
    loaded.map_err(|error| problems.tell(error)).is_ok()
}

fn admin(file: &Fields, mistakes: &mut Mistakes) {
    let Some(admin) = file.within(&ADMIN) else {
        return;
    };
    let (Some(node), Some(Some(files))) = (admin.value(&admin::TLS.spec), admin.get(&admin::TLS))
    else {
        return;
    };
    let mut problems = Problems::new(node, "`admin.tls`".to_owned(), mistakes).with_help(HELP);
    if are_readable(&mut problems, paths(&files)) {
        is_loaded(&mut problems, &of_certificate(files));
    }
}

/// Checks TLS to servers of the gateway and the forwarder, and to workers.
fn servers(file: &Fields, mistakes: &mut Mistakes) {
    let http = file
        .within(&HTTP)
        .map(|http| http.entries(&gateway::UPSTREAM));
    for upstream in http.unwrap_or_default() {
        let fields = upstream.value.fields();
        let trust = fields.and_then(upstream::trust);
        if let (Some(fields), Some(Some(trust))) = (fields, trust) {
            let name = of_upstream(upstream);
            server(fields.value(&upstream::TLS.spec), name, &trust, mistakes);
        }
    }
    let dns = file.within(&DNS).map(|dns| dns.entries(&dns::UPSTREAM));
    for upstream in dns.unwrap_or_default() {
        let fields = upstream.value.fields();
        let tls = fields.and_then(|fields| fields.value(&dns::upstream::TLS.spec));
        let ca = tls.and_then(|tls| tls.fields()?.get(&dns::upstream::CA));
        if let Some(ca) = ca {
            server(tls, of_upstream(upstream), &authorities(ca), mistakes);
        }
    }
    let discovery = file.value(&DISCOVERY.spec).and_then(Node::fields);
    let trust = discovery.and_then(|discovery| discovery.get(&plane::discovery::TLS)?);
    if let (Some(discovery), Some(trust)) = (discovery, trust) {
        let tls = discovery.value(&plane::discovery::TLS.spec);
        server(tls, "`discovery.tls`".to_owned(), &trust, mistakes);
    }
}

fn of_upstream(upstream: &Named) -> String {
    format!("`tls` of upstream `{}`", upstream.name)
}

fn server(tls: Option<&Node>, name: String, trust: &ServerTrust, mistakes: &mut Mistakes) {
    let Some(node) = tls else {
        return;
    };
    let mut problems = Problems::new(node, name, mistakes).with_help(HELP);
    let identity = trust.identity.as_ref().map(paths).unwrap_or_default();
    let all = trust.ca.iter().cloned().chain(identity);
    if are_readable(&mut problems, all.collect())
        && let Err(error) = ServerTls::load(trust)
    {
        problems.tell(error);
    }
}

fn authorities(ca: Option<PathBuf>) -> ServerTrust {
    ServerTrust {
        // The system's authorities are checked when a server is contacted.
        verify: ca.is_some(),
        ca,
        server_name: None,
        identity: None,
        pins: Vec::new(),
        min_version: MinVersion::default(),
        alpn: Vec::new(),
    }
}
