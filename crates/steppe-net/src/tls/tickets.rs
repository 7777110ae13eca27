//! Session tickets (RFC 8446 §4.6.1, RFC 5077), sealed with keys of our own making.
//!
//! Invariant: a ticket opens only where it was made for: its key is derived from a secret and
//! from a [`Context`], which stands for the listener, its policy for client certificates, their
//! authorities and revocation lists. rustls takes a client's chain from a ticket without asking
//! again, so a ticket from before a revocation must not open.
//!
//! Secrets are made here and rotated, or come from a file that nodes share: the first one seals,
//! all of them open.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

use super::load::{self, LoadError};
use crate::limits::{TICKET_BYTES_MAX, TICKET_LIFETIME, TICKET_SECRETS_MAX};

const SECRET_BYTES: usize = 32;
/// Length of a secret's name, which a ticket carries in clear and which tells nothing else.
const NAME_BYTES: usize = 8;

type Secret = [u8; SECRET_BYTES];

/// A hash of the listener and its policy, which a ticket is bound to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Context([u8; 32]);

impl Context {
    /// The context of these parts, which are hashed with their lengths.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(*part);
        }
        let mut context = [0; 32];
        context.copy_from_slice(digest(&SHA256, &bytes).as_ref());
        Self(context)
    }
}

/// The source of secrets.
pub(super) enum Secrets {
    /// Made here, and rotated; what is open at a restart is lost.
    Made(Mutex<Made>),
    /// Secrets of a file, read again when it changes.
    File(PathBuf, Mutex<Arc<[Secret]>>),
}

/// Secrets of our own.
pub(super) struct Made {
    /// The one that seals, and the one before it.
    secrets: Arc<[Secret]>,
    since: Instant,
}

impl Secrets {
    pub(super) fn new(file: Option<&Path>, now: Instant) -> Result<Self, LoadError> {
        Ok(match file {
            Some(path) => Self::File(path.to_owned(), Mutex::new(read(path)?)),
            None => Self::Made(Mutex::new(Made {
                secrets: Arc::new([make()?]),
                since: now,
            })),
        })
    }

