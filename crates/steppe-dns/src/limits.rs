//! Every bound of this crate, each with its reason.

use std::time::Duration;

use steppe_h2::ConnectionMemory;
use steppe_h2::limits::WINDOW_BYTES_DEFAULT;

/// Bytes of a message. RFC 1035 §4.2.2: the length before a message on a stream has 16 bits.
pub const MESSAGE_BYTES_MAX: usize = 65_535;

/// Bytes of a name on the wire, the root's zero included. RFC 1035 §2.3.4.
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of a name's text in Unicode: four for each byte of the name. To encode more takes quadratic time.
pub const UNICODE_NAME_BYTES_MAX: usize = 4 * NAME_BYTES_MAX;

/// Bytes of a label. RFC 1035 §2.3.4.
pub const LABEL_BYTES_MAX: usize = 63;

/// Labels of a name, the root's not counted: each takes two bytes at least.
pub const NAME_LABELS_MAX: usize = (NAME_BYTES_MAX - 1) / 2;

/// Pointers that are followed in one name. A writer that compresses adds a label with each, so this is as many
/// as a name can need; more are pointers to pointers. The bound limits the cost of reading a name again.
pub const NAME_POINTERS_MAX: usize = NAME_LABELS_MAX;

/// Labels and pointers that all names of a message together may take to read, for each byte of the
/// message. A record of an ordinary response needs at most one step for each of its bytes; a message
/// whose names all run through long chains of pointers would need a hundred.
pub const NAME_STEPS_PER_BYTE: usize = 8;

/// Largest UDP response in bytes, whatever a client asks for, and the size that is advertised to servers: RFC
/// 9715 §3.1, so that no fragment is needed on a path with IPv6's smallest MTU.
pub const UDP_PAYLOAD_BYTES: usize = 1232;

/// Bytes of a UDP message of a client without EDNS. RFC 1035 §2.3.4; RFC 6891 §6.2.3: smaller sizes that a client
/// advertises count as this.
pub const UDP_PAYLOAD_BYTES_MIN: usize = 512;

/// Names of a chain of aliases (CNAME, DNAME) that are followed in one response, the first included.
/// Real chains have up to about eight; `cname_depth` may ask for fewer.
pub const CNAME_CHAIN_MAX: usize = 17;

/// Names of a response that are looked up in lists: those of its chain of aliases, and targets of HTTPS records.
pub const ALIASES_PER_RESPONSE_MAX: usize = 32;

/// Records of a response that is cached: an offset of two bytes is kept for the TTL of each. The
/// largest RRsets in use (blocked networks by DNS, large TXT sets) have some hundreds.
pub const CACHED_RECORDS_MAX: usize = 512;

/// TTL of records of stale responses. RFC 8767 §4 recommends 30 seconds.
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

/// Bytes of a response that is cached. Responses that are larger come over streams and are rare; one
/// must leave room for others in the smallest ring of a shard.
pub const CACHED_BODY_BYTES_MAX: usize = 16 << 10;

/// Shards of a cache at most: with 64, sixteen workers at full rate meet at a lock in less than one of a
/// hundred lookups.
pub const CACHE_SHARDS_MAX: usize = 64;

/// Bytes of a shard at least, so that its smallest ring has room for some of the largest responses.
pub const CACHE_SHARD_BYTES_MIN: usize = 512 << 10;

/// Bytes of a cache at most: a shard's positions have 30 bits and count words of eight bytes.
pub const CACHE_BYTES_MAX: usize = CACHE_SHARDS_MAX << 32;

/// Expected bytes of an entry, by which the index is sized; an entry of one address has about 100, one of a
/// signed answer 400. If entries are smaller, full buckets evict some.
pub const CACHE_ENTRY_BYTES_EXPECTED: usize = 96;

/// Entries that one insertion moves on at most, instead of evicting them. The next one in line is evicted
/// whatever its hits, so an insertion's work is bounded.
pub const CACHE_MOVES_MAX: usize = 32;

/// Share of a shard, in percent, for the probation ring. S3-FIFO's authors found 10 % to be right for nearly
/// all of their traces.
pub const CACHE_PROBATION_PERCENT: usize = 10;

/// Share of a shard, in percent, for negative responses and failures: a flood of names that don't exist
/// evicts only its own kind.
pub const CACHE_NEGATIVE_PERCENT: usize = 15;

