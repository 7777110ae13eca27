//! Admission of server responses to the cache: the ones that may be cached, and their lifetime.

use std::time::Instant;

use crate::wire::{Body, Full, Lifetime, Outcome, Response, TtlOffsets, TtlPolicy, apply_policy};

use super::entry::Kind;
use super::key::Key;
use super::lookup::ServePolicy;
use super::shard::NewEntry;
use super::shared::Cache;

/// The policies that decide the lifetime of a response in the cache, and the time.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// Bounds of TTLs; an upstream may have bounds of its own.
    pub ttl: &'a TtlPolicy,
    /// Settings for stale and expiring entries.
    pub serve: &'a ServePolicy,
    /// The time.
    pub now: Instant,
}

/// Writes the part of a response that is passed on to the front of `out`, with TTLs within the policy, and
/// caches a positive response, and a negative one with an SOA (RFC 2308 §5). Failures, referrals and
/// truncated responses are written and not cached: the shell decides if other servers are asked, and calls
/// [`Cache::insert_failure`] when all of them have failed.
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
        // A response that is too large for the cache is passed on all the same.
        let _ = cache.insert(key, &entry, admission.serve, admission.now);
    }
    Ok(body)
}

/// Writes a response as [`admit`] does, and does not cache it.
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
