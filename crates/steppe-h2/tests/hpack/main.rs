//! HPACK through the public interface: the RFC's examples, its rules, and round trips.

mod round_trip;
mod rules;
mod support;
mod vectors;
