//! The gateway of a whole node: HTTP/1.1, HTTP/2 and the protocols on it, and TLS at either side.

mod http;
mod http2;
mod leaving;
mod tls;
