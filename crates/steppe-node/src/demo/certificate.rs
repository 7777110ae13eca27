//! A certificate for this machine's own names, made at start: HTTPS in front of the demo origin.
//!
//! The certificate is self-signed. Its key is in a folder that only this user may enter, and that
//! is removed with it; a node that is killed leaves the folder behind.

use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::time::SystemTime;

use rcgen::{CertificateParams, DnType, KeyPair};

use super::limits::CERTIFICATE_LIFETIME;

/// Files of a certificate and its key; they are removed when this is dropped.
#[derive(Debug)]
pub struct Certificate {
    folder: String,
}

impl Certificate {
    /// Makes one for `localhost`, `127.0.0.1` and `::1`, below the folder for temporary files.
    ///
    /// # Errors
    /// If the folder can't be written, or its name is not UTF-8.
    pub fn make() -> io::Result<Self> {
        let (cert, key) = pair(now()).map_err(io::Error::other)?;
        // A random name, so that it can't be occupied in advance.
        let random = RandomState::new().hash_one(std::process::id());
        let folder = std::env::temp_dir().join(format!("steppe-demo-{random:016x}"));
        let folder = folder.into_os_string().into_string();
        let folder = folder.map_err(|_| {
            let problem = "the name of the folder for temporary files is not UTF-8";
            io::Error::new(io::ErrorKind::InvalidInput, problem)
        })?;
        DirBuilder::new().mode(0o700).create(&folder)?;
        let made = Self { folder };
        std::fs::write(made.cert(), cert)?;
        std::fs::write(made.key(), key)?;
        Ok(made)
    }

    /// The path of the certificate, PEM.
    #[must_use]
    pub fn cert(&self) -> String {
        format!("{}/cert.pem", self.folder)
    }

    /// The path of the private key, PEM.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/key.pem", self.folder)
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            let folder = &self.folder;
            tracing::warn!(%folder, %error, "cannot remove the certificate of the demo");
        }
    }
}

/// Certificate and key, PEM, valid from `now` on.
fn pair(now: SystemTime) -> Result<(String, String), rcgen::Error> {
    let names = ["localhost", "127.0.0.1", "::1"];
    let mut params = CertificateParams::new(names.map(str::to_owned))?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "steppe demo");
    params.not_before = now.into();
    params.not_after = (now + CERTIFICATE_LIFETIME).into();
    let key = KeyPair::generate()?;
    let cert = params.self_signed(&key)?;
    Ok((cert.pem(), key.serialize_pem()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates count by the calendar"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use steppe_net::tls::ListenerTls;
    use steppe_net::tls::config::{CertificateFiles, ClientAuth, ListenerConfig, MinVersion};

    use super::*;

    #[test]
    fn its_files_serve_a_listener_are_ours_alone_and_go_with_it() {
        let made = Certificate::make().expect("a folder");
        let folder = made.folder.clone();
        let mode = std::fs::metadata(&folder)
            .expect("it is there")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        let config = ListenerConfig {
            certificates: vec![CertificateFiles {
                cert: made.cert().into(),
                key: made.key().into(),
                ocsp: None,
            }],
            min_version: MinVersion::Tls12,
            client: ClientAuth::None,
            ticket_keys: None,
            alpn: Vec::new(),
        };
        let tls = ListenerTls::load(&config, "a", None, Instant::now()).expect("valid");
        let (_, said) = tls.certificates().remove(0);
        assert_eq!(said.names, ["localhost", "127.0.0.1", "::1"]);
        let seconds = i64::try_from(CERTIFICATE_LIFETIME.as_secs()).expect("small");
        assert_eq!(said.not_after - said.not_before, seconds);
        drop(made);
        assert!(!std::path::Path::new(&folder).exists());
    }
}
