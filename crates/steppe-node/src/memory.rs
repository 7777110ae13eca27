//! Memory attribution: the report that `/memory` serves.
//!
//! The report has two parts. *Reserved*: the budget tree, the pool and the connections, from the
//! program's own counters. *Resident*: anonymous memory as the kernel counts it, each mapping
//! attributed to one category:
//!
//! - `allocator_live`: bytes allocated and not freed (pooled buffers up to
//!   256 KiB among them), counted by the allocator's wrapper;
//! - `allocator_retained`: the rest of the allocator's resident memory: metadata,
//!   rounding up to size classes, and retained pages;
//! - `pool_mapped`: pooled buffers above 256 KiB, from the pool's counts;
//! - `thread_stacks`: the mappings that hold a stack that was marked;
//! - `program_data`: written pages of the program's and libraries' files, `.bss`;
//! - `libc_heap`: the break segment, unless the allocator uses it.
//!
//! Invariant: no byte is attributed to two categories, and none gets more than the resident bytes
//! of its memory, so the explained sum never exceeds anonymous RSS. Memory of no category is
//! `unexplained_bytes`, and is never distributed among the others.
//!
//! Non-goals: kernel memory except socket buffers, and the page cache.

mod attribution;
mod collector;
mod error;
mod mapping;
mod pooled;
mod stack;
mod uncharged;

use serde_json::{Value, json};
use std::sync::Arc;

use steppe_http::metrics::HttpMetrics;
use steppe_mem::{AccountReport, Budget, ClientReport, Clients, pool};
use steppe_net::sys::socket_memory;

use crate::allocator;
use pooled::is_mapped;

pub use attribution::{Attribution, Category};
pub use collector::MemoryCollector;
pub use error::ReportError;
pub use stack::StackMark;
pub use uncharged::{Uncharged, UnchargedFigures};

/// Clients in the report: those that hold most.
const CLIENTS_SHOWN: usize = 10;

/// The sources of the report.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The node's budget.
    pub budget: Budget,
    /// Resident memory that no reservation covers.
    pub figures: Arc<UnchargedFigures>,
    /// The gateway's metrics.
    pub http: Arc<HttpMetrics>,
}

/// Open connections, as JSON.
pub(crate) fn connections(http: &HttpMetrics) -> Value {
    let open = http.connections();
    json!({
        "downstream": open.downstream,
        "downstream_streams": open.downstream_streams,
        "upstream_active": open.upstream_active,
        "upstream_idle": open.upstream_idle,
        "upstream_streams": open.upstream_streams,
        "tunnels": open.tunnels,
    })
}

/// The report, as JSON.
///
/// # Errors
/// [`ReportError`]
pub fn report(sources: &Sources) -> Result<Value, ReportError> {
    let attribution = Attribution::now()?;
    let sockets = socket_memory()?;
    Ok(json!({
        "budget": account(&sources.budget.report()),
        "uncharged": uncharged(sources),
        "clients": clients(sources.budget.clients()),
        "pool": pool_classes(),
        "connections": connections(&sources.http),
        "rss_bytes": attribution.rss_bytes,
        "pss_bytes": attribution.pss_bytes,
        "anonymous_rss_bytes": attribution.anonymous_bytes,
        "socket_buffers": {
            "sockets": sockets.sockets,
            "receive_bytes": sockets.receive_bytes,
            "send_bytes": sockets.send_bytes,
        },
        "allocator": {
            "name": allocator::NAME,
            "live_bytes": steppe_mem::alloc::live_bytes(),
            "resident_bytes": attribution.allocator_resident_bytes,
            "details": allocator::details(),
        },
        "explained": attribution.categories.iter().map(category).collect::<Vec<_>>(),
        "explained_bytes": attribution.explained_bytes(),
        "unexplained_bytes": attribution.unexplained_bytes(),
        "explained_ratio": attribution.explained_ratio(),
    }))
}

/// Resident memory beyond all reservations, and the debt that it makes.
fn uncharged(sources: &Sources) -> Value {
    let figures = &sources.figures;
    json!({
        "baseline_bytes": figures.baseline_bytes(),
        "bytes": figures.bytes(),
        "peak_bytes": figures.peak_bytes(),
        "debt_bytes": sources.budget.debt_bytes(),
        "debt_peak_bytes": figures.debt_peak_bytes(),
        "debts": figures.debts(),
    })
}

/// The clients that hold most, and the counts of held back and shed ones.
fn clients(clients: &Clients) -> Value {
    let top = ClientReport::top(clients, CLIENTS_SHOWN);
    json!({
        "held_back": clients.held_back(),
        "held_back_total": clients.held_back_total(),
        "shed_total": clients.shed_total(),
        "top": top.iter().map(client).collect::<Vec<_>>(),
    })
}

fn client(report: &ClientReport) -> Value {
    json!({
        "client": report.client.map_or("local".to_owned(), |at| at.to_string()),
        "kind": report.kind,
        "connections": report.connections,
        "charged_bytes": report.charged_bytes,
        "held_bytes": report.held_bytes,
    })
}

/// An account and those below it, as JSON.
pub(crate) fn account(report: &AccountReport) -> Value {
    json!({
        "name": report.name,
        "limit_bytes": report.limit_bytes,
        "reserved_bytes": report.reserved_bytes,
        "peak_bytes": report.peak_bytes,
        "refused": report.refused,
        "children": report.children.iter().map(account).collect::<Vec<_>>(),
    })
}

fn pool_classes() -> Vec<Value> {
    let class = |class: &pool::ClassReport| {
        json!({
            "class_bytes": class.class_bytes,
            "in_use": class.in_use_count,
            "idle": class.idle_count,
            "in_use_bytes": class.class_bytes * class.in_use_count,
            "idle_bytes": class.class_bytes * class.idle_count,
            "memory": if is_mapped(class.class_bytes) { "mapped" } else { "allocator" },
        })
    };
    pool::report().classes.iter().map(class).collect()
}

fn category(category: &Category) -> Value {
    json!({ "name": category.name, "bytes": category.bytes })
}

#[cfg(test)]
mod tests {
    use steppe_http::metrics::Labels;

    use super::*;

    fn sources() -> Sources {
        Sources {
            budget: Budget::new(64 << 20),
            figures: Arc::default(),
            http: HttpMetrics::new(Labels::default(), 1),
        }
    }

    #[test]
    fn the_report_names_the_budget_and_the_allocator() {
        let sources = sources();
        let http = sources.budget.root().child("http", Some(32 << 20));
        let held = http.lease().try_reserve(10_000).expect("there is room");
        let report = report(&sources).expect("/proc is mounted");
        assert_eq!(report["budget"]["name"], "node");
        assert_eq!(report["budget"]["limit_bytes"], 64 << 20);
        assert_eq!(report["budget"]["children"][0]["name"], "http");
        assert_eq!(report["budget"]["children"][0]["reserved_bytes"], 10_000);
        assert_eq!(report["allocator"]["name"], allocator::NAME);
        assert!(report["allocator"]["live_bytes"].as_u64() > Some(0));
        assert!(report["rss_bytes"].as_u64() >= report["anonymous_rss_bytes"].as_u64());
        drop(held);
    }
}
