//! `jwt`: asks for a JSON Web Token that a known key has signed.
//!
//! Invariant: a key verifies with its own algorithm alone, whatever the token says of that; nothing that a
//! token names (`jku`, `jwk`, `x5u`, a path in `kid`) is fetched or opened; a claim of another type than
//! RFC 7519 gives it fails, and so does a critical extension. Nothing of a token is read before its signature
//! is known to be good but its header, which says who may have made it. Keys are read by `jsonwebtoken`,
//! signatures verified by `aws-lc-rs`, claims judged here.
//!
//! Spec: RFC 7515, RFC 7519, RFC 8725 (best practices), RFC 6750 (what a client is told).

mod keys;
mod remote;
mod verified;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use steppe_mem::alloc::block_bytes;
use steppe_mem::{Account, Lease, measured};

use super::explained::{Judgment, unless_attached};
use super::factory::{FileError, FilterFactory, FilterFiles, FilterParts};
use super::json_bytes::json_bytes_max;
use super::sources::{self, Unfit};
use super::token::{self, Token};
use super::{About, ExchangeFilter, Filter, Identity, Ready, Step, respond_with};
use crate::config::Jwt;
use crate::date;
use crate::error::GatewayError;
use crate::field::{FieldBlock, is_field_value};
use crate::head::RequestHead;
use crate::limits::{JWT_BYTES_MAX, JWT_SHARERS};
use crate::respond::Respond;

pub use keys::Key;
pub use remote::{FetchKeys, RemoteKeys};
use remote::{KeySet, KeySetAnswer, Wait};
use verified::Verified;

/// Passes requests with a valid token, and says who they are from.
pub struct JwtFilter(Arc<TokenJudge>);

/// The judge of tokens.
struct TokenJudge {
    config: Jwt,
    /// Keys of files.
    keys: Arc<[Key]>,
    /// Keys behind a URL.
    remote: Option<Arc<RemoteKeys>>,
    verified: Arc<Verified>,
    /// The lease of tokens, in flight and kept. Without a cache a token lives as long as its
    /// request, and counts
    /// for the client that sent it; tokens of a cache serve every client that sends them.
    lease: Lease,
}

/// The members of a token's header that are read (RFC 7515 §4.1): `Some` where there is such a member, whatever its value.
#[derive(Deserialize)]
struct Header {
    #[serde(default, deserialize_with = "present")]
    alg: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    kid: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    crit: Option<Value>,
}

/// A request whose token may be good by keys that are being fetched.
struct KeyWait {
    judge: Arc<TokenJudge>,
    wait: Wait,
    identity: Identity,
}

/// Why a request does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenRejection {
    /// The request has no token: it is told nothing more (RFC 6750 §3.1).
    Missing,
    /// Two tokens, or one that is none.
    Malformed,
    /// None of the keys has signed the token, and why; a set of another generation may have one that has.
    UnknownKey(&'static str, u64),
    /// The token is no good, and why.
    Invalid(&'static str),
    /// The keys that would tell are not there yet, or too many wait for them.
    NoKeys,
    /// There is no memory for what the token says.
    OverBudget,
}

impl From<Unfit> for TokenRejection {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Malformed => Self::Malformed,
            Unfit::OverBudget => Self::OverBudget,
        }
    }
}

impl JwtFilter {
    /// A filter that trusts these keys, those of `remote` included; tokens are charged to `account`, which has those
    /// that are kept for its cache.
    #[must_use]
    pub fn new(
        config: Jwt,
        keys: Arc<[Key]>,
        remote: Option<Arc<RemoteKeys>>,
        account: &Account,
    ) -> Self {
        Self(Arc::new(TokenJudge {
            verified: Verified::new(config.cache_entries, account),
            lease: match config.cache_entries {
                0 => account.client_lease(),
                _ => account.lease(),
            },
            config,
            keys,
            remote,
        }))
    }
}

impl TokenJudge {
    /// Lets a request pass that has a good token, which is told to `identity` and the server.
    fn pass(&self, head: &mut RequestHead, identity: &Identity) -> Result<(), TokenRejection> {
        let token = self.authenticate(head)?;
        sources::keep_verified(&self.config.from, head, token.text.as_bytes())?;
        self.forward(&token, head)?;
        identity.set(token);
        Ok(())
    }