/// Seconds for which the first failure of a question is cached. RFC 9520 §3.2: one at least.
pub const FAILURE_SECONDS_MIN: u32 = 2;

/// Seconds for which repeated failures are cached at most; doubled up to this. RFC 9520 §3.2: five minutes at most.
pub const FAILURE_SECONDS_MAX: u32 = 120;

/// Seconds between two attempts to refresh a stale response, which is served at once meanwhile. RFC 8767 §5.
pub const STALE_RECHECK_SECONDS: u32 = 30;

/// Seconds in which a response that is about to expire is refreshed once at most.
pub const PREFETCH_QUIET_SECONDS: u32 = 5;

/// Hits of a response before it is refreshed ahead of its expiry: a name that is not asked for twice is not
/// worth a query.
pub const PREFETCH_HITS_MIN: u8 = 2;

/// Seconds for which a response may be kept past its lifetime. RFC 8767 §5 suggests one to three days.
pub const STALE_SECONDS_MAX: u32 = 7 * 86_400;

/// Bytes of an entry in a snapshot: a body and its other fields.
pub const SNAPSHOT_ENTRY_BYTES_MAX: usize = CACHED_BODY_BYTES_MAX + 64;

const _: () = assert!(CACHE_PROBATION_PERCENT + CACHE_NEGATIVE_PERCENT < 50);
// A ring of the smallest share takes two of the largest entries, with some room to spare.
const _: () = assert!(
    CACHE_SHARD_BYTES_MIN * 9 / 10 * CACHE_PROBATION_PERCENT / 100
        > 2 * (CACHED_BODY_BYTES_MAX + 2 * CACHED_RECORDS_MAX + 128)
);
const _: () = assert!(FAILURE_SECONDS_MIN >= 1 && FAILURE_SECONDS_MAX <= 300);

/// Clients that wait for one question at most; the next gets SERVFAIL. A name that ends its TTL under load
/// is asked for some hundred times until its answer comes.
pub const WAITERS_PER_QUESTION_MAX: u32 = 1024;

/// Client subnets for which one question may be in flight at a time: RFC 5452 §5 wants identical questions
/// asked once, and subnets that a client makes up must not be a way around it (CVE-2025-5994).
pub const SUBNETS_PER_QUESTION_MAX: u32 = 4;

/// Shards of the table of questions in flight.
pub const COALESCER_SHARDS: usize = 16;

/// Servers that one question may go to: a bit each.
pub const SERVERS_PER_EXCHANGE_MAX: u8 = 64;

/// Queries in flight on one socket at most. RFC 5452 §9: each makes a forged id a better guess.
pub const ATTEMPTS_PER_SOCKET_MAX: u16 = 256;

/// Datagrams on a socket that match no query, after which its queries are asked again over a stream. A
/// server that answers twice, or late, sends a few.
pub const MISMATCHES_PER_SOCKET_MAX: u32 = 64;

/// Milliseconds of a tick of deadlines.
pub const DEADLINE_TICK_MS: u64 = 8;

/// Ticks that deadlines may lie ahead: sixteen seconds. A later deadline counts as this.
pub const DEADLINE_TICKS: usize = 2048;

/// Seconds for which a client's cookie is valid. RFC 9018 §4.3: an hour.
pub const COOKIE_SECONDS_MAX: i32 = 3600;

/// Seconds by which the time in a cookie may be ahead. RFC 9018 §4.3: five minutes.
pub const COOKIE_FUTURE_SECONDS_MAX: i32 = 300;

/// Seconds after which a client is given a new cookie. RFC 9018 §4.3: half an hour.
pub const COOKIE_RENEW_SECONDS: i32 = 1800;

/// Seconds after which the secret of cookies changes. RFC 9018 §5 leaves the time to the server; a day is
/// long beside a cookie's hour, so that nearly all are of the current one.
pub const COOKIE_SECRET_SECONDS: u32 = 86_400;

const _: () = assert!(COOKIE_SECONDS_MAX as u32 <= COOKIE_SECRET_SECONDS);

/// Bytes of a line of a domain list. The longest name has 255, and lines of hosts files some of them;
/// AdBlock lists have cosmetic rules of more, which are not ours to read.
pub const LIST_LINE_BYTES_MAX: usize = 4096;

/// Bytes of a client ID: a label of a name.
pub const CLIENT_ID_BYTES_MAX: usize = LABEL_BYTES_MAX;

/// Malformed lines of a list's file that are logged with their numbers; of more, their count is logged.
pub const LIST_LINES_SHOWN_MAX: u64 = 3;

