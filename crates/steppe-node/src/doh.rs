//! DNS over HTTPS: requests of the gateway that the DNS forwarder answers.
//!
//! This module connects the two, which do not know each other. The content of requests and
//! responses is up to the forwarder, HTTP to the gateway.

use std::fmt;
use std::future::ready;

use steppe_dns::client::Client;
use steppe_dns::doh::{self, Form, Refusal, Request, Response};
use steppe_dns::limits::DOH_QUERY_BYTES_MAX;
use steppe_dns::{DnsService, Unanswered};
use steppe_http::config::{GuestName, Respond};
use steppe_http::field::FieldId;
use steppe_http::guest::{Answering, WholeGuest, WholeRequest};

/// The name by which routes refer to the forwarder.
pub const FORWARDER: GuestName = "dns";

/// The forwarder as a guest of the gateway.
pub struct Doh(pub DnsService);

impl WholeGuest for Doh {
    fn content_bytes_max(&self) -> usize {
        DOH_QUERY_BYTES_MAX
    }

    fn answer(&self, request: &WholeRequest<'_>) -> Answering {
        let head = request.head;
        let asked = Request {
            method: head.method(),
            query: head.query(),
            content_type: head.fields.values(FieldId::ContentType).next(),
            accept: head.fields.values_named(b"accept").next(),
            content: request.content,
        };
        let asked = match asked.read() {
            Ok(asked) => asked,
            Err(refusal) => return Box::pin(ready(refused(refusal))),
        };
        let client = Client {
            id: doh::client_id(head.path()),
            ..Client::at(request.client)
        };
        let Some(asking) = self.0.ask(&asked.message, client) else {
            return Box::pin(ready(unanswered(Unanswered::Unavailable)));
        };
        Box::pin(async move {
            match asking.await {
                Ok(response) => answered(asked.form, response.message),
                Err(why) => unanswered(why),
            }
        })
    }
}

impl fmt::Debug for Doh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doh")
    }
}

fn answered(form: Form, message: Vec<u8>) -> Respond {
    let Some(response) = Response::new(form, message) else {
        return words(500, "response too large for this format".to_owned());
    };
    let age = format!("max-age={}", response.max_age);
    Respond {
        status: 200,
        body: response.content,
        fields: vec![
            ("content-type".to_owned(), response.content_type.to_owned()),
            ("cache-control".to_owned(), age),
        ],
    }
}

fn refused(refusal: Refusal) -> Respond {
    let mut respond = words(refusal.status(), refusal.to_string());
    if refusal == Refusal::Method {
        let allow = ("allow".to_owned(), "GET, HEAD, POST".to_owned());
        respond.fields.push(allow);
    }
    respond
}

fn unanswered(why: Unanswered) -> Respond {
    match why {
        Unanswered::NoQuery => refused(Refusal::Malformed),
        Unanswered::Unavailable => {
            let mut respond = words(503, why.to_string());
            let again = ("retry-after".to_owned(), "1".to_owned());
            respond.fields.push(again);
            respond
        }
    }
}

fn words(status: u16, text: String) -> Respond {
    let media_type = "text/plain; charset=utf-8".to_owned();
    Respond {
        status,
        body: text.into_bytes(),
        fields: vec![("content-type".to_owned(), media_type)],
    }
}