    fn authenticate(&self, head: &RequestHead) -> Result<Arc<Token>, TokenRejection> {
        let text = sources::find(&self.config.from, head)?.ok_or(TokenRejection::Missing)?;
        if text.len() > JWT_BYTES_MAX {
            return Err(TokenRejection::Malformed);
        }
        let text = std::str::from_utf8(text).map_err(|_| TokenRejection::Malformed)?;
        let now = date::since_epoch().as_secs();
        let remote = self.remote.as_ref().map(|remote| remote.known());
        let generation = remote.as_ref().map_or(0, |set| set.generation);
        if let Some(known) = self.verified.get(text, now, generation) {
            return Ok(known);
        }
        let claims = self.signed_claims(text, remote.as_deref())?;
        // The one who signed it may be a client's servant: it decides how much this takes.
        let bytes_max = block_bytes(size_of::<Token>() + 2 * size_of::<usize>())
            + block_bytes(text.len())
            + json_bytes_max(&claims);
        if !self.has_fair_room(bytes_max) {
            return Err(TokenRejection::OverBudget);
        }
        let built = measured(&self.lease, bytes_max, || {
            let claims = serde_json::from_slice(&claims);
            let claims = claims.map_err(|_| TokenRejection::Invalid(NOT_VALID))?;
            Ok::<_, TokenRejection>(Arc::new(Token {
                text: text.into(),
                ends_at: self.judge(&claims, now)?,
                claims,
                charge: None,
            }))
        });
        let (token, mut charge) = built.map_err(|_| TokenRejection::OverBudget)?;
        // The task that drops the token last may be another one.
        charge.bind();
        let mut token = token?;
        Arc::get_mut(&mut token)
            .expect("no clone was made yet")
            .charge = Some(charge);
        self.verified.put(&token, generation);
        Ok(token)
    }

    /// True while the budget has room for some more that take as much: claims that take far more than their text find none
    /// while there is room for others yet. What is kept for later gives way.
    fn has_fair_room(&self, bytes_max: usize) -> bool {
        let wanted = bytes_max * JWT_SHARERS;
        self.lease.account().headroom_bytes() >= wanted as u64
            || self.lease.try_reserve(wanted).is_ok()
    }

