//! Certificates that listeners show: a report for people, metrics, and their files under watch.
//!
//! Invariant: the configuration determines the number of series, and text of a certificate is in
//! none of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use steppe_net::tls::x509::Summary;
use steppe_net::tls::{ListenerTls, RereadCounts, keep_current};
use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};
use tokio::task::JoinSet;

/// Certificates of the listeners of the configuration in force, and of others.
#[derive(Debug, Default)]
pub struct Certificates {
    listeners: RwLock<Vec<Arc<ListenerTls>>>,
    others: RwLock<Vec<Arc<ListenerTls>>>,
    sources: RwLock<Vec<ListenerSource>>,
}

/// Listeners of another service, as they are now.
struct ListenerSource(Box<dyn Fn() -> Vec<Arc<ListenerTls>> + Send + Sync>);

impl fmt::Debug for ListenerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenerSource")
    }
}

/// A certificate that a listener shows.
#[derive(Debug, Clone)]
pub struct ListenerCertificate {
    /// The listener's address.
    pub listener: String,
    /// The certificate's file.
    pub file: PathBuf,
    /// The certificate's subject, names and validity.
    pub summary: Summary,
}

/// Encodes the metrics of certificates.
#[derive(Debug)]
pub struct CertificatesCollector(Arc<Certificates>);

const EXPIRY: Family = Family::seconds(
    "steppe_http_tls_certificate_expiry",
    "Unix time at which a listener's certificate expires",
);
const REREADS: Family = Family::new(
    "steppe_http_tls_rereads",
    "Checks of a listener's certificate files that found a change or failed",
);

impl Certificates {
    /// Each certificate, by listener, in the order of the configuration.
    #[must_use]
    pub fn report(&self) -> Vec<ListenerCertificate> {
        let of_listener = |tls: &Arc<ListenerTls>| {
            let listener = tls.listener().to_owned();
            let certificates = tls.certificates().into_iter();
            certificates.map(move |(file, summary)| ListenerCertificate {
                listener: listener.clone(),
                file,
                summary,
            })
        };
        self.all().iter().flat_map(of_listener).collect()
    }

    /// Tells of a listener that is not the gateway's, and stays: admin's. Whoever has it keeps it
    /// current.
    pub fn add(&self, tls: Arc<ListenerTls>) {
        let others = self.others.write();
        others.unwrap_or_else(PoisonError::into_inner).push(tls);
    }

    /// Tells of listeners of another service, which keeps them current and says at any time which
    /// they are.
    pub fn add_source(
        &self,
        listeners: impl Fn() -> Vec<Arc<ListenerTls>> + Send + Sync + 'static,
    ) {
        let sources = self.sources.write();
        let mut sources = sources.unwrap_or_else(PoisonError::into_inner);
        sources.push(ListenerSource(Box::new(listeners)));
    }

    /// A collector of their metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<CertificatesCollector> {
        Box::new(CertificatesCollector(Arc::clone(self)))
    }

    /// These listeners are served from now on.
    pub(crate) fn replace(&self, listeners: Vec<Arc<ListenerTls>>) {
        let known = self.listeners.write();
        *known.unwrap_or_else(PoisonError::into_inner) = listeners;
    }

    /// Has files read again when they change, until the result is dropped. Must be called within
    /// a runtime that spawns local tasks, the control thread's.
    pub(crate) fn keep_current(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for tls in self.listeners() {
            tasks.spawn_local(keep_current(tls));
        }
        tasks
    }

    fn all(&self) -> Vec<Arc<ListenerTls>> {
        let others = self.others.read();
        let others = others.unwrap_or_else(PoisonError::into_inner);
        let sources = self.sources.read();
        let sources = sources.unwrap_or_else(PoisonError::into_inner);
        let of_sources = sources
            .iter()
            .flat_map(|ListenerSource(listeners)| listeners());
        let known = self.listeners().into_iter();
        known
            .chain(of_sources)
            .chain(others.iter().cloned())
            .collect()
    }

    fn listeners(&self) -> Vec<Arc<ListenerTls>> {
        let listeners = self.listeners.read();
        listeners.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Collector for CertificatesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut rows = Vec::new();
        for certificate in self.0.report() {
            let file = certificate.file.to_string_lossy().into_owned();
            let row = (certificate.listener, file, certificate.summary.not_after);
            // A file may be named twice, a series may not.
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        let expiry = rows.iter().map(|(listener, file, at)| {
            let labels = [
                ("listener", listener.as_str()),
                ("certificate", file.as_str()),
            ];
            (labels, u64::try_from(*at).unwrap_or(0))
        });
        EXPIRY.gauges(&mut encoder, expiry)?;
        let listeners = self.0.all();
        let rereads = listeners.iter().flat_map(|tls| {
            let RereadCounts { changed, failed } = tls.rereads();
            let counts = [("changed", changed), ("failed", failed)];
            counts
                .map(|(result, count)| ([("listener", tls.listener()), ("result", result)], count))
        });
        REREADS.counters(&mut encoder, rereads)
    }
}
