//! Admin: its endpoints, its page, TLS in front of both, and its report about certificates.

mod certificates;
mod encrypted;
mod endpoints;
mod page;
