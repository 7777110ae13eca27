//! The thread that gives spans to the collector, a batch at a time.
//!
//! Invariant: at most one batch is held besides the queue. A collector that does not answer is asked again after longer
//! and longer pauses, while the queue fills; then the batch is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::counters::TraceCounters;
use super::export::{BatchRefused, Export, Taken};
use super::otlp;
use super::span::Span;
use crate::limits::{SPAN_ATTEMPTS_MAX, SPAN_BATCH_WAIT, SPAN_RETRY_PAUSE, SPANS_IN_BATCH_MAX};

/// A message to the thread.
#[derive(Debug)]
pub(super) enum Message {
    Span(Box<Span>),
    End,
}

/// Takes spans off the queue.
pub(super) struct Exporter {
    version: &'static str,
    counts: Arc<TraceCounters>,
    export: Box<dyn Export>,
    batch: Vec<Span>,
    /// Set while the last batch was refused, and that was logged.
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(
        version: &'static str,
        counts: Arc<TraceCounters>,
        export: Box<dyn Export>,
    ) -> Self {
        Self {
            version,
            counts,
            export,
            batch: Vec::with_capacity(SPANS_IN_BATCH_MAX),
            is_failing: false,
        }
    }

    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(Message::Span(first)) = messages.recv() {
            self.batch.push(*first);
            let is_last = self.fill(messages);
            self.send();
            if is_last {
                return;
            }
        }
    }

    /// Fills the batch with the spans of a short time; returns true once no more can come.
    fn fill(&mut self, messages: &Receiver<Message>) -> bool {
        let ends_at = Instant::now() + SPAN_BATCH_WAIT;
        while self.batch.len() < SPANS_IN_BATCH_MAX {
            let left = ends_at.saturating_duration_since(Instant::now());
            match messages.recv_timeout(left) {
                Ok(Message::Span(span)) => self.batch.push(*span),
                Err(RecvTimeoutError::Timeout) => return false,
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
        false
    }

    fn send(&mut self) {
        let spans = self.batch.len() as u64;
        let request = otlp::request(&self.batch, self.version);
        self.batch.clear();
        let add = |count: &AtomicU64, spans| count.fetch_add(spans, Ordering::Relaxed);
        match self.send_until_taken(&request) {
            Ok(Taken { rejected }) => {
                let rejected = rejected.min(spans);
                add(&self.counts.rejected, rejected);
                add(&self.counts.exported, spans - rejected);
                self.is_failing = false;
            }
            Err(BatchRefused { why, .. }) => {
                add(&self.counts.failed, spans);
                // Logged once, until a batch succeeds: the counts show the rest.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%why, spans, "cannot export spans to the collector");
                }
            }
        }
    }

    fn send_until_taken(&mut self, request: &[u8]) -> Result<Taken, BatchRefused> {
        let mut pause = SPAN_RETRY_PAUSE;
        let mut attempts = 1;
        loop {
            let refused = match self.export.export(request) {
                Ok(taken) => return Ok(taken),
                Err(refused) => refused,
            };
            let is_last = !refused.may_be_sent_again || attempts >= SPAN_ATTEMPTS_MAX;
            if is_last || !self.pause(pause) {
                return Err(refused);
            }
            attempts += 1;
            pause *= 2;
        }
    }

    /// Waits; `false` if the node ends meanwhile.
    fn pause(&self, pause: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(50);
        let ends_at = Instant::now() + pause;
        let is_ending = || self.counts.is_ending.load(Ordering::Relaxed);
        while !is_ending() && Instant::now() < ends_at {
            std::thread::sleep(STEP);
        }
        !is_ending()
    }
}
