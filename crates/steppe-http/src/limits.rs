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

/// Bytes that a connection is charged for as long as it is open: its task, its
/// socket's entry in the runtime, its deadline, its share of field lists.
pub const CONNECTION_BYTES: usize = 3 << 10;

/// The bytes that the kernel may hold of one connection each way is this share of the
/// budget, divided by the connections there are. A crowd of 2,000 under 64 MiB
/// then holds 2 × 2,000 × 2 × 8 KiB at most; a few keep the kernel's own tuning.
pub const SOCKET_BUFFER_SHARE: u64 = 32;

/// At least this much, or small windows would stall transfers.
pub const SOCKET_BUFFER_BYTES_MIN: usize = 8 << 10;

/// From here on the kernel's own tuning is left alone: it starts lower.
pub const SOCKET_BUFFER_BYTES_TUNED: usize = 256 << 10;

/// Bytes of the first read of a request. Nearly every head fits; a larger one
/// moves to a larger buffer, up to the listener's `header_bytes`.
pub const REQUEST_READ_BYTES: usize = 4 << 10;

/// Largest `header_bytes` and `header_count` that a listener may be given.
pub const HEADER_BYTES_MAX: usize = 256 << 10;

/// See [`HEADER_BYTES_MAX`].
pub const HEADER_COUNT_MAX: usize = 1000;

/// Options of `Connection` that are compared with every line of a head: clients send one or two
/// that name a field. From more on the lines are sorted first, or a head of a peer's choice would
/// cost the product of its options and its lines.
pub const CONNECTION_OPTIONS_COMPARED_MAX: usize = 4;

/// Bytes of a response's head. Origins set many cookies; clients have limits of their own.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;

/// Field lines of a response.
pub const RESPONSE_FIELDS_MAX: usize = 200;

/// Protocols that a 101 may name: one, and perhaps layers below it. Each is looked up in the list
/// of those that were asked for, which is of the client's making.
pub const UPGRADE_PROTOCOLS_MAX: usize = 4;

/// Interim responses to one request, so that a server can't keep an exchange going with them.
pub const INTERIM_RESPONSES_MAX: usize = 16;

/// Bytes of a trailer section, of either side.
pub const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Field lines of a trailer section.
pub const TRAILER_FIELDS_MAX: usize = 32;

/// Bytes of chunk extensions in a whole message. Nobody uses them, and they cost to skip.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 << 10;

/// Bytes of content read at once while the budget has plenty.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Bytes of content read at once when it has not.
pub const CHUNK_BYTES_MIN: usize = 4 << 10;

/// Head and content of a request that are kept until its response begins, so that it can be sent
/// again. Less where the budget has little left: no more than one message's share of it.
pub const REPLAY_BYTES_MAX: usize = 64 << 10;

/// Times that a request is sent again because its connection ended before it was processed. One
/// is usual; a few connections may end together.
pub const RESENDS_MAX: u32 = 3;

/// Pieces that this is kept in.
pub const REPLAY_CHUNKS_MAX: usize = 64;

/// Bytes that an exchange in flight takes, beside what it reserves by itself.
pub const EXCHANGE_BYTES: usize = 1536;

/// Bytes of a request's host and path that are kept for the error log.
pub const REQUEST_NAME_BYTES: usize = 160;

/// Lines of the error log that are written of one upstream and reason in a second.
pub const ERROR_LINES_A_SECOND: u64 = 5;

/// Lines of the error log that are queued for its thread: 36 KB, which are there from the start.
pub const ERROR_LINES_MAX: usize = 128;

/// Exchanges whose memory a worker keeps for the next requests.
pub const IDLE_EXCHANGES_MAX: usize = 256;

/// Request heads of one worker that may wait for budget to grow while they hold some. What more
/// there are is refused: if all of them waited, none would ever be let finish.
pub const STARVED_HEADS_MAX: usize = 16;

/// Parts up to here are copied behind a head. Copying 4 KiB takes some 60 ns;
/// naming it in a vectored write costs more in the kernel, and keeps its buffer.
pub const COPIED_PART_BYTES_MAX: usize = 4 << 10;

