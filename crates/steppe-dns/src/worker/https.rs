//! DNS over HTTPS to a server: queries are streams of one HTTP/2 connection. RFC 8484.
//!
//! Each is a POST, whose response is read up to the longest message. What a server sends beyond the windows
//! that it was given is refused by `h2`; what is read is charged. Redirections are not followed: whom to ask
//! is the configuration's to say.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use steppe_mem::{Lease, Reservation};
use steppe_net::Transport;
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connecting::{Connecting, message_in};
use super::silence::Silence;
use crate::config;
use crate::limits::{
    ATTEMPTS_PER_SOCKET_MAX, HTTPS_BYTES, HTTPS_FIELDS_BYTES_MAX, HTTPS_STREAM_BYTES,
    HTTPS_WINDOW_BYTES, HTTPS_WRITE_BYTES, MESSAGE_BYTES_MAX, UPSTREAM_SECURE_IDLE_TIME,
    UPSTREAM_STALL_TIME,
};

/// RFC 8484 §6.
const DNS_MESSAGE: &str = "application/dns-message";

/// A connection that stands.
pub(super) struct Https<'a> {
    connection: &'a Connecting,
    uri: Uri,
    h2: Connection<BufWriter<Bytestream>, Bytes>,
    requests: SendRequest<Bytes>,
    /// One for each query that is out; they end with it.
    streams: JoinSet<()>,
    /// Queries that wait for a stream, up to `taken`.
    out: Vec<u8>,
    taken: usize,
    /// Streams that brought something.
    heard: Rc<Cell<u32>>,
    heard_before: u32,
    silence: Silence,
    _charge: Reservation,
}

/// A transport as `h2` takes it.
struct Bytestream(Transport);

/// Why a response is of no use.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("{0}")]
    Http(#[from] h2::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("the content is not a DNS message")]
    Content,
    #[error("more than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("over budget")]
    OverBudget,
    #[error("no response in time")]
    Silent,
}

impl<'a> Https<'a> {
    /// # Errors
    /// Where there is no memory, or no HTTP/2.
    pub(super) async fn begin(
        connection: &'a Connecting,
        transport: Transport,
        now: Instant,
    ) -> io::Result<Self> {
        let charge = connection.lease.try_reserve(HTTPS_BYTES);
        let config = &connection.server.config;
        let stream = BufWriter::with_capacity(HTTPS_WRITE_BYTES, Bytestream(transport));
        let (requests, h2) = builder()
            .handshake(stream)
            .await
            .map_err(io::Error::other)?;
        Ok(Self {
            connection,
            uri: uri(config)?,
            h2,
            requests,
            streams: JoinSet::new(),
            out: Vec::new(),
            taken: 0,
            heard: Rc::default(),
            heard_before: 0,
            silence: Silence::new(UPSTREAM_SECURE_IDLE_TIME, now),
            _charge: charge.map_err(io::Error::other)?,
        })
    }

    /// Ready when the connection has ended, or idled for long enough.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        self.connection.queue.watch(cx.waker());
        while let Poll::Ready(Some(_)) = self.streams.poll_join_next(cx) {}
        if let Poll::Ready(Err(error)) = self.poll_send(cx, now) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(ended) = Pin::new(&mut self.h2).poll(cx) {
            return Poll::Ready(ended.map_err(io::Error::other));
        }
        if self.heard_before != self.heard.get() {
            self.heard_before = self.heard.get();
            self.silence.heard(now);
        }
        self.silence.poll_over(cx, now).map(Ok)
    }

    /// Begins a stream for each query, as far as the server takes them.
    fn poll_send(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        while self.streams.len() < usize::from(ATTEMPTS_PER_SOCKET_MAX) {
            if self.taken == self.out.len() {
                self.taken = 0;
                self.connection.queue.take(&mut self.out);
            }
            let Some(message) = message_in(&self.out[self.taken..]) else {
                return Poll::Ready(Ok(()));
            };
            ready!(self.requests.poll_ready(cx)).map_err(io::Error::other)?;
            let Ok(charge) = self.connection.lease.try_reserve(HTTPS_STREAM_BYTES) else {
                let id = message
                    .first_chunk()
                    .map_or(0, |id| u16::from_be_bytes(*id));
                self.taken += 2 + message.len();
                self.connection.failed(id);
                continue;
            };
            let sent = send(&mut self.requests, &self.uri, message);
            self.taken += 2 + message.len();
            let (id, response) = sent?;
            self.silence.asked(now);
            let connection = self.connection.clone();
            let exchange = exchange(connection, (id, response), Rc::clone(&self.heard));
            self.streams.spawn_local(async move {
                exchange.await;
                drop(charge);
            });
        }
        Poll::Ready(Ok(()))
    }
}

