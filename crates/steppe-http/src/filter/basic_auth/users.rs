//! Users and hashes of their passwords, out of a file as htpasswd writes it.
//!
//! Left out: passwords as they are, and hashes that one guesses by the billion (MD5, SHA-1, DES crypt).

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use argon2::password_hash::{PasswordHash, PasswordVerifier};
use argon2::{Argon2, Params};
use sha_crypt::{
    ROUNDS_DEFAULT, ROUNDS_MIN, Sha256Params, Sha512Params, sha256_crypt_b64, sha512_crypt_b64,
};
use steppe_net::tls::{LoadError, read};
use subtle::ConstantTimeEq;

use crate::field::is_field_value;
use crate::limits::{
    ARGON2_KIB_MAX, ARGON2_PASSES_KIB_MAX, BCRYPT_COST_MAX, BCRYPT_PASSWORD_BYTES_MAX,
    SHA_CRYPT_ROUNDS_MAX, USERS_MAX,
};

/// Users of one filter.
#[derive(Default)]
pub struct UserList(HashMap<String, Hash>);

/// The hash of a password, with all that it was made by.
#[derive(Clone)]
pub(super) enum Hash {
    Bcrypt(String),
    Argon2 {
        text: String,
        /// Memory of one computation.
        kib: u32,
    },
    Sha256(ShaCrypt),
    Sha512(ShaCrypt),
    /// An unknown user's.
    None,
}

#[derive(Clone)]
pub(super) struct ShaCrypt {
    rounds: usize,
    salt: String,
    hash: String,
}

impl UserList {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file can't be used; the error names the line.
    pub(super) fn load(path: &Path) -> Result<Self, LoadError> {
        let bytes = read(path)?;
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| LoadError::content(path, "not UTF-8 text"))?;
        Self::parse(text).map_err(|problem| LoadError::content(path, problem))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem: &str| format!("line {}: {problem}", number + 1);
            let user = line.split_once(':');
            let (name, hash) = user.ok_or_else(|| wrong("expected NAME:HASH"))?;
            if name.is_empty() || !is_field_value(name.as_bytes()) {
                return Err(wrong("invalid user name"));
            }
            let hash = Hash::parse(hash).map_err(wrong)?;
            if users.insert(name.to_owned(), hash).is_some() {
                return Err(wrong("duplicate user name"));
            }
            if users.len() > USERS_MAX {
                return Err(wrong(&format!("more than {USERS_MAX} users")));
            }
        }
        match users.is_empty() {
            true => Err("no users in the file".to_owned()),
            false => Ok(Self(users)),
        }
    }

    /// The hash of a user, and whether there is one of this name: else it is another's, to take as long.
    pub(super) fn hash_of(&self, name: &str) -> (Hash, bool) {
        match self.0.get(name) {
            Some(hash) => (hash.clone(), true),
            None => {
                let any = self.0.values().next();
                (any.cloned().unwrap_or(Hash::None), false)
            }
        }
    }
}

impl Hash {
    /// As htpasswd, crypt(3) and PHC strings write it.
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text.split('$').nth(1) {
            Some("2a" | "2b" | "2y") => bcrypt(text),
            Some("argon2i" | "argon2d" | "argon2id") => argon2(text),
            Some("5") => sha_crypt(text).map(Self::Sha256),
            Some("6") => sha_crypt(text).map(Self::Sha512),
            _ => Err(
                "unknown password hash: expected bcrypt, argon2 or SHA-crypt (htpasswd -B, mkpasswd)",
            ),
        }
    }

    /// Memory of one computation, in bytes.
    pub(super) fn bytes(&self) -> usize {
        const OTHERS: usize = 8 << 10;
        match self {
            Self::Argon2 { kib, .. } => usize::try_from(*kib).map_or(usize::MAX, |kib| kib << 10),
            _ => OTHERS,
        }
    }

    /// True when it is that of this password. Takes tens of milliseconds.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let is_same = |hash: &str, computed: Result<String, _>| {
            computed.is_ok_and(|computed: String| computed.as_bytes().ct_eq(hash.as_bytes()).into())
        };
        match self {
            Self::Bcrypt(text) => {
                // It is hashed all the same: time does not tell whose hash is of which kind.
                let is_right = bcrypt::verify(password, text).unwrap_or(false);
                is_right && password.len() <= BCRYPT_PASSWORD_BYTES_MAX
            }
            Self::Argon2 { text, .. } => PasswordHash::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            Self::Sha256(ShaCrypt { rounds, salt, hash }) => {
                Sha256Params::new(*rounds).is_ok_and(|params| {
                    is_same(hash, sha256_crypt_b64(password, salt.as_bytes(), &params))
                })
            }
            Self::Sha512(ShaCrypt { rounds, salt, hash }) => {
                Sha512Params::new(*rounds).is_ok_and(|params| {
                    is_same(hash, sha512_crypt_b64(password, salt.as_bytes(), &params))
                })
            }
            Self::None => false,
        }
    }
}

fn bcrypt(text: &str) -> Result<Hash, &'static str> {
    let parts: bcrypt::HashParts = text.parse().map_err(|_| "malformed bcrypt hash")?;
    match parts.get_cost() {
        ..=BCRYPT_COST_MAX => Ok(Hash::Bcrypt(text.to_owned())),
        _ => Err("bcrypt cost above 14"),
    }
}

fn argon2(text: &str) -> Result<Hash, &'static str> {
    const NONE: &str = "malformed argon2 hash";
    let hash = PasswordHash::new(text).map_err(|_| NONE)?;
    let params = Params::try_from(&hash).map_err(|_| NONE)?;
    if hash.hash.is_none() || hash.salt.is_none() {
        return Err(NONE);
    }
    let kib = params.m_cost();
    let passes = u64::from(kib) * u64::from(params.t_cost());
    if kib > ARGON2_KIB_MAX || passes > ARGON2_PASSES_KIB_MAX {
        return Err("argon2 memory above 64 MiB, or above 256 MiB over all passes");
    }
    let text = text.to_owned();
    Ok(Hash::Argon2 { text, kib })
}