/// Lines of lists that are shown for one name.
pub const EXPLAINED_LINES_MAX: usize = 64;

/// Bytes of a list that is fetched. The largest in use have some tens of MiB.
pub const FETCHED_BYTES_MAX: u64 = 256 << 20;

/// Factor by which a fetched list may have fewer rules than the last one. Below that, it is refused: it may be an
/// error page, or cut off.
pub const LIST_SHRINKS_MAX: u64 = 10;

/// Pause before a list that could not be fetched is fetched again; doubled with each further failure.
pub const FETCH_RETRY_MIN: Duration = Duration::from_secs(10);

/// Longest pause before a list is fetched again.
pub const FETCH_RETRY_MAX: Duration = Duration::from_secs(3600);

/// Pause before files that could not be read are tried again: the disk was full, or the budget in use.
pub const FILES_RETRY_EVERY: Duration = Duration::from_secs(30);

/// Lists, which have a bit each in an index.
pub const LISTS_MAX: u8 = 64;

/// Rules of an index, eight times what large users have. Sixteen bytes each while it is made.
pub const RULES_MAX: usize = 8 << 20;

/// Bytes of the states of a rule's regular expressions, and of the memory for compiling them.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Interval at which the schedules of rules are evaluated: the configuration has no seconds.
pub const SCHEDULES_EVERY: Duration = Duration::from_secs(1);

/// Local names, those of addresses included: large hosts files have some hundred thousand names; more belong in
/// a list.
pub const HOSTS_NAMES_MAX: usize = 500_000;

/// Bytes of the data of a record of a local name or a rule.
pub const RECORD_DATA_BYTES_MAX: usize = 1024;

/// Records of a local name. They go out in one response.
pub const RECORDS_PER_NAME_MAX: usize = 64;

/// Bytes of the records of a local name.
pub const RECORDS_BYTES_MAX: usize = 16 << 10;

/// Rules of the configuration: a bit each in sets that lie on the stack. Names that share an action share a
/// rule, or a list.
pub const RULES_PER_PROGRAM_MAX: usize = 1024;

/// Views of the cache: one for each upstream, and once more for each of the cache policies that rules have.
/// A view's number has 16 bits, and those of the configuration before are still in use.
pub const VIEWS_MAX: usize = 16_384;

const _: () = assert!(2 * VIEWS_MAX < u16::MAX as usize);

/// Bytes of a client's query that waits for its answer: a name, and the options that clients send: a
/// cookie, a subnet, padding up to a block. A longer one waits without its padding and further options.
pub const CLIENT_QUERY_BYTES_MAX: usize = 512;

/// Clients of a worker that wait for answers at most; the next gets SERVFAIL. At 10 ms a question this is
/// 400,000 questions a second that no cache answers.
pub const WAITING_PER_WORKER: u32 = 4096;

/// Clients of a worker that may wait at least, whatever the budget: 25,000 questions a second.
pub const WAITING_PER_WORKER_MIN: u32 = 256;

/// Divisor of the budget for the tables of all workers together, within [`WAITING_PER_WORKER_MIN`] and
/// [`WAITING_PER_WORKER`].
pub const TABLES_SHARE: u64 = 8;

/// Questions that a worker asks at a time at most: each has a client that waits, or is a refresh.
pub const EXCHANGES_PER_WORKER: u32 = 2048;

/// Queries that a worker has out: most questions go to one server, or two.
pub const ATTEMPTS_PER_WORKER: u32 = 4096;

/// Bytes of an exchange in the table of attempts: a name, links and numbers. Measured by a test.
pub const ATTEMPTS_EXCHANGE_BYTES: usize = 316;

/// Bytes of an attempt in that table: the case of a name, links and numbers, and its chain. Measured by a test.
pub const ATTEMPT_BYTES: usize = 60;

/// Queries for one question at most, to all servers and repeated: a race asks each once, and lost queries are sent
/// again some times.
pub const ATTEMPTS_PER_EXCHANGE_MAX: u16 = SERVERS_PER_EXCHANGE_MAX as u16 + 4;

/// Names whose queries a worker counts while there is a query log. A name with one query of so many is
/// among them.
pub const TOP_NAMES_MAX: usize = 128;

/// Names of these that are shown.
pub const TOP_NAMES_SHOWN: usize = 20;

/// Queries for one question to one server over one transport at most. RFC 9520 §3.1.
pub const QUERIES_PER_SERVER_MAX: usize = 3;