/// A JSON Web Token, as it is sent.
pub const JWT_BYTES_MAX: usize = 8 << 10;

/// A token is read while the budget has room for so many that take the most that it can take: 800 KiB for 8 KiB of
/// small objects, some KiB for usual claims.
pub const JWT_SHARERS: usize = 8;

/// Verified tokens of one filter are kept up to this part of the budget, one of so many: what clients can fill with
/// tokens of their own is not there for others.
pub const JWT_KEPT_SHARE: u64 = 16;

/// A set of keys of a URL (RFC 7517): those of large issuers have some KiB.
pub const JWKS_BYTES_MAX: usize = 256 << 10;

/// Keys of a set. A token that names none of them is tried with all that have its algorithm.
pub const JWKS_KEYS_MAX: usize = 64;

/// Bytes that the library of C keeps of a public key that verified something, which no count of the allocator shows:
/// RSA of 8,192 bits takes most, 4,720 bytes.
pub const JWT_KEY_BYTES: usize = 5 << 10;

/// Requests that wait for the fetch of one set: more are told to come again.
pub const JWKS_WAITERS_MAX: usize = 1024;

/// Credentials of RFC 7617, as they are sent.
pub const BASIC_BYTES_MAX: usize = 1 << 10;

/// Users of one file.
pub const USERS_MAX: usize = 10_000;

/// Passwords that are hashed at once, of one filter, where there are processors for it: half of them.
pub const HASHES_AT_ONCE_MAX: usize = 4;

/// Requests that wait for their password to be hashed, of one filter: some seconds of hashing.
pub const HASHES_WAITING_MAX: usize = 64;

/// Cost of a hash of bcrypt: a second of a processor.
pub const BCRYPT_COST_MAX: u32 = 14;

/// Bytes of a password that bcrypt reads. The rest would not matter.
pub const BCRYPT_PASSWORD_BYTES_MAX: usize = 72;

/// Memory of a hash of argon2, in KiB.
pub const ARGON2_KIB_MAX: u32 = 64 << 10;

/// The same, times its passes: a second of a processor.
pub const ARGON2_PASSES_KIB_MAX: u64 = 256 << 10;

/// Rounds of a hash of SHA-crypt: a second of a processor.
pub const SHA_CRYPT_ROUNDS_MAX: usize = 1_000_000;

/// Content of a `respond` upstream, and of an answer of a service that decides about requests.
pub const RESPOND_BYTES_MAX: usize = 16 << 10;

/// Content of one page of `error-pages`: a page with its style in it.
pub const ERROR_PAGE_BYTES_MAX: usize = 64 << 10;

/// Pages of one such filter: there are some twenty statuses that are met.
pub const ERROR_PAGES_MAX: usize = 32;

/// Bytes that are read of an error that a page stands in for, so that its connection can be used again.
pub const REPLACED_BYTES_MAX: usize = 64 << 10;

/// Bytes of a stored response beside its head and its content: handles, its place in the index and in an eviction
/// queue.
pub const CACHE_ENTRY_BYTES: usize = 640;

/// Content that is not stored, held for its slowest reader: enough for one piece to be read while another is
/// sent.
pub const CACHE_WINDOW_BYTES: usize = 128 << 10;

/// Time that readers of such content may take for one window while another reader has all that came: 64 KiB
/// a second.
pub const CACHE_WINDOW_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Background fetches of one cache, for each reason: fetches whose clients have left, and revalidations of stale
/// responses that were served meanwhile. Each has a connection to a server.
pub const CACHE_BACKGROUND_FETCHES_MAX: usize = 64;

/// Variants of one key that are stored, and keys of one URI. Clients may invent the values that tell them apart, and
/// each is compared.
pub const CACHE_VARIANTS_MAX: usize = 64;

/// Hashes of responses that one cache has evicted unused: 32 KiB.
pub const CACHE_GHOSTS: usize = 8192;

/// Hit-for-pass marks of one cache: 32 KiB.
pub const CACHE_PASSES: usize = 4096;

