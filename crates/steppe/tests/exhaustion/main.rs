//! Hostile peers against a node with a small memory budget, one module a protocol.
//!
//! Each case runs the real process by [`flood::Flood`], which checks the promises of `docs/operate/memory.md`: resident
//! memory stays within the budget and 24 MiB, a well-behaved client on another address is served meanwhile, and all
//! memory is released when the peers leave. Cases of seconds run always; the rest are left to the long tier.

mod dns;
mod flood;
mod flow;
mod grpc;
mod http2;
mod plane;
mod row;
#[cfg(feature = "uncharged-heads")]
mod second_line;
mod shares;
mod tls;
mod tokens;
mod tunnels;
