//! The report about a chain, as text and as JSON.
//!
//! Invariant: text of a peer is escaped, so that it can't move a terminal's cursor.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use steppe_net::tls::x509::{Summary, fingerprint_text};

use super::findings::{Finding, Severity, count, days};
use super::handshake::Shown;

/// The report of a file or a server.
#[derive(Debug)]
pub(super) struct Report {
    /// The file or the server.
    pub(super) subject: String,
    pub(super) handshake: Option<Shown>,
    /// The relation of the private key to the first certificate, in words.
    pub(super) key: Option<String>,
    /// The verdict of clients on the chain, in words.
    pub(super) verdict: String,
    pub(super) certificates: Vec<Summary>,
    pub(super) findings: Vec<Finding>,
    /// Unix time in seconds.
    pub(super) now: i64,
}

impl Report {
    /// The number of mistakes.
    pub(super) fn mistakes(&self) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|each| each.severity == Severity::Mistake)
            .count()
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.subject);
        for (label, value) in self.head() {
            line(&mut text, label, &value);
        }
        let total = self.certificates.len();
        for (index, certificate) in self.certificates.iter().enumerate() {
            // Writing to a string can't fail.
            _ = writeln!(text, "\ncertificate {} of {total}", index + 1);
            for (label, value) in rows(certificate, self.now) {
                line(&mut text, label, &value);
            }
        }
        text.push('\n');
        for finding in &self.findings {
            let word = match finding.severity {
                Severity::Mistake => "mistake",
                Severity::Note => "note",
            };
            let about = finding.certificate;
            let about = about.map(|index| format!("certificate {}: ", index + 1));
            let about = about.unwrap_or_default();
            _ = writeln!(text, "{word}: {about}{}", finding.message);
        }
        let mistakes = i64::try_from(self.mistakes()).unwrap_or(i64::MAX);
        text.push_str(&match mistakes {
            0 => "usable: no mistakes\n".to_owned(),
            _ => format!("not usable: {}\n", count(mistakes, "mistake")),
        });
        text
    }

    /// The rows about the file or the connection.
    fn head(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(shown) = &self.handshake {
            rows.push(("peer", shown.peer.to_string()));
            if let Some(agreed) = &shown.agreed {
                let alpn = agreed.alpn.clone();
                rows.push(("version", agreed.version.to_owned()));
                rows.push(("cipher suite", agreed.cipher_suite.clone()));
                rows.push(("group", agreed.group.clone()));
                rows.push(("ALPN", alpn.unwrap_or_else(|| "none".to_owned())));
            }
            let staple = match shown.staple_bytes {
                0 => "none".to_owned(),
                bytes => format!("{bytes} bytes"),
            };
            rows.push(("OCSP staple", staple));
            let failure = shown.failure.as_ref();
            rows.extend(failure.map(|error| ("failed", error.to_string())));
        }
        rows.extend(self.key.clone().map(|text| ("private key", text)));
        rows.push(("trust", self.verdict.clone()));
        rows
    }

    /// The report as JSON.
    pub(super) fn json(&self) -> Value {
        let handshake = self.handshake.as_ref().map(|shown| {
            let agreed = shown.agreed.as_ref();
            json!({
                "peer": shown.peer.to_string(),
                "version": agreed.map(|each| each.version),
                "cipher_suite": agreed.map(|each| &each.cipher_suite),
                "group": agreed.map(|each| &each.group),
                "alpn": agreed.and_then(|each| each.alpn.as_ref()),
                "ocsp_staple_bytes": shown.staple_bytes,
                "failure": shown.failure.as_ref().map(ToString::to_string),
            })
        });
        let certificates = self.certificates.iter();
        let certificates = certificates.map(|each| certificate(each, self.now));
        json!({
            "source": self.subject,
            "handshake": handshake,
            "private_key": self.key,
            "trust": self.verdict,
            "certificates": certificates.collect::<Vec<_>>(),
            "mistakes": self.listed(Severity::Mistake),
            "notes": self.listed(Severity::Note),
            "usable": self.mistakes() == 0,
        })
    }

    fn listed(&self, severity: Severity) -> Vec<Value> {
        let findings = self.findings.iter();
        let listed = findings.filter(|each| each.severity == severity);
        let listed = listed.map(|each| {
            json!({
                "code": each.code,
                "certificate": each.certificate.map(|index| index + 1),
                "message": each.message,
            })
        });
        listed.collect()
    }
}

fn line(text: &mut String, label: &str, value: &str) {
    // Writing to a string can't fail.
    _ = writeln!(text, "  {label:<12}  {value}");
}

fn rows(certificate: &Summary, now: i64) -> [(&'static str, String); 10] {
    let names = match certificate.names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let authority = match certificate.is_ca {
        true => "yes",
        false => "no",
    };
    [
        ("subject", certificate.subject.clone()),
        ("names", names),
        ("issuer", certificate.issuer.clone()),
        ("serial", certificate.serial.clone()),
        ("valid", validity(certificate, now)),
        ("key", certificate.key.to_string()),
        ("signature", certificate.signature.to_string()),
        ("authority", authority.to_owned()),
        ("SHA-256", fingerprint_text(&certificate.fingerprint)),
        ("pin", pin(certificate)),
    ]
}

fn certificate(certificate: &Summary, now: i64) -> Value {
    json!({
        "subject": certificate.subject,
        "names": certificate.names,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "not_before": certificate.not_before,
        "not_after": certificate.not_after,
        "days_left": days(now, certificate.not_after),
        "key": certificate.key.to_string(),
        "signature": certificate.signature.to_string(),
        "is_ca": certificate.is_ca,
        "sha256": fingerprint_text(&certificate.fingerprint),
        "pin": pin(certificate),
    })
}

/// The validity, such as `2026-01-01 00:00:00 to 2026-03-01 00:00:00 UTC, 12 days left`.
fn validity(certificate: &Summary, now: i64) -> String {
    let (from, to) = (certificate.not_before, certificate.not_after);
    let left = if now > to {
        format!("expired {} ago", count(days(to, now), "day"))
    } else if now < from {
        format!("valid in {}", count(days(now, from), "day"))
    } else {
        format!("{} left", count(days(now, to), "day"))
    };
    format!("{} to {} UTC, {left}", date(from), date(to))
}

/// The hash of the public key, in the form of an upstream's `pins`.
fn pin(certificate: &Summary) -> String {
    let hash = BASE64_STANDARD.encode(certificate.spki_fingerprint);
    format!("sha256/{hash}")
}

/// A Unix time as text, such as `2026-11-22 12:00:00`.
fn date(unix: i64) -> String {
    let (day, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so that
    // a leap day is the last of its year, and eras of 400 years have the same days.
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = year + era * 400 + carry;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // date -u -d @N '+%F %T'
        for (unix, expected) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (253_402_300_799, "9999-12-31 23:59:59"),
            (-631_152_000, "1950-01-01 00:00:00"),
        ] {
            assert_eq!(date(unix), expected);
        }
    }
}
