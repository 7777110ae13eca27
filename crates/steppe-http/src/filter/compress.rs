//! `compress`: encodes content that clients accept encoded.
//!
//! Invariant: content is compressed piece by piece as it comes, or all at once where it is short and there; what is
//! encoded already, partial, or not to be transformed is left alone. Where the budget has no room for an encoder, content goes as it is. Spec: RFC 9110
//! §8.4 (`Content-Encoding`), §8.8.3 (`ETag`), §12.5.3 (`Accept-Encoding`), §12.5.5 (`Vary`); RFC 9111 §5.2
//! (`no-transform`).

mod body;
mod contexts;
mod encoder;
mod gathering;
mod padding;
mod secrets;

use std::rc::Rc;
use std::sync::Arc;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use steppe_mem::Account;

use super::factory::{FilterFactory, FilterParts};
use super::token::Identity;
use super::{About, BodyTransform, ExchangeFilter, Filter, Step, representation};
use crate::config::{Breach, Coding, Compress};
use crate::error::GatewayError;
use crate::field::{FieldBlock, FieldId, elements};
use crate::files::AcceptedCodings;
use crate::head::{ContentLength, MethodKind, RequestHead, ResponseHead};
use crate::metrics::{FilterMetrics, Uncompressed};
use body::{EncodedBody, Encoders, Manner};
use contexts::Contexts;
use encoder::Shape;
use gathering::Gathering;
use padding::Padding;

/// Compresses responses.
#[derive(Debug)]
pub struct CompressFilter(Arc<CompressSetup>);

#[derive(Debug)]
struct CompressSetup {
    config: Compress,
    contexts: Arc<Contexts>,
    /// The key from which lengths of padding are derived. `None`: there is no padding.
    key: Option<hmac::Key>,
}

/// The state of one exchange.
#[derive(Debug)]
struct Compressing {
    shared: Arc<CompressSetup>,
    accepted: Option<Coding>,
    /// The kind of the request's method.
    method: MethodKind,
    /// The client holds a representation that was marked as weak.
    has_weak: bool,
    /// Why this client's response is not compressed, whatever it is.
    refused: Option<Uncompressed>,
    /// The identity that filters before this one and behind it find out, where that matters.
    identity: Option<Identity>,
    body: Option<Box<EncodedBody>>,
    meter: Option<Rc<FilterMetrics>>,
}

impl CompressFilter {
    /// A filter whose encoders are charged to `account`.
    #[must_use]
    pub fn new(name: &str, config: Compress, account: &Account) -> Self {
        let key = || hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = (config.breach == Breach::Pad).then(|| key().expect("the system has randomness"));
        Self(Arc::new(CompressSetup {
            contexts: Arc::new(Contexts::new(name, account)),
            config,
            key,
        }))
    }
}

impl FilterFactory for Compress {
    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(CompressFilter::new(parts.name, self.clone(), parts.account))
    }
}

impl Filter for CompressFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        if head.asks_for_tunnel() {
            return Ok(Step::Continue);
        }
        let config = &self.0.config;
        let is_risky =
            config.breach == Breach::Strict && secrets::is_risky(head, &config.secret_paths);
        let refused = if must_not_transform(&head.fields) {
            Some(Uncompressed::NoTransform)
        } else {
            is_risky.then_some(Uncompressed::Secret)
        };
        let mut conditions = head.fields.values_named(b"if-none-match");
        Ok(Step::Attach(Box::new(Compressing {
            accepted: AcceptedCodings::of(&head.fields, &config.algorithms)
                .iter()
                .next(),
            method: MethodKind::of(head.method()),
            has_weak: conditions.any(|value| memchr::memmem::find(value, b"W/\"").is_some()),
            shared: Arc::clone(&self.0),
            refused,
            identity: (config.breach == Breach::Strict).then(|| about.identity.clone()),
            body: None,
            meter: None,
        })))
    }
}

impl Compressing {
    /// Compresses the response, or says why it is not.
    fn compress(&mut self, head: &mut ResponseHead) -> Result<Option<Uncompressed>, GatewayError> {
        let config = &self.shared.config;
        let length = known_length(head, self.method);
        if let Some(reason) = never(head, self.method, config, length) {
            return Ok(Some(reason));
        }
        vary(&mut head.fields)?;
        let is_partial = head.status == 206 || has(&head.fields, b"content-range");
        let is_secret = self.identity.as_ref().is_some_and(|identity| {
            identity.is_authenticated() || has(&head.fields, b"set-cookie")
        });
        let coding = match (self.accepted, self.refused) {
            _ if is_partial => return Ok(Some(Uncompressed::Range)),
            (_, Some(reason)) => return Ok(Some(reason)),
            _ if is_secret => return Ok(Some(Uncompressed::Secret)),
            (None, None) => return Ok(Some(Uncompressed::NotAccepted)),
            (Some(coding), None) => coding,
        };
        if !self.method.is_head() {
            let manner = Manner {
                coding,
                is_event_stream: media_type(&head.fields).eq_ignore_ascii_case(EVENT_STREAM),
                length,
            };
            let Some(encoders) = self.encoders(&manner) else {
                return Ok(Some(Uncompressed::NoRoom));
            };
            let padding = self
                .shared
                .key
                .as_ref()
                .map(|key| Padding::new(coding, key));
            let meter = self.meter.clone();
            self.body = Some(Box::new(EncodedBody::new(manner, encoders, padding, meter)));
            head.length = ContentLength::Unknown;
        }
        mark(&mut head.fields, coding)?;
        Ok(None)
    }