    pub(super) fn is_of(&self, file: Option<&Path>) -> bool {
        match self {
            Self::Made(_) => file.is_none(),
            Self::File(path, _) => file == Some(path),
        }
    }

    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Made(_) => None,
            Self::File(path, _) => Some(path),
        }
    }

    /// Reads the file again; rotates secrets of our own whose time is over.
    pub(super) fn refresh(&self, now: Instant) -> Result<(), LoadError> {
        match self {
            Self::File(path, secrets) => {
                let read = read(path)?;
                *secrets.lock().unwrap_or_else(PoisonError::into_inner) = read;
            }
            Self::Made(made) => {
                let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                // One that seals for half of the time that a ticket lives opens for all of it.
                if now.saturating_duration_since(made.since) >= TICKET_LIFETIME / 2 {
                    made.secrets = Arc::new([make()?, made.secrets[0]]);
                    made.since = now;
                }
            }
        }
        Ok(())
    }

    fn current(&self) -> Arc<[Secret]> {
        match self {
            Self::Made(made) => {
                Arc::clone(&made.lock().unwrap_or_else(PoisonError::into_inner).secrets)
            }
            Self::File(_, secrets) => {
                Arc::clone(&secrets.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

fn make() -> Result<Secret, LoadError> {
    let mut secret = [0; SECRET_BYTES];
    rand::fill(&mut secret)
        .map_err(|_| LoadError::Setup("no random numbers from the system".to_owned()))?;
    Ok(secret)
}

/// One secret a line, 64 hexadecimal digits each; `#` begins a comment.
fn read(path: &Path) -> Result<Arc<[Secret]>, LoadError> {
    let text = String::from_utf8(load::read(path)?)
        .map_err(|_| LoadError::content(path, "not UTF-8 text"))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let secrets: Option<Vec<Secret>> = lines.map(from_hex).collect();
    match secrets {
        Some(secrets) if (1..=TICKET_SECRETS_MAX).contains(&secrets.len()) => Ok(secrets.into()),
        Some(secrets) => Err(LoadError::content(
            path,
            format!(
                "{} secrets: 1 to {TICKET_SECRETS_MAX} are required, as printed by \
                 `openssl rand -hex 32`",
                secrets.len()
            ),
        )),
        None => Err(LoadError::content(
            path,
            "malformed secret: each line must have 64 hexadecimal digits, as printed by \
             `openssl rand -hex 32`",
        )),
    }
}

fn from_hex(line: &str) -> Option<Secret> {
    let mut secret = [0; SECRET_BYTES];
    let digits = line.as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(secret)
}

/// Seals and opens tickets of one context.
pub(super) struct Ticketer {
    secrets: Arc<Secrets>,
    context: Context,
}

impl Ticketer {
    pub(super) fn new(secrets: Arc<Secrets>, context: Context) -> Self {
        Self { secrets, context }
    }

    fn key(&self, secret: &Secret) -> ([u8; NAME_BYTES], Option<LessSafeKey>) {
        let root = hmac::Key::new(HMAC_SHA256, secret);
        let derived = |label: &[u8]| {
            let mut context = hmac::Context::with_key(&root);
            context.update(label);
            context.update(&self.context.0);
            context.sign()
        };
        let key = UnboundKey::new(&AES_256_GCM, derived(b"steppe ticket key").as_ref());
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&derived(b"steppe ticket name").as_ref()[..NAME_BYTES]);
        (name, key.ok().map(LessSafeKey::new))
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(TICKET_LIFETIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let secrets = self.secrets.current();
        let (name, key) = self.key(secrets.first()?);
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        key?.seal_in_place_append_tag(unique, Aad::from(&name), &mut sealed)
            .ok()?;
        let ticket = [&name[..], &nonce[..], &sealed].concat();
        (ticket.len() <= TICKET_BYTES_MAX).then_some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (sealed_by, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        for secret in &*self.secrets.current() {
            let (name, key) = self.key(secret);
            if name == *sealed_by {
                let mut sealed = sealed.to_vec();
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let plain = key?
                    .open_in_place(nonce, Aad::from(&name), &mut sealed)
                    .ok()?;
                return Some(plain.to_vec());
            }
        }
        None
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticketer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticketer(secrets: &Arc<Secrets>, listener: &str) -> Ticketer {
        Ticketer::new(Arc::clone(secrets), Context::of(&[listener.as_bytes()]))
    }

    #[test]
    fn a_ticket_opens_where_it_was_made_and_nowhere_else() {
        let now = Instant::now();
        let secrets = Arc::new(Secrets::new(None, now).expect("random"));
        let here = ticketer(&secrets, "a");
        let ticket = here.encrypt(b"session").expect("room");
        assert_eq!(here.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(ticketer(&secrets, "b").decrypt(&ticket), None);
        let mut forged = ticket.clone();
        *forged.last_mut().expect("not empty") ^= 1;
        assert_eq!(here.decrypt(&forged), None);
        for len in 0..ticket.len() {
            assert_eq!(here.decrypt(&ticket[..len]), None);
        }
    }

    #[test]
    fn a_secret_seals_for_half_a_ticket_and_opens_for_a_whole_one() {
        let now = Instant::now();
        let secrets = Arc::new(Secrets::new(None, now).expect("random"));
        let here = ticketer(&secrets, "a");
        let ticket = here.encrypt(b"session").expect("room");
        let half = TICKET_LIFETIME / 2;
        secrets.refresh(now + half / 2).expect("random");
        secrets.refresh(now + half).expect("random");
        let newer = here.encrypt(b"newer").expect("room");
        assert_ne!(newer[..NAME_BYTES], ticket[..NAME_BYTES]);
        assert!(here.decrypt(&ticket).is_some());
        secrets.refresh(now + 2 * half).expect("random");
        assert_eq!(here.decrypt(&ticket), None);
        assert!(here.decrypt(&newer).is_some());
    }

    #[test]
    fn nodes_with_one_file_open_each_others_tickets() {
        let path = std::env::temp_dir().join(format!("steppe-tickets-{}", std::process::id()));
        let (old, new) = ("ab".repeat(32), "cd".repeat(32));
        std::fs::write(&path, format!("# shared\n{old}\n")).expect("writes");
        let now = Instant::now();
        let open = || Arc::new(Secrets::new(Some(&path), now).expect("valid"));
        let (one, other) = (open(), open());
        let ticket = ticketer(&one, "a").encrypt(b"session").expect("room");
        assert!(ticketer(&other, "a").decrypt(&ticket).is_some());
        std::fs::write(&path, format!("{new}\n{old}\n")).expect("writes");
        other.refresh(now).expect("valid");
        assert!(ticketer(&other, "a").decrypt(&ticket).is_some());
        std::fs::write(&path, "xyz\n").expect("writes");
        other.refresh(now).expect_err("no secret");
        assert!(ticketer(&other, "a").decrypt(&ticket).is_some());
        std::fs::remove_file(&path).expect("it is there");
    }
}
