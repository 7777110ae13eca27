//! Callers, workers and relays over real sockets.

mod balance;
mod calls;
mod examples;
#[path = "../support/frames.rs"]
mod frames;
mod half_open;
mod idle;
mod kills;
mod leaving;
mod lies;
#[path = "../support/listening.rs"]
mod listening;
mod refusals;
mod relay;
mod rules;
mod storms;
