//! tonic, with a codec that passes bytes on and a service without a router in front of it.
//!
//! Tuned for throughput: windows that hold a body and more, so that no sender waits for an update; limits
//! of messages and streams that no load reaches; `TCP_NODELAY`, which is tonic's default.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::{Buf, BufMut, Bytes};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{ServerStreamingService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use super::{BODY_BYTES_MAX, spread};
use crate::load::{Came, Items, Target};

const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
const STREAMS_MAX: u32 = 4_096;

/// Messages are bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, room: &mut EncodeBuf<'_>) -> Result<(), Status> {
        room.reserve(item.len());
        room.put(item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = message.remaining();
        Ok(Some(message.copy_to_bytes(len)))
    }
}

#[derive(Clone)]
struct Echo;

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

impl ServerStreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = BoxStream<'static, Result<Bytes, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let items = Items::decode(&request.into_inner());
        let items = items.map_err(|error| Status::invalid_argument(error.to_string()));
        ready(items.map(|items| {
            let item = items.item();
            let all = stream::iter((0..items.count).map(move |_| Ok(item.clone())));
            Response::new(all.boxed())
        }))
    }
}

impl tower_service::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Raw)
                .max_decoding_message_size(BODY_BYTES_MAX)
                .max_encoding_message_size(BODY_BYTES_MAX);
            Ok(match request.uri().path() {
                "/bench.Plane/Items" => grpc.server_streaming(Self, request).await,
                _ => grpc.unary(Self, request).await,
            })
        })
    }
}

pub async fn serve(listen: SocketAddr) -> Result<()> {
    let server = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_adaptive_window(Some(false))
        .max_concurrent_streams(STREAMS_MAX)
        .serve(listen, Echo);
    Ok(server.await?)
}

/// A channel, which is one connection.
pub struct Caller(tonic::client::Grpc<Channel>);

pub async fn targets(address: SocketAddr, connections: usize, count: usize) -> Result<Vec<Caller>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_adaptive_window(false)
        .buffer_size(STREAMS_MAX as usize);
    let mut channels = Vec::new();
    for _ in 0..connections {
        channels.push(endpoint.connect().await?);
    }
    let grpc = |channel| {
        tonic::client::Grpc::new(channel)
            .max_decoding_message_size(BODY_BYTES_MAX)
            .max_encoding_message_size(BODY_BYTES_MAX)
    };
    let callers = spread(&channels, count);
    Ok(callers.into_iter().map(grpc).map(Caller).collect())
}

impl Target for Caller {
    async fn unary(&mut self, body: Bytes) -> Result<Bytes> {
        self.0.ready().await?;
        let path = PathAndQuery::from_static("/bench.Plane/Echo");
        let answer = self.0.unary(Request::new(body), path, Raw).await?;
        Ok(answer.into_inner())
    }

    async fn items(&mut self, items: Items) -> Result<Came> {
        self.0.ready().await?;
        let path = PathAndQuery::from_static("/bench.Plane/Items");
        let request = Request::new(items.encode());
        let answer = self.0.server_streaming(request, path, Raw).await?;
        let mut all = answer.into_inner();
        let mut came = Came::default();
        while let Some(item) = all.message().await? {
            came.add(&item);
        }
        Ok(came)
    }
}
