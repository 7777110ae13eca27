//! Chains of certificates on disk, and servers of OpenSSL that serve them.

use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use steppe_testkit::{Port, Process, Scratch, eventually};

use super::command::{codes, json};

pub type Authority = CertifiedIssuer<'static, KeyPair>;

/// A certificate in DER.
pub type Der = Vec<u8>;

pub fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines = text
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line) + "\n");
    let lines: String = lines.collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

pub fn certificates(chain: &[&Der]) -> String {
    chain.iter().map(|der| pem("CERTIFICATE", der)).collect()
}

pub fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

pub fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

pub fn leaf_params() -> CertificateParams {
    let mut params = params("leaf");
    let names = CertificateParams::new(["www.example.com".to_owned(), "*.example.org".to_owned()]);
    params.subject_alt_names = names.expect("names").subject_alt_names;
    params
}

pub fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

/// A root, two intermediate authorities below it, and leaves of the lower one.
pub struct Chain {
    scratch: Scratch,
    pub root: Authority,
    upper: Authority,
    pub lower: Authority,
    pub leaf_key: KeyPair,
    pub leaf: Der,
}

impl Chain {
    pub fn new() -> Self {
        let root = Authority::self_signed(authority_params("root"), key()).expect("signed");
        let upper = Authority::signed_by(authority_params("upper"), key(), &root).expect("signed");
        let lower = Authority::signed_by(authority_params("lower"), key(), &upper).expect("signed");
        let leaf_key = key();
        let leaf = leaf_params().signed_by(&leaf_key, &lower).expect("signed");
        let scratch = Scratch::new("cert");
        scratch.write("root.pem", certificates(&[&root.der().to_vec()]));
        Self {
            scratch,
            leaf: leaf.der().to_vec(),
            root,
            upper,
            lower,
            leaf_key,
        }
    }

    pub fn path(&self, name: &str) -> String {
        self.scratch.join(name).to_string_lossy().into_owned()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        self.scratch.write(name, content);
        self.path(name)
    }

    pub fn signed(&self, params: &CertificateParams) -> Der {
        let signed = params.signed_by(&self.leaf_key, &self.lower);
        signed.expect("signed").der().to_vec()
    }

    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.leaf_key.serialize_der())
    }

    pub fn upper(&self) -> Der {
        self.upper.der().to_vec()
    }

    pub fn lower(&self) -> Der {
        self.lower.der().to_vec()
    }

    pub fn root(&self) -> Der {
        self.root.der().to_vec()
    }

    /// Asserts the findings about a file of these certificates, with the root given.
    #[track_caller]
    pub fn check(&self, chain: &[&Der], mistakes: &[&str], notes: &[&str]) {
        let file = self.write("checked.pem", certificates(chain));
        let (report, code) = json(&[&file, "--ca", &self.path("root.pem")]);
        assert_eq!(codes(&report, "mistakes"), mistakes, "{report:#}");
        assert_eq!(codes(&report, "notes"), notes, "{report:#}");
        assert_eq!(code, i32::from(!mistakes.is_empty()), "{report:#}");
        assert_eq!(report["usable"], mistakes.is_empty());
    }

    /// A server of OpenSSL's with the leaf, `extra` certificates behind it, and more options.
    pub fn serve(&self, leaf: &Der, extra: &[&Der], args: &[&str]) -> Server {
        let port = Port::free();
        let mut command = Command::new("openssl");
        let accept = port.address().to_string();
        command.args(["s_server", "-www", "-accept", &accept]);
        command
            .arg("-cert")
            .arg(self.write("served.pem", certificates(&[leaf])));
        command
            .arg("-key")
            .arg(self.write("served.key", self.key_pem()));
        if !extra.is_empty() {
            let file = self.write("extra.pem", certificates(extra));
            command.arg("-cert_chain").arg(file);
        }
        command.args(args);
        let process = Process::start("openssl s_server", command);
        eventually("the server listens", || process.said().contains("ACCEPT"));
        Server {
            address: accept,
            _process: process,
            _port: port,
        }
    }
}

pub struct Server {
    pub address: String,
    _process: Process,
    _port: Port,
}