/// Seconds for which a hit-for-pass mark lasts: requests for what was not stored the last time don't wait for each
/// other.
pub const CACHE_PASS_SECONDS: u64 = 10;

/// Look-ups of one request, each after a fetch whose response the request could not use.
pub const CACHE_LOOKUPS_MAX: usize = 4;

/// Lines of a head that a list has room for at first. Browsers send some twenty, and the gateway
/// adds five. Its 960 bytes are part of what a connection is charged; a larger list is charged
/// for itself.
pub const FIELD_LIST_LINES: usize = 48;

/// Field lists that a thread keeps for later heads: 120 KiB.
pub const IDLE_FIELD_LISTS_MAX: usize = 128;

/// Time that a connection is read on after its last response, so that the
/// client gets to see that response before a reset.
pub const LINGER: std::time::Duration = std::time::Duration::from_secs(2);

/// Bytes thrown away meanwhile.
pub const LINGER_BYTES_MAX: usize = 1 << 20;

/// Weights count in this many steps, so that a slow start can begin at a tenth of weight 1.
pub const WEIGHT_STEPS: u64 = 1000;

/// A server that comes back under `slow_start` begins with this much of [`WEIGHT_STEPS`].
pub const SLOW_START_STEPS: u64 = 100;

/// Up to so many servers, the least busy of all is found by looking at all; of more, the less
/// busy of two is taken, which is nearly as even (Mitzenmacher, "The power of two choices", 2001).
pub const LEAST_OF_ALL_MAX: usize = 8;

/// Time that a latency counts: after this time without another, a third of it is left.
pub const LATENCY_DECAY: std::time::Duration = std::time::Duration::from_secs(3);

/// A failure counts as at least this latency, or a server that fails at once would look fast.
pub const FAILURE_LATENCY: std::time::Duration = std::time::Duration::from_secs(1);

/// Between two warnings that TLS with one server fails for the same reason: it does until somebody
/// mends it, at every connection.
pub const TLS_WARNING_PAUSE: std::time::Duration = std::time::Duration::from_secs(60);

/// An ejection doubles so many times at most when it happens again and again: 10 s become 320 s.
pub const EJECTION_DOUBLINGS_MAX: u32 = 5;

/// Seconds of requests that retries are measured against.
pub const RETRY_WINDOW_S: u64 = 10;

/// Retries that are let through a second, on average, however few requests there are.
pub const RETRIES_MIN_PER_SECOND: u64 = 3;

/// Memory of what an access log copies of a request. Nearly all fit; what doesn't is given
/// more, and not kept.
pub const ACCESS_RECORD_BYTES: usize = 512;

/// Copies that wait for the next request, a worker.
pub const ACCESS_RECORDS_IDLE_MAX: usize = 256;

/// Bytes of a request's target in an access log; what is longer is cut.
pub const ACCESS_TARGET_BYTES_MAX: usize = 3 << 10;

/// The same of every other value.
pub const ACCESS_VALUE_BYTES_MAX: usize = 1 << 10;

/// Bytes of a path below a served folder, what ends it included: the kernel takes no more.
pub const FILE_PATH_BYTES_MAX: usize = 4096;

/// Keys of the file of an `api-keys` filter, some 150 bytes each.
pub const API_KEYS_MAX: usize = 10_000;

/// Bytes of a key that a client sends: those of `steppe key new` have 47.
pub const API_KEY_BYTES_MAX: usize = 512;

/// Bytes of the name of a key, which servers receive.
pub const API_KEY_NAME_BYTES_MAX: usize = 128;

/// Entries of a list of a folder: as many as one reads, and a page of some 200 KiB.
pub const LISTING_ENTRIES_MAX: usize = 1000;

/// Entries of a folder that are looked at for its list: a few system calls each.
pub const LISTING_SEEN_MAX: usize = 16 << 10;

/// Bytes of the page with a list.
pub const LISTING_BYTES_MAX: usize = 256 << 10;

/// Bytes of a pattern of files, and how often it has `*`: each costs a pass over a path.
pub const FILE_PATTERN_BYTES_MAX: usize = 256;

/// The same of `*`.
pub const FILE_PATTERN_STARS_MAX: usize = 8;

