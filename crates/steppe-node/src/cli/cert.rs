//! `steppe cert`: the certificates of a file, or those that a server serves.
//!
//! Invariant: the certificates are shown as clients get them, trusted or not; no content of a
//! server or a file ends the command other than by an exit code. Left out: revocation.

mod findings;
mod handshake;
mod show;
mod source;
mod trust;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustls::Error;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use steppe_net::tls::x509::Summary;

use self::findings::{Chain, Finding, Seen, judge, split};
use self::handshake::{Shown, Target, observe};
use self::show::Report;
use self::source::KeyMatch;
pub(super) use self::trust::reason;
use self::trust::{Roots, has_name};
use super::code::Code;
use super::console::{print, say};

#[derive(Debug, Args)]
pub(super) struct Cert {
    /// A file, PEM or DER, or a server: HOST, HOST:PORT or IP:PORT; the default port is 443
    #[arg(value_name = "FILE|ADDRESS")]
    source: PathBuf,
    /// The name to send as SNI and to verify in the certificate, instead of the host
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    sni: Option<ServerName<'static>>,
    /// File with root certificates (PEM) to trust, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A private key to compare with the first certificate of the file
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Timeout for the server
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration, default_value = "10s")]
    timeout: Duration,
    /// Prints JSON, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) const HELP: &str = "\
Examples:
  steppe cert example.com
  steppe cert 127.0.0.1:8443 --sni www.example.com --ca /etc/steppe/tls/ca.crt
  steppe cert /etc/steppe/tls/example.crt --key /etc/steppe/tls/example.key
  steppe cert example.com --json | jq '.certificates[0].days_left'

A file is checked as the chain of a server. An existing file takes precedence over a server of the
same name.

Exit codes: 0 if clients accept the certificate; 1 if clients refuse it; 2 if the file can't be
read or the server shows no certificate.";

pub(super) fn run(options: &Cert) -> ExitCode {
    let report = match report(options) {
        Ok(report) => report,
        Err(message) => {
            say(&format!("steppe: {message}\n"));
            return Code::Usage.into();
        }
    };
    let printed = match options.json {
        true => print(&format!("{:#}\n", report.json())),
        false => print(&report.text()),
    };
    match report.mistakes() {
        0 => printed,
        _ => ExitCode::FAILURE,
    }
}

fn server_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned())
        .map_err(|_| "expected a DNS name or an IP address".to_owned())
}

fn report(options: &Cert) -> Result<Report, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = Roots::load(options.ca.as_deref()).map_err(|error| {
        let file = options.ca.as_deref().unwrap_or(Path::new(""));
        format!("{}: {error}", file.display())
    })?;
    let inquiry = Inquiry {
        provider,
        roots,
        now: i64::try_from(steppe_http::date::since_epoch().as_secs()).unwrap_or(i64::MAX),
    };
    match target(options) {
        Some(target) => inquiry.of_server(options, &target),
        None => inquiry.of_file(options),
    }
}

/// The server that the argument names, unless it is a file.
fn target(options: &Cert) -> Option<Target> {
    let text = options.source.to_str()?;
    match options.source.exists() {
        true => None,
        false => Target::parse(text),
    }
}

/// The trust and the time by which chains are judged.
struct Inquiry {
    provider: Arc<CryptoProvider>,
    roots: Roots,
    now: i64,
}

