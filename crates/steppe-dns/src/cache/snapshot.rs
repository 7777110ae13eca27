//! A cache's responses in a file, for the next start.
//!
//! ```text
//! "steppeDC", version (4 bytes), 0 (4), tag (8), seconds since 1970 (8), checksum of these (8)
//! for each response: bytes of it (4, never 0), its checksum (8), then
//!   kind, key's flags, place of the view (2), lifetime (4), age (4), bytes of the subnet (1: 0 or 18), subnet, message
//! 0 (4), responses (8)
//! ```
//! Numbers are little-endian. Invariant: each response that is read goes through the same checks as a
//! server's, so a file that was tampered with can make the cache wrong, and nothing worse; and reading takes
//! memory for one response. From a file that ends early, the responses before its end are read.

use std::io::{self, Read, Write};
use std::time::Instant;

use crate::limits::{CACHED_BODY_BYTES_MAX, SNAPSHOT_ENTRY_BYTES_MAX, STALE_SECONDS_MAX};
use crate::siphash::{SipHash24, SipKey};
use crate::wire::{
    Asked, Class, Message, Outcome, Response, Rtype, Subnet, TtlOffsets, TtlPolicy, apply_policy,
};

use super::entry::Kind;
use super::key::Key;
use super::lookup::ServePolicy;
use super::shard::NewEntry;
use super::shared::Cache;

const MAGIC: &[u8; 8] = b"steppeDC";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const FIXED_BYTES: usize = 13;
const SUBNET_BYTES: u8 = 18;
/// Checksums find accidents; there is nothing secret about them.
const CHECKSUM_KEY: SipKey = SipKey([0, 0]);

/// The times and views with which a snapshot is written or read.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The time, as the cache counts it.
    pub now: Instant,
    /// The time of day, in seconds since 1970.
    pub unix_seconds: u64,
    /// Tag of the set of views: a file with another tag is refused.
    pub tag: u64,
    /// The views whose responses are written and read. The file has a view's index in this slice, since its
    /// number is another one after a restart.
    pub views: &'a [View],
}

/// A view of the cache.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Number of the view in keys.
    pub number: u16,
    /// Bounds of TTLs of the responses that are read.
    pub ttl: TtlPolicy,
    /// Settings for stale and expiring entries.
    pub serve: ServePolicy,
}

/// The result of reading a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restored {
    /// Responses that are cached again.
    pub entries: u64,
    /// Responses that had expired, did not pass the checks, or that the cache has a newer one of.
    pub skipped: u64,
    /// True if the file ended with the right number of responses.
    pub is_whole: bool,
}

/// The reason why a file is no snapshot for this cache.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file can't be read.
    #[error("cannot read the snapshot")]
    Io(#[from] io::Error),
    /// The header is not that of a snapshot, or damaged.
    #[error("not a cache snapshot")]
    Magic,
    /// The format has another version.
    #[error("snapshot of version {0}, expected {VERSION}")]
    Version(u32),
    /// The snapshot has another set of views, as of another configuration.
    #[error("snapshot of another set of views")]
    Tag,
}

/// Writes a cache's responses of the context's views, and returns their number. Each shard is locked while it
/// is copied to memory, not while it is written.
///
/// # Errors
/// Errors of `out`.
pub fn write(cache: &Cache, context: &Context<'_>, out: &mut impl Write) -> io::Result<u64> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend([0; 4]);
    header.extend(context.tag.to_le_bytes());
    header.extend(context.unix_seconds.to_le_bytes());
    header.extend(checksum(&header).to_le_bytes());
    out.write_all(&header)?;
    let (mut buffer, mut entries) = (Vec::new(), 0_u64);
    for shard in 0..cache.shards() {
        buffer.clear();
        cache.for_each(shard, context.now, |key, entry| {
            let mut views = context.views.iter();
            let view = views.position(|view| view.number == key.view);
            if let Some(view) = view.and_then(|view| u16::try_from(view).ok()) {
                append(&mut buffer, key, view, entry);
                entries += 1;
            }
        });
        out.write_all(&buffer)?;
    }
    out.write_all(&[0; 4])?;
    out.write_all(&entries.to_le_bytes())?;
    Ok(entries)
}

fn append(out: &mut Vec<u8>, key: &Key<'_>, view: u16, entry: &NewEntry<'_>) {
    let start = out.len();
    out.extend([0; 12]);
    out.extend([entry.kind as u8, key.flags]);
    out.extend(view.to_le_bytes());
    out.extend(entry.lifetime.to_le_bytes());
    out.extend(entry.age.to_le_bytes());
    match key.subnet {
        None => out.push(0),
        Some(subnet) => {
            out.extend([SUBNET_BYTES, subnet.prefix, subnet.family]);
            out.extend(subnet.address);
        }
    }
    out.extend(entry.message);
    let payload = &out[start + 12..];
    let (len, sum) = (u32::try_from(payload.len()), checksum(payload));
    out[start..start + 4].copy_from_slice(&len.unwrap_or(u32::MAX).to_le_bytes());
    out[start + 4..start + 12].copy_from_slice(&sum.to_le_bytes());
}

