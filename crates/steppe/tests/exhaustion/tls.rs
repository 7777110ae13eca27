//! The rows of HTTP/2 over TLS, where ALPN chooses it (RFC 7301, RFC 9113 §3.3).

use steppe_testkit::is_left_to_long_tier;

use crate::http2::{ROWS, heads_that_wait};
use crate::row::Over;

#[test]
fn heads_that_wait_for_memory_over_tls() {
    heads_that_wait((150, 100, 15_000)).run(Over::Tls, 64);
}

#[test]
fn the_other_rows_over_tls() {
    if is_left_to_long_tier("the other rows of HTTP/2 over TLS") {
        return;
    }
    for budget_mib in [64, 16, 256] {
        for row in ROWS {
            row().run(Over::Tls, budget_mib);
        }
    }
}
