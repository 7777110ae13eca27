//! The HTTP gateway.
//!
//! `gateway` accepts connections and routes requests, a codec (`h1`, `h2`) reads and writes messages, `relay`
//! transfers one exchange between its two sides, `upstream` pools the connections to servers.
//!
//! Non-goals: sockets and threads (`steppe-net`), configuration files and signals (`steppe-node`). It does not know
//! DNS or the request plane.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `service.rs`: the gateway as a service of the node
//! - `config.rs`, `config/`: settings of the gateway as valid types: listeners, routes, upstreams, filters, TLS
//!   - `site.rs`: sites, the short form of a configuration, expanded
//!   - `keys.rs`, `keys/`: keys of these settings, what they say together, and how they are built
//! - `gateway.rs`: listeners, routes and upstreams of a configuration
//!   - `worker.rs`: a worker of the gateway: start, change of configuration, drain
//!   - `acceptor.rs`: connections of a listener, as `steppe-net` accepts them
//!   - `listener.rs`: settings and counts of a listener that its connections share
//!   - `client.rs`: client connection, shared by its exchanges
//!   - `sessions.rs`: sessions of a listener that are no byte streams
//!   - `snapshot.rs`: configuration of a worker, and the worker's state across configurations
//!   - `units.rs`: listeners, routes and upstreams, each of which makes its next generation
//!   - `ending.rs`: end of a generation
//!   - `exchange.rs`: an exchange, from its request to its end
//!     - `stages.rs`: stages of an exchange, and what each waits for
//!     - `env.rs`, `journal.rs`: what a poll has at hand; what is counted, logged and traced
//!     - `request.rs`: request of an exchange, and its end
//!     - `begin.rs`, `routed.rs`: routing; request that has a route
//!     - `on_route.rs`: stage of a request that has a route: filters, then attempts
//!     - `filtering.rs`: request filters, one after the other
//!     - `subrequest.rs`: subrequests of a filter, through the rest of its route
//!     - `forwarding.rs`: attempts: checkout of a connection, or a response made here
//!     - `relaying.rs`, `standing.rs`: one attempt: relay of content; facts that decide about blame and retries
//!     - `retry.rs`: retry decision
//!     - `hedging.rs`: hedged second attempt
//!     - `tap.rs`: inspection of relayed parts: counts, trailers, response filters
//!     - `tunneling.rs`: stage of tunnels
//!     - `refusing.rs`: stage of error responses
//!     - `grpc_call.rs`: gRPC status of an exchange
//!     - `trace.rs`: trace context and span
//!     - `log.rs`: metrics and access log at the end
//!     - `pool.rs`: idle exchanges, reused
//!   - `attempt.rs`: one attempt: a stream to a server, or a local response
//!   - `forwarded_fields.rs`: `Forwarded` and `X-Forwarded-*` fields of outgoing requests
//!   - `replay.rs`: request content kept for retries
//!   - `redirect.rs`: redirects of a listener to HTTPS
//!   - `tls.rs`: files of a configuration (certificates, keys, users, error pages), and the TLS session of a
//!     connection
//!   - `web.rs`: translation of gRPC-Web to gRPC
//!   - `labels.rs`: label values of a configuration's metrics
//! - `codec.rs`: trait of a downstream codec
//! - `codecs.rs`, `codecs/`: protocols by their configured names; the choice by ALPN or connection preface
//! - `exchange.rs`: traits of an exchange's two sides, and parts of content
//! - `relay.rs`, `relay/`: relay of one exchange, both directions at once
//! - `due.rs`: deadline with its reason
//! - `h1.rs`: HTTP/1.1
//!   - `server.rs`, `client.rs`: downstream and upstream connections
//!   - `head_reader.rs`: reader of requests
//!   - `server_side.rs`: downstream connection as an exchange sees it
//!   - `parse.rs`: parser of heads and trailers
//!   - `framing.rs`: message length
//!   - `chunked.rs`: decoder of the chunked transfer coding
//!   - `encode.rs`: encoder of heads
//!   - `reader.rs`, `writer.rs`: content in, heads and content out
//!   - `wire.rs`: connection with its unread bytes
//!   - `error.rs`: parse errors as gateway errors
//! - `h2.rs`: HTTP/2 on either side, on `steppe-h2`
//!   - `endpoint.rs`: endpoint of a connection: reads, hands events to the streams, writes
//!   - `link.rs`: state of a connection and its streams
//!   - `inbox.rs`: received parts of a stream
//!   - `reading.rs`: input, with and without room
//!   - `section.rs`: received field section
//!   - `head.rs`: trailers, and lines to be sent
//!   - `send_head.rs`: head or trailers on the way to the connection
//!   - `incoming.rs`, `outgoing.rs`: content in and out
//!   - `server.rs`: connections with clients: their memory, beginning and end
//!     - `connection.rs`: task of a connection: takes requests, and ends
//!     - `tasks.rs`: tasks of streams, which serve one after the other
//!     - `serving.rs`: exchange of a stream
//!     - `head.rs`: heads of requests, field lines of responses
//!     - `stream.rs`: stream of an exchange
//!   - `client.rs`: connections with servers, and their tasks
//!     - `shared.rs`: state that task, streams and pool share
//!     - `head.rs`: field lines of requests, heads of responses
//!     - `stream.rs`, `place.rs`: stream of an exchange, and its memory
//!     - `unsent.rs`: requests that wait until their connection takes them
//!   - `windows.rs`: flow-control windows
//!   - `turns.rs`: scheduling of streams
//!   - `priority.rs`: `priority` field (RFC 9218)
//!   - `silence.rs`: keepalive PING to silent servers
//!   - `websocket.rs`: WebSocket over extended CONNECT (RFC 8441)
//! - `upstream.rs`: connection pool of an upstream, for each worker
//!   - `call.rs`: one request to one server, and the verdict on the server
//!   - `pool.rs`, `stream.rs`: checkout and connecting, permission of retries and hedges; stream of a pooled connection
//!   - `channel.rs`: traits of an upstream codec, of its connections and of their streams
//!   - `connector.rs`: establishment of connections
//!   - `under_way.rs`: connections being established, shared by waiting requests
//!   - `idle.rs`: idle connections
//!   - `picker.rs`: load balancing
//!   - `selection.rs`: server selection of one request: affinity, hash key, servers tried
//!   - `sticky.rs`: session affinity by cookie, and keys of `hash_on`
//!   - `state.rs`, `target.rs`: state of servers, and of a server at one address
//!   - `latency.rs`: latency of a server (peak EWMA)
//!   - `probe.rs`: active health checks
//!   - `breaker.rs`: circuit breaker
//!   - `retry_budget.rs`: retry budget
//!   - `hedge.rs`: hedging delay by latency percentile
//!   - `random.rs`, `uptime.rs`: pseudorandom numbers and stable hashes; times as atomics
//!   - `report.rs`, `metrics.rs`: state for `/upstreams`; metrics of servers, retries and probes
//!   - `error_lines.rs`: counts of its lines of the error log
//! - `head.rs`: request and response heads
//! - `field.rs`, `field/`: field lines as offsets into the head's bytes: edits, hop-by-hop fields (`strip.rs`)
//! - `encoder.rs`: text of heads and field values into existing memory
//! - `message.rs`: `Content-Length` and `Expect`
//! - `target.rs`: request target and `Host`
//! - `host.rs`: hosts and authorities
//! - `path.rs`, `path/`: path normalization, and path patterns of routes
//! - `router.rs`, `router/`: route matching: host tables, path tries, predicates
//! - `filter.rs`: traits of filters, and instructions for a new one
//!   - `factory.rs`, `kinds.rs`: filters from a configuration; list of kinds
//!   - `explained.rs`: decision of a filter for `steppe explain`
//!   - `attached.rs`: filter states of one exchange, and content rewriting
//!   - `authorize.rs`: `authorize`: rules on method, path and claims
//!   - `basic_auth.rs`, `basic_auth/`: `basic-auth`: password authentication, htpasswd files
//!   - `cache.rs`: `cache`: responses from the store
//!   - `compress.rs`, `compress/`: `compress`: gzip, Zstandard and Brotli encoders, protection against BREACH
//!   - `cors.rs`: `cors`: cross-origin access
//!   - `error_pages.rs`: `error-pages`: replacement of error bodies
//!   - `forward_auth.rs`: `forward-auth`: authorization by another service
//!   - `ip.rs`: `ip`: allowed and denied networks
//!   - `api_keys.rs`, `api_keys/`: `api-keys`: keys of clients by their hashes
//!   - `jwt.rs`, `jwt/`: `jwt`: JSON Web Tokens, key files, key sets by URL
//!   - `rate_limit.rs`, `rate_limit/`: `rate-limit`: token buckets, concurrency limits, shared store
//!   - `redirect.rs`: `redirect`: redirects
//!   - `request_id.rs`: `request-id`: request identifiers
//!   - `security_headers.rs`: `security-headers`: security fields of responses
//!   - `transform.rs`, `transform/`: `transform`: rewriting of paths, queries, fields and JSON content
//!   - `json_bytes.rs`: most memory of parsed JSON
//!   - `token.rs`: authenticated identity, passed to later filters
//!   - `sources.rs`: places of a request that a token or a key is in
//!   - `representation.rs`: validators and digests of rewritten content
//!   - `testing.rs`: exchange for filter tests
//! - `cache.rs`: stored responses (RFC 9111)
//!   - `lookup.rs`: look-up of a request
//!   - `key.rs`, `forwarded.rs`: primary keys, and the forwarding fields in them
//!   - `variant.rs`, `credentials.rs`: secondary keys by `Vary`; kinds of credentials
//!   - `control.rs`: cache directives
//!   - `freshness.rs`: storability, freshness and staleness
//!   - `validation.rs`: conditional requests for stored responses, and their 304
//!   - `fetch.rs`: a fetch for all requests that want it at once (request collapsing), and its end
//!   - `in_flight.rs`: the part of a fetch that waiting requests share
//!   - `sink.rs`: client's side of the exchange that fetches
//!   - `background.rs`, `hit_for_pass.rs`: bound of fetches without a client; marks of responses that are not stored
//!   - `store.rs`: sharded store
//!   - `queues.rs`: eviction (S3-FIFO)
//!   - `stored.rs`: stored response
//!   - `body.rs`: content with one writer and many readers
//!   - `reader.rs`: response from the store, ranges and 304 included
//!   - `stats.rs`, `report.rs`: counts; reports and purging for admin
//!   - `testing.rs`: store for tests
//! - `conditional.rs`: preconditions (RFC 9110 §13) of requests for files and for stored responses
//!   - `range.rs`, `multipart.rs`: `Range` and `Content-Range`; `multipart/byteranges`
//! - `local.rs`: responses of the gateway itself: trait `Responder`
//! - `respond.rs`: `respond` upstream: a fixed response
//! - `files.rs`: `files` upstream: static files
//!   - `lookup.rs`: path to file
//!   - `listing.rs`: lists of folders without an index
//!   - `answer.rs`: response heads
//!   - `content.rs`: file content in chunks
//!   - `coding.rs`: negotiation by `Accept-Encoding`
//!   - `validators.rs`: `ETag` and `Last-Modified` of a file
//!   - `media_type.rs`: `Content-Type` by extension
//! - `guest.rs`, `guest/`: requests answered by another service of the process
//! - `grpc.rs`, `grpc/`: gRPC: deadlines, status codes, media types, gRPC-Web messages
//! - `forwarded.rs`, `forwarded/`: client address from trusted `Forwarded` and `X-Forwarded-*` fields
//! - `max_forwards.rs`: `Max-Forwards`
//! - `coding.rs`: content codings by name
//! - `date.rs`: HTTP dates
//! - `status.rs`: reason phrases
//! - `error.rs`: gateway errors: reason, origin, response status, retry safety
//! - `age.rs`: maximum age of a client connection
//! - `linger.rs`: lingering close
//! - `socket_buffers.rs`: socket buffer sizes by budget
//! - `access.rs`, `access/`: access log: records, formats, escaping
//! - `error_log.rs`: error log: requests that failed at their upstream
//! - `metrics.rs`, `metrics/`: metrics: cells of workers, label values, series
//! - `certificates.rs`: listener certificates: report, metrics, reload of files
//! - `key_sets.rs`: refresh and metrics of the key sets of `jwt`
//! - `observers.rs`: access log and traces of a snapshot
//! - `explain.rs`: routing and filter decisions of a described request, for `steppe explain`
//! - `limits.rs`: every bound of the crate, with its reason

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

