//! Requests of DNS over HTTPS: a target makes a query that reads, or none, and any response of a server
//! becomes an object of JSON.

use steppe_dns::doh::{Form, Request, Response, client_id};
use steppe_dns::limits::{DOH_JSON_BYTES_MAX, DOH_QUERY_BYTES_MAX};
use steppe_dns::wire::{ClientQuery, Header};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let get = Request {
        method: b"GET",
        query: Some(bytes),
        content_type: None,
        accept: None,
        content: b"",
    };
    if let Ok(asked) = get.read() {
        assert!(asked.message.len() <= DOH_QUERY_BYTES_MAX + 3);
        if asked.form == Form::Json {
            assert!(
                ClientQuery::parse(&asked.message).is_ok(),
                "it was made here"
            );
        }
    }
    let posted = Request {
        method: b"POST",
        content_type: Some(bytes),
        content: bytes,
        ..get
    };
    assert!(posted.read().is_err() || bytes.len() <= DOH_QUERY_BYTES_MAX);
    if let Some(id) = client_id(bytes) {
        assert!(!id.as_str().is_empty());
    }
    if let Some(response) = Response::new(Form::Json, bytes.to_vec()) {
        let Response { content, .. } = response;
        // One that does not read is told by its code.
        assert!(Header::read(bytes).is_ok());
        assert!(content.starts_with(b"{") && content.ends_with(b"}"));
        assert!(std::str::from_utf8(&content).is_ok());
        // Quotes and backslashes of what is counted are escaped once more.
        assert!(
            content.len() <= 4096 + 2 * DOH_JSON_BYTES_MAX,
            "an amplifier"
        );
    }
}
