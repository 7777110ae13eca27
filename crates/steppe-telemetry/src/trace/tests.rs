//! Spans on their way from workers to the exporter.

use std::sync::mpsc::TryRecvError;

use serde_json::{Value, json};
use steppe_mem::Budget;

use super::*;
use crate::encode::exposition;
use crate::limits::{SPAN_ATTRIBUTES_MAX, SPAN_TEXTS_BYTES_MAX};

const SETTINGS: TraceSettings = TraceSettings {
    sample: 0.25,
    version: "1.2.3",
};

/// A collector that passes its batches to the test, and answers as the test says.
struct Fake {
    batches: SyncSender<Value>,
    answers: Receiver<Result<Taken, BatchRefused>>,
}

impl Export for Fake {
    fn export(&mut self, batch: &[u8]) -> Result<Taken, BatchRefused> {
        let batch = serde_json::from_slice(batch).expect("JSON");
        let _ = self.batches.try_send(batch);
        let gone = |_| Ok(Taken { rejected: 0 });
        self.answers.recv().unwrap_or_else(gone)
    }
}

struct World {
    tracer: Arc<Tracer>,
    batches: Receiver<Value>,
    answers: SyncSender<Result<Taken, BatchRefused>>,
}

fn world() -> World {
    let (batch, batches) = sync_channel(16);
    let (answers, answer) = sync_channel(16);
    let fake = Fake {
        batches: batch,
        answers: answer,
    };
    let budget = Budget::new(64 << 20);
    let tracer = Tracer::start(SETTINGS, budget.root(), Box::new(fake)).expect("a thread");
    World {
        tracer,
        batches,
        answers,
    }
}

fn span(tracer: &Tracer) -> Box<Span> {
    let ids = Ids::default();
    let parent = tracer.begin(&ids, None);
    let context = tracer.begin(&ids, Some(parent));
    Box::new(Span::new(context, Some(parent), Instant::now()))
}

fn counts(tracer: &Tracer) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(tracer.collector());
    let text = exposition(&registry).expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_batch_is_what_the_protocol_says() {
    let World {
        tracer,
        batches,
        answers,
    } = world();
    let mut span = span(&tracer);
    span.set_name("GET api");
    span.set_state("a=1");
    span.text("url.path", b"/a\xff\"");
    span.number("http.response.status_code", 503);
    span.began_at = span.ended_at - Duration::from_micros(1500);
    span.is_error = true;
    let (context, parent) = (span.context, span.parent.expect("it has one"));
    tracer.end(span);
    answers.send(Ok(Taken { rejected: 0 })).expect("it listens");
    assert!(tracer.close(Duration::from_secs(30)));
    let batch = batches.recv().expect("a batch");
    let told = &batch["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    let time = |key: &str| told[key].as_str().expect("a string").parse::<u64>();
    let [began, ended] = ["startTimeUnixNano", "endTimeUnixNano"].map(time);
    let lasted = ended.expect("a number") - began.clone().expect("a number");
    assert_eq!(lasted, 1_500_000);
    // Not before 2020: the time is that of the system clock.
    assert!(began.expect("a number") > 1_577_836_800_000_000_000);
    let expected = json!({
        "traceId": format!("{:032x}", context.trace),
        "spanId": format!("{:016x}", context.span),
        "parentSpanId": format!("{:016x}", parent.span),
        "traceState": "a=1",
        "name": "GET api",
        "kind": 2,
        "startTimeUnixNano": told["startTimeUnixNano"],
        "endTimeUnixNano": told["endTimeUnixNano"],
        "attributes": [
            { "key": "url.path", "value": { "stringValue": "/a\u{fffd}\"" } },
            { "key": "http.response.status_code", "value": { "intValue": "503" } },
        ],
        "status": { "code": 2 },
    });
    assert_eq!(*told, expected);
    assert!(counts(&tracer).contains("steppe_trace_spans_exported_total 1"));
}

#[test]
fn what_a_collector_does_not_take_is_counted() {
    let World {
        tracer, answers, ..
    } = world();
    (0..3).for_each(|_| tracer.end(span(&tracer)));
    answers.send(Ok(Taken { rejected: 2 })).expect("it listens");
    tracer.close(Duration::from_secs(30));
    let counts = counts(&tracer);
    assert!(
        counts.contains("steppe_trace_spans_exported_total 1"),
        "{counts}"
    );
    assert!(
        counts.contains("steppe_trace_spans_dropped_total{reason=\"rejected\"} 2"),
        "{counts}"
    );
}

#[test]
fn nothing_is_sent_again_when_the_node_ends() {
    let World {
        tracer,
        answers,
        batches,
    } = world();
    tracer.end(span(&tracer));
    let refused = BatchRefused {
        may_be_sent_again: true,
        why: "away".to_owned(),
    };
    let closing = Arc::clone(&tracer);
    let closing = std::thread::spawn(move || closing.close(Duration::from_secs(30)));
    batches.recv().expect("a batch");
    // Set before the batch's answer, for which the thread waits.
    while !tracer.counts.is_ending.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    answers.send(Err(refused)).expect("it listens");
    assert!(closing.join().expect("no panic"));
    assert!(counts(&tracer).contains("{reason=\"unreachable\"} 1"));
    assert!(batches.try_recv() == Err(TryRecvError::Disconnected));
}

/// A collector that never answers holds one batch; the queue holds so many, and no worker waits.
#[test]
fn what_has_no_room_is_dropped() {
    let World {
        tracer,
        batches,
        answers: _unanswered,
    } = world();
    tracer.end(span(&tracer));
    batches.recv().expect("a batch");
    let sent = 3 * SPANS_QUEUED_MAX as u64;
    (0..sent).for_each(|_| tracer.end(span(&tracer)));
    let kept = SPANS_QUEUED_MAX as u64;
    let overflowed = tracer.counts.overflowed.load(Ordering::Relaxed);
    assert_eq!(overflowed, sent - kept);
}

#[test]
fn the_share_is_of_traces_that_begin_here() {
    let World { tracer, .. } = world();
    let ids = Ids::default();
    let kept = (0..10_000).filter(|_| tracer.begin(&ids, None).is_sampled);
    assert!((2_200..2_800).contains(&kept.count()));
    for is_sampled in [false, true] {
        let parent = TraceContext {
            is_sampled,
            ..ids.trace()
        };
        let below = tracer.begin(&ids, Some(parent));
        assert_eq!((below.trace, below.is_sampled), (parent.trace, is_sampled));
        assert_ne!(below.span, parent.span);
    }
    assert_eq!(threshold(1.0), u64::MAX);
}

#[test]
fn a_span_has_room_for_so_much() {
    let World { tracer, .. } = world();
    let mut span = span(&tracer);
    (0..100).for_each(|_| span.text("a", "é".repeat(1000).as_bytes()));
    assert_eq!(span.attributes.len(), SPAN_ATTRIBUTES_MAX);
    let bytes = span.attributes.iter().map(|(_, value)| match value {
        super::span::Value::Text(text) => text.len(),
        super::span::Value::Number(_) => 0,
    });
    assert!(bytes.sum::<usize>() <= SPAN_TEXTS_BYTES_MAX);
}
