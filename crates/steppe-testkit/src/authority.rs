//! A certificate authority of a test's own.

use std::process::{Command, Stdio};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams,
    CertifiedIssuer, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize,
    SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::Scratch;

/// OID of an unknown extension, in the arc for examples (RFC 5612).
const PADDING_OID: [u64; 9] = [1, 3, 6, 1, 4, 1, 32473, 1, 1];

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The contents of a certificate to issue.
#[derive(Debug, Clone)]
pub struct Leaf {
    names: Vec<String>,
    common_name: String,
    valid: Validity,
    key: KeyKind,
    serial: u64,
    padding_bytes: usize,
}

/// The validity period of a certificate or of a revocation list, relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Now is between its two dates.
    Current,
    /// The last date was in 2001.
    Expired,
    /// The first date is in the year 3000.
    NotYet,
}

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA with P-256.
    P256,
    /// RSA of 2048 bits.
    Rsa2048,
}

/// A certificate that an authority issued, with its key.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate, PEM.
    pub cert: String,
    /// The certificate's key, PEM.
    pub key: String,
    /// The certificate, DER.
    pub der: Vec<u8>,
    serial: u64,
    key_der: Vec<u8>,
}

impl Leaf {
    /// A certificate for servers with these names; the first is the subject's common name too.
    ///
    /// # Panics
    /// Without any name.
    pub fn named(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            common_name: names[0].to_owned(),
            valid: Validity::Current,
            key: KeyKind::P256,
            serial: 1,
            padding_bytes: 0,
        }
    }

    /// Replaces the subject's common name.
    #[must_use]
    pub fn common_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.common_name);
        self
    }

    /// Sets the validity period.
    #[must_use]
    pub fn valid(mut self, valid: Validity) -> Self {
        self.valid = valid;
        self
    }

    /// Sets the kind of the key.
    #[must_use]
    pub fn key(mut self, key: KeyKind) -> Self {
        self.key = key;
        self
    }

    /// Sets the serial number, by which the certificate is revoked.
    #[must_use]
    pub fn serial(mut self, serial: u64) -> Self {
        self.serial = serial;
        self
    }

    /// Makes the certificate larger by an extension of so many bytes.
    #[must_use]
    pub fn padded(mut self, bytes: usize) -> Self {
        self.padding_bytes = bytes;
        self
    }

    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::new(self.names.clone()).expect("names are valid");
        let dates = self.valid.years().map(|year| date_time_ymd(year, 1, 1));
        [params.not_before, params.not_after] = dates;
        params.distinguished_name = subject(&self.common_name);
        params.serial_number = Some(SerialNumber::from(self.serial));
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        if self.padding_bytes > 0 {
            let content = vec![0x2a; self.padding_bytes];
            let padding = CustomExtension::from_oid_content(&PADDING_OID, content);
            params.custom_extensions.push(padding);
        }
        params
    }

    fn new_key(&self) -> KeyPair {
        let key = match self.key {
            KeyKind::P256 => KeyPair::generate(),
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        };
        key.expect("there are random numbers")
    }

    fn issued(&self, cert: &Certificate, key: &KeyPair) -> Issued {
        Issued {
            cert: cert.pem(),
            key: key.serialize_pem(),
            der: cert.der().to_vec(),
            serial: self.serial,
            key_der: key.serialize_der(),
        }
    }
}

impl Authority {
    /// A new authority of this name.
    ///
    /// # Panics
    /// When there are no random numbers.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = subject(name);
        let key = KeyPair::generate().expect("there are random numbers");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("its parameters are valid");
        Self { issuer }
    }

    /// The authority's certificate, PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's key, PEM.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a certificate, for servers and clients alike.
    ///
    /// # Panics
    /// When a name can't be in a certificate.
    pub fn issue(&self, leaf: &Leaf) -> Issued {
        let key = leaf.new_key();
        let mut params = leaf.params();
        params.use_authority_key_identifier_extension = true;
        let cert = params.signed_by(&key, &self.issuer);
        leaf.issued(&cert.expect("its parameters are valid"), &key)
    }

    /// A list that revokes these certificates, PEM.
    ///
    /// # Panics
    /// Never for dates as [`Validity`] has them.
    pub fn revocation_list(&self, revoked: &[&Issued], valid: Validity) -> String {
        let [this_update, next_update] = valid.years().map(|year| date_time_ymd(year, 1, 1));
        let revoked = revoked.iter().map(|issued| RevokedCertParams {
            serial_number: SerialNumber::from(issued.serial),
            revocation_time: this_update,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update,
            next_update,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("it may sign lists");
        list.pem().expect("it is signed")
    }
}

impl Validity {
    /// Both dates are the first of January.
    fn years(self) -> [i32; 2] {
        match self {
            Self::Current => [2001, 3000],
            Self::Expired => [2000, 2001],
            Self::NotYet => [3000, 3001],
        }
    }
}

impl Issued {
    /// A certificate that signs itself, of a new key.
    ///
    /// # Panics
    /// When a name can't be in a certificate.
    pub fn self_signed(name: &str) -> Self {
        let leaf = Leaf::named(&[name]);
        let key = leaf.new_key();
        let cert = leaf.params().self_signed(&key);
        leaf.issued(&cert.expect("its parameters are valid"), &key)
    }

    /// The SHA-256 digest of the public key in Base64, as pins have it. OpenSSL computes it,
    /// independently of the code under test.
    ///
    /// # Panics
    /// Without OpenSSL.
    pub fn key_digest(&self) -> String {
        let files = Scratch::new("pin");
        let cert = files.write("cert.pem", &self.cert);
        let pipe = "openssl x509 -pubkey -noout -in \"$0\" | openssl pkey -pubin -outform der \
                    | openssl dgst -sha256 -binary | openssl base64";
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", pipe])
            .arg(cert)
            .stderr(Stdio::inherit());
        let output = command.output().expect("openssl is installed").stdout;
        let digest = String::from_utf8(output).expect("base64");
        digest.trim().to_owned()
    }

    /// Certificate and key in rustls' types.
    pub(crate) fn pair(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.key_der.clone());
        (CertificateDer::from(self.der.clone()), key.into())
    }
}

fn subject(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}