/// Reads responses into a cache, each within its view's bounds. Responses that the cache has are newer, and
/// stay.
///
/// # Errors
/// [`SnapshotError`] for a file that is no snapshot for this cache. A mistake behind the header ends the
/// reading, and [`Restored::is_whole`] is false.
pub fn read(
    cache: &Cache,
    context: &Context<'_>,
    input: &mut impl Read,
) -> Result<Restored, SnapshotError> {
    let written = read_header(context, input)?;
    // A clock that went backwards makes nothing younger.
    let elapsed = context.unix_seconds.saturating_sub(written);
    let elapsed = u32::try_from(elapsed).unwrap_or(u32::MAX);
    let mut restored = Restored::default();
    let mut payload = vec![0; SNAPSHOT_ENTRY_BYTES_MAX];
    loop {
        match read_payload(input, &mut payload) {
            Some(0) => {
                let mut count = [0; 8];
                let is_counted = input.read_exact(&mut count).is_ok();
                let seen = restored.entries + restored.skipped;
                restored.is_whole = is_counted && u64::from_le_bytes(count) == seen;
                return Ok(restored);
            }
            Some(len) => {
                let is_kept = restore(cache, context, elapsed, &mut payload[..len]);
                match is_kept {
                    Some(()) => restored.entries += 1,
                    None => restored.skipped += 1,
                }
            }
            None => return Ok(restored),
        }
    }
}

/// Reads the header, and returns the time of writing in seconds since 1970.
fn read_header(context: &Context<'_>, input: &mut impl Read) -> Result<u64, SnapshotError> {
    let mut header = [0; HEADER_BYTES];
    input
        .read_exact(&mut header)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::Magic,
            _ => SnapshotError::Io(error),
        })?;
    let number = |at: usize| {
        header[at..]
            .first_chunk::<8>()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    if !header.starts_with(MAGIC) || number(32) != checksum(&header[..32]) {
        return Err(SnapshotError::Magic);
    }
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    if number(16) != context.tag {
        return Err(SnapshotError::Tag);
    }
    Ok(number(24))
}

/// Reads the next response into `payload`, and returns its length; 0 at the end, and `None` where the file
/// is broken.
fn read_payload(input: &mut impl Read, payload: &mut [u8]) -> Option<usize> {
    let (mut len, mut sum) = ([0; 4], [0; 8]);
    input.read_exact(&mut len).ok()?;
    let len = usize::try_from(u32::from_le_bytes(len)).ok()?;
    if len == 0 {
        return Some(0);
    }
    let payload = payload.get_mut(..len)?;
    input.read_exact(&mut sum).ok()?;
    input.read_exact(payload).ok()?;
    (checksum(payload) == u64::from_le_bytes(sum)).then_some(len)
}

/// Caches a response that passes the checks. `elapsed`: seconds since the snapshot was written.
fn restore(cache: &Cache, context: &Context<'_>, elapsed: u32, payload: &mut [u8]) -> Option<()> {
    let (fixed, rest) = payload.split_first_chunk_mut::<FIXED_BYTES>()?;
    let number =
        |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let (subnet, message) = match fixed[12] {
        0 => (None, rest),
        SUBNET_BYTES => {
            let (bytes, rest) = rest.split_at_mut_checked(SUBNET_BYTES.into())?;
            (Some(read_subnet(bytes)?), rest)
        }
        _ => return None,
    };
    let view = u16::from_le_bytes([fixed[2], fixed[3]]);
    let view = context.views.get(usize::from(view))?;
    let age = number(8).saturating_add(elapsed);
    let lifetime_max = number(4);
    if message.len() > CACHED_BODY_BYTES_MAX {
        return None;
    }
    let kind = checked_kind(message, fixed[0], fixed[1])?;
    let mut offsets = TtlOffsets::default();
    let negative_ttl = (kind == Kind::Negative).then_some(lifetime_max);
    let lifetime = apply_policy(message, &view.ttl, negative_ttl, &mut offsets).ok()??;
    let lifetime = lifetime.seconds().min(lifetime_max);
    if age >= lifetime.saturating_add(STALE_SECONDS_MAX) {
        return None;
    }
    let parsed = Message::parse(message).ok()?;
    let question = parsed.question();
    let key = Key {
        qname: question.qname,
        qtype: question.qtype,
        qclass: question.qclass,
        view: view.number,
        flags: fixed[1],
        subnet,
    };
    let entry = NewEntry {
        message,
        authority_at: parsed.section_at(crate::wire::Section::Authority),
        ttl_offsets: offsets.as_slice(),
        kind,
        lifetime,
        age,
    };
    let kept = cache.insert_absent(&key, &entry, &view.serve, context.now);
    kept.ok()
}

fn read_subnet(bytes: &[u8]) -> Option<Subnet> {
    let (&[prefix, family], address) = bytes.split_first_chunk::<2>()?;
    let address = *address.first_chunk::<16>()?;
    let read = match family {
        Subnet::IPV4 => Subnet::of(
            [address[0], address[1], address[2], address[3]].into(),
            prefix,
        ),
        Subnet::IPV6 => Subnet::of(address.into(), prefix),
        _ => return None,
    };
    (read.address == address && read.prefix == prefix).then_some(read)
}

/// The kind of a message, if it can have been stored as `kind`: of class IN, without OPT, and with an outcome
/// of that kind.
fn checked_kind(bytes: &[u8], kind: u8, key_flags: u8) -> Option<Kind> {
    let message = Message::parse(bytes).ok()?;
    let question = message.question();
    let is_foreign = question.qclass != Class::IN || question.qtype == Rtype::OPT;
    if message.opt().is_some() || is_foreign || key_flags & !3 != 0 {
        return None;
    }
    let asked = Asked {
        cname_depth: crate::limits::CNAME_CHAIN_MAX,
        is_dnssec_ok: key_flags & Key::DNSSEC_OK != 0,
    };
    let response = Response::read(message, asked).ok()?;
    match (response.outcome(), kind) {
        (Outcome::Answer, 0) => Some(Kind::Positive),
        (Outcome::Negative { ttl: Some(_), .. }, 1) => Some(Kind::Negative),
        _ => None,
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    SipHash24::of(&CHECKSUM_KEY, bytes)
}
