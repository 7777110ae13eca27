//! Callers, workers and relays over real sockets.

mod balance;
mod calls;
mod examples;
mod half_open;
mod idle;
mod kills;
mod leaving;
mod lies;
mod relay;
mod storms;
