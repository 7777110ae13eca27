//! NATS: requests to a subject that the worker subscribed to, by way of `nats-server`.
//!
//! Streams are left out: messages to an inbox have no flow control of their own, and a reader that falls
//! behind loses them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::net::TcpListener;

use super::spread;
use crate::load::{Came, Items, Target};

/// Commands and messages that a client queues: more than any load has.
const CAPACITY: usize = 8_192;

pub async fn serve(listen: SocketAddr, broker: SocketAddr) -> Result<()> {
    let client = connect(broker).await?;
    let mut requests = client.subscribe("echo").await?;
    client.flush().await?;
    // The bench connects here to see that the worker is up.
    let _ready = TcpListener::bind(listen).await?;
    while let Some(request) = requests.next().await {
        let Some(inbox) = request.reply else { continue };
        client.publish(inbox, request.payload).await?;
    }
    bail!("the broker closed")
}

pub async fn targets(address: SocketAddr, connections: usize, count: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(connect(address).await?);
    }
    Ok(spread(&clients, count))
}

async fn connect(broker: SocketAddr) -> Result<Client> {
    let options = ConnectOptions::new()
        .client_capacity(CAPACITY)
        .subscription_capacity(CAPACITY)
        .request_timeout(Some(Duration::from_secs(120)));
    let address = format!("nats://{broker}");
    options.connect(address).await.context("no broker")
}

impl Target for Client {
    async fn unary(&mut self, body: Bytes) -> Result<Bytes> {
        Ok(self.request("echo", body).await?.payload)
    }

    async fn items(&mut self, _items: Items) -> Result<Came> {
        bail!("NATS has no streams with flow control")
    }
}