/// Lifetimes of one folder: each is compared with the path of a file.
pub const CACHE_CONTROLS_MAX: usize = 64;

/// Bytes of a `Cache-Control`. Registered directives take some 300 together.
pub const CACHE_CONTROL_BYTES_MAX: usize = 512;

/// Ranges of one response. Players and viewers of documents ask for a few; each costs a part
/// with fields of its own.
pub const RANGES_MAX: usize = 16;

/// For so long after a change, a file may change again without its time showing it: the
/// coarsest file systems count in steps of two seconds.
pub const FILE_SETTLES: std::time::Duration = std::time::Duration::from_secs(2);

/// Methods of gRPC that have series of their own, for as long as the node runs: a large company's
/// gateway serves some hundred, and each has up to 17 series.
pub const GRPC_METHODS_MAX: usize = 256;

/// Bytes of a method's path at most, for it to have series: package, service and method.
pub const GRPC_METHOD_BYTES_MAX: usize = 256;

/// Bytes that a stream of HTTP/2 with a client is charged: its task, and its place in the connection's table. The
/// connection keeps this charge for the most streams that it had at once: the table grows with them, and never shrinks.
/// Measured.
pub const H2_STREAM_BYTES: usize = 3712;

/// [`H2_STREAM_BYTES`] with a server, which has no task.
pub const H2_UPSTREAM_STREAM_BYTES: usize = 1280;

/// Room that a client's stream waits for before its exchange begins: for its heads, and for some content; and that the
/// head of a server's response waits for. It is not held: most need less.
pub const H2_STREAM_ROOM_BYTES: usize = 32 << 10;

/// A request that finds no room waits for so long at most where its client has sent more behind it, which may give memory
/// back; and for `timeouts.header` otherwise. The head of a response waits for so long in any case.
pub const ROOM_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// The part of the budget, one of so many, with which all streams of one connection begin: fewer are announced
/// (SETTINGS_MAX_CONCURRENT_STREAMS) where that is not enough for `limits.streams`.
pub const CONNECTION_STREAMS_PART: u64 = 16;

/// The part of the budget, one of so many, that new streams of HTTP/2 leave free for those that have
/// begun: they need memory for their answers yet.
pub const STREAMS_LEAVE: u64 = 8;

/// And that header lists of streams that have begun leave: trailers, and heads of servers of HTTP/2.
pub const LISTS_LEAVE: u64 = 8;

/// And that responses of HTTP/2 servers leave when their windows open again, as little as new streams: else the slow
/// readers of one server take all of the budget, a part for each, and connections of others are refused. Waiting tasks
/// that leave different parts hold each other up. Uploads leave nothing: they end by their own deadline.
pub const RESPONSES_LEAVE: u64 = 8;

/// And that new connections of HTTP/2 leave, so that streams can begin on those that there are.
pub const CONNECTIONS_LEAVE: u64 = 4;

/// Content that the streams of a connection hand over before its task writes: what was handed over
/// can't be put in another order. The responses of 100 streams, 1 kB each, fit: to wait
/// for turns costs a third more CPU.
pub const H2_CONNECTION_SEND_BYTES_MAX: usize = 128 << 10;

/// Bytes that the kernel holds of a connection of HTTP/2 that it has not sent yet, about: what is more urgent comes
/// behind it.
pub const H2_UNSENT_BYTES: u32 = 128 << 10;

/// Streams that may hand content over before the connection's task looks again.
pub const CONTENT_PARTS_HANDED_MAX: usize = 4;

/// Streams at once of a connection to a server, whatever more the server allows.
pub const UPSTREAM_STREAMS_MAX: usize = 100;

/// A server that owes a response and has sent nothing for so long is asked whether it is there.
pub const PING_AFTER: std::time::Duration = std::time::Duration::from_secs(15);

/// And has so long to answer.
pub const PING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Between two PINGs: servers of gRPC take more frequent ones for an attack.
pub const PING_EVERY: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// So old, a connection takes no further requests: servers come and go, and what clients and
/// servers keep of it should not live for ever. Up to a tenth more, so that those that began
/// together don't end together.
pub const CONNECTION_AGE_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

