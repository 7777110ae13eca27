//! tarpc: bincode in frames with a length, over TCP.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use futures_util::StreamExt;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::length_delimited::LengthDelimitedCodec;
use tarpc::{client, context, serde_transport, server};
use tokio::net::{TcpListener, TcpStream};

use super::{BODY_BYTES_MAX, spread};
use crate::load::{Came, Items, Target};

/// Calls that are under way or wait, of each connection: more than any load has.
const CALLS_MAX: usize = 4_096;

#[tarpc::service]
pub trait Echo {
    async fn echo(body: Bytes) -> Bytes;
}

#[derive(Clone)]
struct Worker;

impl Echo for Worker {
    async fn echo(self, _context: context::Context, body: Bytes) -> Bytes {
        body
    }
}

pub async fn serve(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let framed = codec().new_framed(socket);
        let transport = serde_transport::new(framed, Bincode::default());
        let config = server::Config {
            pending_response_buffer: CALLS_MAX,
        };
        let calls = BaseChannel::new(config, transport).execute(Worker.serve());
        tokio::spawn(calls.for_each(|call| async {
            tokio::spawn(call);
        }));
    }
}

pub async fn targets(
    address: SocketAddr,
    connections: usize,
    count: usize,
) -> Result<Vec<EchoClient>> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let transport = serde_transport::new(codec().new_framed(socket), Bincode::default());
        let mut config = client::Config::default();
        config.max_in_flight_requests = CALLS_MAX;
        config.pending_request_buffer = CALLS_MAX;
        clients.push(EchoClient::new(config, transport).spawn());
    }
    Ok(spread(&clients, count))
}

fn codec() -> tarpc::tokio_util::codec::length_delimited::Builder {
    let mut builder = LengthDelimitedCodec::builder();
    builder.max_frame_length(2 * BODY_BYTES_MAX);
    builder
}

impl Target for EchoClient {
    async fn unary(&mut self, body: Bytes) -> Result<Bytes> {
        let mut context = context::current();
        // Ten seconds, unless more are given.
        context.deadline = Instant::now() + Duration::from_secs(120);
        Ok(self.echo(context, body).await?)
    }

    async fn items(&mut self, _items: Items) -> Result<Came> {
        bail!("tarpc has no streams")
    }
}
