//! The node as a library: services, configuration, admin server and process of the binary `steppe`.
//!
//! The node is a library so that tests and fuzz targets reach it; `main.rs` of the binary calls it.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `bind_help.rs`: advice about addresses that can't be listened on
//! - `cli.rs`: command line
//!   - `cert.rs`, `cert/`: `steppe cert`: certificates of a file or a server
//!   - `init.rs`, `expand.rs`, `format.rs`: `steppe init`, `expand` and `fmt`: a first configuration, its long form, its
//!     layout
//!   - `check.rs`: `steppe check`
//!   - `key.rs`: `steppe key`: keys for clients of an `api-keys` filter
//!   - `dns.rs`, `dns/`: `steppe dns`: query, explain, flush
//!   - `plane.rs`, `plane/`: `steppe plane`: call, echo, bench, workers
//!   - `explain.rs`: `steppe explain`: route and filters of a request
//!   - `health.rs`: `steppe health`: readiness check
//!   - `manual.rs`: `steppe man`: manual pages
//!   - `reference.rs`: generator of the command-line reference
//!   - `source.rs`: arguments of commands that read a configuration
//!   - `console.rs`, `code.rs`: output of commands; exit codes
//! - `config.rs`: configuration file, TOML or JSON
//!   - `keys.rs`, `keys/`: the node's own keys, joined with the tables of its services
//!   - `sites.rs`: sites, expanded before the file is read
//!   - `origin.rs`: files that a configuration was read from, and their changes
//!   - `check.rs`, `check/`: checks across several keys
//!   - `build.rs`, `build/`: typed values to configuration types of the services
//!   - `embedded.rs`: embedded default, and changes by command line and file limit
//!   - `memory_budget.rs`, `budget.rs`: memory budget, as a size or a share; its mistakes on a machine
//!   - `machine.rs`, `machine/`: checks of files, folders, addresses and ports
//!   - `manual.rs`: manual page `steppe.toml(5)`
//!   - `reference.rs`, `reference/`: generator of the configuration reference
//!   - `limits.rs`: bounds of a configuration
//! - `default.toml`: embedded default configuration
//! - `node.rs`, `node/`: start, run and shutdown of the node: startup checks (`prepare.rs`), worker threads, signals,
//!   banner, sample request
//! - `needs.rs`: reservations of the memory budget before the node serves
//! - `services.rs`: list of services: gateway, forwarder, request plane
//! - `observation.rs`: access log and traces, and their changes
//! - `reload.rs`, `reload/`: configuration reload, and its metrics
//! - `admin.rs`: admin server
//!   - `server.rs`, `connections.rs`, `stall.rs`: accept loop; connection limit; timeout of stalled peers
//!   - `access.rs`, `token.rs`: access control; bearer token
//!   - `endpoints.rs`: endpoints
//!   - `metrics.rs`: `/metrics`, in the format that the scraper accepts
//!   - `readiness.rs`: `/readyz`
//!   - `live.rs`, `live/`: `/events`: one snapshot a second
//!   - `page.rs`, `page/`: admin page: HTML, style, scripts
//!   - `cache.rs`, `cache/`, `certificates.rs`, `dns.rs`, `plane.rs`, `upstreams.rs`: endpoints of the same names
//!   - `heap_profile.rs`: `/memory/profile`
//!   - `rate.rs`: rounding of rates and shares
//!   - `trust.rs`: trust of the admin certificate by `steppe health` and `steppe top`
//!   - `limits.rs`: bounds of the admin server
//! - `admin_client.rs`: HTTP client of the admin server, for commands
//! - `top.rs`, `top/`: `steppe top`: event feed, view, panels, tables, plain text
//! - `memory.rs`, `memory/`: memory attribution, for `/memory`: mappings, stacks, allocator, overhead
//! - `allocator.rs`, `allocator/`: global allocator by cargo feature, and its figures
//! - `demo.rs`, `demo/`: demo origin of the default configuration, with a self-signed certificate
//! - `doh.rs`: DNS over HTTPS: gateway requests answered by the forwarder
//! - `plane_upstream.rs`, `plane_upstream/`: upstreams of the gateway that are services of the request plane
//! - `web_client.rs`: HTTP client with redirects, for downloads
//! - `list_client.rs`: download of domain lists
//! - `key_client.rs`: download of JWT key sets
//! - `trace_export.rs`: export of spans over OTLP/HTTP
//! - `notify.rs`: service manager notifications (`sd_notify`, watchdog)
//! - `container.rs`: memory limit of the machine or its control groups
//! - `rlimits.rs`: limit on open files, and the connections that it allows

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

pub mod admin;
mod admin_client;
pub mod allocator;
mod bind_help;
pub mod cli;
pub mod config;
pub mod container;
pub mod demo;
mod doh;
mod key_client;
mod list_client;
pub mod memory;
pub mod needs;
pub mod node;
pub mod notify;
pub mod observation;
mod plane_upstream;
pub mod reload;
mod rlimits;
pub mod services;
pub mod top;
mod trace_export;
mod web_client;
