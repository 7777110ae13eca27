//! Every bound of this crate, each with its reason.

/// Bytes of a host, without its port. RFC 3986 §3.2.2 asks for at most 255; it also lets a lookup
/// lower-case the host in a buffer on the stack.
pub const HOST_BYTES_MAX: usize = 255;

/// Segments of a route's path. The router descends one call a segment, so this bounds its stack;
/// the longest paths of published APIs have about a dozen.
pub const PATTERN_SEGMENTS_MAX: usize = 64;

/// Elements of `Forwarded` or `X-Forwarded-For` that are read, from the right. The left ones are
/// the client's to invent, so their number must not decide what a request costs; chains of proxies
/// in use have fewer than ten.
pub const FORWARDED_ELEMENTS_MAX: usize = 32;

/// Bytes of an address as text: eight groups of four digits and their colons.
pub const ADDRESS_TEXT_BYTES_MAX: usize = 39;
