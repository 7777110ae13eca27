//! Every bound of this crate, each with its reason.

/// Bytes of a message. RFC 1035 §4.2.2: the length before a message on a stream has 16 bits.
pub const MESSAGE_BYTES_MAX: usize = 65_535;

/// Bytes of a name on the wire, the root's zero included. RFC 1035 §2.3.4.
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of a label. RFC 1035 §2.3.4.
pub const LABEL_BYTES_MAX: usize = 63;

/// Labels of a name, the root's not counted: each takes two bytes at least.
pub const NAME_LABELS_MAX: usize = (NAME_BYTES_MAX - 1) / 2;

/// Labels and pointers that all names of a message together may take to read, for each byte of the
/// message. A record of an ordinary response needs at most one step for each of its bytes; a message
/// whose names all run through long chains of pointers would need a hundred.
pub const NAME_STEPS_PER_BYTE: usize = 8;

/// Bytes of a UDP response that no client may ask to exceed, and what is advertised to servers: RFC
/// 9715 §3.1, so that no fragment is needed on a path with IPv6's smallest MTU.
pub const UDP_PAYLOAD_BYTES: usize = 1232;

/// Bytes of a UDP message of a client without EDNS. RFC 1035 §2.3.4; RFC 6891 §6.2.3: whatever is
/// less counts as this.
pub const UDP_PAYLOAD_BYTES_MIN: usize = 512;

/// Names of a chain of aliases (CNAME, DNAME) that are followed in one response, the first included.
/// Real chains have up to about eight; `cname_depth` may ask for fewer.
pub const CNAME_CHAIN_MAX: usize = 17;

/// Records of a response that is cached: an offset of two bytes is kept for the TTL of each. The
/// largest RRsets in use (blocked networks by DNS, large TXT sets) have some hundreds.
pub const CACHED_RECORDS_MAX: usize = 512;

/// TTL of records that are served past their time. RFC 8767 §4 recommends 30 seconds.
pub const STALE_TTL_SECONDS: u32 = 30;

/// Blocks that a padded response is filled up to. RFC 8467 §4.1.
pub const RESPONSE_PADDING_BYTES: usize = 468;

/// Blocks that a padded query is filled up to. RFC 8467 §4.1.
pub const QUERY_PADDING_BYTES: usize = 128;

/// Bytes of text with an extended error. RFC 8914 §2 asks for short ones: they count against a
/// response that has to fit a datagram.
pub const EXTENDED_ERROR_TEXT_BYTES_MAX: usize = 64;

/// Bytes of a query to an upstream: header, name, type and class, an OPT record with a cookie of 40
/// bytes, a client subnet of 20, and padding up to a block.
pub const UPSTREAM_QUERY_BYTES_MAX: usize = 512;

const _: () = assert!(NAME_STEPS_PER_BYTE * MESSAGE_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(UDP_PAYLOAD_BYTES_MIN < UDP_PAYLOAD_BYTES);
const _: () = assert!(
    12 + NAME_BYTES_MAX + 4 + 11 + 44 + 24 + QUERY_PADDING_BYTES <= UPSTREAM_QUERY_BYTES_MAX
);
