//! Paths of requests, the routes that they take, and what an origin is told of the client.

mod forwarded;
mod normalize;
mod router;