/// `$5$rounds=N$SALT$HASH`, where the rounds may be left out.
fn sha_crypt(text: &str) -> Result<ShaCrypt, &'static str> {
    const NONE: &str = "malformed SHA-crypt hash";
    let parts: Vec<_> = text.split('$').skip(2).collect();
    let (rounds, salt, hash) = match parts.as_slice() {
        [salt, hash] => (ROUNDS_DEFAULT, salt, hash),
        [rounds, salt, hash] => {
            let rounds = rounds.strip_prefix("rounds=").ok_or(NONE)?;
            (rounds.parse().map_err(|_| NONE)?, salt, hash)
        }
        _ => return Err(NONE),
    };
    if !(ROUNDS_MIN..=SHA_CRYPT_ROUNDS_MAX).contains(&rounds) {
        return Err("SHA-crypt rounds outside of 1,000 to 1,000,000");
    }
    if hash.is_empty() || salt.is_empty() {
        return Err(NONE);
    }
    Ok(ShaCrypt {
        rounds,
        salt: (*salt).to_owned(),
        hash: (*hash).to_owned(),
    })
}

/// Hashes are better not shown.
impl fmt::Debug for UserList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserList")
            .field("users", &self.0.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of "open sesame", by other programs: the bcrypt and argon2-cffi packages of Python, OpenSSL.
    const HASHES: [&str; 5] = [
        "$2b$04$cBxG3y4QbtIdO423VEpLmeN.5fHcr5.kOR7fAk6QelkQ4tcdoXtG.",
        "$argon2id$v=19$m=1024,t=1,p=1$8Ptv5C84tBPLP54uAcIUrA$P8Sh2MnfRF0Y1F5oPiT3HXMTogyINT0xc9//tmN7dt8",
        "$6$abcdefgh$CkjGkP7IIgZVUCNlt.Vi53LOYJLXZ5KzdpzEYCj01XGruA1hxZYJqccTU2zz68oJwAGsd1iPty5F7dHIatUTy/",
        "$5$rounds=1000$abcdefgh$uN/x8g5iqpGW8nv2HklfY2EGEvwdVIgjHBpf2Az7t3A",
        "$5$abcdefgh$FWXdh6oXOJQkX7oAcP02d0Gnxjct6ra8Fwv29U9RIN2",
    ];

    #[test]
    fn hashes_of_other_programs_are_verified() {
        for text in HASHES {
            let hash = Hash::parse(text).expect(text);
            assert!(hash.verify(b"open sesame"), "{text}");
            for wrong in ["", "open sesam", "open sesame ", "Open sesame"] {
                assert!(!hash.verify(wrong.as_bytes()), "{text}: {wrong}");
            }
        }
    }

    /// bcrypt leaves out what follows: whoever knows the first 72 bytes of a longer password would have it all.
    #[test]
    fn a_password_has_as_many_bytes_as_bcrypt_reads() {
        let long = "x".repeat(BCRYPT_PASSWORD_BYTES_MAX);
        let text = bcrypt::hash(&long, 4).expect("a hash");
        let hash = Hash::parse(&text).expect("one that is read");
        assert!(hash.verify(long.as_bytes()));
        for other in [
            format!("{long}y"),
            format!("{long}{long}"),
            long[1..].into(),
        ] {
            assert!(!hash.verify(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_is_no_hash_or_costs_too_much_is_refused() {
        for text in [
            "secret",
            "",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00",
            "$1$abc$def",
            "$2b$15$cBxG3y4QbtIdO423VEpLmeN.5fHcr5.kOR7fAk6QelkQ4tcdoXtG.",
            "$2b$04$short",
            "$argon2id$v=19$m=1048576,t=1,p=1$8Ptv5C84tBPLP54uAcIUrA$P8Sh2MnfRF0Y1F5oPiT3HXMTogyINT0xc9//tmN7dt8",
            "$argon2id$v=19$m=65536,t=9,p=1$8Ptv5C84tBPLP54uAcIUrA$P8Sh2MnfRF0Y1F5oPiT3HXMTogyINT0xc9//tmN7dt8",
            "$argon2id$v=19$m=1024,t=1,p=1",
            "$6$rounds=5000000$abcdefgh$x",
            "$6$rounds=1$abcdefgh$x",
            "$6$abcdefgh$",
            "$6$abcdefgh",
        ] {
            assert!(Hash::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_says_where_it_is_wrong() {
        let good = HASHES[0];
        let said = |text: &str| UserList::parse(text).expect_err(text);
        assert!(said("# nobody\n\n").contains("no users"));
        assert!(said(&format!("ann:{good}\nbob\n")).starts_with("line 2: expected NAME:HASH"));
        assert!(
            said(&format!("ann:{good}\r\nann:{good}")).starts_with("line 2: duplicate user name")
        );
        assert!(said("ann:secret").starts_with("line 1: unknown password hash"));
        assert!(said(&format!(":{good}")).contains("invalid user name"));
        assert!(said(&format!("a\u{7}b:{good}")).contains("invalid user name"));
        let users = UserList::parse(&format!("# users\nann:{good}\r\n")).expect("a list");
        let (hash, is_known) = users.hash_of("ann");
        assert!(is_known && hash.verify(b"open sesame"));
        // As costly as a user's.
        let (hash, is_known) = users.hash_of("bob");
        assert!(!is_known && hash.verify(b"open sesame"));
    }
}
