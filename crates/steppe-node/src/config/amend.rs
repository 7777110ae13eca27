//! What the process changes in a configuration that was read: a command line may move its
//! addresses, the limit on open files may lower its connections, and the embedded default gets a
//! certificate that is made at start.
//!
//! Invariant: a change is made to what was read, and the types are built again from there, so
//! `/config` shows what is in force.

use std::path::Path;

use steppe_config::typed::{Fields, Node, Typed};
use steppe_dns::config::keys as dns;
use steppe_http::config::Listener;
use steppe_http::config::keys::listener::{CONNECTIONS, LIMITS, LISTEN, TLS};
use steppe_http::config::keys::tls::CERTIFICATES;
use steppe_http::config::keys::upstream::SERVERS;
use steppe_net::config::tls::{CERT, KEY};
use steppe_net::{ListenAddress, ServerAddress};

use super::{Config, build, forms};

impl Config {
    /// Moves the first listener.
    pub fn set_listen_address(&mut self, address: ListenAddress) {
        self.amend(|file| {
            if let Some(listener) = listeners(file).first_mut().and_then(Node::fields_mut) {
                listener.set(LISTEN.spec.name, forms::LISTEN.value(address));
            }
        });
    }

    /// Moves the first listener that has TLS.
    pub fn set_tls_listen_address(&mut self, address: ListenAddress) {
        self.amend(|file| {
            let mut listeners = listeners(file).iter_mut().filter_map(Node::fields_mut);
            if let Some(listener) = listeners.find(|each| each.place_of(&TLS).is_some()) {
                listener.set(LISTEN.spec.name, forms::LISTEN.value(address));
            }
        });
    }

    /// Moves the DNS forwarder's first listener.
    pub fn set_dns_listen_address(&mut self, address: ListenAddress) {
        self.amend(|file| {
            let dns = file.node_mut("dns").and_then(Node::fields_mut);
            let listeners = list(dns.and_then(|dns| dns.node_mut(dns::LISTENER.spec.name)));
            if let Some(listener) = listeners.first_mut().and_then(Node::fields_mut) {
                listener.set("listen", forms::LISTEN.value(address));
            }
        });
    }

    /// Puts these files in the place of each certificate of listeners.
    pub fn set_certificate(&mut self, cert: &Path, key: &Path) {
        self.amend(|file| {
            let listeners = listeners(file).iter_mut().filter_map(Node::fields_mut);
            let tls = listeners.filter_map(|each| each.node_mut(TLS.spec.name)?.fields_mut());
            for tls in tls {
                for certificate in list(tls.node_mut(CERTIFICATES.spec.name)) {
                    if let Some(certificate) = certificate.fields_mut() {
                        certificate.set(CERT.spec.name, Typed::File(cert.to_owned()));
                        certificate.set(KEY.spec.name, Typed::File(key.to_owned()));
                    }
                }
            }
        });
    }

    /// Takes away listeners that have TLS; another one must be left.
    pub fn remove_tls_listeners(&mut self) {
        self.amend(|file| {
            let http = file.node_mut("http").and_then(Node::fields_mut);
            if let Some(Node {
                typed: Typed::List(listeners),
                ..
            }) = http.and_then(|http| http.node_mut("listener"))
            {
                let has_tls = |node: &Node| {
                    let listener = node.fields();
                    listener.is_some_and(|each| each.place_of(&TLS).is_some())
                };
                listeners.retain(|listener| !has_tls(listener));
            }
        });
    }

    /// Moves the admin endpoint, where there is one.
    pub fn set_admin_address(&mut self, address: ListenAddress) {
        self.amend(|file| {
            if let Some(admin) = file.node_mut("admin").and_then(Node::fields_mut) {
                admin.set("listen", forms::LISTEN.value(address));
            }
        });
    }

    /// Puts one server in the place of each upstream's servers.
    pub fn set_servers(&mut self, address: &ServerAddress) {
        self.amend(|file| {
            let http = file.node_mut("http").and_then(Node::fields_mut);
            let upstreams = match http.and_then(|http| http.node_mut("upstream")) {
                Some(Node {
                    typed: Typed::Map(upstreams),
                    ..
                }) => upstreams,
                _ => return,
            };
            for entry in upstreams {
                let span = entry.span;
                let upstream = entry.value.fields_mut();
                if let Some(upstream) = upstream.filter(|each| each.place_of(&SERVERS).is_some()) {
                    let typed = forms::SERVER.value(address.clone()).into();
                    upstream.set(SERVERS.spec.name, Typed::List(vec![Node { span, typed }]));
                }
            }
        });
    }

    /// Sets how many connections each listener may have.
    pub fn set_connections(&mut self, limit: impl Fn(&Listener) -> usize) {
        let limits: Vec<usize> = self.http.listeners.iter().map(limit).collect();
        self.amend(|file| {
            for (listener, limit) in listeners(file).iter_mut().zip(limits) {
                let fields = listener.fields_mut();
                let limits = fields.and_then(|listener| listener.node_mut(LIMITS.spec.name));
                if let Some(limits) = limits.and_then(Node::fields_mut) {
                    limits.set(CONNECTIONS.spec.name, Typed::Number(limit as u64));
                }
            }
        });
    }

    fn amend(&mut self, change: impl FnOnce(&mut Fields)) {
        change(&mut self.file);
        let sections =
            build::sections(&self.file).expect("a valid value took the place of another");
        let build::Sections {
            node,
            admin,
            log,
            trace,
            http,
            dns,
            plane,
        } = sections;
        (self.node, self.admin, self.log, self.trace) = (node, admin, log, trace);
        (self.http, self.dns, self.plane) = (http, dns, plane);
    }
}

fn listeners(file: &mut Fields) -> &mut [Node] {
    let http = file.node_mut("http").and_then(Node::fields_mut);
    list(http.and_then(|http| http.node_mut("listener")))
}

fn list(node: Option<&mut Node>) -> &mut [Node] {
    match node {
        Some(Node {
            typed: Typed::List(items),
            ..
        }) => items,
        _ => &mut [],
    }
}
