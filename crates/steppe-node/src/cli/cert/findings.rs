//! Findings about a chain of certificates: mistakes, and notes.
//!
//! Invariant: a mistake makes some clients refuse the chain; everything else is a note. Left out:
//! revocation and transparency logs. Spec: RFC 5280, RFC 8446 §4.4.2, RFC 6125.

use std::net::IpAddr;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, Error};
use steppe_net::tls::x509::{KeyKind, Summary};

use super::trust::{Origin, Roots, has_name, reason};

/// Smallest RSA key in bits: CA/Browser Forum Baseline Requirements §6.1.5.
const RSA_BITS_MIN: usize = 2048;

/// Certificates of a path, at most, so that a file of thousands that fit each other takes no
/// minutes: webpki follows six intermediates.
const PATH_LENGTH_MAX: usize = 16;

/// A mistake or a note about a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// A code of one word, for scripts.
    pub(super) code: &'static str,
    pub(super) severity: Severity,
    /// Index of the certificate that it is about.
    pub(super) certificate: Option<usize>,
    pub(super) message: String,
}

/// The effect of a finding on clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// Clients refuse the chain.
    Mistake,
    /// Clients accept the chain.
    Note,
}

/// The source of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// A file, which may be meant for clients that have its root.
    File,
    /// A handshake.
    Handshake,
}

/// A chain, with the trust, the name and the time to judge it by.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    pub(super) seen: Seen,
    /// The certificates as they were sent, at least one.
    pub(super) sent: &'a [CertificateDer<'static>],
    /// The parsed content of each of `sent`.
    pub(super) certificates: &'a [Summary],
    pub(super) roots: &'a Roots,
    pub(super) provider: &'a CryptoProvider,
    /// The name to verify.
    pub(super) name: Option<&'a ServerName<'static>>,
    /// Unix time in seconds.
    pub(super) now: i64,
}

impl Finding {
    pub(super) fn mistake(
        code: &'static str,
        certificate: Option<usize>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity: Severity::Mistake,
            certificate,
            message: message.into(),
        }
    }

    pub(super) fn note(
        code: &'static str,
        certificate: Option<usize>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Note,
            ..Self::mistake(code, certificate, message)
        }
    }
}

/// All findings about a chain.
pub(super) fn judge(chain: &Chain<'_>) -> Vec<Finding> {
    let leaf = leaf(chain.certificates);
    let path = path(chain.certificates, leaf);
    let mut findings = order(chain, &path);
    for &index in &path {
        let certificate = &chain.certificates[index];
        if index != leaf && is_self_issued(certificate) {
            let message =
                "is a root certificate, which need not be sent: clients trust only their own roots";
            findings.push(Finding::note("root_sent", Some(index), message));
        } else {
            findings.extend(certificate_findings(index, certificate, chain.now));
        }
    }
    findings.extend(leaf_findings(chain, leaf));
    findings.extend(trust_findings(chain, &path));
    findings
}

/// Index of the server's certificate: the first, unless it is an authority's and there is one that
/// isn't.
fn leaf(certificates: &[Summary]) -> usize {
    let first_leaf = certificates.iter().position(|each| !each.is_ca);
    first_leaf.unwrap_or_default()
}

/// The indices from the leaf to the last issuer in the file.
fn path(certificates: &[Summary], leaf: usize) -> Vec<usize> {
    let mut path = vec![leaf];
    let mut last = leaf;
    while path.len() < PATH_LENGTH_MAX && !is_self_issued(&certificates[last]) {
        let is_next = |index: &usize| {
            !path.contains(index) && certificates[last].names_as_issuer(&certificates[*index])
        };
        // If several issuers fit, the next in order: authorities sign each other's keys crosswise.
        let after = (last + 1..certificates.len()).find(is_next);
        let Some(next) = after.or_else(|| (0..last).find(is_next)) else {
            break;
        };
        path.push(next);
        last = next;
    }
    path
}

fn is_self_issued(certificate: &Summary) -> bool {
    certificate.names_as_issuer(certificate)
}

fn order(chain: &Chain<'_>, path: &[usize]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let leaf = path[0];
    if leaf != 0 {
        let message = format!(
            "is a CA certificate: the server's certificate, number {}, must come first",
            leaf + 1
        );
        findings.push(Finding::mistake("order", Some(0), message));
    } else if let Some(pair) = path.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        let message = format!(
            "its issuer, certificate {}, must follow directly: not all clients reorder a chain",
            pair[1] + 1
        );
        findings.push(Finding::mistake("order", Some(pair[0]), message));
    }
    let strays = (0..chain.certificates.len()).filter(|index| !path.contains(index));
    findings.extend(strays.map(|index| {
        let message = "is not part of the chain: it issued no other certificate of it";
        Finding::note("unrelated", Some(index), message)
    }));
    findings
}

