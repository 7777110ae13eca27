//! Large bodies, one after another on each of a few kept-alive connections, both ways.
//!
//! Invariant: only complete bodies are counted, and the transfers in flight are finished before the
//! clock stops.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::{JoinSet, LocalSet};

use super::client::{self, Decoder, exchange};
use super::stream::Endpoint;
use crate::peer::origin;

/// The direction of the large body, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Download,
    Upload,
}

/// The outcome of a run.
#[derive(Debug, Clone, Default)]
pub struct Transferred {
    pub bodies: u64,
    pub duration: Duration,
    pub errors: u64,
    pub first_error: Option<String>,
}

/// Transfers bodies for `duration` over `connections` connections.
pub async fn run(
    endpoint: &Endpoint,
    direction: Direction,
    connections: usize,
    duration: Duration,
) -> Transferred {
    let request = Rc::new(direction.request(endpoint));
    let start = Instant::now();
    let mut sum = Transferred::default();
    let mut tasks = JoinSet::new();
    LocalSet::new()
        .run_until(async {
            for _ in 0..connections {
                let (request, endpoint) = (Rc::clone(&request), endpoint.clone());
                tasks.spawn_local(async move {
                    let mut bodies = 0;
                    let until = start + duration;
                    let outcome = repeat(&endpoint, direction, &request, until, &mut bodies).await;
                    (bodies, outcome)
                });
            }
            while let Some(finished) = tasks.join_next().await {
                sum.add(finished.unwrap_or_else(|panic| (0, Err(panic.into()))));
            }
        })
        .await;
    sum.duration = start.elapsed();
    sum
}

impl Direction {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Upload => "upload",
        }
    }

    /// The request that moves one large body.
    pub fn request(self, endpoint: &Endpoint) -> Vec<u8> {
        match self {
            Self::Download => client::get(endpoint.host(), origin::LARGE_PATH),
            Self::Upload => client::post(endpoint.host(), origin::UPLOAD_PATH, origin::LARGE_BYTES),
        }
    }

    /// Length of the response's body.
    pub const fn response_bytes(self) -> usize {
        match self {
            Self::Download => origin::LARGE_BYTES,
            Self::Upload => origin::UPLOAD_ANSWER.len(),
        }
    }
}

impl Transferred {
    pub fn gigabytes(&self) -> f64 {
        self.bodies as f64 * origin::LARGE_BYTES as f64 / 1e9
    }

    fn add(&mut self, (bodies, outcome): (u64, Result<()>)) {
        self.bodies += bodies;
        if let Err(error) = outcome {
            self.errors += 1;
            self.first_error.get_or_insert_with(|| format!("{error:#}"));
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
async fn repeat(
    endpoint: &Endpoint,
    direction: Direction,
    request: &[u8],
    until: Instant,
    bodies: &mut u64,
) -> Result<()> {
    let mut stream = endpoint.connect().await?;
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 256 * 1024];
    while Instant::now() < until {
        let received = exchange(&mut stream, request, &mut decoder, &mut buffer).await?;
        let expected = direction.response_bytes();
        anyhow::ensure!(
            received == expected,
            "a body of {received} bytes instead of {expected}"
        );
        *bodies += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_counted_in_decimal_gigabytes() {
        let transferred = Transferred {
            bodies: 3_000,
            duration: Duration::from_secs(2),
            ..Transferred::default()
        };
        assert_eq!(transferred.gigabytes(), 3.0);
    }

    #[test]
    fn what_failed_keeps_what_went_through_before() {
        let mut sum = Transferred::default();
        sum.add((4, Ok(())));
        sum.add((2, Err(anyhow::anyhow!("first"))));
        sum.add((1, Err(anyhow::anyhow!("second"))));
        assert_eq!(
            (sum.bodies, sum.errors, sum.first_error.as_deref()),
            (7, 2, Some("first"))
        );
    }
}
