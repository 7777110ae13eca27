//! DNS over HTTPS (RFC 8484), apart from HTTP: from a request to its query, and from a message to a response.
//!
//! Sans-IO: the gateway handles HTTP itself. Non-goals: the parts of RFC 8484 that are HTTP's, and content of
//! requests other than `application/dns-message`. `application/dns-json`, which no standard defines, is as public
//! resolvers have it.

mod json;
mod presentation;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::client::ClientId;
use crate::limits::{DOH_PARAMETERS_MAX, DOH_PATH, DOH_QUERY_BYTES_MAX};
use crate::wire::{Header, Message, Rtype, Section};

/// The media type of messages. RFC 8484 §6.
pub const MESSAGE: &str = "application/dns-message";

/// The media type of messages as JSON.
pub const JSON: &str = "application/dns-json";

/// A request of HTTP.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Method of the request.
    pub method: &'a [u8],
    /// Query of the target: the bytes after its first `?`.
    pub query: Option<&'a [u8]>,
    /// The value of `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// The value of `Accept`.
    pub accept: Option<&'a [u8]>,
    /// Content of the request.
    pub content: &'a [u8],
}

/// The DNS query of a request, and the form of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The query.
    pub message: Vec<u8>,
    /// Form in which the response is to be written.
    pub form: Form,
}

/// The form in which a response is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A DNS message.
    Message,
    /// JSON.
    Json,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request has no query, or one that can't be decoded.
    #[error("malformed DNS query")]
    Malformed,
    /// The method is none of GET, HEAD and POST.
    #[error("the method is neither GET nor POST")]
    Method,
    /// The content is longer than any query.
    #[error("content longer than {DOH_QUERY_BYTES_MAX} bytes")]
    TooLarge,
    /// The encoded query in the target is longer than any.
    #[error("query longer than {DOH_QUERY_BYTES_MAX} bytes")]
    TargetTooLong,
    /// The content has another media type.
    #[error("the content type is not {MESSAGE}")]
    MediaType,
}

/// The DNS part of an HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// Seconds for which the response may be cached (`max-age`). RFC 8484 §5.1.
    pub max_age: u32,
    /// Content of the response.
    pub content: Vec<u8>,
}

impl Refusal {
    /// The status code of the response.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Method => 405,
            Self::TooLarge => 413,
            Self::TargetTooLong => 414,
            Self::MediaType => 415,
        }
    }
}

impl Request<'_> {
    /// The DNS query of the request, and the form of its response.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn read(&self) -> Result<Asked, Refusal> {
        match self.method {
            b"GET" | b"HEAD" => self.read_target(),
            b"POST" => self.read_content(),
            _ => Err(Refusal::Method),
        }
    }

    fn read_content(&self) -> Result<Asked, Refusal> {
        if !self
            .content_type
            .is_some_and(|value| is_type(value, MESSAGE))
        {
            return Err(Refusal::MediaType);
        }
        if self.content.len() > DOH_QUERY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        Ok(Asked {
            message: self.content.to_vec(),
            form: Form::Message,
        })
    }

    /// Reads the parameter `dns` of the target (RFC 8484 §4.1), else those of the JSON form.
    fn read_target(&self) -> Result<Asked, Refusal> {
        let parameters = || parameters(self.query.unwrap_or_default());
        let Some((_, encoded)) = parameters().find(|(name, _)| *name == b"dns") else {
            let message = json::query(parameters()).ok_or(Refusal::Malformed)?;
            let form = Form::Json;
            return Ok(Asked { message, form });
        };
        if encoded.len() > DOH_QUERY_BYTES_MAX.div_ceil(3) * 4 {
            return Err(Refusal::TargetTooLong);
        }
        // RFC 8484 §6: without padding, which some clients send all the same.
        let unpadded = encoded
            .trim_ascii_end()
            .strip_suffix(b"=")
            .unwrap_or(encoded);
        let unpadded = unpadded.strip_suffix(b"=").unwrap_or(unpadded);
        let message = URL_SAFE_NO_PAD.decode(unpadded);
        let message = message.map_err(|_| Refusal::Malformed)?;
        let accepts_json = self.accept.is_some_and(|value| is_type(value, JSON));
        let form = if accepts_json {
            Form::Json
        } else {
            Form::Message
        };
        Ok(Asked { message, form })
    }
}

impl Response {
    /// The response for a DNS message. `None`: the message has no header, or too much text as JSON. A message
    /// without a question says by its response code that the query could not be read; RFC 8484 §4.2.1 sends
    /// that with status 200.
    #[must_use]
    pub fn new(form: Form, message: Vec<u8>) -> Option<Self> {
        let header = Header::read(&message).ok()?;
        let parsed = Message::parse(&message).ok();
        let max_age = parsed.as_ref().map_or(0, max_age);
        let (content_type, content) = match (form, parsed) {
            (Form::Json, Some(parsed)) => (JSON, json::response(&parsed)?),
            (Form::Json, None) => (JSON, json::code(header)?),
            (Form::Message, _) => (MESSAGE, message),
        };
        Some(Self {
            content_type,
            max_age,
            content,
        })
    }
}

/// The client ID in the path of a request: the part behind `/dns-query/`.
#[must_use]
pub fn client_id(path: &[u8]) -> Option<ClientId> {
    let rest = path.strip_prefix(DOH_PATH.as_bytes())?;
    ClientId::from_bytes(rest.strip_prefix(b"/")?).ok()
}

