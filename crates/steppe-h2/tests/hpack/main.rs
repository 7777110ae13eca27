//! HPACK through the public interface: the RFC's examples, its rules, round trips, and HPACK of others.

mod foreign;
mod round_trip;
mod rules;
mod sink;
mod support;
mod vectors;
