//! A server of gRPC, as far as a gateway can tell: a closure answers each call with a head,
//! content and trailers. Messages are bytes to it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::Port;

/// A call as the server received it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrpcCall {
    /// `/SERVICE/METHOD`.
    pub path: String,
    /// Fields of the request's head.
    pub fields: Vec<(String, String)>,
    /// Content of the request: messages, each with its prefix.
    pub content: Vec<u8>,
}

/// The response to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrpcReply {
    /// Fields of the head, beside `content-type`.
    pub head: Vec<(String, String)>,
    /// Content, a frame each.
    pub content: Vec<Vec<u8>>,
    /// The trailer section; `None` if the response ends with its head or its content.
    pub trailers: Option<Vec<(String, String)>>,
}

/// A server, over plain TCP.
#[derive(Debug)]
pub struct GrpcOrigin {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<GrpcCall>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type Answer = Arc<dyn Fn(&GrpcCall) -> GrpcReply + Send + Sync>;

impl GrpcCall {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl GrpcReply {
    /// A status in the head, and nothing else.
    pub fn trailers_only(status: u8) -> Self {
        Self {
            head: vec![("grpc-status".to_owned(), status.to_string())],
            ..Self::default()
        }
    }

    /// One message, and a status in the trailers.
    pub fn message(message: &[u8], status: u8) -> Self {
        Self {
            content: vec![grpc_message(message)],
            trailers: Some(vec![("grpc-status".to_owned(), status.to_string())]),
            ..Self::default()
        }
    }
}

/// A message with its prefix: a flag for uncompressed, and the length.
///
/// # Panics
/// When its length has more than 32 bits.
pub fn grpc_message(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).expect("it is small");
    [&[0][..], &len.to_be_bytes(), message].concat()
}

impl GrpcOrigin {
    /// Answers calls by `answer`.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start(answer: impl Fn(&GrpcCall) -> GrpcReply + Send + Sync + 'static) -> Self {
        // After the drop, nothing else listens at this port.
        let address = Port::free().keep();
        let listener = std::net::TcpListener::bind(address).expect("it is free");
        listener.set_nonblocking(true).expect("a socket can be");
        let calls: Arc<Mutex<Vec<GrpcCall>>> = Arc::default();
        let (stop, stopped) = oneshot::channel();
        let (answer, seen): (Answer, _) = (Arc::new(answer), Arc::clone(&calls));
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = accept(&listener, &answer, &seen) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            calls,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The calls received so far.
    pub fn calls(&self) -> Vec<GrpcCall> {
        lock(&self.calls).clone()
    }
}

impl Drop for GrpcOrigin {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: &TcpListener, answer: &Answer, seen: &Arc<Mutex<Vec<GrpcCall>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (answer, seen) = (Arc::clone(answer), Arc::clone(seen));
        // A client that breaks the protocol is the test's to notice.
        tokio::spawn(async move { serve(stream, answer, seen).await.ok() });
    }
}

async fn serve(
    stream: TcpStream,
    answer: Answer,
    seen: Arc<Mutex<Vec<GrpcCall>>>,
) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
        tokio::spawn(async move { reply(request, respond, &answer, &seen).await.ok() });
    }
    Ok(())
}

async fn reply(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    answer: &Answer,
    seen: &Mutex<Vec<GrpcCall>>,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = head.headers.iter();
    let mut call = GrpcCall {
        path: head.uri.path().to_owned(),
        fields: fields
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        content: Vec::new(),
    };
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        call.content.extend_from_slice(&data);
    }
    lock(seen).push(call.clone());
    let reply = answer(&call);
    let mut response = Response::new(());
    *response.headers_mut() = map(&reply.head);
    let media_type = HeaderValue::from_static("application/grpc");
    response
        .headers_mut()
        .entry("content-type")
        .or_insert(media_type);
    let is_head_all = reply.content.is_empty() && reply.trailers.is_none();
    let mut stream = respond.send_response(response, is_head_all)?;
    let last = reply.content.len();
    for (at, content) in (1..).zip(reply.content) {
        // The crate does flow control.
        stream.send_data(content.into(), at == last && reply.trailers.is_none())?;
    }
    if let Some(trailers) = &reply.trailers {
        stream.send_trailers(map(trailers))?;
    }
    Ok(())
}

fn map(fields: &[(String, String)]) -> HeaderMap {
    let valid = |(name, value): &(String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a test's name is valid");
        (name, value.parse().expect("a test's value is valid"))
    };
    fields.iter().map(valid).collect()
}
