//! TLS with clients and with servers, and the command that examines certificates.

mod cert;
mod downstream;
mod examples;
mod rereads;
mod upstream;