fn builder() -> Builder {
    let small = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(small(HTTPS_FIELDS_BYTES_MAX))
        .initial_window_size(small(HTTPS_WINDOW_BYTES))
        .initial_connection_window_size(small(HTTPS_WINDOW_BYTES));
    builder
}

fn uri(server: &config::Server) -> io::Result<Uri> {
    let uri = format!("https://{}{}", server.authority(), server.path);
    uri.parse().map_err(io::Error::other)
}

/// Sends a query. Its id is zero, so that it is the same for whoever asks (RFC 8484 §4.1); its stream says
/// whose the response is.
fn send(
    requests: &mut SendRequest<Bytes>,
    uri: &Uri,
    message: &[u8],
) -> io::Result<(u16, ResponseFuture)> {
    let (&id, rest) = message
        .split_first_chunk::<2>()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(uri.clone())
        .header(ACCEPT, DNS_MESSAGE)
        .header(CONTENT_TYPE, DNS_MESSAGE)
        .header(CONTENT_LENGTH, message.len());
    let request = request.body(()).map_err(io::Error::other)?;
    let (response, mut content) = requests
        .send_request(request, false)
        .map_err(io::Error::other)?;
    let content_bytes = [&[0, 0], rest].concat().into();
    content
        .send_data(content_bytes, true)
        .map_err(io::Error::other)?;
    Ok((u16::from_be_bytes(id), response))
}

/// Reads the response to a query, and says what came.
async fn exchange(
    connection: Connecting,
    (id, response): (u16, ResponseFuture),
    heard: Rc<Cell<u32>>,
) {
    let read = timeout(UPSTREAM_STALL_TIME, read(response, &connection.lease)).await;
    match read.unwrap_or(Err(Unusable::Silent)) {
        Ok((mut message, _charge)) => {
            heard.set(heard.get().wrapping_add(1));
            message[..2].copy_from_slice(&id.to_be_bytes());
            connection.answered(|state, now| {
                let carrier = (connection.number, config::Transport::Https);
                state.message(carrier, &message, now);
            });
        }
        // The connection's own end is seen to by its task.
        Err(Unusable::Http(error)) if error.is_io() || error.is_go_away() => {}
        Err(error) => {
            tracing::debug!(server = %connection.server.config, %error, "no usable response from a DNS server");
            connection.failed(id);
        }
    }
}

async fn read(response: ResponseFuture, lease: &Lease) -> Result<(Vec<u8>, Reservation), Unusable> {
    let response = response.await?;
    if response.status() != StatusCode::OK {
        return Err(Unusable::Status(response.status()));
    }
    if !is_dns_message(response.headers()) {
        return Err(Unusable::Content);
    }
    let mut charge = lease.try_reserve(0).map_err(|_| Unusable::OverBudget)?;
    let mut message = Vec::new();
    let mut content = response.into_body();
    while let Some(bytes) = content.data().await {
        let bytes = bytes?;
        if message.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let grown = charge.try_grow(bytes.len());
        grown.map_err(|_| Unusable::OverBudget)?;
        message.extend_from_slice(&bytes);
        content.flow_control().release_capacity(bytes.len())?;
    }
    // Whose response it is stands in its first two bytes.
    match message.len() {
        0 | 1 => Err(Unusable::Content),
        _ => Ok((message, charge)),
    }
}

fn is_dns_message(fields: &HeaderMap) -> bool {
    let content_type = fields.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| {
        let media_type = value.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case(DNS_MESSAGE)
    })
}

impl AsyncRead for Bytestream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.initialize_unfilled();
        let count = ready!(self.0.poll_read_into(cx, room))?;
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bytestream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_may_have_parameters_and_any_case() {
        for (value, want) in [
            ("application/dns-message", true),
            ("Application/DNS-Message; charset=utf-8", true),
            ("application/dns-json", false),
            ("text/html", false),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(CONTENT_TYPE, value.parse().expect("a value"));
            assert_eq!(is_dns_message(&fields), want, "{value}");
        }
        assert!(!is_dns_message(&HeaderMap::new()));
    }
}