impl Inquiry {
    fn of_file(&self, options: &Cert) -> Result<Report, String> {
        let path = &options.source;
        let contents =
            source::certificates(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut report = self.judged(
            path.display().to_string(),
            Seen::File,
            &contents.chain,
            options.sni.as_ref(),
        )?;
        let (key, place) = match &options.key {
            Some(file) => {
                let key = source::key(file);
                let key = key.map_err(|error| format!("{}: {error}", file.display()))?;
                (Some(key), file.display().to_string())
            }
            None => (contents.key, "in the same file".to_owned()),
        };
        if let Some(key) = key {
            let outcome = source::matches(&self.provider, &contents.chain, key);
            let (words, finding) = told(&outcome);
            report.key = Some(format!("{place}, {words}"));
            report.findings.extend(finding);
        }
        Ok(report)
    }

    fn of_server(&self, options: &Cert, target: &Target) -> Result<Report, String> {
        let address = options.source.display();
        if options.key.is_some() {
            return Err(format!(
                "{address} is a server: `--key` applies only to files"
            ));
        }
        let name = match &options.sni {
            Some(name) => name.clone(),
            None => server_name(&target.host)?,
        };
        let shown = observe(target, name.clone(), &self.provider, options.timeout)
            .map_err(|error| format!("{address}: {error}"))?;
        let subject = address.to_string();
        let mut report = self.judged(subject, Seen::Handshake, &shown.chain, Some(&name))?;
        if let Some(finding) = failed(&shown, &report) {
            report.findings.push(finding);
        }
        report.handshake = Some(shown);
        Ok(report)
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn judged(
        &self,
        subject: String,
        seen: Seen,
        sent: &[CertificateDer<'static>],
        name: Option<&ServerName<'static>>,
    ) -> Result<Report, String> {
        let summaries = sent.iter().enumerate().map(|(index, der)| {
            Summary::of(der)
                .map_err(|error| format!("{subject}: certificate {}: {error}", index + 1))
        });
        let certificates = summaries.collect::<Result<Vec<_>, _>>()?;
        let findings = judge(&Chain {
            seen,
            sent,
            certificates: &certificates,
            roots: &self.roots,
            provider: &self.provider,
            name,
            now: self.now,
        });
        Ok(Report {
            subject,
            handshake: None,
            key: None,
            verdict: self.verdict(sent, name),
            certificates,
            findings,
            now: self.now,
        })
    }

    /// The verdict of a client on the chain as it is, now.
    fn verdict(
        &self,
        sent: &[CertificateDer<'static>],
        name: Option<&ServerName<'static>>,
    ) -> String {
        if self.roots.is_empty() {
            return "unknown: no system root certificates found".to_owned();
        }
        let (leaf, others) = split(sent, 0);
        let chain = self.roots.verdict(&self.provider, leaf, &others, self.now);
        let verdict = chain.and_then(|()| name.map_or(Ok(()), |name| has_name(leaf, name)));
        match verdict {
            Ok(()) => format!("verified with {}", self.roots.label),
            Err(error) => format!("refused with {}: {}", self.roots.label, reason(&error)),
        }
    }
}

/// The relation of a key to the first certificate, in words and as a finding.
fn told(outcome: &KeyMatch) -> (String, Option<Finding>) {
    match outcome {
        KeyMatch::Matches => ("matches certificate 1".to_owned(), None),
        KeyMatch::Differs => {
            let message = "the private key does not match";
            let finding = Finding::mistake("key_mismatch", Some(0), message);
            ("does not match certificate 1".to_owned(), Some(finding))
        }
        KeyMatch::Unusable(why) => {
            let message = format!("the private key can't be used: {why}");
            let finding = Finding::mistake("key_unusable", Some(0), message);
            ("can't be used".to_owned(), Some(finding))
        }
    }
}

/// The finding of a handshake that failed after its certificates.
fn failed(shown: &Shown, report: &Report) -> Option<Finding> {
    let error = shown.failure.as_ref()?;
    let message = format!("the handshake failed after the certificates: {error}");
    match error {
        // The server requires something of the client, such as a certificate: no mistake of its
        // own.
        Error::AlertReceived(_) => Some(Finding::note("handshake", None, message)),
        // A consequence of the mistakes, such as a key that is too short.
        _ if report.mistakes() > 0 => Some(Finding::note("handshake", None, message)),
        _ => Some(Finding::mistake("handshake", None, message)),
    }
}
