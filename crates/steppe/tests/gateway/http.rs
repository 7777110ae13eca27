//! The gateway over HTTP/1.1: framing, fields, routes, limits, and servers that fail.

mod access_log;
mod attacks;
mod balance;
mod connect;
mod exchange;
mod framing;
mod framing_upstream;
mod limits;
mod proxy_protocol;
mod routing;
mod starvation;
mod upstream;
mod upstream_failure;
