//! From a server's response to an entry: what may be kept is kept, and for as long as it may.

use std::time::Instant;

use crate::wire::{Body, Full, Lifetime, Outcome, Response, TtlOffsets, TtlPolicy, apply_policy};

use super::entry::Kind;
use super::key::Key;
use super::lookup::ServePolicy;
use super::shard::NewEntry;
use super::shared::Cache;

/// What decides how long a response is kept.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// Bounds of TTLs, which an upstream may have of its own.
    pub ttl: &'a TtlPolicy,
    /// How entries are served.
    pub serve: &'a ServePolicy,
    /// The time.
    pub now: Instant,
}

/// Writes what of a response is passed on to the front of `out`, with TTLs within the policy, and keeps it
/// if it answers, or denies with an SOA (RFC 2308 §5). Failures, referrals and truncated responses are
/// written and not kept: whether others are asked is the shell's policy, and
/// [`Cache::insert_failure`] is for the end of it.
///
/// # Errors
/// [`Full`]; with room for 64 KiB, a response whose names take more when they are written out.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub fn admit(
    cache: &Cache,
    key: &Key<'_>,
    response: &Response<'_>,
    admission: &Admission<'_>,
    out: &mut [u8],
) -> Result<Body, Full> {
    let body = response.write_body(out)?;
    let (kind, negative_ttl) = match response.outcome() {
        Outcome::Answer => (Kind::Positive, None),
        Outcome::Negative { ttl: Some(ttl), .. } => (Kind::Negative, Some(ttl)),
        _ => return Ok(body),
    };
    let mut offsets = TtlOffsets::default();
    let message = out.get_mut(..body.len).ok_or(Full)?;
    let lifetime = apply_policy(message, admission.ttl, negative_ttl, &mut offsets);
    let lifetime = lifetime.ok().flatten().map(Lifetime::seconds);
    if let Some(lifetime) = lifetime {
        let entry = NewEntry {
            message,
            authority_at: body.authority_at,
            ttl_offsets: offsets.as_slice(),
            kind,
            lifetime,
            age: 0,
        };
        // What is too large is passed on all the same.
        let _ = cache.insert(key, &entry, admission.serve, admission.now);
    }
    Ok(body)
}

/// As [`admit`], of a response that is not kept.
///
/// # Errors
/// As [`admit`].
pub fn pass_on(response: &Response<'_>, ttl: &TtlPolicy, out: &mut [u8]) -> Result<Body, Full> {
    let body = response.write_body(out)?;
    let negative_ttl = match response.outcome() {
        Outcome::Negative { ttl, .. } => ttl,
        _ => None,
    };
    let mut offsets = TtlOffsets::default();
    let message = out.get_mut(..body.len).ok_or(Full)?;
    let _ = apply_policy(message, ttl, negative_ttl, &mut offsets);
    Ok(body)
}