    /// The encoders of this manner; `None` where the budget has no room for them.
    fn encoders(&self, manner: &Manner) -> Option<Encoders> {
        let Manner { coding, length, .. } = *manner;
        let contexts = &self.shared.contexts;
        let shape = Shape::of(coding, self.shared.config.levels.of(coding), length);
        let gathers =
            coding == Coding::Gzip && !manner.is_event_stream && Gathering::is_for(length);
        let whole = gathers.then(|| contexts.whole(shape)).flatten();
        let gathering = whole.map(|whole| Gathering::new(whole, length));
        let stream = match gathering {
            // It comes at once nearly always.
            Some(_) if length.is_some() => None,
            _ => Some(contexts.take(shape)?),
        };
        Some(Encoders { gathering, stream })
    }
}

impl ExchangeFilter for Compressing {
    fn meter(&mut self, meter: &Rc<FilterMetrics>) {
        self.meter = Some(Rc::clone(meter));
    }

    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        if head.status == 304 {
            // RFC 9110 §15.4.5: what the response to a GET would say, of the representation that the client holds.
            vary(&mut head.fields)?;
            if self.has_weak {
                representation::weaken(&mut head.fields)?;
            }
        }
        if let (Some(reason), Some(meter)) = (self.compress(head)?, &self.meter) {
            meter.uncompressed(reason);
        }
        Ok(())
    }

    fn response_body(&mut self) -> Option<&mut dyn BodyTransform> {
        let body = self.body.as_deref_mut()?;
        Some(body)
    }
}

const EVENT_STREAM: &[u8] = b"text/event-stream";

/// Why a response is the same to every client, if it is.
fn never(
    head: &ResponseHead,
    method: MethodKind,
    config: &Compress,
    length: Option<u64>,
) -> Option<Uncompressed> {
    let has_content = head.length != ContentLength::Empty || method.is_head();
    if !has_content || matches!(head.status, 100..=199 | 204 | 205 | 304) || head.is_tunnel() {
        return Some(Uncompressed::NoContent);
    }
    if has(&head.fields, b"content-encoding") {
        return Some(Uncompressed::Encoded);
    }
    if must_not_transform(&head.fields) {
        return Some(Uncompressed::NoTransform);
    }
    let media_type = media_type(&head.fields);
    if !config.types.iter().any(|range| range.matches(media_type)) {
        return Some(Uncompressed::Type);
    }
    let is_small = length.is_some_and(|length| length < config.min_bytes) && head.status != 206;
    is_small.then_some(Uncompressed::Small)
}

/// The length of the content that the head announces.
fn known_length(head: &ResponseHead, method: MethodKind) -> Option<u64> {
    match head.length {
        ContentLength::Known(bytes) => Some(bytes),
        ContentLength::Empty if method.is_head() => {
            let mut values = head.fields.values(FieldId::ContentLength);
            std::str::from_utf8(values.next()?).ok()?.parse().ok()
        }
        ContentLength::Empty | ContentLength::Unknown => None,
    }
}

/// Makes the head that of an encoded representation.
fn mark(fields: &mut FieldBlock, coding: Coding) -> Result<(), GatewayError> {
    representation::change(fields)?;
    fields.append(b"content-encoding", coding.as_str().as_bytes())?;
    if has(fields, b"accept-ranges") {
        // Those of the server are of other bytes.
        fields.set(b"accept-ranges", b"none")?;
    }
    Ok(())
}

/// Says that other clients may be sent other bytes.
fn vary(fields: &mut FieldBlock) -> Result<(), GatewayError> {
    let is_said = |name: &[u8]| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding");
    if fields.values_named(b"vary").flat_map(elements).any(is_said) {
        return Ok(());
    }
    Ok(fields.append(b"vary", b"accept-encoding")?)
}

fn must_not_transform(fields: &FieldBlock) -> bool {
    let mut directives = fields.values_named(b"cache-control").flat_map(elements);
    directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

/// Type and subtype, without parameters.
fn media_type(fields: &FieldBlock) -> &[u8] {
    let value = fields
        .values(FieldId::ContentType)
        .next()
        .unwrap_or_default();
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    value[..end].trim_ascii()
}

fn has(fields: &FieldBlock, name: &[u8]) -> bool {
    fields.values_named(name).next().is_some()
}