/// Seconds for which a response may be cached (RFC 8484 §5.1): the shortest TTL of its answers, or in a negative
/// response of its authority section, the SOA's. 0 without either.
fn max_age(message: &Message<'_>) -> u32 {
    let shortest = |section| {
        let records = message.records(section);
        let records = records.filter(|record| record.rtype != Rtype::OPT);
        records.map(|record| record.ttl).min()
    };
    shortest(Section::Answer)
        .or_else(|| shortest(Section::Authority))
        .unwrap_or(0)
}

/// True if a value of `Content-Type` or `Accept` begins with a media type, parameters aside.
fn is_type(value: &[u8], media_type: &str) -> bool {
    let end = value.iter().position(|byte| matches!(byte, b';' | b','));
    let named = value[..end.unwrap_or(value.len())].trim_ascii();
    named.eq_ignore_ascii_case(media_type.as_bytes())
}

/// The first parameters of a target's query, undecoded.
fn parameters(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let parameters = query.split(|byte| *byte == b'&').take(DOH_PARAMETERS_MAX);
    parameters.map(|parameter| {
        let end = parameter.iter().position(|byte| *byte == b'=');
        match end {
            Some(end) => (&parameter[..end], &parameter[end + 1..]),
            None => (parameter, &[][..]),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Request<'_> = Request {
        method: b"GET",
        query: None,
        content_type: None,
        accept: None,
        content: b"",
    };

    const POST: Request<'_> = Request {
        method: b"POST",
        content_type: Some(b"application/dns-message"),
        ..GET
    };

    fn get(query: &str) -> Result<Asked, Refusal> {
        let query = Some(query.as_bytes());
        Request { query, ..GET }.read()
    }

    /// RFC 8484 §4.1.1: www.example.com, type A.
    const EXAMPLE: &str = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";

    #[test]
    fn a_query_is_in_the_target_or_the_content() {
        let asked = get(&format!("dns={EXAMPLE}")).expect("a query");
        assert_eq!(asked.form, Form::Message);
        assert_eq!(asked.message.len(), 33);
        assert_eq!(get(&format!("a=b&dns={EXAMPLE}==")), Ok(asked.clone()));
        let posted = Request {
            content: &asked.message,
            content_type: Some(b"Application/DNS-Message; charset=x"),
            ..POST
        };
        assert_eq!(posted.read(), Ok(asked));
    }

    #[test]
    fn what_asks_nothing_is_refused_by_its_status() {
        let status = |read: Result<Asked, Refusal>| read.expect_err("refused").status();
        for wrong in [
            "",
            "dns",
            "dns=a",
            "dns=!!!!",
            "dns=AA+A",
            "name=a&type=%00",
            "type=A",
        ] {
            let read = get(wrong);
            // An empty message is read, and refused as DNS rather than as HTTP.
            assert!(read.is_err() || wrong == "dns", "{wrong}");
        }
        let long = "A".repeat(DOH_QUERY_BYTES_MAX.div_ceil(3) * 4 + 1);
        assert_eq!(status(get(&format!("dns={long}"))), 414);
        let method = b"PUT";
        assert_eq!(status(Request { method, ..POST }.read()), 405);
        let content_type = Some(&b"text/plain"[..]);
        assert_eq!(
            status(
                Request {
                    content_type,
                    ..POST
                }
                .read()
            ),
            415
        );
        let content_type = None;
        assert_eq!(
            status(
                Request {
                    content_type,
                    ..POST
                }
                .read()
            ),
            415
        );
        let content = &[0; DOH_QUERY_BYTES_MAX + 1];
        assert_eq!(status(Request { content, ..POST }.read()), 413);
        let content = &[0; DOH_QUERY_BYTES_MAX];
        assert!(Request { content, ..POST }.read().is_ok());
    }

    #[test]
    fn what_cannot_be_read_is_answered_by_its_code() {
        let formerr = vec![0, 7, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0];
        let response = Response::new(Form::Message, formerr.clone()).expect("a response");
        assert_eq!((response.content_type, response.max_age), (MESSAGE, 0));
        assert_eq!(response.content, formerr);
        let response = Response::new(Form::Json, formerr).expect("a response");
        let text = String::from_utf8(response.content).expect("text");
        assert!(text.contains(r#""Status":1"#), "{text}");
    }

    #[test]
    fn a_client_says_who_it_is_by_its_path() {
        let id = |path: &str| client_id(path.as_bytes()).map(|id| id.to_string());
        assert_eq!(id("/dns-query/Kids-1"), Some("kids-1".to_owned()));
        for nobody in ["/dns-query", "/dns-query/", "/dns-query/a/b", "/other/a"] {
            assert_eq!(id(nobody), None, "{nobody}");
        }
    }

    #[test]
    fn the_form_follows_from_what_is_accepted() {
        let query = format!("dns={EXAMPLE}");
        let form = |accept: Option<&'static [u8]>| {
            let query = Some(query.as_bytes());
            let read = Request {
                query,
                accept,
                ..GET
            }
            .read();
            read.expect("a query").form
        };
        assert_eq!(form(None), Form::Message);
        assert_eq!(form(Some(b"*/*")), Form::Message);
        assert_eq!(form(Some(b"application/dns-json, */*")), Form::Json);
    }
}
