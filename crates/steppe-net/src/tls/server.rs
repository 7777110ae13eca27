//! TLS of a listener: its certificates, its policy for clients, its tickets.
//!
//! Invariant: certificates in force are valid. Files that change are read again, and files that can't be used
//! change nothing.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;

use super::config::{ClientAuth, ClientTrust, ListenerConfig, RevocationPolicy};
use super::identity::{Identities, Identity};
use super::load::{self, LoadError};
use super::outdated::Outdated;
use super::tickets::{Context, Secrets, Ticketer};
use super::x509::Summary;
use super::{provider, versions};

/// TLS of a listener, for all workers.
pub struct ListenerTls {
    config: ListenerConfig,
    /// Address of the listener, which tickets are bound to.
    listener: String,
    secrets: Arc<Secrets>,
    in_force: RwLock<Arc<InForce>>,
    counts: Arc<ReloadCounts>,
}

/// Numbers of times that its files were read again, by result.
#[derive(Debug, Default)]
struct ReloadCounts {
    changed: AtomicU64,
    failed: AtomicU64,
}

/// Numbers of times that a listener's files were read again since it began to speak TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RereadCounts {
    /// The files had changed, and are in force.
    pub changed: u64,
    /// The files can't be used; counted at each look for as long as that lasts.
    pub failed: u64,
}

/// Content of its files when they were read last.
pub(super) struct InForce {
    pub(super) identities: Identities,
    /// One for each identity.
    configs: Vec<Arc<ServerConfig>>,
    stamps: Vec<Stamp>,
}

/// Time, length and inode of a file, which tell its states apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    state: Option<(SystemTime, u64, u64)>,
}

/// The result of looking at the files again.
#[derive(Debug)]
pub enum Reread {
    /// No file had changed.
    Unchanged,
    /// These files had changed, and all are in force.
    Changed(Vec<PathBuf>),
    /// The files can't be used: those in force stay.
    Failed(LoadError),
}

/// The one certificate of a configuration.
#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl ListenerTls {
    /// Reads the files of `config`. Tickets of `last` stay good where nothing that they are
    /// bound to has changed.
    ///
    /// # Errors
    /// The error in a file.
    pub fn load(
        config: &ListenerConfig,
        listener: &str,
        last: Option<&Self>,
        now: Instant,
    ) -> Result<Self, LoadError> {
        let file = config.ticket_keys.as_deref();
        let kept = last.filter(|last| last.secrets.is_of(file));
        let secrets = match kept {
            Some(last) => {
                last.secrets.refresh(now)?;
                Arc::clone(&last.secrets)
            }
            None => Arc::new(Secrets::new(file, now)?),
        };
        let in_force = InForce::load(config, listener, &secrets)?;
        let loaded = Self {
            config: config.clone(),
            listener: listener.to_owned(),
            secrets,
            in_force: RwLock::new(Arc::new(in_force)),
            counts: last.map_or_else(Arc::default, |last| Arc::clone(&last.counts)),
        };
        loaded
            .outdated()
            .iter()
            .for_each(|each| each.warn(listener));
        Ok(loaded)
    }

    /// Certificates that clients refuse now by their dates.
    #[must_use]
    pub fn outdated(&self) -> Vec<Outdated> {
        let all = self.certificates().into_iter();
        all.filter_map(|(file, summary)| Outdated::of(file, summary))
            .collect()
    }

    /// Looks whether files have changed, and reads them again if so. It blocks for the disk.
    pub fn reread(&self, now: Instant) -> Reread {
        let outcome = self.look(now);
        match &outcome {
            Reread::Unchanged => {}
            Reread::Changed(_) => _ = self.counts.changed.fetch_add(1, Ordering::Relaxed),
            Reread::Failed(_) => _ = self.counts.failed.fetch_add(1, Ordering::Relaxed),
        }
        outcome
    }

    fn look(&self, now: Instant) -> Reread {
        let last = self.in_force();
        if last.stamps == stamps(&self.config) {
            // Secrets of our own are rotated all the same.
            let refreshed = match self.secrets.file() {
                Some(_) => Ok(()),
                None => self.secrets.refresh(now),
            };
            return refreshed.map_or_else(Reread::Failed, |()| Reread::Unchanged);
        }
        // Secrets come last: nothing of them changes where a certificate can't be used.
        let read = InForce::load(&self.config, &self.listener, &self.secrets)
            .and_then(|read| self.secrets.refresh(now).map(|()| read));
        match read {
            Ok(read) => {
                let changed = read.changed_since(&last);
                let in_force = self.in_force.write();
                *in_force.unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                Reread::Changed(changed)
            }
            Err(error) => Reread::Failed(error),
        }
    }

    /// Numbers of times that files were read again, by result.
    #[must_use]
    pub fn rereads(&self) -> RereadCounts {
        RereadCounts {
            changed: self.counts.changed.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
        }
    }

    /// The configuration of rustls for clients that are shown the first certificate, for a server that
    /// runs on no [`Transport`](crate::Transport). It follows the files as they were read last.
    #[must_use]
    pub fn rustls_config(&self) -> Arc<ServerConfig> {
        Arc::clone(self.in_force().config(0))
    }

    /// Address of the listener.
    #[must_use]
    pub fn listener(&self) -> &str {
        &self.listener
    }

    /// Fields of its certificates, in the order of the configuration.
    #[must_use]
    pub fn certificates(&self) -> Vec<(PathBuf, Summary)> {
        let in_force = self.in_force();
        let files = self.config.certificates.iter();
        let read = in_force.identities.all().iter();
        files
            .zip(read)
            .map(|(files, identity)| (files.cert.clone(), identity.summary.clone()))
            .collect()
    }

    /// True if a client that was shown certificate `shown` would have been shown another one for
    /// `host`, a name in any case, with a final dot or without (RFC 9110 §15.5.20).
    #[must_use]
    pub fn is_misdirected(&self, shown: usize, host: &[u8]) -> bool {
        if self.config.certificates.len() == 1 {
            return false;
        }
        let in_force = self.in_force();
        let identities = &in_force.identities;
        let Ok(host) = std::str::from_utf8(host) else {
            return true;
        };
        !identities.named(host).contains(&shown)
    }

    pub(super) fn in_force(&self) -> Arc<InForce> {
        let in_force = self.in_force.read();
        Arc::clone(&in_force.unwrap_or_else(PoisonError::into_inner))
    }
}

