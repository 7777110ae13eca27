//! The request that an HTTP load repeats, and the check of its response.
//!
//! A body of any length repeats one block, so that it takes no memory. A response is read to its
//! end and thrown away; only its status counts.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, Uri};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::endpoint::{Addresses, Endpoint, io_failure};
use super::tally::{ErrorKind, Failure, said};
use super::tls::Tls;
use crate::limits::BODY_BLOCK_BYTES;
use crate::scenario::{Expect, HttpLoad};

/// The request of a load, its addresses and its TLS settings.
pub(super) struct HttpPlan {
    addresses: Addresses,
    tls: Option<Tls>,
    template: Template,
}

/// The stream of a connection: TCP, or TLS over TCP.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A request that was checked, with the statuses that are expected.
#[derive(Debug, Clone)]
pub(super) struct Template {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Repeated,
    expect: Vec<Expect>,
}

/// A body that repeats one block.
#[derive(Debug, Clone)]
pub(super) struct Repeated {
    block: Bytes,
    left: u64,
}

impl HttpPlan {
    pub(super) fn new(addresses: Addresses, tls: Option<Tls>, template: Template) -> Self {
        Self {
            addresses,
            tls,
            template,
        }
    }

    pub(super) async fn connect(&self) -> Result<Wire, Failure> {
        let stream = self.addresses.connect().await?;
        match &self.tls {
            Some(tls) => tls.connect(stream).await.map(Wire::Tls),
            None => Ok(Wire::Plain(stream)),
        }
    }

    pub(super) fn request(&self) -> Request<Repeated> {
        let mut request = Request::new(self.template.body.clone());
        *request.method_mut() = self.template.method.clone();
        *request.uri_mut() = self.template.uri.clone();
        *request.headers_mut() = self.template.headers.clone();
        request
    }

    /// Reads a response to its end, and checks its status.
    pub(super) async fn judge(&self, response: Response<Incoming>) -> Result<(), Failure> {
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|e| http_failure(&e))?;
        }
        let is_it = |Expect { from, to }: &Expect| (*from..=*to).contains(&status);
        if self.template.expect.iter().any(is_it) {
            Ok(())
        } else {
            Err(Failure::answered(ErrorKind::Status(status)))
        }
    }
}

impl Template {
    /// # Errors
    /// With the reason, when the load's request is invalid.
    pub(super) fn http1(load: &HttpLoad) -> Result<(Endpoint, Self), String> {
        if load.streams > 1 {
            let streams = load.streams;
            return Err(format!(
                "{streams} streams: HTTP/1.1 has one request at a time"
            ));
        }
        let (endpoint, mut template, uri) = Self::new(load)?;
        if !template.headers.contains_key(HOST) {
            let authority = uri.authority().ok_or("it has no host")?.as_str();
            let host = HeaderValue::from_str(authority).map_err(|e| e.to_string())?;
            template.headers.insert(HOST, host);
        }
        // RFC 9112 §3.2.1: a request to an origin server has the origin-form, which is a path.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        template.uri = Uri::try_from(path).map_err(|e| e.to_string())?;
        Ok((endpoint, template))
    }

    /// # Errors
    /// With the reason, when the load's request is invalid.
    pub(super) fn http2(load: &HttpLoad) -> Result<(Endpoint, Self), String> {
        let (endpoint, mut template, uri) = Self::new(load)?;
        let mut parts = uri.into_parts();
        // RFC 9113 §8.3.1: the authority is a pseudo-header of its own.
        if let Some(host) = template.headers.remove(HOST) {
            let authority = Authority::try_from(host.as_bytes());
            parts.authority = Some(authority.map_err(|e| format!("header `host`: {e}"))?);
        }
        template.uri = Uri::from_parts(parts).map_err(|e| e.to_string())?;
        Ok((endpoint, template))
    }

    fn new(load: &HttpLoad) -> Result<(Endpoint, Self, Uri), String> {
        let uri: Uri = load
            .url
            .parse()
            .map_err(|e| format!("`{}` is not a URL: {e}", load.url))?;
        let endpoint = Endpoint::parse(&uri).map_err(|e| format!("`{}`: {e}", load.url))?;
        let method = Method::from_bytes(load.method.as_bytes())
            .map_err(|_| format!("`{}` is not a method", load.method))?;
        let has_tls_keys = load.ca.is_some() || !load.verify;
        if has_tls_keys && endpoint.tls_name.is_none() {
            return Err("`ca` and `verify` are for https".to_owned());
        }
        if load.ca.is_some() && !load.verify {
            return Err("`ca` and `verify = false` exclude each other".to_owned());
        }
        if method == Method::CONNECT {
            return Err("CONNECT is not supported as a load".to_owned());
        }
        let template = Self {
            method,
            uri: Uri::default(),
            headers: headers(&load.headers)?,
            body: Repeated::new(load.body_bytes),
            expect: load.expect.clone(),
        };
        Ok((endpoint, template, uri))
    }
}

fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{name}` is not a header name"))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("header `{name}`: its value has a forbidden character"))?;
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// The failure of an operation by a connection error, with its kind.
pub(super) fn http_failure(error: &hyper::Error) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io_failure(io);
        }
        cause = inner.source();
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return Failure::lost("closed");
    }
    if error.is_parse() {
        return Failure::lost("malformed");
    }
    let text = error.source().unwrap_or(error).to_string();
    Failure {
        kind: ErrorKind::Said(said(&text)),
        disconnected: true,
    }
}

impl Repeated {
    fn new(bytes: u64) -> Self {
        let length = usize::try_from(bytes).map_or(BODY_BLOCK_BYTES, |n| n.min(BODY_BLOCK_BYTES));
        Self {
            block: Bytes::from(vec![b'x'; length]),
            left: bytes,
        }
    }
}

impl Body for Repeated {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length =
            usize::try_from(self.left).map_or(self.block.len(), |n| n.min(self.block.len()));
        self.left -= length as u64;
        Poll::Ready(Some(Ok(Frame::data(self.block.slice(..length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
