//! The peers: serving and calling with each of them.

mod floor;
mod nats;
mod steppe;
mod tarpc;
mod tonic;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::Budget;
use crate::load::{self, Plan};

/// The system whose calls are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    Steppe,
    Tonic,
    Tarpc,
    Nats,
    /// A length and a body, on a connection for each call at a time.
    Floor,
}

/// Bytes of the largest body, for peers that have such a limit.
const BODY_BYTES_MAX: usize = 64 << 20;

impl Peer {
    /// Answers until it fails.
    ///
    /// # Errors
    /// When it can't listen or connect.
    pub async fn serve(
        self,
        listen: SocketAddr,
        broker: Option<SocketAddr>,
        budget: Budget,
    ) -> Result<()> {
        match self {
            Self::Steppe => steppe::serve(listen, broker, budget).await,
            Self::Tonic => tonic::serve(listen).await,
            Self::Tarpc => tarpc::serve(listen).await,
            Self::Nats => nats::serve(listen, broker.context("NATS needs a broker")?).await,
            Self::Floor => floor::serve(listen).await,
        }
    }

    /// Runs the load.
    ///
    /// # Errors
    /// When it can't connect, or nothing answers.
    pub async fn call(
        self,
        address: SocketAddr,
        connections: usize,
        plan: &Plan,
        budget: Budget,
    ) -> Result<()> {
        let count = plan.concurrency;
        match self {
            Self::Steppe => {
                let targets = steppe::targets(address, connections, count, budget).await?;
                load::run(targets, plan).await
            }
            Self::Tonic => {
                load::run(tonic::targets(address, connections, count).await?, plan).await
            }
            Self::Tarpc => {
                load::run(tarpc::targets(address, connections, count).await?, plan).await
            }
            Self::Nats => load::run(nats::targets(address, connections, count).await?, plan).await,
            Self::Floor => load::run(floor::targets(address, count).await?, plan).await,
        }
    }
}

/// Each of `count` callers gets one of the connections in turn.
fn spread<T: Clone>(connections: &[T], count: usize) -> Vec<T> {
    connections.iter().cycle().take(count).cloned().collect()
}
