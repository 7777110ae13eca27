//! `steppe cert`, run as a command, on files and on servers of OpenSSL.

mod chain;
mod command;
mod servers;

use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use serde_json::Value;

use self::chain::{Authority, Chain, authority_params, certificates, key, leaf_params, pem};
use self::command::{assert_unreadable, codes, json, steppe, steppe_with_roots};

/// The value that `openssl x509` prints for a file.
fn openssl(file: &str, args: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["x509", "-noout", "-in", file])
        .args(args)
        .output()
        .expect("openssl is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, value) = text.trim().split_once('=').expect("a value");
    value.to_owned()
}

#[test]
fn a_file_is_shown_as_openssl_shows_it() {
    let chain = Chain::new();
    let file = chain.write(
        "chain.pem",
        certificates(&[&chain.leaf, &chain.lower(), &chain.upper()]),
    );
    let (report, code) = json(&[&file, "--ca", &chain.path("root.pem")]);
    assert_eq!(code, 0);
    let leaf = &report["certificates"][0];
    assert_eq!(leaf["serial"], openssl(&file, &["-serial"]));
    let fingerprint = openssl(&file, &["-fingerprint", "-sha256"]);
    assert_eq!(leaf["sha256"], fingerprint.replace(':', "").to_lowercase());
    assert_eq!(leaf["subject"], "CN=leaf");
    assert_eq!(leaf["issuer"], "CN=lower");
    assert_eq!(
        leaf["names"],
        serde_json::json!(["www.example.com", "*.example.org"])
    );
    assert_eq!(leaf["key"], "EC P-256");
    assert_eq!(leaf["signature"], "ECDSA with SHA-256");
    assert_eq!(
        (&leaf["is_ca"], &report["certificates"][1]["is_ca"]),
        (&false.into(), &true.into())
    );
    let text = steppe(&[&file, "--ca", &chain.path("root.pem")]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("\ncertificate 3 of 3\n  subject       CN=upper\n"),
        "{text}"
    );
    assert!(
        text.contains("\n  names         www.example.com, *.example.org\n"),
        "{text}"
    );
    assert!(text.ends_with("\n\nusable: no mistakes\n"), "{text}");
}

/// By the commands in the documentation of OpenSSL and curl.
#[test]
fn a_pin_is_the_hash_of_the_public_key() {
    let chain = Chain::new();
    let file = chain.write("leaf.pem", certificates(&[&chain.leaf]));
    let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform DER \
                  | openssl dgst -sha256 -binary | openssl base64";
    let output = Command::new("sh")
        .args(["-c", script, &file])
        .output()
        .expect("it runs");
    let pin = format!("sha256/{}", String::from_utf8_lossy(&output.stdout).trim());
    assert_eq!(json(&[&file]).0["certificates"][0]["pin"], pin);
}

#[test]
fn a_whole_chain_has_no_mistake() {
    let chain = Chain::new();
    let (leaf, lower, upper, root) = (&chain.leaf, &chain.lower(), &chain.upper(), &chain.root());
    chain.check(&[leaf, lower, upper], &[], &[]);
    chain.check(&[leaf, lower, upper, root], &[], &["4:root_sent"]);
    let stranger = Authority::self_signed(authority_params("stranger"), key()).expect("signed");
    let stranger = &stranger.der().to_vec();
    chain.check(&[leaf, lower, upper, stranger], &[], &["4:unrelated"]);
}

#[test]
fn mistakes_of_a_chain_are_named() {
    let chain = Chain::new();
    let (leaf, lower, upper) = (&chain.leaf, &chain.lower(), &chain.upper());
    chain.check(&[leaf], &["1:missing_issuer"], &[]);
    chain.check(&[leaf, lower], &["2:missing_issuer"], &[]);
    chain.check(&[leaf, upper], &["1:missing_issuer"], &["2:unrelated"]);
    chain.check(&[leaf, upper, lower], &["1:order"], &[]);
    chain.check(&[upper, lower, leaf], &["1:order"], &[]);
    chain.check(&[lower, upper], &["1:leaf_is_ca", "1:no_names"], &[]);
}

