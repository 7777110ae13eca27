//! The gateway of a whole node: HTTP/1.1, HTTP/2 and what travels on it, and TLS on either side.

mod http;
mod http2;
mod leaving;
mod tls;
