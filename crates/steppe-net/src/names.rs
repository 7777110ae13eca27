//! Name resolution: server names are resolved on the control thread, and again
//! when their TTL expires.
//!
//! Workers never wait for a lookup: they read the addresses of the last one that
//! succeeded. A failed lookup leaves those in place.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use tokio::sync::watch;

use crate::address::ServerAddress;
use crate::clock;
use crate::limits::{
    NAME_ADDRESSES_MAX, NAME_RETRY, NAME_TTL_MAX, NAME_TTL_MIN, NAME_WARNING_PAUSE,
};
use crate::stream::PeerAddress;

/// The addresses of a name and their TTL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// IPv4 and IPv6; a lookup may succeed without any.
    pub addresses: Vec<IpAddr>,
    /// Time for which the addresses may be used.
    pub ttl: Duration,
}

/// A failed lookup, for logs.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot resolve {host}: {reason}")]
pub struct NameError {
    /// The name.
    pub host: String,
    /// The resolver's message.
    pub reason: String,
}

/// Resolves host names.
pub trait Resolve: Send + Sync {
    /// Looks up the addresses of `host`, IPv4 and IPv6.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Resolved, NameError>> + Send + 'a>>;
}

/// Resolves with the system's settings: `/etc/hosts`, `/etc/resolv.conf`, search domains.
#[derive(Debug)]
pub struct SystemResolver(TokioResolver);

/// A resolver's error in words: the library's own have the query as Rust's debug text.
fn reason_of(error: &hickory_resolver::net::NetError) -> String {
    if error.is_nx_domain() {
        "the name does not exist (NXDOMAIN)".to_owned()
    } else if error.is_no_records_found() {
        "the name has no addresses, or its name servers failed".to_owned()
    } else {
        error.to_string()
    }
}

/// The names in use; one task for each keeps its addresses up to date.
#[derive(Clone)]
pub struct Names {
    resolver: Arc<dyn Resolve>,
    known: Arc<Mutex<Vec<KnownName>>>,
}

/// The addresses at which a server can be reached now.
#[derive(Debug, Clone)]
pub struct Endpoints {
    server: ServerAddress,
    addresses: watch::Receiver<Arc<[IpAddr]>>,
}

struct KnownName {
    host: String,
    addresses: watch::Receiver<Arc<[IpAddr]>>,
}

impl SystemResolver {
    /// Reads the system's settings.
    ///
    /// # Errors
    /// The settings can't be read.
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
    #[expect(
        clippy::disallowed_methods,
        reason = "an answer's time to live counts from its arrival"
    )]
    fn resolve<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Resolved, NameError>> + Send + 'a>> {
        Box::pin(async move {
            let found = self.0.lookup_ip(host).await.map_err(|error| NameError {
                host: host.to_owned(),
                reason: reason_of(&error),
            })?;
            let ttl = found.valid_until().saturating_duration_since(clock::now());
            Ok(Resolved {
                addresses: found.iter().collect(),
                ttl,
            })
        })
    }
}