#[test]
fn mistakes_of_a_certificate_are_named() {
    let chain = Chain::new();
    let (lower, upper) = (&chain.lower(), &chain.upper());
    let check = |change: fn(&mut CertificateParams), mistakes: &[&str]| {
        let mut params = leaf_params();
        change(&mut params);
        chain.check(&[&chain.signed(&params), lower, upper], mistakes, &[]);
    };
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    };
    check(expired, &["1:expired"]);
    check(
        |params| params.not_before = date_time_ymd(3000, 1, 1),
        &["1:not_yet_valid"],
    );
    check(|params| params.subject_alt_names.clear(), &["1:no_names"]);
    check(
        |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
        &["refused"],
    );
    // The other mistakes of an expired chain are reported too.
    let mut params = leaf_params();
    expired(&mut params);
    let leaf = chain.signed(&params);
    chain.check(&[&leaf], &["1:expired", "1:missing_issuer"], &[]);
}

#[test]
fn an_expired_authority_is_named() {
    let chain = Chain::new();
    let mut params = authority_params("old");
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2001, 1, 1);
    let old = Authority::signed_by(params, key(), &chain.root).expect("signed");
    let leaf = leaf_params().signed_by(&key(), &old).expect("signed");
    chain.check(
        &[&leaf.der().to_vec(), &old.der().to_vec()],
        &["2:expired"],
        &[],
    );
}

/// Without key identifiers, an issuer is found by its name alone.
#[test]
fn a_signature_of_another_key_is_found() {
    let chain = Chain::new();
    let mut params = authority_params("upper");
    params.key_identifier_method = rcgen::KeyIdMethod::PreSpecified(b"same".to_vec());
    let first = Authority::signed_by(params.clone(), key(), &chain.root).expect("signed");
    let second = Authority::signed_by(params, key(), &chain.root).expect("signed");
    let leaf = leaf_params().signed_by(&key(), &first).expect("signed");
    let leaf = &leaf.der().to_vec();
    chain.check(&[leaf, &first.der().to_vec()], &[], &[]);
    chain.check(&[leaf, &second.der().to_vec()], &["refused"], &[]);
}

/// RSA of 1024 bits, SHA-1, and a subject full of special characters.
#[test]
fn weak_algorithms_are_named() {
    let odd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../steppe-net/testdata/x509/odd.der");
    let (report, code) = json(&[&odd.to_string_lossy()]);
    // The certificate expires some day, and the report then says so.
    let mut mistakes = codes(&report, "mistakes");
    mistakes.retain(|code| code != "1:expired");
    assert_eq!(mistakes, ["1:weak_signature", "1:short_key"]);
    assert_eq!(code, 1);
}

#[test]
fn a_name_that_is_asked_for_must_be_there() {
    let chain = Chain::new();
    let content = certificates(&[&chain.leaf, &chain.lower(), &chain.upper()]);
    let file = chain.write("chain.pem", content);
    for (name, mistakes) in [
        ("www.example.com", &[][..]),
        ("a.example.org", &[]),
        ("a.b.example.org", &["1:name_mismatch"]),
        ("example.com", &["1:name_mismatch"]),
        ("192.0.2.1", &["1:name_mismatch"]),
    ] {
        let (report, _) = json(&[&file, "--ca", &chain.path("root.pem"), "--sni", name]);
        assert_eq!(codes(&report, "mistakes"), mistakes, "{name}");
    }
}