/// One part of a server's streams, of so many, that is free at least: with fewer, the next
/// connection is established, before a request has to wait for it.
pub const FREE_STREAMS_PART: usize = 8;

/// A stream's window at first: what it is before any setting (RFC 9113 §6.9.2).
pub const STREAM_WINDOW_BYTES_MIN: u32 = 65_535;

/// A stream's window at most: 20 MB/s at 50 ms.
pub const STREAM_WINDOW_BYTES_MAX: u32 = 1 << 20;

/// After so long without more of a request's content, its client is late with it.
pub const LATE_CONTENT: std::time::Duration = std::time::Duration::from_secs(1);

/// Arrays within arrays that edits of JSON reach into: each costs another look at the text.
pub const JSON_ARRAYS_DEEP_MAX: usize = 4;

/// Memory that a decoder of gzip or Zstandard takes beside what comes out.
pub const DECODER_BYTES: usize = 256 << 10;

/// The same of Brotli, beside its window.
pub const BROTLI_DECODER_BYTES: usize = 1 << 20;

/// Memory of the encoder of gzip: a window of 32 KiB twice, its tables, and what waits to be written.
pub const GZIP_STATE_BYTES: usize = 384 << 10;

/// Content up to here becomes gzip all at once where all of it is there: it takes what two turns of content in pieces
/// take.
pub const WHOLE_CONTENT_BYTES_MAX: usize = 64 << 10;

/// Memory of the encoder that does so: tables of 256 KiB, and 50,001 sequences of eight bytes.
pub const WHOLE_STATE_BYTES: usize = 704 << 10;

/// The same at level 1: a table of 128 KiB, and 8,193 sequences.
pub const WHOLE_STATE_BYTES_FASTEST: usize = 224 << 10;

/// Memory that an encoder of Zstandard takes, with a window of 128 KiB.
pub const ZSTD_STATE_BYTES: usize = 1280 << 10;

/// The same for [`SHORT_CONTENT_BYTES_MAX`].
pub const ZSTD_STATE_BYTES_SHORT: usize = 640 << 10;

/// Memory that an encoder of Brotli takes, with a window of 128 KiB, by its level from 1 on. Level 4 has the
/// largest table of all.
pub const BROTLI_STATE_BYTES: [usize; 6] = [2 << 20, 2 << 20, 2 << 20, 6 << 20, 3 << 20, 4 << 20];

/// The same for [`SHORT_CONTENT_BYTES_MAX`].
pub const BROTLI_STATE_BYTES_SHORT: [usize; 6] =
    [1 << 20, 1 << 20, 1 << 20, 2 << 20, 3 << 20, 4 << 20];

/// Content up to here is compressed with small windows and tables, where its length is known.
pub const SHORT_CONTENT_BYTES_MAX: u64 = 32 << 10;

/// All encoders of a filter take one part of the budget, of so many: slow clients keep theirs for long, and
/// content is more than what compresses it.
pub const ENCODERS_SHARE: u64 = 4;

/// A new encoder leaves one part of the budget free, of so many.
pub const ENCODERS_LEAVE: u64 = 8;

/// Encoders that a worker keeps for later responses: while content is there at once, one of a kind is enough.
pub const IDLE_ENCODERS_MAX: usize = 3;

/// Bytes that are compressed before others of the worker have their turn: half a millisecond of Brotli.
pub const COMPRESSED_PIECE_BYTES: usize = 32 << 10;

/// Compressed content that is gathered before it goes on.
pub const COMPRESSED_BUFFER_BYTES_MAX: usize = 16 << 10;

/// When a server has paused for so long, what was compressed of its response goes on. Each flush costs some
/// bytes, and pieces of one response come closer together.
pub const FLUSH_AFTER: std::time::Duration = std::time::Duration::from_millis(10);

/// Half of the longest padding against attacks by length is at least so long. Whoever guesses a byte of a secret
/// saves about one.
pub const PADDING_WIDTH_BYTES_MIN: usize = 32;

