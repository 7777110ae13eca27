//! Places of a request where a token or a key is looked for.
//!
//! Invariant: of the places of `from`, a server receives the token that was verified and no other one, in any spelling
//! that it may read: it relies on this filter for what the token says.
//!
//! Spec: RFC 6750 §2, RFC 6265 §4.2.1.

use crate::config::TokenSource;
use crate::field::FieldBlock;
use crate::head::RequestHead;
use crate::path;

const AUTHORIZATION: &str = "authorization";
/// The scheme before a token in that field.
const BEARER: &[u8] = b"bearer ";

/// Places of a request that can't be judged or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// One has two tokens.
    Malformed,
    /// There is no memory for its change.
    OverBudget,
}

/// The token, from the first place that has one.
pub(super) fn find<'a>(
    sources: &'a [TokenSource],
    head: &'a RequestHead,
) -> Result<Option<&'a [u8]>, Unfit> {
    for source in sources {
        let found = match source {
            TokenSource::Header(name) => in_field(&head.fields, name)?,
            TokenSource::Cookie(name) => only(head.fields.cookies(name.as_bytes()))?,
            TokenSource::Query(name) => only(parameters(
                head.query().unwrap_or_default(),
                name.as_bytes(),
            ))?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Takes every token out of these places but the one that was `verified`, and what stands beside it in
/// `Authorization`: servers that read another one would take the request for somebody else's.
pub(super) fn keep_verified(
    sources: &[TokenSource],
    head: &mut RequestHead,
    verified: &[u8],
) -> Result<(), Unfit> {
    for source in sources {
        match source {
            TokenSource::Header(name) if name == AUTHORIZATION => {
                keep_bearer(&mut head.fields, verified);
            }
            TokenSource::Header(name) => {
                let is_verified = |value: &[u8]| value == verified;
                head.fields.retain_named(name.as_bytes(), is_verified);
            }
            TokenSource::Cookie(name) => {
                keep_cookie(&mut head.fields, name.as_bytes(), verified)?;
            }
            TokenSource::Query(name) => keep_parameter(head, name.as_bytes(), verified)?,
        }
    }
    Ok(())
}

/// Takes out what servers may read as a token from trailers, where none is verified.
pub(super) fn remove_from_trailers(sources: &[TokenSource], trailers: &mut FieldBlock) {
    for source in sources {
        if let TokenSource::Header(name) = source {
            trailers.remove(name.as_bytes());
        }
    }
}

/// At most one.
fn only<'a>(mut found: impl Iterator<Item = &'a [u8]>) -> Result<Option<&'a [u8]>, Unfit> {
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => Err(Unfit::Malformed),
    }
}

fn in_field<'a>(fields: &'a FieldBlock, name: &'a str) -> Result<Option<&'a [u8]>, Unfit> {
    let values = fields.values_named(name.as_bytes());
    if name != AUTHORIZATION {
        return only(values);
    }
    // Of another scheme: it says nothing of tokens.
    only(values.filter_map(of_bearer))
}

/// The token of a line of `Authorization`; `None`: it has another scheme.
fn of_bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(BEARER);
    is_bearer.then(|| token.trim_ascii_start())
}

fn parameters<'a>(query: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let pairs = query.split(|&byte| byte == b'&');
    pairs.filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

fn keep_bearer(fields: &mut FieldBlock, verified: &[u8]) {
    let name = AUTHORIZATION.as_bytes();
    let is_verified = |value: &[u8]| of_bearer(value) == Some(verified);
    if fields.values_named(name).any(is_verified) {
        fields.retain_named(name, is_verified);
    } else {
        // Credentials of another scheme are the server's own.
        fields.retain_named(name, |value| of_bearer(value).is_none());
    }
}

/// The name and value of a pair, without white space around them, which servers ignore.
fn name_and_value(pair: &[u8]) -> (&[u8], &[u8]) {
    let at = pair.iter().position(|&byte| byte == b'=');
    let (name, value) = pair.split_at(at.unwrap_or(pair.len()));
    let value = value.strip_prefix(b"=").unwrap_or(value);
    (name.trim_ascii(), value.trim_ascii())
}

fn keep_cookie(fields: &mut FieldBlock, wanted: &[u8], verified: &[u8]) -> Result<(), Unfit> {
    const COOKIE: &[u8] = b"cookie";
    let is_other = |pair: &&[u8]| {
        let (name, value) = name_and_value(pair);
        name == wanted && value != verified
    };
    let pairs = |line: &'_ [u8]| -> Vec<Vec<u8>> {
        let pairs = line.split(|&byte| byte == b';');
        let pairs = pairs.filter(|pair| !is_other(pair) && !pair.trim_ascii().is_empty());
        pairs.map(|pair| pair.trim_ascii().to_vec()).collect()
    };
    let has_other = |line: &[u8]| line.split(|&byte| byte == b';').any(|pair| is_other(&pair));
    if !fields.values_named(COOKIE).any(has_other) {
        return Ok(());
    }
    let lines: Vec<Vec<u8>> = (fields.values_named(COOKIE))
        .map(|line| pairs(line).join(&b"; "[..]))
        .collect();
    fields.remove(COOKIE);
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let added = fields.append(COOKIE, line);
        added.map_err(|_| Unfit::OverBudget)?;
    }
    Ok(())
}

fn keep_parameter(head: &mut RequestHead, wanted: &[u8], verified: &[u8]) -> Result<(), Unfit> {
    let is_other = |pair: &[u8]| {
        let (name, value) = name_and_value(pair);
        path::compare_decoded(name, wanted).is_eq() && value != verified
    };
    let Some(query) = head.query() else {
        return Ok(());
    };
    let mut pairs = query.split(|&byte| byte == b'&');
    if !pairs.clone().any(is_other) {
        return Ok(());
    }
    let kept: Vec<&[u8]> = (&mut pairs).filter(|pair| !is_other(pair)).collect();
    let kept = kept.join(&b"&"[..]);
    head.set_query(&kept).map_err(|_| Unfit::OverBudget)
}
