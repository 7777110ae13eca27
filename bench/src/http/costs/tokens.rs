//! Tokens that a key of the run has signed by RS256.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use serde_json::json;

use crate::peer::Setup;

/// More than a second's worth would be a minute's work to sign; what a node remembers is one of them.
const COUNT: usize = 2_000;

/// Signed ones, and who verifies them.
pub(super) struct Tokens {
    /// PEM.
    pub(super) public_key: PathBuf,
    /// One a line.
    pub(super) list: PathBuf,
    texts: Vec<String>,
}

impl Tokens {
    /// # Errors
    /// When a file can't be written.
    pub(super) fn create(setup: &Setup) -> Result<Self> {
        let pem = fs::read_to_string(&setup.credentials.rsa.key)?;
        let signing = EncodingKey::from_rsa_pem(pem.as_bytes()).context("the key of the run")?;
        let public = KeyPair::from_pem(&pem)?.public_key_pem();
        let sign = |number: usize| {
            let claims = json!({
                "iss": "https://issuer.example.com",
                "aud": ["api"],
                "sub": format!("user-{number}"),
                "scope": "read write",
                "exp": EXPIRES_AT,
            });
            jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &signing)
        };
        let texts = (0..COUNT).map(sign).collect::<Result<Vec<_>, _>>()?;
        let tokens = Self {
            public_key: setup.run_dir.join("token.pub"),
            list: setup.run_dir.join("tokens.txt"),
            texts,
        };
        fs::write(&tokens.public_key, public)?;
        fs::write(&tokens.list, tokens.texts.join("\n"))?;
        Ok(tokens)
    }

    pub(super) fn first(&self) -> &str {
        &self.texts[0]
    }
}

/// The year 2100.
const EXPIRES_AT: u64 = 4_102_444_800;
