//! `basic-auth`: asks for a name and a password, of which only hashes are known.
//!
//! Invariant: a password is hashed on threads for that, never on a worker; few are at once, and how many wait
//! is bounded. A name that is not known takes as long as one that is. A password itself is not kept: what was
//! verified is remembered by a keyed digest.
//!
//! Spec: RFC 7617, RFC 9110 §11.

mod users;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use steppe_mem::{Account, Lease, Reservation};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use self::users::UserList;
use super::explained::{Judgment, unless_attached};
use super::factory::{FileError, FilterFactory, FilterFiles, FilterParts};
use super::{About, ExchangeFilter, Filter, Identity, Ready, Step, respond_with, table_of};
use crate::config::BasicAuth;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::RequestHead;
use crate::limits::{BASIC_BYTES_MAX, HASHES_AT_ONCE_MAX, HASHES_WAITING_MAX};
use crate::respond::Respond;

/// Passes requests of known users, and says who they are from.
pub struct BasicAuthFilter(Arc<Checker>);

/// Verification of passwords.
struct Checker {
    config: BasicAuth,
    users: Arc<UserList>,
    verified: VerifiedPasswords,
    /// Hashes that are computed at once.
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    lease: Lease,
}

/// Digests of names and passwords that were verified, each in the one place that it may have.
struct VerifiedPasswords {
    key: hmac::Key,
    /// Each behind a lock, which is held for a copy.
    places: Box<[Mutex<Option<Digest>>]>,
    _charge: Option<Reservation>,
}

type Digest = [u8; 32];

/// A name and a password.
struct BasicCredentials {
    name: String,
    password: Vec<u8>,
}

/// Why a request does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BasicAuthRejection {
    /// No credentials, or wrong ones: it is not told which (RFC 7617 §2).
    Wrong,
    /// Two, or what is none.
    Malformed,
    /// Too many wait for their turn, or there is no memory for a hash.
    Busy,
}

/// A request whose password is being checked.
struct Checking {
    checker: Arc<Checker>,
    result: Pin<Box<dyn Future<Output = Result<String, BasicAuthRejection>>>>,
    identity: Identity,
}

/// One of those that wait or are hashed.
struct HashingPlace(Arc<AtomicUsize>);

impl BasicAuthFilter {
    /// A filter that knows these users; what hashes take is charged to `account`.
    #[must_use]
    pub fn new(config: BasicAuth, users: Arc<UserList>, account: &Account) -> Self {
        // Some processors are left to the workers.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = (processors / 2).clamp(1, HASHES_AT_ONCE_MAX);
        Self(Arc::new(Checker {
            verified: VerifiedPasswords::new(config.cache_entries, account),
            config,
            users,
            turns: Arc::new(Semaphore::new(at_once)),
            waiting: Arc::default(),
            lease: account.lease(),
        }))
    }
}

impl Checker {
    /// Checks a password on another thread.
    async fn check(self: Arc<Self>, sent: BasicCredentials) -> Result<String, BasicAuthRejection> {
        let place = HashingPlace::take(&self.waiting).ok_or(BasicAuthRejection::Busy)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| BasicAuthRejection::Busy)?;
        // Whoever was before may have sent the same.
        if self.verified.has(&sent) {
            return Ok(sent.name);
        }
        let (hash, is_known) = self.users.hash_of(&sent.name);
        let charge = self.lease.try_reserve(hash.bytes());
        let charge = charge.map_err(|_| BasicAuthRejection::Busy)?;
        // It goes on when the client has left: its turn is over when it is.
        let checked = spawn_blocking(move || {
            let is_right = hash.verify(&sent.password);
            drop((charge, turn, place));
            (is_right && is_known).then_some(sent)
        });
        let right = checked.await.map_err(|_| BasicAuthRejection::Busy)?;
        let sent = right.ok_or(BasicAuthRejection::Wrong)?;
        self.verified.put(&sent);
        Ok(sent.name)
    }

    /// Tells the filters to come and the server who it is.
    fn pass(
        &self,
        name: &str,
        head: &mut RequestHead,
        identity: &Identity,
    ) -> Result<(), GatewayError> {
        if let Some(field) = &self.config.forward_user {
            head.fields.set(field.as_bytes(), name.as_bytes())?;
        }
        if head.fields.has_several(b"authorization") {
            // Servers that read another scheme would take the request for somebody else's.
            head.fields.keep_scheme(SCHEME);
        }
        identity.authenticate();
        Ok(())
    }

    fn refusal(&self, refused: BasicAuthRejection) -> Respond {
        let (status, text, field) = match refused {
            BasicAuthRejection::Busy => {
                let retry = ("retry-after".to_owned(), "1".to_owned());
                (503, "too many password checks in progress\n", retry)
            }
            BasicAuthRejection::Malformed => (400, "malformed credentials\n", self.challenge()),
            BasicAuthRejection::Wrong => (401, "authentication required\n", self.challenge()),
        };
        respond_with(status, text, vec![field])
    }

    /// RFC 7617 §2, §2.1.
    fn challenge(&self) -> (String, String) {
        let realm = &self.config.realm;
        let says = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        ("www-authenticate".to_owned(), says)
    }
}

