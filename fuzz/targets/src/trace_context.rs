//! `traceparent` and `tracestate`: a context is written as it was read, and a list that is passed on has no
//! character that ends a field.

use steppe_telemetry::trace::{TRACESTATE_BYTES_MAX, TraceContext, is_tracestate};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    if let Some(context) = TraceContext::parse(bytes) {
        let text = context.text();
        assert_eq!(TraceContext::parse(&text), Some(context));
        // Version and flags are ours.
        assert_eq!(bytes[2..53], text[2..53]);
    }
    if is_tracestate(bytes) {
        assert!(bytes.len() <= TRACESTATE_BYTES_MAX);
        assert!(!bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
}
