//! TLS of commands of the plane, on either side.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use steppe_net::tls::ListenerTls;
use steppe_net::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, ListenerConfig, MinVersion, RevocationPolicy,
    ServerTrust,
};
use steppe_plane::{ALPN, TargetTls};

/// The certificate to present, and the trust in the peer's.
#[derive(Debug, Args)]
pub(super) struct Tls {
    /// Uses TLS
    #[arg(long)]
    tls: bool,
    /// File with CA certificates (PEM) for the peer, instead of the system's; with --listen, callers need a certificate
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca: Option<PathBuf>,
    /// Own certificate, PEM; required with --listen
    #[arg(long, value_name = "FILE", requires = "tls", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name to verify in the peer's certificate, instead of its address
    #[arg(long, value_name = "NAME", requires = "tls")]
    server_name: Option<String>,
}

impl Tls {
    /// TLS of connections to a dialed peer.
    pub(super) fn to_target(&self) -> anyhow::Result<Option<TargetTls>> {
        if !self.tls {
            return Ok(None);
        }
        let trust = ServerTrust {
            ca: self.ca.clone(),
            server_name: self.server_name.clone(),
            identity: self.identity(),
            verify: true,
            pins: Vec::new(),
            min_version: MinVersion::Tls12,
            alpn: Vec::new(),
        };
        Ok(Some(TargetTls::load(&trust).context("--tls")?))
    }

    /// TLS of a listener at `address`.
    #[expect(
        clippy::disallowed_methods,
        reason = "tickets of a listener's TLS are rotated"
    )]
    pub(super) fn of_listener(&self, address: &str) -> anyhow::Result<Option<Arc<ListenerTls>>> {
        if !self.tls {
            return Ok(None);
        }
        anyhow::ensure!(
            self.server_name.is_none(),
            "--server-name: not allowed with --listen"
        );
        let identity = self.identity();
        let identity = identity.context("--tls with --listen needs --cert and --key")?;
        let client = match &self.ca {
            None => ClientAuth::None,
            Some(ca) => ClientAuth::Required(ClientTrust {
                ca: ca.clone(),
                crls: Vec::new(),
                expired_crl: RevocationPolicy::default(),
                unknown_status: RevocationPolicy::default(),
            }),
        };
        let config = ListenerConfig {
            certificates: vec![identity],
            min_version: MinVersion::Tls12,
            client,
            ticket_keys: None,
            alpn: vec![ALPN.to_vec()],
        };
        let loaded = ListenerTls::load(&config, address, None, Instant::now());
        Ok(Some(Arc::new(loaded.context("--tls")?)))
    }

    fn identity(&self) -> Option<CertificateFiles> {
        let (cert, key) = (self.cert.clone()?, self.key.clone()?);
        Some(CertificateFiles {
            cert,
            key,
            ocsp: None,
        })
    }
}