fn certificate_findings(index: usize, certificate: &Summary, now: i64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut mistake = |code, message: String| {
        findings.push(Finding::mistake(code, Some(index), message));
    };
    if now > certificate.not_after {
        let ago = count(days(certificate.not_after, now), "day");
        mistake("expired", format!("expired {ago} ago"));
    }
    if now < certificate.not_before {
        let ahead = count(days(now, certificate.not_before), "day");
        mistake(
            "not_yet_valid",
            format!("is not valid yet: it becomes valid in {ahead}"),
        );
    }
    if certificate.signature.is_weak {
        let message = format!("is signed with {}, a weak algorithm", certificate.signature);
        mistake("weak_signature", message);
    }
    if let KeyKind::Rsa { bits } = certificate.key
        && bits < RSA_BITS_MIN
    {
        let message = format!("has an RSA key of {bits} bits, fewer than {RSA_BITS_MIN}");
        mistake("short_key", message);
    }
    findings
}

fn leaf_findings(chain: &Chain<'_>, leaf: usize) -> Vec<Finding> {
    let certificate = &chain.certificates[leaf];
    let mut findings = Vec::new();
    let mut mistake = |code, message: String| {
        findings.push(Finding::mistake(code, Some(leaf), message));
    };
    if certificate.is_ca {
        let message = "is a CA certificate: a server needs its own certificate".to_owned();
        mistake("leaf_is_ca", message);
    }
    if !certificate.names.iter().any(|name| is_of_server(name)) {
        let message = "has no DNS name or IP address as subject alternative name: clients ignore \
                       the subject";
        mistake("no_names", message.to_owned());
    } else if let Some(name) = chain.name
        && has_name(&chain.sent[leaf], name).is_err()
    {
        let message = format!("is not valid for {}", name.to_str());
        mistake("name_mismatch", message);
    }
    findings
}

/// True for a DNS name or an IP address, false for an email address or a URI.
fn is_of_server(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || !name.contains(['@', ':'])
}

fn trust_findings(chain: &Chain<'_>, path: &[usize]) -> Vec<Finding> {
    if chain.roots.is_empty() {
        let message = "no system root certificates found: trust can't be checked without `--ca`";
        return vec![Finding::note("trust_unknown", None, message)];
    }
    let used: Vec<_> = path
        .iter()
        .map(|&index| &chain.certificates[index])
        .collect();
    let (leaf, others) = split(chain.sent, path[0]);
    let at = valid_moment(&used, chain.now);
    let verdict = chain.roots.verdict(chain.provider, leaf, &others, at);
    let Err(error) = verdict else {
        return Vec::new();
    };
    let is_known = match &error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            return vec![no_root(chain, path[path.len() - 1])];
        }
        Error::InvalidCertificate(error) => is_known(error, &used),
        _ => false,
    };
    match is_known {
        true => Vec::new(),
        false => vec![Finding::mistake("refused", None, reason(&error))],
    }
}

/// True if another finding reports the reason of this verdict.
fn is_known(error: &CertificateError, used: &[&Summary]) -> bool {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => true,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            used.iter().any(|each| each.signature.is_weak)
        }
        CertificateError::Other(_) => used[0].is_ca,
        _ => false,
    }
}

fn no_root(chain: &Chain<'_>, last: usize) -> Finding {
    let (certificate, label) = (&chain.certificates[last], &chain.roots.label);
    if !is_self_issued(certificate) {
        let place = match chain.seen {
            Seen::File => "in the file",
            Seen::Handshake => "sent",
        };
        let message = format!(
            "its issuer {} is neither {place} nor one of {label}: an intermediate certificate is \
             missing, or clients need a private root (`--ca`)",
            certificate.issuer
        );
        return Finding::mistake("missing_issuer", Some(last), message);
    }
    let message =
        format!("is self-signed and not one of {label}: clients must be configured to trust it");
    match (chain.seen, chain.roots.origin) {
        // A private root: the file does not show whether clients have it.
        (Seen::File, Origin::System) => Finding::note("private_root", Some(last), message),
        _ => Finding::mistake("untrusted", Some(last), message),
    }
}

/// The leaf, and everything else.
pub(super) fn split<'a>(
    sent: &'a [CertificateDer<'static>],
    leaf: usize,
) -> (&'a CertificateDer<'static>, Vec<CertificateDer<'a>>) {
    let others = sent.iter().enumerate().filter(|&(index, _)| index != leaf);
    let others = others.map(|(_, each)| CertificateDer::from(each.as_ref()));
    (&sent[leaf], others.collect())
}

/// The present, or a time at which the whole chain is valid: an expired one may have further
/// mistakes.
fn valid_moment(used: &[&Summary], now: i64) -> i64 {
    let begin = used.iter().map(|each| each.not_before).max();
    let end = used.iter().map(|each| each.not_after).min();
    match (begin, end) {
        (Some(begin), Some(end)) if begin <= end => now.clamp(begin, end),
        _ => now,
    }
}

/// Whole days between two Unix times.
pub(super) fn days(from: i64, to: i64) -> i64 {
    to.saturating_sub(from).div_euclid(24 * 60 * 60)
}

/// `1 day`, `2 days`.
pub(super) fn count(number: i64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