/// Pause before a server is asked the same question again; doubled the next time. A resolver that looks for a name
/// takes this long, and a datagram that was lost costs no more.
pub const ASKED_AGAIN_AFTER_MIN: Duration = Duration::from_millis(100);

/// Datagrams that are read, or written, with one system call. Beyond this the call costs nothing any more
/// beside what each datagram costs.
pub const DATAGRAMS_PER_BATCH: usize = 64;

/// Sockets to servers that a worker has open at most, since the descriptors of a process are few.
pub const UPSTREAM_SOCKETS_PER_WORKER: u32 = 1024;

/// Sockets to one server of a worker, at random ports: with the id this makes 22 bits to guess beside the
/// ports themselves. RFC 5452 §9.2.
pub const SOCKETS_PER_SERVER: usize = 64;

/// Queries after which a socket is replaced: an attacker can find a port that stays in use for long.
pub const QUERIES_PER_SOCKET_MAX: u16 = 512;

/// Time after which a socket is replaced, for the same reason.
pub const SOCKET_TIME_MAX: Duration = Duration::from_secs(10);

/// Room for responses that wait to be read on one socket to a server (`SO_RCVBUF`).
pub const UPSTREAM_RECEIVE_BYTES: usize = 64 << 10;

/// Bytes of a datagram from a server: more than is advertised, so that larger ones are noticed.
pub const UPSTREAM_DATAGRAM_BYTES: usize = 4096;

/// Responses in a row that show a server without EDNS, or one that changes the case of names, before queries to it
/// are without EDNS, or in lower case, from the start: a single response may be forged.
pub const FALLBACK_AFTER: u32 = 2;

/// Time for which queries to such a server are so. Afterwards, a router that was updated or replaced is noticed.
pub const FALLBACK_TIME: Duration = Duration::from_secs(900);

/// Failed connections to a server in a row up to which questions wait for the next one: it is tried within a fifth
/// of a second. After more of them, the server counts as gone.
pub const CONNECTS_AWAITED_MAX: u32 = 2;

/// Shortest time that a hedge waits for its first server: below, scheduling and not the server is measured.
pub const HEDGE_AFTER_MIN: Duration = Duration::from_millis(10);

/// Shortest time that a server is waited for before the next one is asked, under policies other than to hedge:
/// a cold resolver takes some hundred milliseconds for a name that it has to look for.
pub const PATIENCE_MIN: Duration = Duration::from_millis(250);

/// Failures in a row after which a server is asked last.
pub const SERVER_FAILURES_MAX: u32 = 3;

/// Time for which a server is asked last after failures. Probes find out sooner if it is back; this is for a server
/// that drops those.
pub const SERVER_REST: Duration = Duration::from_secs(30);

/// Interval of each worker's probes of a server that is down; a quarter more or less, at random, so that workers
/// and nodes do not send them at once.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Time for which a probe waits for its response: less than the time to the next one.
pub const PROBE_TIME_MAX: Duration = Duration::from_millis(700);

/// Encrypted listeners that a client is referred to: one for each network and protocol is plenty.
pub const DESIGNATIONS_MAX: usize = 8;

/// Bytes of a designation's data: a name, and five short parameters.
pub const DESIGNATION_BYTES_MAX: usize = NAME_BYTES_MAX + 96;

/// Path of requests of DNS over HTTPS. RFC 8484 leaves it open; this is the usual one.
pub const DOH_PATH: &str = "/dns-query";

/// Bytes of a query that comes by HTTP: as many as on a connection of DNS.
pub const DOH_QUERY_BYTES_MAX: usize = CLIENT_READ_BYTES - 2;

/// Bytes of names and data in a response as JSON. Pointers let a message repeat a name of 255 bytes, of which
/// each takes four to write, with every record of twelve.
pub const DOH_JSON_BYTES_MAX: usize = 256 << 10;

/// Parameters of a target that are looked at: five have a meaning.
pub const DOH_PARAMETERS_MAX: usize = 16;

/// TTL in seconds of answers that the forwarder makes itself, for local, blocked and special-use names: clients
/// notice a change of the configuration that soon.
pub const LOCAL_TTL_SECONDS: u32 = 60;

/// Interval at which sockets that were open for long enough are closed.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Reads from a socket in a row before others have their turn.
pub const READS_PER_TURN_MAX: usize = 8;

