//! Admin: its endpoints, its page, TLS in front of both, and what it says of certificates.

mod certificates;
mod encrypted;
mod endpoints;
mod page;
