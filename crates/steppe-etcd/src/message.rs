//! Messages of etcd's v3 API as JSON.
//!
//! Spec: etcd's `api/etcdserverpb/rpc.proto`, by the JSON mapping of protocol buffers: bytes are base64, 64-bit
//! integers are strings, and a field that has its default is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};

/// Range of keys: from `key` up to, but not including, `range_end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Range {
    key: String,
    range_end: String,
}

/// `RangeRequest`.
#[derive(Debug, Serialize)]
pub(crate) struct ListRequest<'a> {
    #[serde(flatten)]
    pub(crate) range: &'a Range,
    /// A decimal string, like all 64-bit integers.
    pub(crate) limit: String,
    pub(crate) keys_only: bool,
}

/// `RangeResponse`.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) kvs: Vec<KeyValue>,
}

/// `ResponseHeader`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Header {
    #[serde(default, deserialize_with = "integer")]
    pub(crate) revision: i64,
}

/// `mvccpb.KeyValue`, without the value.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyValue {
    #[serde(default, deserialize_with = "text")]
    pub(crate) key: String,
}

/// `WatchRequest` with a `WatchCreateRequest`.
#[derive(Debug, Serialize)]
pub(crate) struct WatchRequest<'a> {
    pub(crate) create_request: WatchCreate<'a>,
}

/// `WatchCreateRequest`.
#[derive(Debug, Serialize)]
pub(crate) struct WatchCreate<'a> {
    #[serde(flatten)]
    pub(crate) range: &'a Range,
    pub(crate) start_revision: String,
}

/// A message of a stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Streamed<T> {
    Result(T),
    Error(StreamError),
}

/// The error that ended a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamError {
    #[serde(default)]
    pub(crate) message: String,
}

/// `WatchResponse`.
#[derive(Debug, Deserialize)]
pub(crate) struct Watched {
    #[serde(default)]
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) canceled: bool,
    #[serde(default)]
    pub(crate) cancel_reason: String,
    #[serde(default)]
    pub(crate) events: Vec<Event>,
}

/// `mvccpb.Event`.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(default, rename = "type")]
    pub(crate) kind: EventKind,
    pub(crate) kv: KeyValue,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum EventKind {
    #[default]
    Put,
    Delete,
}

/// `TxnRequest` that writes a key under a lease if the key does not exist.
#[derive(Debug, Serialize)]
pub(crate) struct PutMissingRequest {
    compare: [Compare; 1],
    success: [RequestOp; 1],
}

/// `Compare` of a key's `create_revision`: 0 for a key that does not exist.
#[derive(Debug, Serialize)]
struct Compare {
    key: String,
    target: &'static str,
    create_revision: &'static str,
}

/// `RequestOp`.
#[derive(Debug, Serialize)]
struct RequestOp {
    request_put: PutRequest,
}

impl PutMissingRequest {
    pub(crate) fn new(key: &str, lease: i64) -> Self {
        let key = base64(key);
        Self {
            compare: [Compare {
                key: key.clone(),
                target: "CREATE",
                create_revision: "0",
            }],
            success: [RequestOp {
                request_put: PutRequest {
                    key,
                    lease: lease.to_string(),
                },
            }],
        }
    }
}

/// `LeaseGrantRequest`.
#[derive(Debug, Serialize)]
pub(crate) struct GrantRequest {
    #[serde(rename = "TTL")]
    pub(crate) seconds: String,
}

/// `LeaseKeepAliveRequest`, and `LeaseRevokeRequest`.
#[derive(Debug, Serialize)]
pub(crate) struct LeaseRequest {
    #[serde(rename = "ID")]
    pub(crate) id: String,
}

/// `LeaseGrantResponse`, and `LeaseKeepAliveResponse`.
#[derive(Debug, Deserialize)]
pub(crate) struct Leased {
    #[serde(default, rename = "ID", deserialize_with = "integer")]
    pub(crate) id: i64,
    /// Time to live in seconds; 0 for a lease that has expired.
    #[serde(default, rename = "TTL", deserialize_with = "integer")]
    pub(crate) seconds: i64,
}

/// `PutRequest` with an empty value.
#[derive(Debug, Serialize)]
pub(crate) struct PutRequest {
    pub(crate) key: String,
    pub(crate) lease: String,
}

/// A response whose fields are all ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

impl Range {
    /// Every key that begins with `prefix`.
    pub(crate) fn prefixed(prefix: &str) -> Self {
        let mut end = prefix.as_bytes().to_vec();
        // The first key after all that begin with the prefix. No byte of UTF-8 is 255.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self {
            key: base64(prefix),
            range_end: STANDARD.encode(end),
        }
    }
}

pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Reads a 64-bit integer from a decimal string.
fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Reads a key from base64. Bytes other than UTF-8 yield an empty string, which is no key of Steppe.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        let range = Range::prefixed("/steppe/");
        assert_eq!(range.key, base64("/steppe/"));
        assert_eq!(range.range_end, base64("/steppe0"));
    }

    #[test]
    fn fields_that_are_left_out_have_their_defaults() {
        let put = r#"{"result":{"header":{"revision":"7"},"events":[{"kv":{"key":"L2E="}},{"type":"DELETE","kv":{"key":"/w=="}}]}}"#;
        let Ok(Streamed::Result(watched)) = serde_json::from_str::<Streamed<Watched>>(put) else {
            panic!("a message of a watch");
        };
        assert_eq!(watched.header.revision, 7);
        assert!(!watched.canceled);
        let events = watched.events.iter();
        let events: Vec<_> = events
            .map(|event| (event.kind, event.kv.key.as_str()))
            .collect();
        assert_eq!(events, [(EventKind::Put, "/a"), (EventKind::Delete, "")]);
        let lapsed: Streamed<Leased> =
            serde_json::from_str(r#"{"result":{"ID":"12"}}"#).expect("a lease that lapsed");
        assert!(matches!(
            lapsed,
            Streamed::Result(Leased { id: 12, seconds: 0 })
        ));
        let error: Streamed<Leased> =
            serde_json::from_str(r#"{"error":{"message":"no leader","grpc_code":14}}"#)
                .expect("an error");
        assert!(matches!(error, Streamed::Error(error) if error.message == "no leader"));
    }
}