pub mod access;
mod age;
pub mod cache;
pub mod certificates;
pub mod codec;
pub mod codecs;
pub mod coding;
pub mod conditional;
pub mod config;
pub mod date;
mod due;
mod encoder;
pub mod error;
mod error_log;
pub mod exchange;
pub mod explain;
pub mod field;
pub mod files;
pub mod filter;
pub mod forwarded;
pub mod gateway;
pub mod grpc;
pub mod guest;
pub mod h1;
pub mod h2;
pub mod head;
pub mod host;
pub mod key_sets;
pub mod limits;
mod linger;
pub mod local;
pub mod max_forwards;
mod message;
pub mod metrics;
pub mod observers;
pub mod path;
pub mod relay;
pub mod respond;
pub mod router;
pub mod service;
pub mod socket_buffers;
pub mod status;
mod target;
pub mod upstream;

// Unit tests measure what is charged.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: steppe_mem::alloc::Counted<std::alloc::System> =
    steppe_mem::alloc::Counted(std::alloc::System);

// What tests of the library share with those beside it calls it by its name.
#[cfg(test)]
extern crate self as steppe_http;

use std::sync::Arc;

pub use gateway::Gateway;
pub use service::{HttpContext, HttpService};

/// Every protocol that this crate speaks.
#[must_use]
pub fn codecs() -> codecs::Codecs {
    let (h1, h2) = (Arc::new(h1::Http1), Arc::new(h2::Http2));
    codecs::Codecs::default()
        .with_downstream(config::H1, h1.clone())
        .with_downstream(config::H2, h2.clone())
        .with_downstream(config::H2C, h2.clone())
        .with_upstream(config::H1, h1)
        .with_upstream(config::H2, h2)
}