impl FilterFactory for BasicAuth {
    fn load(&self, _: &str) -> Result<FilterFiles, FileError> {
        let key = "http.filter.users_file";
        let users = UserList::load(&self.users).map_err(FileError::at(key))?;
        Ok(FilterFiles::new(users))
    }

    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        let users = parts.files.get().unwrap_or_default();
        Arc::new(BasicAuthFilter::new(self.clone(), users, parts.account))
    }

    fn explain(
        &self,
        filter: &dyn Filter,
        about: &About<'_>,
        head: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        let reason = "depends on the password, which `explain` does not check";
        unless_attached(filter, about, head, reason)
    }
}

impl Filter for BasicAuthFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let Self(checker) = self;
        // A client's own says nothing.
        if let Some(field) = &checker.config.forward_user {
            head.fields.remove(field.as_bytes());
        }
        let sent = match BasicCredentials::of(&head.fields) {
            Ok(sent) => sent,
            Err(refused) => return Ok(Step::Respond(checker.refusal(refused))),
        };
        if checker.verified.has(&sent) {
            checker.pass(&sent.name, head, about.identity)?;
            return Ok(Step::Continue);
        }
        Ok(Step::Attach(Box::new(Checking {
            checker: Arc::clone(checker),
            result: Box::pin(Arc::clone(checker).check(sent)),
            identity: about.identity.clone(),
        })))
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        if let Some(field) = &self.0.config.forward_user {
            trailers.remove(field.as_bytes());
        }
    }
}

impl ExchangeFilter for Checking {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        let checked = ready!(self.result.as_mut().poll(cx));
        Poll::Ready(match checked {
            Ok(name) => {
                let passed = self.checker.pass(&name, head, &self.identity);
                passed.map(|()| Ready::Continue)
            }
            Err(refused) => Ok(Ready::Respond(self.checker.refusal(refused))),
        })
    }
}

/// The scheme before a name and a password in `Authorization`.
const SCHEME: &[u8] = b"basic ";

impl BasicCredentials {
    /// The credentials of a request: RFC 7617 §2.
    fn of(fields: &FieldBlock) -> Result<Self, BasicAuthRejection> {
        let basic = fields.values_named(b"authorization").filter_map(|value| {
            let (scheme, token) = value.split_at_checked(SCHEME.len())?;
            (scheme.eq_ignore_ascii_case(SCHEME)).then(|| token.trim_ascii())
        });
        let mut basic = basic.fuse();
        let token = basic.next().ok_or(BasicAuthRejection::Wrong)?;
        if basic.next().is_some() || token.len() > BASIC_BYTES_MAX {
            return Err(BasicAuthRejection::Malformed);
        }
        let plain = STANDARD
            .decode(token)
            .map_err(|_| BasicAuthRejection::Malformed)?;
        let colon = plain.iter().position(|&byte| byte == b':');
        let (name, password) = plain.split_at(colon.ok_or(BasicAuthRejection::Malformed)?);
        let name = std::str::from_utf8(name).map_err(|_| BasicAuthRejection::Malformed)?;
        Ok(Self {
            name: name.to_owned(),
            password: password[1..].to_vec(),
        })
    }
}

impl VerifiedPasswords {
    fn new(places: usize, account: &Account) -> Self {
        let random = SystemRandom::new();
        let bytes = size_of::<Mutex<Option<Digest>>>();
        let (places, charge) = table_of(account, places, 0, bytes);
        Self {
            _charge: charge,
            key: hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("there are random numbers"),
            places: std::iter::repeat_with(Default::default)
                .take(places)
                .collect(),
        }
    }

    fn has(&self, sent: &BasicCredentials) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let digest = self.digest(sent);
        let entry = self.place(&digest).lock();
        let entry = *entry.unwrap_or_else(PoisonError::into_inner);
        // Nobody can know what a keyed digest is compared with.
        entry == Some(digest)
    }

    fn put(&self, sent: &BasicCredentials) {
        if self.places.is_empty() {
            return;
        }
        let digest = self.digest(sent);
        let entry = self.place(&digest).lock();
        *entry.unwrap_or_else(PoisonError::into_inner) = Some(digest);
    }

    fn digest(&self, sent: &BasicCredentials) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        // A name has no colon.
        context.update(sent.name.as_bytes());
        context.update(b":");
        context.update(&sent.password);
        let mut digest = Digest::default();
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    fn place(&self, digest: &Digest) -> &Mutex<Option<Digest>> {
        let first = u64::from_le_bytes(*digest.first_chunk().expect("it is longer"));
        let at = (u128::from(first) * self.places.len() as u128) >> u64::BITS;
        &self.places[usize::try_from(at).expect("it is below the length")]
    }
}

impl HashingPlace {
    fn take(waiting: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(waiting));
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        (before < HASHES_WAITING_MAX).then_some(place)
    }
}

impl Drop for HashingPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Credentials are secrets.
impl fmt::Debug for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checking").finish_non_exhaustive()
    }
}

impl fmt::Debug for BasicAuthFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BasicAuthFilter")
            .field(&self.0.config)
            .finish()
    }
}