const _: () = assert!(ATTEMPTS_PER_WORKER >= EXCHANGES_PER_WORKER);
const _: () = assert!(UPSTREAM_DATAGRAM_BYTES > UDP_PAYLOAD_BYTES);
const _: () = assert!(CLIENT_QUERY_BYTES_MAX <= UDP_PAYLOAD_BYTES);
// Header, question, OPT with a cookie, a subnet, and two options without data.
const _: () = assert!(12 + NAME_BYTES_MAX + 4 + 11 + 44 + 24 + 8 <= CLIENT_QUERY_BYTES_MAX);

/// Longest time to establish a connection to a server; the timeout of a question is mostly shorter.
pub const UPSTREAM_CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Time for which a connection to a server is kept without a query. RFC 7766 §6.2.3: in the order of a few
/// seconds.
pub const UPSTREAM_IDLE_TIME: Duration = Duration::from_secs(8);

/// Time for which a connection over TLS is kept without a query: a new one costs more. RFC 7858 §3.4.
pub const UPSTREAM_SECURE_IDLE_TIME: Duration = Duration::from_secs(30);

/// Time for which a connection to a server may bring nothing while a query waits. After that the path is broken,
/// which TCP takes minutes to notice.
pub const UPSTREAM_STALL_TIME: Duration = Duration::from_secs(5);

/// Pause after a failed connection to a server; doubled with each further failure, up to [`CONNECT_AGAIN_MAX`].
pub const CONNECT_AGAIN_MIN: Duration = Duration::from_millis(50);

/// Longest pause after failed connections to a server.
pub const CONNECT_AGAIN_MAX: Duration = Duration::from_secs(1);

/// Bytes of queries that wait for a connection to a server to take them: the largest ones, as many as may be
/// out on it.
pub const STREAM_QUEUE_BYTES_MAX: usize =
    ATTEMPTS_PER_SOCKET_MAX as usize * (UPSTREAM_QUERY_BYTES_MAX + 2);

/// Bytes that a connection to a server is charged with before it has anything to read or write: its task, and
/// the buffers that it keeps for queries.
pub const STREAM_BYTES: usize = (1 << 10) + 256 + 2 * OUT_BYTES_KEPT;

/// Bytes that are read at first of a connection to a server: some responses.
pub const STREAM_READ_BYTES: usize = 4 << 10;

/// Bytes that a server by HTTPS may send on all streams before they are read: two of the longest messages. A stream has
/// the window of the protocol, which is one.
pub const HTTPS_WINDOW_BYTES: usize = 128 << 10;

/// Streams of a connection by HTTPS before its server has announced a limit: RFC 9113 §6.5.2 recommends that the
/// limit be no smaller.
pub const HTTPS_STREAMS_FIRST: usize = 100;

/// Bytes that are read at once of a server by HTTPS: a record of TLS.
pub const HTTPS_READ_BYTES: usize = 16 << 10;

/// Bytes of the fields of a response by HTTPS, as RFC 9113 §6.5.2 counts them.
pub const HTTPS_FIELDS_BYTES_MAX: usize = 16 << 10;

/// Bytes that a client of HTTPS is charged with: the state of HTTP/2, its tables of fields, and a reserve for when
/// the budget has no room.
pub const HTTPS_CLIENT_BYTES: usize =
    ConnectionMemory::reserved_bytes() + ConnectionMemory::serving_bytes() + (2 << 10);

/// Bytes that a connection by HTTPS is charged with beside [`STREAM_BYTES`] and its client: its read buffer.
pub const HTTPS_BYTES: usize = HTTPS_READ_BYTES;

/// Bytes of a stream in the tables of a client of HTTPS. They double when they grow, up to
/// [`ATTEMPTS_PER_SOCKET_MAX`] streams, and keep their places.
pub const HTTPS_STREAM_BYTES: usize = 176;

const _: () = assert!(MESSAGE_BYTES_MAX <= WINDOW_BYTES_DEFAULT as usize);
const _: () = assert!(HTTPS_STREAMS_FIRST <= ATTEMPTS_PER_SOCKET_MAX as usize);
const _: () = assert!(HTTPS_WINDOW_BYTES > MESSAGE_BYTES_MAX);

/// Time for which a bootstrap resolver may take to answer.
pub const BOOTSTRAP_TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes of a response with addresses of a server.
pub const BOOTSTRAP_RESPONSE_BYTES_MAX: usize = 4096;