impl Names {
    /// No names yet; `resolver` does the lookups.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver,
            known: Arc::default(),
        }
    }

    /// The endpoints of `server`; its name is re-resolved until the last clone is dropped.
    ///
    /// Must be called within a runtime, which runs the lookups.
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
        // The task ends once only the list's own receiver is left.
        tokio::spawn(keep_resolved(self.resolver.clone(), host.to_owned(), found));
        known.push(KnownName {
            host: host.to_owned(),
            addresses: addresses.clone(),
        });
        addresses
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "warnings of a failure that lasts are paced"
)]
async fn keep_resolved(
    resolver: Arc<dyn Resolve>,
    host: String,
    found: watch::Sender<Arc<[IpAddr]>>,
) {
    let mut failures = Failures::default();
    // One receiver is the list's own.
    while found.receiver_count() > 1 {
        let wait = match resolver.resolve(&host).await {
            Ok(resolved) => {
                failures = Failures::default();
                publish(&host, &resolved, &found);
                resolved.ttl.clamp(NAME_TTL_MIN, NAME_TTL_MAX)
            }
            Err(error) => {
                if failures.is_told(&error.reason, clock::now()) {
                    let (failures, kept) = (failures.count, found.borrow().len());
                    tracing::warn!(%error, failures, kept, "name lookup failed");
                }
                NAME_RETRY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Consecutive failures of a name's lookups.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    reason: String,
    told_at: Option<Instant>,
}

impl Failures {
    /// Counts a failure. True for the first one, one with another reason, and one that lasts, once a minute.
    fn is_told(&mut self, reason: &str, now: Instant) -> bool {
        self.count += 1;
        let is_due = self.told_at.is_none_or(|at| now >= at + NAME_WARNING_PAUSE);
        let is_told = is_due || self.reason != reason;
        if is_told {
            self.told_at = Some(now);
            reason.clone_into(&mut self.reason);
        }
        is_told
    }
}

fn publish(host: &str, resolved: &Resolved, found: &watch::Sender<Arc<[IpAddr]>>) {
    // A lookup may succeed without an address: a CNAME to a name that has none.
    if resolved.addresses.is_empty() {
        tracing::warn!(host, kept = found.borrow().len(), "name has no addresses");
        return;
    }
    let mut addresses = resolved.addresses.clone();
    // Resolvers rotate the order of addresses; a changed order must not count as a change.
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() > NAME_ADDRESSES_MAX {
        tracing::warn!(
            host,
            count = addresses.len(),
            used = NAME_ADDRESSES_MAX,
            "name has too many addresses: only the first ones are used"
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

    /// The addresses of the last successful lookup; none before the first one.
    #[must_use]
    pub fn addresses(&self) -> Arc<[IpAddr]> {
        self.addresses.borrow().clone()
    }

    /// The socket address of one of its IP addresses; `None` for a Unix socket.
    #[must_use]
    pub fn socket_address(&self, ip: IpAddr) -> Option<SocketAddr> {
        match &self.server {
            ServerAddress::Ip(address) => Some(*address),
            ServerAddress::Name { port, .. } => Some(SocketAddr::new(ip, *port)),
            ServerAddress::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use steppe_testkit::virtual_time::{pass, run};

    use super::*;

    /// A resolver with these answers, by the seconds that they may be used; then none.
    #[derive(Default)]
    struct Scripted {
        answers: Mutex<VecDeque<(u8, u64)>>,
        /// When it was asked.
        asked_at: Mutex<Vec<Instant>>,
    }

    impl Resolve for Scripted {
        fn resolve<'a>(
            &'a self,
            host: &'a str,
        ) -> Pin<Box<dyn Future<Output = Result<Resolved, NameError>> + Send + 'a>> {
            let asked_at = clock::now();
            self.asked_at.lock().expect("no panic").push(asked_at);
            let answer = self.answers.lock().expect("no panic").pop_front();
            let resolved = answer.map(|(last, seconds)| Resolved {
                addresses: vec![[192, 0, 2, last].into()],
                ttl: Duration::from_secs(seconds),
            });
            Box::pin(std::future::ready(resolved.ok_or_else(|| NameError {
                host: host.to_owned(),
                reason: "no answer".to_owned(),
            })))
        }
    }

    #[test]
    fn a_failure_that_lasts_is_told_once_a_minute() {
        let (mut failures, mut now) = (Failures::default(), clock::now());
        let told = |failures: &mut Failures, reason, now| failures.is_told(reason, now);
        assert!(told(&mut failures, "refused", now));
        for _ in 0..29 {
            now += NAME_RETRY;
            assert!(!told(&mut failures, "refused", now));
        }
        assert!(told(&mut failures, "timeout", now), "it is another");
        now += NAME_WARNING_PAUSE;
        assert!(told(&mut failures, "timeout", now), "it lasts");
        assert_eq!(failures.count, 32);
    }

    #[test]
    fn a_name_is_asked_for_again_when_its_addresses_are_too_old() {
        run(async {
            // Too short, as told, too long; then failures.
            let answers = [(1, 0), (2, 60), (3, 3600)];
            let resolver = Arc::new(Scripted {
                answers: Mutex::new(answers.into()),
                ..Scripted::default()
            });
            let names = Names::new(resolver.clone());
            let server = ServerAddress::Name {
                host: "a.example".to_owned(),
                port: 80,
            };
            let began_at = clock::now();
            let endpoints = names.endpoints(&server);
            assert!(endpoints.addresses().is_empty(), "none before the first");
            let asked = || -> Vec<_> {
                let asked_at = resolver.asked_at.lock().expect("no panic");
                let seconds = |at: &Instant| (*at - began_at).as_secs();
                asked_at.iter().map(seconds).collect()
            };
            for (seconds, last) in [(0, 1), (1, 2), (60, 3), (300, 3), (2, 3), (2, 3)] {
                pass(Duration::from_secs(seconds)).await;
                let expected: [IpAddr; 1] = [[192, 0, 2, last].into()];
                assert_eq!(*endpoints.addresses(), expected, "after {seconds} more");
            }
            assert_eq!(asked(), [0, 1, 61, 361, 363, 365]);
            drop(endpoints);
            pass(2 * NAME_TTL_MIN + NAME_RETRY).await;
            assert_eq!(asked().len(), 6, "nobody uses it");
        });
    }
}
