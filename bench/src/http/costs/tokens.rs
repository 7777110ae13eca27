//! Tokens that a key of the run has signed by RS256, and what the library takes to verify one.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::KeyPair;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

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
    key: DecodingKey,
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
            key: DecodingKey::from_rsa_pem(public.as_bytes())?,
            texts,
        };
        fs::write(&tokens.public_key, public)?;
        fs::write(&tokens.list, tokens.texts.join("\n"))?;
        Ok(tokens)
    }

    pub(super) fn first(&self) -> &str {
        &self.texts[0]
    }

    /// CPU time that the library takes for a token: its signature, and its claims as a tree.
    ///
    /// # Errors
    /// When one of them does not verify.
    pub(super) fn verify_all_us(&self) -> Result<f64> {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let before = thread_time();
        for text in &self.texts {
            let decoded = jsonwebtoken::decode::<Value>(text, &self.key, &validation)?;
            ensure!(
                decoded.claims["exp"] == EXPIRES_AT,
                "a token says something else"
            );
        }
        let used = thread_time().saturating_sub(before);
        Ok(used.as_secs_f64() * 1e6 / COUNT as f64)
    }
}

/// The year 2100.
const EXPIRES_AT: u64 = 4_102_444_800;

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}
