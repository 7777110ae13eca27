//! Reads certificates, keys and lists from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::limits::TLS_FILE_BYTES_MAX;

/// An error in the files of TLS.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error("{}: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file has other content than it should.
    #[error("{}: {problem}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// There is no authority to trust.
    #[error("no system root certificates found: set `ca` to a file")]
    NoSystemRoots,
    /// TLS can't be set up from valid files.
    #[error("{0}")]
    Setup(String),
}

impl LoadError {
    /// The error for a file with other content than it should have.
    #[must_use]
    pub fn content(path: &Path, problem: impl ToString) -> Self {
        Self::Content {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// The whole file, up to [`TLS_FILE_BYTES_MAX`].
///
/// # Errors
/// The file can't be read, or is longer.
pub fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |cause| LoadError::Read {
        path: path.to_owned(),
        cause,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let mut limited = file.take(TLS_FILE_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > TLS_FILE_BYTES_MAX {
        let problem = format!("larger than {TLS_FILE_BYTES_MAX} bytes");
        return Err(LoadError::content(path, problem));
    }
    Ok(bytes)
}

/// The certificates of a PEM file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let bytes = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| LoadError::content(path, error))?;
    if certificates.is_empty() {
        return Err(LoadError::content(path, "no PEM certificate in the file"));
    }
    Ok(certificates)
}

/// A store of `authorities` to trust, which `path` holds.
pub(super) fn roots(
    path: &Path,
    authorities: Vec<CertificateDer<'static>>,
) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        let added = roots.add(certificate);
        added.map_err(|error| LoadError::content(path, error))?;
    }
    Ok(roots)
}

/// The private key of a PEM file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, LoadError> {
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| LoadError::content(path, "no unencrypted PEM private key in the file"))
}

/// The revocation lists of a file: PEM, or one as DER.
pub(super) fn revocation_lists(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, LoadError> {
    let bytes = read(path)?;
    let is_pem = bytes.windows(5).take(1024).any(|at| at == b"-----");
    if !is_pem {
        return Ok(vec![CertificateRevocationListDer::from(bytes)]);
    }
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    let lists = lists.map_err(|error| LoadError::content(path, error))?;
    if lists.is_empty() {
        return Err(LoadError::content(path, "no revocation list in the file"));
    }
    Ok(lists)
}
