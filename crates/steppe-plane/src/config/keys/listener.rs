//! Keys of listeners.

use steppe_config::key::{Key, OptionalKey, key, list, table, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::Fields;
use steppe_net::ListenAddress;
use steppe_net::config::{forms, tls};
use steppe_net::tls::config::{CertificateFiles, ListenerConfig};

use crate::ALPN;
use crate::config::Listener;

/// `[[plane.listener]]`.
pub static LISTENER: Key<Vec<Listener>> =
    key("listener", list(&table(&TABLE, build), 0), TABLE.doc).or(Absent::Texts(&[]));

static TABLE: Table = Table::new(
    "plane.listener",
    "Addresses that callers and workers connect to.",
    keys! { LISTEN, TLS },
);

/// Address to listen on.
pub static LISTEN: Key<ListenAddress> = key(
    "listen",
    text(&forms::LISTEN),
    "Address to listen on. \"[::]:7700\" is dual stack: IPv4 too.",
)
.required();

/// TLS of the listener.
pub static TLS: OptionalKey<ListenerConfig> = key(
    "tls",
    table(&TLS_TABLE, |tls| {
        tls::listener(tls, &CERTIFICATES, vec![ALPN.to_vec()])
    }),
    TLS_TABLE.doc,
);

static TLS_TABLE: Table = Table::new(
    "plane.listener.tls",
    "TLS of a listener. With `client_auth = \"required\"`, callers and workers must present certificates. \
     Each session takes 96 KiB of the budget beside its connection.",
    &tls::listener_keys::<9>(&CERTIFICATES.spec, &tls::ACME),
);

/// Certificates of the listener.
pub static CERTIFICATES: Key<Vec<CertificateFiles>> = tls::certificates(&Kind::Table(&CERTIFICATE));

static CERTIFICATE: Table = tls::certificate("plane.listener.tls.certificates");

fn build(listener: &Fields) -> Option<Listener> {
    Some(Listener {
        address: listener.get(&LISTEN)?,
        tls: listener.get(&TLS)?,
    })
}

pub(super) fn check(listener: &Fields, mistakes: &mut Mistakes) {
    if let Some((ListenAddress::Unix(_), span)) = listener.located(&LISTEN) {
        let mistake = Mistake::new(span, "the request plane can't listen on a Unix socket");
        let mistake = mistake.label("not an address and a port");
        mistakes.push(mistake.help("write one such as \"127.0.0.1:7700\""));
    }
    if let Some(tls) = listener.within(&TLS) {
        tls::check_listener(tls, mistakes);
    }
}
