//! The admin server: metrics, health, memory and configuration over HTTP/1.1.
//!
//! The server runs on the control thread and shares with the workers only what they publish, so a
//! slow scraper costs a client nothing.
//!
//! Invariant: beyond loopback and Unix sockets only the probes answer without a token, and no
//! answer contains a secret. Connections, heads, bodies and time are bounded ([`limits`]).
//!
//! Invariant: a request that a page of another site makes a browser send gets a refusal, and
//! requests that change the node are POST or DELETE: draining and undraining servers, reloads, and
//! removing DNS responses from the cache.
//!
//! Invariant: silent and slow peers delay no request: when all places are taken, one of them loses
//! its place.
//!
//! Leaves out client certificates: the token is the access control.

mod access;
mod cache;
mod certificates;
mod connections;
mod dns;
mod endpoints;
mod heap_profile;
pub mod limits;
mod live;
mod metrics;
mod page;
mod plane;
mod rate;
mod readiness;
mod server;
mod stall;
mod token;
pub(crate) mod trust;
mod upstreams;

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use steppe_dns::DnsService;
use steppe_http::cache::Caches;
use steppe_http::certificates::Certificates;
use steppe_http::upstream::Upstreams;
use steppe_net::tls::config::{CertificateFiles, ClientAuth, ListenerConfig, MinVersion};
use steppe_net::tls::{ListenerTls, LoadError, keep_current};
use steppe_net::{BindError, BoundListener, Inherited, ListenAddress};
use steppe_plane::PlaneService;
use steppe_telemetry::Registry;
use steppe_telemetry::recent::Recent;
use tokio::sync::mpsc;

use crate::memory;
use crate::reload::{Ask, Status};
use access::Access;
use live::Live;

pub use live::history::FIXED_BYTES;
pub use readiness::{Readiness, State};
pub use token::{Token, TokenError};

/// The addresses of admin, and the access to it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `admin.listen`.
    pub listen: ListenAddress,
    /// `admin.probes`: health and readiness alone. `None`: they are on `listen`.
    pub probes: Option<ListenAddress>,
    /// `admin.token_file`.
    pub token_file: Option<PathBuf>,
    /// `admin.tls`: the certificate of `listen`. `None`: without TLS.
    pub tls: Option<CertificateFiles>,
}

/// The data behind the endpoints.
#[derive(Debug)]
pub struct Content {
    /// Everything that `/metrics` scrapes.
    pub metrics: Registry,
    /// The sources of `/memory`.
    pub memory: memory::Sources,
    /// The servers of `/upstreams`, which also drains them.
    pub upstreams: Arc<Upstreams>,
    /// The caches of `/cache`, which also purges them.
    pub caches: Arc<Caches>,
    /// The forwarder of `/dns` and `/dns/flush`.
    pub dns: DnsService,
    /// The services of `/plane`.
    pub plane: PlaneService,
    /// The certificates of `/certificates`.
    pub certificates: Arc<Certificates>,
    /// The effective configuration, and the result of the last reload.
    pub config: Status,
    /// The channel for requests to reload.
    pub reload: mpsc::Sender<Ask>,
    /// The state of `/readyz`.
    pub readiness: Readiness,
    /// The log's last warnings and errors.
    pub recent: Recent,
}

/// Admin with its sockets bound, and not served yet.
#[derive(Debug)]
pub struct Admin {
    listen: BoundListener,
    tls: Option<Arc<ListenerTls>>,
    probes: Option<BoundListener>,
    access: Access,
}

