//! Trust in admin's certificate, for `steppe health` and `steppe top`.

use std::path::Path;
use std::sync::Arc;

use steppe_net::tls::config::{MinVersion, ServerTrust};
use steppe_net::tls::x509::Summary;
use steppe_net::tls::{LoadError, ServerTls};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

/// TLS of a client that trusts the authorities of `ca`; `None`: those of the system.
///
/// # Errors
/// The file can't be read or parsed, or there are no authorities.
pub fn by_authority(ca: Option<&Path>) -> Result<Arc<ClientConfig>, LoadError> {
    let trust = ServerTrust {
        ca: ca.map(Path::to_owned),
        verify: true,
        ..nobody()
    };
    Ok(ServerTls::load(&trust)?.rustls_config())
}

/// TLS of a client that trusts the key of the certificate in `cert`, with any name: the node's own
/// file needs no authority.
///
/// # Errors
/// The file can't be read or parsed.
pub fn by_file(cert: &Path) -> Result<Arc<ClientConfig>, LoadError> {
    let content = |problem: String| LoadError::Content {
        path: cert.to_owned(),
        problem,
    };
    let first = CertificateDer::from_pem_file(cert).map_err(|error| content(error.to_string()))?;
    let said = Summary::of(&first).map_err(|error| content(error.to_string()))?;
    let trust = ServerTrust {
        pins: vec![said.spki_fingerprint],
        ..nobody()
    };
    Ok(ServerTls::load(&trust)?.rustls_config())
}

/// The name to verify of `host`, which may be an IP address, in brackets or not.
#[must_use]
pub fn name(host: &str) -> Option<ServerName<'static>> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    ServerName::try_from(bare.unwrap_or(host).to_owned()).ok()
}

/// Trust without pins and authorities, for the callers to complete.
fn nobody() -> ServerTrust {
    ServerTrust {
        ca: None,
        server_name: None,
        identity: None,
        verify: false,
        pins: Vec::new(),
        min_version: MinVersion::default(),
        alpn: vec![b"http/1.1".to_vec()],
    }
}
