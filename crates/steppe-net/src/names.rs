//! Server names, resolved on the control thread and again by TTL.
//!
//! Workers never wait for a name: they read the addresses that were found
//! last. A lookup that fails leaves those in place.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use tokio::sync::watch;

use crate::address::ServerAddress;
use crate::limits::{NAME_ADDRESSES_MAX, NAME_RETRY, NAME_TTL_MAX, NAME_TTL_MIN};
use crate::stream::PeerAddress;

/// Addresses of a name, for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// At least one.
    pub addresses: Vec<IpAddr>,
    /// How long they may be used.
    pub ttl: Duration,
}

/// Why a name has no addresses, for logs.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot resolve {host}: {reason}")]
pub struct NameError {
    /// The name.
    pub host: String,
    /// What the resolver said.
    pub reason: String,
}

/// Looks names up.
pub trait Resolve: Send + Sync {
    /// Addresses of `host`, IPv4 and IPv6.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Resolved, NameError>> + Send + 'a>>;
}

/// Resolves as the system is set up to: `/etc/hosts`, `/etc/resolv.conf`, search domains.
#[derive(Debug)]
pub struct SystemResolver(TokioResolver);

/// Names that are kept resolved.
#[derive(Clone)]
pub struct Names {
    resolver: Arc<dyn Resolve>,
    known: Arc<Mutex<Vec<Known>>>,
}

/// Where a server can be reached now.
#[derive(Debug, Clone)]
pub struct Endpoints {
    server: ServerAddress,
    addresses: watch::Receiver<Arc<[IpAddr]>>,
}

struct Known {
    host: String,
    addresses: watch::Receiver<Arc<[IpAddr]>>,
}

impl SystemResolver {
    /// Reads the system's settings.
    ///
    /// # Errors
    /// Where they can't be read.
    pub fn new() -> Result<Self, NameError> {
        let failed = |error: hickory_resolver::net::NetError| NameError {
            host: "/etc/resolv.conf".to_owned(),
            reason: error.to_string(),
        };
        let builder = TokioResolver::builder_tokio().map_err(failed)?;
        builder.build().map(Self).map_err(failed)
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Resolved, NameError>> + Send + 'a>> {
        Box::pin(async move {
            let found = self.0.lookup_ip(host).await.map_err(|error| NameError {
                host: host.to_owned(),
                reason: error.to_string(),
            })?;
            let ttl = found
                .valid_until()
                .saturating_duration_since(Instant::now());
            Ok(Resolved {
                addresses: found.iter().collect(),
                ttl,
            })
        })
    }
}

impl Names {
    /// Names that `resolver` looks up.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver,
            known: Arc::default(),
        }
    }

    /// Endpoints of `server`, resolved for as long as somebody holds them.
    ///
    /// Must be called within a runtime, which does the looking up.
    #[must_use]
    pub fn endpoints(&self, server: &ServerAddress) -> Endpoints {
        let addresses = match server {
            ServerAddress::Name { host, .. } => self.watch(host),
            ServerAddress::Ip(address) => watch::channel(Arc::from([address.ip()])).1,
            ServerAddress::Unix(_) => watch::channel(Arc::from([PeerAddress::Local.ip()])).1,
        };
        Endpoints {
            server: server.clone(),
            addresses,
        }
    }

    fn watch(&self, host: &str) -> watch::Receiver<Arc<[IpAddr]>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name| name.addresses.has_changed().is_ok());
        if let Some(name) = known.iter().find(|name| name.host == host) {
            return name.addresses.clone();
        }
        let (found, addresses) = watch::channel(Arc::from([]));
        // The task ends when every receiver but the list's own has gone.
        tokio::spawn(keep_resolved(self.resolver.clone(), host.to_owned(), found));
        known.push(Known {
            host: host.to_owned(),
            addresses: addresses.clone(),
        });
        addresses
    }
}

async fn keep_resolved(
    resolver: Arc<dyn Resolve>,
    host: String,
    found: watch::Sender<Arc<[IpAddr]>>,
) {
    // One receiver is the list's own.
    while found.receiver_count() > 1 {
        let wait = match resolver.resolve(&host).await {
            Ok(resolved) => {
                publish(&host, &resolved, &found);
                resolved.ttl.clamp(NAME_TTL_MIN, NAME_TTL_MAX)
            }
            Err(error) => {
                tracing::warn!(%error, kept = found.borrow().len(), "name lookup failed");
                NAME_RETRY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

fn publish(host: &str, resolved: &Resolved, found: &watch::Sender<Arc<[IpAddr]>>) {
    // A lookup may succeed without an address, as of an alias that leads nowhere.
    if resolved.addresses.is_empty() {
        tracing::warn!(host, kept = found.borrow().len(), "name has no addresses");
        return;
    }
    let mut addresses = resolved.addresses.clone();
    // A resolver rotates its answers; the order here must not change with them.
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() > NAME_ADDRESSES_MAX {
        tracing::warn!(
            host,
            count = addresses.len(),
            used = NAME_ADDRESSES_MAX,
            "many addresses"
        );
        addresses.truncate(NAME_ADDRESSES_MAX);
    }
    found.send_if_modified(|known| {
        let changed = **known != *addresses;
        if changed {
            tracing::info!(host, ?addresses, "name resolved");
            *known = addresses.into();
        }
        changed
    });
}

impl Endpoints {
    /// The server as it was configured.
    #[must_use]
    pub fn server(&self) -> &ServerAddress {
        &self.server
    }

    /// The addresses found last; none where the name has not been resolved yet.
    #[must_use]
    pub fn addresses(&self) -> Arc<[IpAddr]> {
        self.addresses.borrow().clone()
    }

    /// Where to connect to, at one of its addresses; `None` for a Unix socket.
    #[must_use]
    pub fn socket_address(&self, ip: IpAddr) -> Option<SocketAddr> {
        match &self.server {
            ServerAddress::Ip(address) => Some(*address),
            ServerAddress::Name { port, .. } => Some(SocketAddr::new(ip, *port)),
            ServerAddress::Unix(_) => None,
        }
    }
}
