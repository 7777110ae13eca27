//! The DNS forwarder.
//!
//! Its core takes bytes and the time, and returns bytes and decisions: `wire` reads and writes messages in buffers of
//! the caller; `cache` stores responses; `in_flight` tracks questions, their waiting clients and the queries sent for
//! them; `rules` evaluates domain lists and rules. The shell around it is `service`, which a node runs, `snapshot`, a
//! configuration in force, and `worker` with the sockets.
//!
//! Non-goals: recursion, and DNSSEC validation. Terms are those of RFC 9499.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! The core:
//!
//! - `wire.rs`: messages on the wire
//!   - `message.rs`: sections of a message, and its OPT record
//!   - `header.rs`, `record.rs`, `name.rs`, `rdata.rs`: header, records, names, names in record data
//!   - `edns.rs`: OPT record and EDNS options
//!   - `query.rs`: client queries: accepted, refused or dropped
//!   - `upstream_query.rs`: queries to servers
//!   - `response.rs`: server responses: meaning, and records passed on
//!   - `body.rs`: cached form of a response
//!   - `reply.rs`, `truncate.rs`: responses to clients, and their truncation
//!   - `write.rs`: writer into a fixed buffer
//!   - `code.rs`, `type_name.rs`, `mnemonic.rs`: types, classes, opcodes and response codes, and their names
//!   - `error.rs`: parse errors
//! - `cache.rs`: response cache of fixed size
//!   - `shared.rs`: cache of all workers, sharded by hash
//!   - `shard.rs`, `shard/`: one shard, and its eviction (S3-FIFO)
//!   - `ring.rs`, `index.rs`: storage of entries, and hash index
//!   - `entry.rs`, `key.rs`, `memory.rs`: layout of an entry, cache key, raw numbers in memory
//!   - `admit.rs`: storability and lifetime of a response
//!   - `lookup.rs`: lookup results, serve-stale settings
//!   - `snapshot.rs`: cache file for restarts
//! - `in_flight.rs`: questions in flight
//!   - `coalesce.rs`: coalescing of identical questions, across workers
//!   - `attempts.rs`: queries sent, matched with received responses
//!   - `wheel.rs`: timer wheel
//! - `rules.rs`: domain lists and rules
//!   - `syntax.rs`: parser of list lines: hosts, domains, AdBlock, RPZ
//!   - `builder.rs`, `index.rs`: construction and lookup of the list index
//!   - `program.rs`: compiled rules: the deciding rule of a query
//!   - `names.rs`, `pattern.rs`: names and regular expressions of rules
//!   - `settings.rs`: settings of rules that do not decide: cache policy, logging, rate
//! - `hosts.rs`, `hosts/`: local names: table of names, record data
//! - `special_use.rs`: special-use names, answered without forwarding (RFC 6761 and others)
//! - `rebinding.rs`: private addresses in public responses (rebinding protection)
//! - `rate_limit.rs`, `rate_limit/`: rate limits of client networks and zones: token buckets (`buckets.rs`); zone of a
//!   name, and names that carry data (`zone.rs`)
//! - `cookie.rs`: server cookies (RFC 7873, RFC 9018)
//! - `client.rs`: client address and client id, matched by rules
//! - `schedule.rs`: time windows of rules
//! - `manner.rs`: reply options of a client: cookie, padding, keepalive, size
//! - `answer.rs`: answer of a question, with its extended error and client subnet scope
//! - `designation.rs`: discovery of designated resolvers (DDR, RFC 9462)
//! - `doh.rs`, `doh/`: DNS over HTTPS: request to query, response to content, JSON form
//! - `https_client.rs`: queries to a server by HTTPS, as streams of one HTTP/2 connection
//!   - `target.rs`: target and fields of a request
//!   - `query.rs`: a query that is out, and its response so far
//!   - `receive.rs`: received events, and outcomes of queries
//!   - `section.rs`: fields of a response
//!   - `outcome.rs`, `error.rs`: outcomes and errors of queries
//! - `siphash.rs`: SipHash
//! - `sizes.rs`: room of the tables of a worker
//! - `needs.rs`: bytes that are reserved before anything is served
//! - `top_names.rs`: most queried names (Space-Saving)
//! - `limits.rs`: every bound of the crate, with its reason
//!
//! The shell:
//!
//! - `service.rs`: the forwarder as a service of the node
//!   - `reading.rs`, `ahead.rs`: lists and hosts read ahead of a configuration change
//!   - `reread.rs`: reloading of changed files, and schedules
//!   - `fetching.rs`, `fetching/`: refresh of lists by URL; check of a fetched list (`contents.rs`)
//! - `config.rs`, `config/`: settings of the forwarder as valid types
//!   - `keys.rs`, `keys/`: keys of `[dns]`, with their checks and builds; `forms.rs`: forms of strings
//! - `snapshot.rs`: configuration in force
//!   - `aliases.rs`: aliases of responses that lead to names of lists
//!   - `plan.rs`: cache and serving policy of each upstream
//!   - `views.rs`: cache views, by which responses of different upstreams stay apart
//! - `files.rs`, `files/`: files of lists and hosts, read off the workers and charged
//! - `fetch.rs`: trait of the list downloader, which the node implements
//! - `cache_file.rs`: thread that loads and saves the cache file
//! - `shared.rs`: state of all workers across configurations: cache, questions in flight, hash keys, rate limits
//! - `wakes.rs`: notification of clients on other workers
//! - `worker.rs`: a worker of the forwarder: start, change of configuration, drain
//!   - `intake.rs`: channels and memory given to a worker at its start
//!   - `state.rs`: state shared by the worker's tasks
//!   - `charged.rs`: charge of bytes that wait to be written
//!   - `decide.rs`: answer of a query: rules, local names, cache, or upstream
//!   - `clients.rs`: clients that wait for a question in flight
//!   - `limited.rs`: handling of rate-limited queries and responses
//!   - `asking.rs`: choice of server and transport for the next query
//!   - `exchanges.rs`: questions being asked, and the next step of each
//!   - `upstream.rs`, `server.rs`: state of an upstream, and of a server
//!   - `times_asked.rs`: attempts by server and transport (RFC 9520)
//!   - `carriers.rs`: sockets and connections that queries are sent on
//!   - `received.rs`: handling of server responses
//!   - `denials.rs`: denials without an SOA, while other servers are asked
//!   - `fallback.rs`, `fallbacks.rs`: servers without EDNS, or that change the case of names
//!   - `reconnects.rs`: questions that wait for the next connection to a server
//!   - `probes.rs`: probes of servers that are down
//!   - `subnets.rs`: client subnet (RFC 7871)
//!   - `complete.rs`: delivery of an answer to all waiting clients
//!   - `datagrams.rs`: UDP read tasks, of clients and servers
//!   - `streams.rs`: TCP and TLS listeners: accept, PROXY header, handshake
//!   - `client_stream.rs`, `connection.rs`, `connections.rs`: client connections: task, state, table with eviction
//!   - `streams_upstream.rs`: connections to servers over TCP, TLS and HTTP/2
//!   - `connecting.rs`, `queue.rs`, `silence.rs`: connection to a server: state, queue of queries, idle timeout
//!   - `line.rs`, `https.rs`: length-prefixed messages over TCP or TLS; DNS over HTTPS
//!   - `addresses.rs`: addresses of servers configured by name (bootstrap)
//!   - `in_process.rs`, `askers.rs`: queries from the gateway (DNS over HTTPS), and their waiting requests
//!   - `timer.rs`: timer task
//!   - `log.rs`: query log of a worker
//! - `query_log.rs`: query log: fields and format of a line
//! - `servers.rs`: health and latency of servers, over all workers
//! - `report.rs`: report for `/dns`
//! - `explain.rs`: deciding rule of a name, for `steppe dns explain`
//! - `tls.rs`: TLS to servers, with session resumption across workers
//! - `metrics.rs`, `metrics/`: metrics of workers and of lists

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

mod answer;
pub mod cache;
mod cache_file;
pub mod client;
pub mod config;
pub mod cookie;
mod designation;
pub mod doh;
pub mod explain;
pub mod fetch;
mod files;
pub mod hosts;
pub mod https_client;
pub mod in_flight;
pub mod limits;
mod manner;
mod metrics;
mod needs;
mod query_log;
pub mod rate_limit;
pub mod rebinding;
pub mod report;
pub mod rules;
pub mod schedule;
mod servers;
mod service;
mod shared;
pub mod siphash;
mod sizes;
mod snapshot;
pub mod special_use;
mod tls;
mod top_names;
mod wakes;
pub mod wire;
mod worker;

pub use files::{FilesError, WhyLeftOut};
pub use metrics::{DnsCollector, DnsMetrics};
pub use needs::{FilesBytes, FixedBytes, check_files, measure_files};
pub use service::{DnsContext, DnsService};
pub use worker::{Asked, Asking, Unanswered};