/// The reason why admin can't start. Each names the key of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// A socket can't be bound.
    #[error("admin.{key}: {source}")]
    Bind {
        /// `listen` or `probes`.
        key: &'static str,
        /// The reason.
        source: BindError,
    },
    /// The runtime, or the file system, refuses the socket.
    #[error("admin.{key}: {address}: {source}")]
    Socket {
        /// `listen` or `probes`.
        key: &'static str,
        /// The address of the socket.
        address: ListenAddress,
        /// The reason.
        source: std::io::Error,
    },
    /// The address can be reached from other machines, and there is no token.
    #[error("admin.listen: {0} is reachable from other machines and needs admin.token_file")]
    NeedsToken(ListenAddress),
    /// The certificate or its key can't be used.
    #[error("admin.tls: {0}")]
    Tls(#[from] LoadError),
    /// The token can't be used.
    #[error("admin.token_file: {0}")]
    Token(#[from] TokenError),
    /// The budget has no room for the history of the admin page.
    #[error("node.memory_budget: no room for the history of the admin page: {0}")]
    OverBudget(#[from] steppe_mem::OverBudget),
}

impl Admin {
    /// Reads the token and binds the sockets, or takes them from those that were `inherited`.
    ///
    /// # Errors
    /// [`AdminError`]; nothing stays bound then.
    pub fn bind(settings: &Settings, inherited: &Inherited) -> Result<Self, AdminError> {
        let token = settings
            .token_file
            .as_deref()
            .map(Token::read)
            .transpose()?;
        let is_local = crate::config::is_local(&settings.listen);
        if token.is_none() && !is_local {
            return Err(AdminError::NeedsToken(settings.listen.clone()));
        }
        let tls = settings.tls.as_ref().map(|files| load(files, settings));
        let tls = tls.transpose()?;
        let listen = bind("listen", &settings.listen, inherited)?;
        if let (ListenAddress::Unix(path), None) = (&settings.listen, &token) {
            // Without a token the file's mode is the only guard there is.
            let owner_only = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path, owner_only)
                .map_err(|source| socket_error("listen", &settings.listen, source))?;
        }
        let probes = settings
            .probes
            .as_ref()
            .map(|address| bind("probes", address, inherited))
            .transpose()?;
        let access = match (token, &settings.listen) {
            (Some(token), _) => Access::Token(token),
            (None, ListenAddress::Tcp(_)) => Access::LoopbackNames,
            (None, ListenAddress::Unix(_)) => Access::Open,
        };
        Ok(Self {
            listen,
            tls,
            probes,
            access,
        })
    }

    /// The address that admin listens on, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        self.listen.address()
    }

    /// TLS of `listen`, if it has any.
    #[must_use]
    pub fn tls(&self) -> Option<&Arc<ListenerTls>> {
        self.tls.as_ref()
    }

    /// The address of the probes, if they have one of their own.
    #[must_use]
    pub fn probes_address(&self) -> Option<&ListenAddress> {
        self.probes.as_ref().map(BoundListener::address)
    }

    /// Serves until the future is dropped, which ends every connection.
    ///
    /// Must be called, and polled, within a runtime.
    ///
    /// # Errors
    /// If the runtime has no room for the sockets, or the budget none for the page's history.
    pub fn serve(self, content: Content) -> Result<impl Future<Output = ()> + Send, AdminError> {
        let content = Arc::new(content);
        let probes_apart = self.probes.is_some();
        let live = Live::new(Arc::clone(&content))?;
        let main = endpoints::router(Arc::clone(&live), self.access, probes_apart);
        let main = server::Server::new("listen", self.listen, (self.tls.clone(), main))?;
        let probes = self
            .probes
            .map(|bound| server::Server::new("probes", bound, (None, endpoints::probes(content))))
            .transpose()?;
        let files = async move {
            if let Some(tls) = self.tls {
                keep_current(tls).await;
            }
        };
        Ok(async move {
            match probes {
                Some(probes) => _ = tokio::join!(live.run(), files, main.run(), probes.run()),
                None => _ = tokio::join!(live.run(), files, main.run()),
            }
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "secrets of tickets are made then"
)]
fn load(files: &CertificateFiles, settings: &Settings) -> Result<Arc<ListenerTls>, LoadError> {
    let config = ListenerConfig {
        certificates: vec![files.clone()],
        min_version: MinVersion::default(),
        client: ClientAuth::None,
        ticket_keys: None,
        alpn: vec![b"http/1.1".to_vec()],
    };
    let name = format!("admin {}", settings.listen);
    let tls = ListenerTls::load(&config, &name, None, Instant::now())?;
    Ok(Arc::new(tls))
}

fn bind(
    key: &'static str,
    address: &ListenAddress,
    inherited: &Inherited,
) -> Result<BoundListener, AdminError> {
    let bound = inherited.bind(address, 1);
    let bound = bound.map_err(|source| AdminError::Bind { key, source })?;
    Ok(bound
        .into_iter()
        .next()
        .expect("one listener for one worker"))
}

fn socket_error(key: &'static str, address: &ListenAddress, source: std::io::Error) -> AdminError {
    AdminError::Socket {
        key,
        address: address.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