/// Shortest time that addresses of a server are kept: not every connection is worth a question.
pub const BOOTSTRAP_TTL_MIN: Duration = Duration::from_secs(1);

/// Longest time that addresses of a server are kept.
pub const BOOTSTRAP_TTL_MAX: Duration = Duration::from_secs(86_400);

/// Addresses of a server that are kept.
pub const SERVER_ADDRESSES_MAX: usize = 16;

const _: () = assert!(PROBE_TIME_MAX.as_millis() * 4 < PROBE_EVERY.as_millis() * 3);

/// Client connections of a worker. For one more, the connection that was idle for the longest time is closed.
pub const CONNECTIONS_PER_WORKER_MAX: usize = 4096;

/// Questions of a connection that wait for answers; while there are so many, it is not read.
pub const QUERIES_PER_CONNECTION_MAX: u16 = 128;

/// Bytes that are read of a connection at once, and the longest query there.
pub const CLIENT_READ_BYTES: usize = 4096;

/// Bytes that a connection is charged with for as long as it is open: its task, its deadline, its places in tables,
/// and the buffers that it keeps for responses. Bytes that are read, and TLS, are charged separately.
pub const CONNECTION_BYTES: usize = 2304 + 2 * OUT_BYTES_KEPT;

/// Bytes for responses that a connection keeps in each of its two buffers when they are empty.
pub const OUT_BYTES_KEPT: usize = 1 << 10;

/// TLS handshakes that a listener has in progress on a worker; for one more, another one is ended.
pub const HANDSHAKES_PER_WORKER_MAX: usize = 256;

/// Longest time of a TLS handshake: a client on a bad line takes some seconds.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of responses that wait for a client to read them, from which on its connection is not read.
pub const RESPONSE_BYTES_WAITING_MAX: usize = 64 << 10;

/// Time for which a connection may have no question. RFC 7766 §6.2.3: in the order of seconds.
pub const CLIENT_IDLE_TIME: Duration = Duration::from_secs(10);

/// Time for which a client may read nothing of a response.
pub const CLIENT_WRITE_STALL: Duration = Duration::from_secs(5);

const _: () = assert!(CLIENT_READ_BYTES >= CLIENT_QUERY_BYTES_MAX + 2);

/// One in this many questions goes to a random server first, under policies that prefer the fastest: a slow server
/// that has become fast is noticed by that, and one that is gone costs no more than this share of the questions.
pub const EXPLORE_EVERY: u32 = 64;

/// Buckets of a table of rates: as many networks, or zones, are told apart. A full bucket needs no place, so only
/// the networks or zones of one second take one.
pub const BUCKETS_PER_TABLE: usize = 8192;

/// Time for which a network that has proven its address has no limit on bytes. A resolver asks by TCP now and then;
/// RFC 9018 §4.3 has an hour for a cookie.
pub const PROVEN_FOR: Duration = Duration::from_secs(600);

/// One in this many responses beyond `unproven_bytes_per_s` is sent truncated; the others are dropped. A client
/// that did ask then asks by TCP, and a victim gets fewer bytes than were sent in its name.
pub const SLIP: u32 = 2;

/// One in this many misses that a zone is allowed may look like data: a tunnel needs hundreds of names in a
/// second.
pub const ENCODED_MISSES_SHARE: u32 = 10;

/// Time for which a zone that was logged is not logged again.
pub const ZONE_REPORT_QUIET: Duration = Duration::from_secs(600);

/// Zones that are logged in a second at most.
pub const ZONE_REPORTS_PER_S_MAX: u32 = 5;

/// Bytes below a zone from which on a name may be data: a tunnel has few bytes a name to carry anything in,
/// so it fills them.
pub const ENCODED_BYTES_MIN: usize = 32;

/// One byte in so many of encoded data at least is neither a letter nor a hyphen: base32, which has
/// fewest, has six digits of thirty-two.
pub const ENCODED_DIGITS_SHARE: usize = 16;

/// Pairs of bytes, in percent, that are the same at most in encoded data: six in hexadecimal digits, and
/// more by chance.
pub const ENCODED_COINCIDENCES_PER_100_MAX: usize = 8;

/// Interval at which the cache is written to its file. A crash loses only the responses since then.
pub const SNAPSHOT_EVERY: Duration = Duration::from_secs(600);

/// Bytes that are read from the cache's file, or written to it, at once.
pub const SNAPSHOT_BUFFER_BYTES: usize = 64 << 10;
