//! Keys of `[admin]`.

use std::path::PathBuf;

use steppe_config::form::FILE;
use steppe_config::key::{Key, OptionalKey, key, section, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::Table;
use steppe_config::typed::Fields;
use steppe_net::ListenAddress;
use steppe_net::config::forms;
use steppe_net::config::tls::{CERT, KEY};
use steppe_net::tls::config::CertificateFiles;

/// `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The address of admin: loopback or a Unix socket unless there is a token.
    pub listen: ListenAddress,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    /// The address of `/healthz` and `/readyz` alone.
    pub probes: Option<ListenAddress>,
    /// The certificate of `listen`. `None`: without TLS.
    pub tls: Option<CertificateFiles>,
}

pub static TABLE: Table = Table::new(
    "admin",
    "The admin endpoint: page, metrics, memory, configuration. Without this section there is none.",
    keys! { LISTEN, TOKEN_FILE, PROBES, TLS },
);

pub static LISTEN: Key<ListenAddress> = key(
    "listen",
    text(&forms::LISTEN),
    "Address of the admin page, `/metrics`, `/memory`, `/config`, `/events`, `/healthz` and \
     `/readyz`. On loopback without a token, only requests whose `Host` is an IP address or \
     `localhost` are answered, which protects against DNS rebinding by web pages.",
)
.required();

pub static TOKEN_FILE: OptionalKey<PathBuf> = key(
    "token_file",
    text(&FILE),
    "File with the bearer token of the admin endpoint. Required unless `listen` is loopback or a \
     Unix socket. Without the token, only the probes and the files of the admin page are served; \
     the page holds no data, asks for the token, and keeps it until its tab is closed.",
);

pub static PROBES: OptionalKey<ListenAddress> = key(
    "probes",
    text(&forms::LISTEN),
    "Separate address for `/healthz` and `/readyz`, without token and without TLS. They are then \
     not served on `listen`.",
);

pub static TLS: OptionalKey<CertificateFiles> = section("tls", &TLS_TABLE, certificate);

static TLS_TABLE: Table = Table::new(
    "admin.tls",
    "TLS of `admin.listen`. The files are read again when they change.",
    keys! { CERT, KEY },
);

/// Builds `[admin]`; `None`: a value is invalid, and its mistake was reported.
pub fn build(admin: &Fields) -> Option<Admin> {
    Some(Admin {
        listen: admin.get(&LISTEN)?,
        token_file: admin.get(&TOKEN_FILE)?,
        probes: admin.get(&PROBES)?,
        tls: admin.get(&TLS)?,
    })
}

fn certificate(tls: &Fields) -> Option<CertificateFiles> {
    Some(CertificateFiles {
        cert: tls.get(&CERT)?,
        key: tls.get(&KEY)?,
        ocsp: None,
    })
}

/// Checks rules between keys of `[admin]`.
///
/// An address that other machines reach needs a token.
pub fn check(admin: &Fields, mistakes: &mut Mistakes) {
    let Some((listen, span)) = admin.located(&LISTEN) else {
        return;
    };
    if is_local(&listen) || admin.place_of(&TOKEN_FILE).is_some() {
        return;
    }
    mistakes.push(
        Mistake::new(
            span,
            format!("admin on {listen} is reachable from other machines without a token"),
        )
        .label("neither loopback nor a Unix socket")
        .help("set `token_file`, or listen on 127.0.0.1"),
    );
}

/// True if no other machine reaches an address.
pub fn is_local(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp(address) => address.ip().to_canonical().is_loopback(),
        ListenAddress::Unix(_) => true,
    }
}
