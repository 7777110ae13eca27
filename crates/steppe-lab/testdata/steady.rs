//! A server that holds nothing: its memory stays flat.
//!
//! `lab-steady ADDRESS [WORK]`: each request computes for WORK rounds, so that its CPU time is known.

#[path = "server.rs"]
mod server;

use std::hint::black_box;

fn main() -> std::io::Result<()> {
    let rounds = server::number(2, 0);
    server::serve(move || {
        let mut state = 1_u64;
        for _ in 0..rounds {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
    })
}