impl InForce {
    fn load(
        config: &ListenerConfig,
        listener: &str,
        secrets: &Arc<Secrets>,
    ) -> Result<Self, LoadError> {
        // Before the files are read: a change meanwhile is seen next time.
        let stamps = stamps(config);
        let provider = provider();
        let identities: Result<Vec<_>, _> = config
            .certificates
            .iter()
            .map(|files| Identity::load(files, &provider))
            .collect();
        let identities = Identities::new(identities?);
        let (verifier, context) = verifier(&config.client, listener)?;
        let ticketer = Arc::new(Ticketer::new(Arc::clone(secrets), context));
        let config_of = |identity: &Identity| {
            let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
            let builder = builder
                .with_protocol_versions(versions(config.min_version))
                .map_err(|error| LoadError::Setup(error.to_string()))?;
            let builder = builder.with_client_cert_verifier(Arc::clone(&verifier));
            let mut server = builder.with_cert_resolver(Arc::new(Only(Arc::clone(&identity.key))));
            server.alpn_protocols = config.alpn.clone();
            server.ticketer = Arc::clone(&ticketer) as Arc<_>;
            // Nothing that clients can make grow.
            server.session_storage = Arc::new(NoServerSessionStorage {});
            Ok(Arc::new(server))
        };
        let configs: Result<_, LoadError> = identities.all().iter().map(config_of).collect();
        Ok(Self {
            configs: configs?,
            identities,
            stamps,
        })
    }

    pub(super) fn config(&self, identity: usize) -> &Arc<ServerConfig> {
        &self.configs[identity]
    }

    /// Files that are not what they were; both are of one configuration.
    fn changed_since(&self, last: &Self) -> Vec<PathBuf> {
        let stamps = self.stamps.iter().zip(&last.stamps);
        let changed = stamps.filter(|(now, last)| now != last);
        changed.map(|(now, _)| now.path.clone()).collect()
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS of {}", self.listener)
    }
}

/// The verifier of a policy, and what tickets are bound to under it.
fn verifier(
    auth: &ClientAuth,
    listener: &str,
) -> Result<(Arc<dyn ClientCertVerifier>, Context), LoadError> {
    let (trust, policy) = match auth {
        ClientAuth::None => {
            let context = Context::of(&[listener.as_bytes(), b"none"]);
            return Ok((WebPkiClientVerifier::no_client_auth(), context));
        }
        ClientAuth::Optional(trust) => (trust, &b"optional"[..]),
        ClientAuth::Required(trust) => (trust, &b"required"[..]),
    };
    let ClientTrust {
        ca,
        crls,
        expired_crl,
        unknown_status,
    } = trust;
    let authorities = load::certificates(ca)?;
    let mut parts = vec![listener.as_bytes().to_vec(), policy.to_vec()];
    parts.extend(authorities.iter().map(|ca| ca.as_ref().to_vec()));
    let roots = load::roots(ca, authorities)?;
    let mut lists = Vec::new();
    for path in crls {
        let read = load::revocation_lists(path)?;
        parts.extend(read.iter().map(|list| list.as_ref().to_vec()));
        lists.extend(read);
    }
    let policies =
        [expired_crl, unknown_status].map(|policy| u8::from(*policy == RevocationPolicy::Accept));
    parts.push(policies.to_vec());
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
    if !lists.is_empty() {
        builder = builder.with_crls(lists);
        if *expired_crl == RevocationPolicy::Refuse {
            builder = builder.enforce_revocation_expiration();
        }
        if *unknown_status == RevocationPolicy::Accept {
            builder = builder.allow_unknown_revocation_status();
        }
    }
    if matches!(auth, ClientAuth::Optional(_)) {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder.build().map_err(|error| {
        let path = crls.first().unwrap_or(ca);
        LoadError::content(path, error)
    })?;
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok((verifier, Context::of(&parts)))
}

fn stamps(config: &ListenerConfig) -> Vec<Stamp> {
    let pairs = config.certificates.iter();
    let mut paths: Vec<&PathBuf> = pairs
        .flat_map(|files| [Some(&files.cert), Some(&files.key), files.ocsp.as_ref()])
        .flatten()
        .collect();
    match &config.client {
        ClientAuth::None => {}
        ClientAuth::Optional(trust) | ClientAuth::Required(trust) => {
            paths.push(&trust.ca);
            paths.extend(&trust.crls);
        }
    }
    paths.extend(&config.ticket_keys);
    let stamp = |path: &PathBuf| {
        use std::os::unix::fs::MetadataExt;
        // Through links: they are how files are swapped.
        let status = std::fs::metadata(path).ok();
        let state =
            status.and_then(|status| Some((status.modified().ok()?, status.len(), status.ino())));
        Stamp {
            path: path.clone(),
            state,
        }
    };
    paths.into_iter().map(stamp).collect()
}