    /// The text of what a token says that one of the keys has signed.
    fn signed_claims(
        &self,
        text: &str,
        remote: Option<&KeySet>,
    ) -> Result<Vec<u8>, TokenRejection> {
        let (header, rest) = text.split_once('.').ok_or(TokenRejection::Malformed)?;
        let header = Header::decode(header).ok_or(TokenRejection::Malformed)?;
        // RFC 7515 §4.1.11: what must be understood, and is not.
        if header.crit.is_some() {
            return Err(TokenRejection::Invalid(
                "the `crit` header of the token is not supported",
            ));
        }
        let id = match &header.kid {
            None => None,
            Some(Value::String(id)) => Some(id.as_str()),
            Some(_) => return Err(TokenRejection::Malformed),
        };
        let algorithm = header.alg.as_ref().and_then(Value::as_str);
        let algorithm = algorithm.ok_or(TokenRejection::Malformed)?;
        let may_have_signed = |key: &&Key| {
            key.name == algorithm && (id.is_none() || key.id.is_none() || key.id.as_deref() == id)
        };
        let generation = remote.map_or(0, |set| set.generation);
        let remote = remote.into_iter().flat_map(|set| &set.keys);
        let keys = self.keys.iter().chain(remote);
        let mut keys = keys.filter(may_have_signed).peekable();
        let unknown = |why| match keys::is_of_sets(algorithm) {
            true => TokenRejection::UnknownKey(why, generation),
            false => TokenRejection::Invalid(why),
        };
        if keys.peek().is_none() {
            return Err(unknown(NO_KEY));
        }
        let not_valid = TokenRejection::Invalid(NOT_VALID);
        let (claims, signature) = rest.rsplit_once('.').ok_or(not_valid)?;
        let signed = &text[..text.len() - signature.len() - 1];
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| not_valid)?;
        let mut is_named = false;
        let has_signed = keys.any(|key| {
            is_named |= id.is_some() && key.id.as_deref() == id;
            key.verifies(signed.as_bytes(), &signature)
        });
        if !has_signed {
            // Keys without a name were tried for want of a better one, which a newer set may have.
            return Err(if is_named {
                not_valid
            } else {
                unknown(NOT_VALID)
            });
        }
        URL_SAFE_NO_PAD.decode(claims).map_err(|_| not_valid)
    }

    /// When a token with these claims expires, if it is good `now`, in Unix seconds.
    fn judge(&self, claims: &Map<String, Value>, now: u64) -> Result<u64, TokenRejection> {
        let leeway = self.config.leeway.as_secs();
        let time = |name| match claims.get(name) {
            None => Ok(None),
            Some(value) => seconds(value).map(Some).ok_or(TokenRejection::Invalid(
                "`exp`, `nbf` or `iat` is not a number",
            )),
        };
        let expires = time("exp")?.ok_or(TokenRejection::Invalid("the token has no `exp`"))?;
        let ends_at = expires.saturating_add(leeway);
        if ends_at <= now {
            return Err(TokenRejection::Invalid("the token has expired"));
        }
        if time("nbf")?.is_some_and(|begins| begins > now.saturating_add(leeway)) {
            return Err(TokenRejection::Invalid("the token is not valid yet"));
        }
        time("iat")?;
        for name in ["iss", "sub", "jti"] {
            if claims.get(name).is_some_and(|value| !value.is_string()) {
                return Err(TokenRejection::Invalid(
                    "`iss`, `sub` or `jti` is not a string",
                ));
            }
        }
        if let Some(issuer) = &self.config.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(TokenRejection::Invalid("wrong issuer"));
        }
        let wanted = &self.config.audience;
        let is_wanted = |name: &Value| wanted.iter().any(|wanted| name == wanted.as_str());
        let is_for_us = match claims.get("aud") {
            Some(name @ Value::String(_)) => is_wanted(name),
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                names.iter().any(is_wanted)
            }
            Some(_) => {
                return Err(TokenRejection::Invalid(
                    "`aud` is not a string or an array of strings",
                ));
            }
            None => false,
        };
        if !wanted.is_empty() && !is_for_us {
            return Err(TokenRejection::Invalid("wrong audience"));
        }
        Ok(ends_at)
    }

    /// Tells the server what the token says, in place of what the client says.
    fn forward(&self, token: &Token, head: &mut RequestHead) -> Result<(), TokenRejection> {
        for (claim, field) in &self.config.forward_claims {
            head.fields.remove(field.as_bytes());
            let Some(value) = token.claim(claim).and_then(token::text) else {
                continue;
            };
            if !is_field_value(value.as_bytes()) {
                return Err(TokenRejection::Invalid(
                    "a forwarded claim is not a valid field value",
                ));
            }
            let set = head.fields.set(field.as_bytes(), value.as_bytes());
            set.map_err(|_| TokenRejection::Invalid("a forwarded claim is too long"))?;
        }
        Ok(())
    }
}

impl Header {
    /// `None`: it is no object of JSON.
    fn decode(text: &str) -> Option<Self> {
        let json = URL_SAFE_NO_PAD.decode(text).ok()?;
        // An array would be taken for its members in order.
        let is_object = json.trim_ascii_start().starts_with(b"{");
        is_object.then(|| serde_json::from_slice(&json).ok())?
    }
}

/// Tells `null` from nothing.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl FilterFactory for Jwt {
    fn load(&self, _: &str) -> Result<FilterFiles, FileError> {
        let key = "http.filter.keys";
        let keys: Arc<[Key]> = keys::load(self).map_err(FileError::at(key))?.into();
        Ok(FilterFiles::new(keys))
    }

    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        let keys: Option<Arc<Arc<[Key]>>> = parts.files.get();
        let keys = keys.map_or_else(|| Arc::new([]) as Arc<[Key]>, |keys| Arc::clone(&keys));
        let remote = self.remote.as_ref().map(|source| {
            // A set that stays goes on with what it has.
            let last = parts.last.and_then(Filter::remote_keys);
            let last = last.filter(|set| set.is(parts.name, source));
            last.map_or_else(
                || Arc::new(RemoteKeys::new(parts.name, source.clone(), parts.account)),
                Arc::clone,
            )
        });
        let account = format!("tokens {}", parts.name);
        let account = parts.account.child_named(&account, None);
        Arc::new(JwtFilter::new(self.clone(), keys, remote, &account))
    }

    fn explain(
        &self,
        filter: &dyn Filter,
        about: &About<'_>,
        head: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        if about.identity.token().is_some() {
            let reason = "the given claims are taken as verified";
            return Ok(Judgment::passes(reason));
        }
        let reason = "depends on the keys at a URL, which `explain` does not fetch";
        unless_attached(filter, about, head, reason)
    }
}

