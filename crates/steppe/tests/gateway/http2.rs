//! The gateway over HTTP/2 and the protocols on it: gRPC, extended CONNECT, and attacks.

mod attacks;
mod examples;
mod grpc;
mod nghttpd;
mod overflows;
mod protocols;
mod responses;
mod upstream;
