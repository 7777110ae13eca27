//! HPACK through the public interface: the RFC's examples, and round trips.

mod round_trip;
mod support;
mod vectors;
