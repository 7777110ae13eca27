//! Every bound of this crate, each with its reason.

/// Bytes of the header of a frame (RFC 9113 §4.1).
pub const FRAME_HEADER_BYTES: usize = 9;

/// The largest payload that we accept: the smallest maximum of the protocol (RFC 9113 §4.2). Content is handed on in
/// pieces, so larger frames would save nothing.
pub const FRAME_BYTES_MAX: u32 = 16_384;

/// The largest payload that we send, even where the peer accepts more: a stream delays the others by as much.
pub const SENT_FRAME_BYTES_MAX: usize = 16_384;

/// A window at first, and its largest size (RFC 9113 §6.9.1, §6.9.2).
pub const WINDOW_BYTES_DEFAULT: u32 = 65_535;
/// The largest size of a window.
pub const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Bytes of a dynamic table, in either direction: the protocol's default (RFC 7541 §4.2). Larger tables save little:
/// a request's fields that repeat fit.
pub const TABLE_BYTES_MAX: u32 = 4096;

/// Bytes of a field block that is decoded without being kept: any entry of the dynamic table fits.
pub const SCRATCH_BYTES: usize = TABLE_BYTES_MAX as usize;

/// HEADERS and CONTINUATION frames of one field block: 20 of 16 KiB each hold any that is allowed. An attack sends
/// many small ones (CVE-2024-27316).
pub const BLOCK_FRAMES_MAX: u32 = 20;

/// Interim heads of one response: a server that sends more keeps its stream busy by them.
pub const INTERIM_HEADS_MAX: u32 = 16;

/// A field section this many times its limit ends the connection; a smaller one gets a response that says so.
pub const SECTION_FACTOR_MAX: usize = 4;

/// RST_STREAM frames of a client that are let through at once (CVE-2023-44487), together with stream errors that a peer
/// provokes (CVE-2025-8671), but for those of streams that we opened. A page that is left cancels what it was loading, of which browsers have 100 at most.
pub const RESETS_BURST: u32 = 200;
/// The same each second, from then on.
pub const RESETS_PER_SECOND: u32 = 20;

/// Frames that are cheap to send and ask for work: SETTINGS, PING and their acknowledgments, PRIORITY, PRIORITY_UPDATE,
/// GOAWAY, unknown frames, DATA without content, small DATA and field blocks that are discarded, and RST_STREAM of a
/// server that ends no stream. WINDOW_UPDATE is not among them: a peer with a small window sends one for each few octets
/// that it takes. Old browsers send a PRIORITY a stream, gRPC a
/// PING for what it was sent.
pub const CONTROL_FRAMES_BURST: u32 = 1000;
/// The same each second, from then on.
pub const CONTROL_FRAMES_PER_SECOND: u32 = 100;
/// And one more for so many bytes that the peer has taken: gRPC clients measure by PING how fast content comes.
pub const WRITTEN_BYTES_PER_CONTROL_FRAME: usize = 1 << 10;

/// Frames that are discarded uncounted for each stream that we reset: HEADERS, some DATA and RST_STREAM may have been
/// under way.
pub const LATE_FRAMES_PER_RESET: u32 = 4;

/// Bytes that are kept free for control frames. Without half of them nothing more is received, so a peer that provokes
/// answers and reads none waits for itself.
pub const CONTROL_BYTES_MAX: usize = 4 << 10;

/// And where the budget has no room: the rest of [`CONTROL_BYTES_MAX`] is for small heads and headers of DATA frames.
pub const CONTROL_BYTES_SCARCE: usize = 1 << 10;

/// Bytes of frames and content that wait to be written, beside control frames: the responses of 100 streams, 1 kB
/// each, fit.
pub const OUTPUT_BYTES_MAX: usize = 128 << 10;

/// Chunks of content among them.
pub const OUTPUT_CHUNKS_MAX: usize = 32;

/// Content up to this size is copied behind its frame's header; larger content is written where it lies.
pub const COPIED_BYTES_MAX: usize = 4 << 10;

/// Bytes of the buffer that gathers frame headers, field blocks and small content. Larger field blocks get a larger
/// one.
pub const GATHERED_BYTES: usize = 16 << 10;

/// Streams that were reset here of late: what the peer sent before it heard of that is discarded (RFC 9113 §5.1), as it
/// is on all streams before them, once there were more.
pub const RESET_STREAMS_KEPT: usize = 128;

/// A DATA frame below this that is discarded counts as a control frame: larger ones have cost the peer its window.
pub const SMALL_DATA_BYTES: u32 = 1 << 10;

/// Bytes of the value of a PRIORITY_UPDATE frame that is read; longer ones are ignored. `u=7, i` has six.
pub const PRIORITY_BYTES_MAX: usize = 60;

const _: () = assert!(CONTROL_BYTES_MAX >= 1024);
