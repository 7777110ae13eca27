//! `/events`, read on a thread of its own.
//!
//! Invariant: an update waits in a queue of [`QUEUE`]; when the terminal hangs, reading stops. A
//! lost connection is re-established, after longer and longer pauses, until the command ends.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use axum::body::Body;
use futures_util::StreamExt;
use hyper::Method;
use serde_json::Value;
use tokio::time::timeout;

use crate::admin_client::{SILENCE, Target};

/// Updates in the queue.
const QUEUE: usize = 4;
const RETRY_MAX: Duration = Duration::from_secs(15);
/// Bytes of an event, at most: a node's events are smaller.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Time for the first two events, which a node sends at once.
const FIRST_TIMEOUT: Duration = Duration::from_secs(15);

/// An item of the feed.
#[derive(Debug)]
pub(super) enum Update {
    /// The last ten minutes, sent once a connection.
    History(Value),
    /// The node now.
    Snapshot(Value),
    /// The connection is lost; the feed connects again.
    Lost(String),
}

/// A running feed; its thread ends with the process, or with the receiver of updates.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) updates: Receiver<Update>,
    target: String,
}

impl Feed {
    pub(super) fn start(target: Target) -> Self {
        let (updates, taken) = sync_channel(QUEUE);
        let shown = target.shown();
        std::thread::spawn(move || read_for_ever(&target, &updates));
        Self {
            updates: taken,
            target: shown,
        }
    }

    /// History and snapshot of the first connection, as one update each, within [`FIRST_TIMEOUT`].
    #[expect(clippy::disallowed_methods, reason = "a command waits for people")]
    pub(super) fn first(&self) -> anyhow::Result<[Update; 2]> {
        let ends_at = Instant::now() + FIRST_TIMEOUT;
        let next = || {
            let left = ends_at.saturating_duration_since(Instant::now());
            let update = self.updates.recv_timeout(left);
            let update = update.map_err(|_| anyhow!("no event from {} in time", self.target));
            match update? {
                Update::Lost(why) => Err(anyhow!("no response from {}: {why}", self.target)),
                update => Ok(update),
            }
        };
        Ok([next()?, next()?])
    }
}

fn read_for_ever(target: &Target, updates: &SyncSender<Update>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            // The receiver may be gone already.
            _ = updates.send(Update::Lost(error.to_string()));
            return;
        }
    };
    let mut wait = Duration::from_millis(500);
    loop {
        let outcome = runtime.block_on(read(target, updates));
        wait = match outcome {
            // The node ends a stream after some minutes.
            Ok(()) => Duration::from_millis(200),
            Err(error) => {
                if updates.send(Update::Lost(format!("{error:#}"))).is_err() {
                    return;
                }
                (wait * 2).min(RETRY_MAX)
            }
        };
        std::thread::sleep(wait);
    }
}

/// Reads one connection, until its stream ends.
async fn read(target: &Target, updates: &SyncSender<Update>) -> anyhow::Result<()> {
    let mut answer = target.ask(Method::GET, "/events").await?;
    ensure!(
        answer.content_type.starts_with("text/event-stream"),
        "the response is not a stream of events: this is not the admin server of a node"
    );
    read_events(std::mem::take(&mut answer.body), updates).await
}

async fn read_events(body: Body, updates: &SyncSender<Update>) -> anyhow::Result<()> {
    let mut parts = body.into_data_stream();
    let mut waiting = Vec::new();
    while let Some(part) = timeout(SILENCE, parts.next())
        .await
        .context("no event for 5 seconds")?
    {
        waiting.extend_from_slice(&part?);
        ensure!(waiting.len() <= EVENT_BYTES_MAX, "an event exceeds 4 MiB");
        while let Some(end) = waiting.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = waiting.drain(..end + 2).collect();
            let update = parse_event(&event)?;
            if updates.send(update).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn parse_event(event: &[u8]) -> anyhow::Result<Update> {
    let text = std::str::from_utf8(event).context("an event is not UTF-8")?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ").context("an event has no data")?;
    let data = serde_json::from_str(data).context("an event is not JSON")?;
    match field("event: ") {
        Some("history") => Ok(Update::History(data)),
        Some("snapshot") => Ok(Update::Snapshot(data)),
        other => bail!("an event has the unknown type {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        let snapshot = parse_event(b"event: snapshot\ndata: {\"a\":1}\n\n");
        assert!(matches!(snapshot, Ok(Update::Snapshot(data)) if data["a"] == 1));
        let history = parse_event(b"event: history\ndata: []\n\n");
        assert!(matches!(history, Ok(Update::History(_))));
        assert!(parse_event(b"event: other\ndata: 1\n\n").is_err());
        assert!(parse_event(b"event: snapshot\n\n").is_err());
    }
}