#[test]
fn roots_are_the_systems_unless_given() {
    let chain = Chain::new();
    let content = certificates(&[&chain.leaf, &chain.lower(), &chain.upper()]);
    let file = chain.write("chain.pem", content);
    let output = steppe_with_roots(&chain.path("root.pem"), &[&file]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("verified with the system's root certificates"),
        "{text}"
    );
    let (report, code) = json(&[&file]);
    assert_eq!(
        (codes(&report, "notes"), code),
        (vec!["trust_unknown".to_owned()], 0)
    );

    let other = Authority::self_signed(authority_params("other"), key()).expect("signed");
    let other = chain.write("other.pem", certificates(&[&other.der().to_vec()]));
    let (report, code) = json(&[&file, "--ca", &other]);
    assert_eq!(
        (codes(&report, "mistakes"), code),
        (vec!["3:missing_issuer".to_owned()], 1)
    );
    // A private root in the file: this cannot tell if clients trust it.
    let whole = [&chain.leaf, &chain.lower(), &chain.upper(), &chain.root()];
    let whole = chain.write("whole.pem", certificates(&whole));
    let output = steppe_with_roots(&other, &[&whole, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(codes(&report, "notes"), ["4:root_sent", "4:private_root"]);
    assert_eq!(output.status.code(), Some(0));
    let (report, code) = json(&[&whole, "--ca", &other]);
    assert_eq!(
        (codes(&report, "mistakes"), code),
        (vec!["4:untrusted".to_owned()], 1)
    );
}

#[test]
fn a_key_is_held_against_the_first_certificate() {
    let chain = Chain::new();
    let content = certificates(&[&chain.leaf, &chain.lower(), &chain.upper()]);
    let file = chain.write("chain.pem", &content);
    let own = chain.write("own.key", chain.key_pem());
    let other = pem("PRIVATE KEY", &key().serialize_der());
    let foreign = chain.write("foreign.key", &other);
    let beside = chain.write("beside.pem", chain.key_pem() + &content);
    let wrong = chain.write("wrong.pem", other + &content);
    let der = chain.write("own.der", chain.leaf_key.serialize_der());
    for (args, words, mistakes) in [
        (
            &[file.as_str(), "--key", &own][..],
            "own.key, matches certificate 1",
            &[][..],
        ),
        (
            &[&file, "--key", &der],
            "own.der, matches certificate 1",
            &[],
        ),
        (
            &[&file, "--key", &foreign],
            "foreign.key, does not match certificate 1",
            &["1:key_mismatch"],
        ),
        (&[&beside], "in the same file, matches certificate 1", &[]),
        (
            &[&wrong],
            "in the same file, does not match certificate 1",
            &["1:key_mismatch"],
        ),
    ] {
        let (report, code) = json(args);
        let told = report["private_key"].as_str().expect("words");
        assert!(told.ends_with(words), "{told}");
        assert_eq!(codes(&report, "mistakes"), mistakes, "{words}");
        assert_eq!(code, i32::from(!mistakes.is_empty()), "{words}");
    }
    assert_eq!(json(&[&file]).0["private_key"], Value::Null);
    assert_unreadable(
        &[&file, "--key", &file],
        "no unencrypted private key in the file",
    );
}

#[test]
fn a_certificate_in_der_is_read() {
    let chain = Chain::new();
    let file = chain.write("leaf.der", &chain.leaf);
    let (report, _) = json(&[&file]);
    assert_eq!(report["certificates"][0]["subject"], "CN=leaf");
}

#[test]
fn what_holds_no_certificate_is_code_2() {
    let chain = Chain::new();
    let broken = certificates(&[&chain.leaf]).replace("MII", "M!I");
    let torn = pem("CERTIFICATE", &chain.leaf[..100]);
    for (content, expected) in [
        (Vec::new(), "the file is empty"),
        (
            chain.key_pem().into_bytes(),
            "the file has a private key but no certificate",
        ),
        (vec![0xff; 4000], "neither a PEM nor a DER certificate"),
        (b"-----BEGIN CERTIFICATE-----\n".to_vec(), "malformed PEM"),
        (
            b"-----BEGIN NOTHING-----\n-----END NOTHING-----\n".to_vec(),
            "no PEM certificate in the file",
        ),
        (broken.into_bytes(), "malformed PEM"),
        (
            torn.into_bytes(),
            "certificate 1: not a DER X.509 certificate",
        ),
    ] {
        let file = chain.write("broken.pem", content);
        assert_unreadable(&[&file], &format!("broken.pem: {expected}"));
    }
    assert_unreadable(&["/dev/zero"], "longer than 4194304 bytes");
    assert_unreadable(&["/"], "Is a directory");
    assert_unreadable(&["./nowhere.pem"], "No such file");
    let file = chain.write("leaf.pem", certificates(&[&chain.leaf]));
    assert_unreadable(&[&file, "--ca", "nowhere.pem"], "nowhere.pem: No such file");
}

#[test]
fn a_wrong_command_line_is_code_2() {
    for args in [
        &[][..],
        &["a", "b"],
        &["a", "--timeout", "5"],
        &["a", "--sni", "a b"],
    ] {
        let output = steppe(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("--help"),
            "{args:?}"
        );
    }
    assert_unreadable(
        &["127.0.0.1:1", "--key", "a"],
        "`--key` applies only to files",
    );
}