/// And at most so long: 128 KiB of compressed content has it.
pub const PADDING_WIDTH_BYTES_MAX: usize = 4 << 10;

const _: () = assert!(2 * PADDING_WIDTH_BYTES_MAX < COMPRESSED_BUFFER_BYTES_MAX);
const _: () = assert!(WHOLE_CONTENT_BYTES_MAX <= 2 * COMPRESSED_PIECE_BYTES);
const _: () = assert!(steppe_net::limits::PROXY_V2_BYTES_MAX <= REQUEST_READ_BYTES);
const _: () = assert!(REQUEST_READ_BYTES <= HEADER_BYTES_MAX);
const _: () = assert!(
    HEADER_COUNT_MAX <= u16::MAX as usize,
    "indexes of lines are 16 bits wide"
);
const _: () = assert!(CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX);
const _: () = assert!(SOCKET_BUFFER_BYTES_MIN < SOCKET_BUFFER_BYTES_TUNED);

/// Requests about which the store of a limit is asked at a time, beside as many that wait for their turn. At
/// the half millisecond that a store takes, they are a million requests a second.
pub const STORE_IN_FLIGHT_MAX: usize = 512;

/// Memory of one of them: its key's name, its task, its part of what is written.
pub const STORE_QUESTION_BYTES: usize = 1 << 10;

/// Time that a store may take: whoever waits longer is judged by the node alone.
pub const STORE_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(100);

/// Before a store is connected to again.
pub const STORE_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// Bytes of a file's name: no file system takes more.
pub const FILE_NAME_BYTES_MAX: usize = 255;

/// Bytes of the path of a fallback below its folder: room for it is taken with each request that may need it.
pub const FALLBACK_BYTES_MAX: usize = 1024;

/// Addresses of a site: each of its hosts and redirects is looked at, and may be written, once for each of them.
pub const SITE_ADDRESSES_MAX: usize = 16;

/// The least budget of a route: two chunks of a body, and the heads.
pub const ROUTE_BUDGET_MIN: u64 = 256 << 10;

/// Bounds of `limits.header_bytes`: a browser's request fits the least; the head is read into one
/// buffer, hence the most.
pub const HEADER_BYTES: (u64, u64) = (1 << 10, HEADER_BYTES_MAX as u64);
/// Bounds of `limits.header_count`.
pub const HEADER_COUNT: (u64, u64) = (8, HEADER_COUNT_MAX as u64);
/// Bounds of `limits.body_bytes`; bodies are streamed, so the most is only a typing mistake away.
pub const BODY_BYTES: (u64, u64) = (0, 1 << 44);
/// Bounds of `limits.connections`: what one process's file table can carry.
pub const CONNECTIONS: (u64, u64) = (1, 1 << 20);
/// Bounds of `limits.streams`: RFC 9113 §6.5.2 recommends 100 at least; each takes some KiB.
pub const STREAMS: (u64, u64) = (1, 10_000);
/// Bounds of `limits.handshakes`: each is a connection too, hence the most.
pub const HANDSHAKES: (u64, u64) = (1, CONNECTIONS.1);
/// Bounds of `keepalive`, a worker.
pub const KEEPALIVE: (u64, u64) = (0, 1 << 16);

/// Bounds of a server's `weight`: shares finer than a thousandth are not told apart by anybody.
pub const WEIGHT: (u64, u64) = (1, 1000);
/// Bounds of what is counted in a row before a server is taken out, or back.
pub const IN_A_ROW: (u64, u64) = (1, 1000);
/// The most further tries of a request: more would only load what is failing.
pub const ATTEMPTS_MAX: u64 = 10;
/// Bytes of a sticky cookie's name.
pub const COOKIE_NAME_BYTES_MAX: usize = 64;

/// Requests of a key that a rate limit lets pass in its time, or at once.
pub const RATE_MAX: u64 = 1_000_000;

/// Verified tokens that are remembered.
pub const VERIFIED_TOKENS_MAX: u64 = 1 << 20;

const _: () = assert!(ROUTE_BUDGET_MIN <= steppe_mem::limits::BUDGET_BYTES_MIN);
