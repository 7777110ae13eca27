//! A batch of spans as OTLP in JSON.
//!
//! Spec: opentelemetry-proto `collector/trace/v1`, `trace/v1`; its JSON mapping has ids in hexadecimal and
//! 64-bit integers as strings.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::span::{Span, Value};

/// `SPAN_KIND_SERVER`.
const SERVER: u8 = 2;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;
/// The semantic conventions that define the attributes' names.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.27.0";

/// An `ExportTraceServiceRequest`.
pub(super) fn request(spans: &[Span], version: &'static str) -> Vec<u8> {
    let request = ExportRequest {
        resource_spans: [ResourceSpans {
            resource: OtlpResource {
                attributes: [
                    Attribute("service.name", AttributeValue::Text("steppe")),
                    Attribute("service.version", AttributeValue::Text(version)),
                ],
            },
            scope_spans: [ScopeSpans {
                scope: InstrumentationScope {
                    name: "steppe",
                    version,
                },
                spans: Spans {
                    spans,
                    anchor: Anchor::now(),
                },
                schema_url: SCHEMA,
            }],
            schema_url: SCHEMA,
        }],
    };
    serde_json::to_vec(&request).expect("strings and numbers can be written")
}

/// A moment by both clocks.
#[derive(Clone, Copy)]
struct Anchor {
    instant: Instant,
    since_epoch: Duration,
}

impl Anchor {
    #[expect(clippy::disallowed_methods, reason = "told to people, decides nothing")]
    fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            instant: Instant::now(),
            since_epoch: since_epoch.unwrap_or_default(),
        }
    }

    /// Nanoseconds since 1970, as a string.
    fn of(self, at: Instant) -> String {
        let ago = self.instant.saturating_duration_since(at);
        self.since_epoch.saturating_sub(ago).as_nanos().to_string()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: OtlpResource<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
    schema_url: &'static str,
}

#[derive(Serialize)]
struct OtlpResource<'a> {
    attributes: [Attribute<'a>; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeSpans<'a> {
    scope: InstrumentationScope,
    spans: Spans<'a>,
    schema_url: &'static str,
}

#[derive(Serialize)]
struct InstrumentationScope {
    name: &'static str,
    version: &'static str,
}

struct Spans<'a> {
    spans: &'a [Span],
    anchor: Anchor,
}

struct Attribute<'a>(&'static str, AttributeValue<'a>);

enum AttributeValue<'a> {
    Text(&'a str),
    Number(u64),
}

impl Serialize for Spans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(Some(self.spans.len()))?;
        for span in self.spans {
            all.serialize_element(&TimedSpan {
                span,
                anchor: self.anchor,
            })?;
        }
        all.end()
    }
}

/// A span, with the anchor that converts its times.
struct TimedSpan<'a> {
    span: &'a Span,
    anchor: Anchor,
}

impl Serialize for TimedSpan<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { span, anchor } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("traceId", &format!("{:032x}", span.context.trace))?;
        map.serialize_entry("spanId", &format!("{:016x}", span.context.span))?;
        if let Some(parent) = span.parent {
            map.serialize_entry("parentSpanId", &format!("{:016x}", parent.span))?;
        }
        if !span.state.is_empty() {
            map.serialize_entry("traceState", &span.state)?;
        }
        map.serialize_entry("name", &span.name)?;
        map.serialize_entry("kind", &SERVER)?;
        map.serialize_entry("startTimeUnixNano", &anchor.of(span.began_at))?;
        map.serialize_entry("endTimeUnixNano", &anchor.of(span.ended_at))?;
        map.serialize_entry("attributes", &Attributes(&span.attributes))?;
        if span.is_error {
            map.serialize_entry("status", &serde_json::json!({ "code": ERROR }))?;
        }
        map.end()
    }
}

struct Attributes<'a>(&'a [(&'static str, Value)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attributes = self.0.iter().map(|(name, value)| {
            let told = match value {
                Value::Text(text) => AttributeValue::Text(text),
                Value::Number(number) => AttributeValue::Number(*number),
            };
            Attribute(name, told)
        });
        serializer.collect_seq(attributes)
    }
}

impl Serialize for Attribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("key", self.0)?;
        match &self.1 {
            AttributeValue::Text(text) => {
                map.serialize_entry("value", &OfText { string_value: text })?
            }
            AttributeValue::Number(number) => {
                let int_value = number.to_string();
                map.serialize_entry("value", &OfNumber { int_value })?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfText<'a> {
    string_value: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfNumber {
    int_value: String,
}