impl Filter for JwtFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let Self(judge) = self;
        let refused = match judge.pass(head, about.identity) {
            Ok(()) => return Ok(Step::Continue),
            Err(TokenRejection::OverBudget) => return Err(GatewayError::over_budget()),
            Err(refused) => refused,
        };
        let asked = match (&judge.remote, refused) {
            (Some(remote), TokenRejection::UnknownKey(_, generation)) => {
                Some(remote.ask(generation, about.now))
            }
            _ => None,
        };
        Ok(match asked {
            Some(KeySetAnswer::Wait(wait)) => Step::Attach(Box::new(KeyWait {
                judge: Arc::clone(judge),
                wait,
                identity: about.identity.clone(),
            })),
            Some(KeySetAnswer::Changed) => match judge.pass(head, about.identity) {
                Ok(()) => Step::Continue,
                Err(TokenRejection::OverBudget) => return Err(GatewayError::over_budget()),
                Err(refused) => Step::Respond(challenge(judge.verdict(refused))),
            },
            Some(KeySetAnswer::Full) => Step::Respond(challenge(TokenRejection::NoKeys)),
            Some(KeySetAnswer::Cooling) | None => Step::Respond(challenge(judge.verdict(refused))),
        })
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        for (_, field) in &self.0.config.forward_claims {
            trailers.remove(field.as_bytes());
        }
        sources::remove_from_trailers(&self.0.config.from, trailers);
    }

    fn sweep(&self) {
        let Self(judge) = self;
        let generation = judge
            .remote
            .as_ref()
            .map_or(0, |set| set.known().generation);
        let now = date::since_epoch().as_secs();
        judge.verified.sweep(now, generation);
    }

    fn remote_keys(&self) -> Option<&Arc<RemoteKeys>> {
        self.0.remote.as_ref()
    }
}

impl TokenJudge {
    /// The answer to a request without a key: nobody can say that its token is no good while the set was
    /// never there.
    fn verdict(&self, refused: TokenRejection) -> TokenRejection {
        let lacks_set = |remote: &Arc<RemoteKeys>| remote.known().generation == 0;
        match refused {
            TokenRejection::UnknownKey(..) if self.remote.as_ref().is_some_and(lacks_set) => {
                TokenRejection::NoKeys
            }
            refused => refused,
        }
    }
}

impl ExchangeFilter for KeyWait {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        ready!(self.wait.poll(cx));
        let passed = self.judge.pass(head, &self.identity);
        Poll::Ready(Ok(match passed {
            Ok(()) => Ready::Continue,
            Err(TokenRejection::OverBudget) => {
                return Poll::Ready(Err(GatewayError::over_budget()));
            }
            Err(refused) => Ready::Respond(challenge(self.judge.verdict(refused))),
        }))
    }
}

impl fmt::Debug for JwtFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JwtFilter").field(&self.0.config).finish()
    }
}

impl fmt::Debug for KeyWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWait").finish_non_exhaustive()
    }
}

const NO_KEY: &str = "no known key matches the token";
const NOT_VALID: &str = "the signature is not valid";

/// RFC 6750 §3.
fn challenge(refused: TokenRejection) -> Respond {
    let (status, text, says) = match refused {
        TokenRejection::NoKeys | TokenRejection::OverBudget => {
            let fields = vec![("retry-after".to_owned(), "1".to_owned())];
            return respond_with(503, "the token keys are not available yet\n", fields);
        }
        TokenRejection::UnknownKey(why, _) => return challenge(TokenRejection::Invalid(why)),
        // RFC 6750 §3: a challenge has a parameter, and no error where there was no token.
        TokenRejection::Missing => (
            401,
            "a bearer token is required\n",
            "Bearer realm=\"steppe\"".to_owned(),
        ),
        TokenRejection::Malformed => (
            400,
            "malformed token\n",
            "Bearer error=\"invalid_request\"".to_owned(),
        ),
        TokenRejection::Invalid(why) => (
            401,
            "invalid token\n",
            format!("Bearer error=\"invalid_token\", error_description=\"{why}\""),
        ),
    };
    respond_with(status, text, vec![("www-authenticate".to_owned(), says)])
}

/// RFC 7519 §2: a number, which may have a fraction; none is before 1970.
fn seconds(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates"
    )]
    let whole = |time: f64| (time >= 0.0).then_some(time as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

#[cfg(test)]
mod tests;
