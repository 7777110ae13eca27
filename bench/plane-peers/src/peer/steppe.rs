//! Steppe's plane, from caller to worker.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use steppe_plane::frame::Payment;
use steppe_plane::{Ask, Call, Caller, Failure, Memory, Request, Status, Worker, WorkerStatus};
use tokio::net::TcpListener;

use super::spread;
use crate::Budget;
use crate::load::{Came, Items, Target};

/// Calls that run at a time: no fewer than any load has.
const CALLS_MAX: usize = 4_096;

/// Serves calls. With a relay, the worker registers there, and listens only to show that it is up.
pub async fn serve(listen: SocketAddr, relay: Option<SocketAddr>, budget: Budget) -> Result<()> {
    let worker = Worker::builder(&memory(budget))
        .unary("echo", CALLS_MAX, |body| async move { Ok(body) })
        .stream("items", CALLS_MAX, items)
        .build();
    if let Some(relay) = relay {
        let registered = worker.register(relay.to_string())?;
        registered.reaches(WorkerStatus::Serving).await;
        let _ready = TcpListener::bind(listen).await?;
        return std::future::pending().await;
    }
    let _server = worker.listen(listen).await?;
    std::future::pending().await
}

async fn items(mut request: Request) -> Result<(), Failure> {
    let ask = request.body.whole().await?;
    let items = Items::decode(&ask);
    let items = items.map_err(|error| Failure::new(Status::Invalid, error.to_string()))?;
    let item = items.item();
    for _ in 0..items.count {
        request.response.send(item.clone()).await?;
    }
    request.response.end()
}

/// A budget of its own for each process.
fn memory(budget: Budget) -> Arc<Memory> {
    let budget = steppe_mem::Budget::new(budget.bytes);
    Arc::new(Memory::new(budget.root()))
}

pub async fn targets(
    address: SocketAddr,
    connections: usize,
    count: usize,
    budget: Budget,
) -> Result<Vec<Caller>> {
    let memory = memory(budget);
    let mut callers = Vec::new();
    for _ in 0..connections {
        callers.push(Caller::connect(address, &memory).await?);
    }
    Ok(spread(&callers, count))
}

impl Target for Caller {
    async fn unary(&mut self, body: Bytes) -> Result<Bytes> {
        Ok(Self::unary(self, &Ask::new("echo"), body).await?)
    }

    async fn items(&mut self, items: Items) -> Result<Came> {
        let Call {
            request,
            mut response,
        } = self.call(&Ask::new("items"), Payment::Standing).await?;
        request.send_whole(items.encode()).await?;
        let mut came = Came::default();
        while let Some(part) = response.next().await? {
            came.add(&part.bytes);
        }
        Ok(came)
    }
}
