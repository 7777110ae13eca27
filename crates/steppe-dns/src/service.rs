//! The forwarder as a service of the node.
//!
//! Invariant: there is one snapshot in force. All workers share one cache and one table of questions in flight, which
//! survive reloads.

mod ahead;
mod fetching;
mod reading;
mod reread;

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use steppe_mem::{Budget, Clients, Lease, OverBudget, Reservation};
use steppe_net::tls::ListenerTls;
use steppe_net::{
    BoundSockets, Changes, Drain, Drained, ListenAddress, LocalFuture, PrepareError, Prepared,
    ReadAhead, Service, SocketBinder, SocketKey, Watch, Worker,
};
use tokio::task::JoinSet;

use crate::cache::{Cache, Flush};
use crate::cache_file::CacheFile;
use crate::client::Client;
use crate::config::{Forwarder, Protocol};
use crate::designation::Designation;
use crate::fetch::Fetch;
use crate::files::WhyLeftOut;
use crate::metrics::DnsMetrics;
use crate::needs::FixedBytes;
use crate::query_log::QueryLog;
use crate::report::Report;
use crate::rules::Program;
use crate::shared::Shared;
use crate::sizes::TableSizes;
use crate::snapshot::{ChargedCache, Files, Snapshot, Tls};
use crate::tls::Sessions;
use crate::worker::{self, Asking, Intake};
use ahead::{Ahead, PreparedFiles};

/// The node's resources for the forwarder.
pub struct DnsContext<'a> {
    /// Budget of the node; all memory of the forwarder is charged below its root.
    pub budget: &'a Budget,
    /// Number of the node's workers.
    pub workers: usize,
    /// Client that fetches lists by URL. `None`: lists are not fetched.
    pub fetch: Option<Arc<dyn Fetch>>,
}

/// The forwarder of a node, across reloads. Clones share it.
#[derive(Clone)]
pub struct DnsService {
    metrics: Arc<DnsMetrics>,
    changes: Arc<Changes<Snapshot>>,
    shared: Arc<Shared>,
    in_force: Arc<Mutex<Option<InForce>>>,
    /// Held while a snapshot is sent to the workers, so that they receive snapshots in order.
    turn: Arc<tokio::sync::Mutex<()>>,
    cache_file: Arc<CacheFile>,
    workers: usize,
    budget_bytes: u64,
    lease: Lease,
    /// Table of the node's clients, with their connections.
    holders: Clients,
    /// Drain of the workers, once they serve.
    drain: Arc<OnceLock<Drain>>,
    fetch: Option<Arc<dyn Fetch>>,
    /// Held while lists are reloaded: one index is built at a time, so that the previous one's memory is free.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Files of the configuration that is about to be prepared.
    ahead: Arc<Ahead>,
}

struct InForce {
    snapshot: Arc<Snapshot>,
    /// Reservation for the workers' tables.
    tables: Arc<Reservation>,
    /// Reservation for the buffers of listeners, over all workers.
    buffers: Arc<Reservation>,
    /// Files of the certificate authorities for servers, as they were when they were loaded.
    authorities: Watch,
    /// Tasks that reload changed files; dropping them ends the reloads.
    rereads: JoinSet<()>,
}

/// A configuration with bound sockets and loaded files.
struct PreparedForwarder {
    service: DnsService,
    config: Forwarder,
    authorities: Watch,
    sessions: Vec<Sessions>,
    cache: Arc<ChargedCache>,
    query_log: Option<Arc<QueryLog>>,
    tables: Arc<Reservation>,
    buffers: Arc<Reservation>,
    tls: Tls,
    files: PreparedFiles,
}

impl fmt::Debug for DnsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DnsService").finish_non_exhaustive()
    }
}

impl DnsService {
    /// A forwarder without listeners, until the first configuration.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn new(context: &DnsContext<'_>) -> std::io::Result<Self> {
        let lease = context.budget.root().child("dns", None).lease();
        let budget_bytes = context.budget.root().limit_bytes();
        let sizes = TableSizes::of(context.workers, budget_bytes);
        Ok(Self {
            metrics: DnsMetrics::new(context.workers),
            changes: Arc::new(Changes::new(context.workers)),
            shared: Arc::new(Shared::new(context.workers, sizes)?),
            in_force: Arc::default(),
            turn: Arc::default(),
            cache_file: Arc::new(CacheFile::new(lease.account().lease())),
            workers: context.workers,
            budget_bytes,
            lease,
            holders: context.budget.clients().clone(),
            drain: Arc::default(),
            fetch: context.fetch.clone(),
            reading: Arc::default(),
            ahead: Arc::default(),
        })
    }

    /// The metrics, which survive reloads.
    #[must_use]
    pub fn metrics(&self) -> &Arc<DnsMetrics> {
        &self.metrics
    }

    /// Sends a query for `client`, on the thread of a worker. The response is not truncated.
    /// `None` if this thread serves no forwarder.
    #[must_use]
    pub fn ask(&self, query: &[u8], client: Client) -> Option<Asking> {
        worker::ask(Arc::as_ptr(&self.shared).addr(), query, client)
    }

    /// The state of the forwarder, with its counts.
    #[must_use]
    pub fn report(&self) -> Report {
        let in_force = self.in_force();
        let snapshot = in_force.as_ref().map(|in_force| &*in_force.snapshot);
        let told = (self.metrics.totals(), self.metrics.lists_report());
        Report::new(told, &self.shared.servers, snapshot)
    }

    /// Lists with a fetched file that is not in force, with the reason.
    #[must_use]
    pub fn lists_left_out(&self) -> Vec<(String, WhyLeftOut)> {
        self.metrics.lists.left_out()
    }

    /// Removes responses from the cache; returns their number. A flush walks the whole cache, and locks one shard at a
    /// time, for a millisecond per MiB of the cache in all; workers that need the shard wait.
    #[must_use]
    pub fn flush(&self, flush: &Flush) -> u64 {
        let cache = self
            .in_force()
            .as_ref()
            .map(|in_force| Arc::clone(&in_force.snapshot.cache));
        cache.map_or(0, |cache| cache.cache.flush(flush))
    }

    /// Reopens the query log, if there is one, after it was rotated.
    pub fn reopen_log(&self) {
        let in_force = self.in_force();
        let log = in_force
            .as_ref()
            .and_then(|it| it.snapshot.query_log.as_ref());
        log.into_iter().for_each(|log| log.lines.reopen());
    }

    /// Writes the rest of the query log, and the cache to its file, after the workers have stopped. True if
    /// both succeeded, each within `timeout`.
    #[must_use]
    pub fn close(&self, timeout: Duration) -> bool {
        let log = self
            .in_force()
            .as_ref()
            .and_then(|it| it.snapshot.query_log.clone());
        let is_logged = log.is_none_or(|log| log.lines.close(timeout));
        self.cache_file.close(timeout) && is_logged
    }

    fn in_force(&self) -> MutexGuard<'_, Option<InForce>> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache for a configuration: the one in force, unless its size differs.
    #[expect(clippy::disallowed_methods, reason = "a cache's time begins with it")]
    fn cache(&self, config: &Forwarder) -> Result<Arc<ChargedCache>, OverBudget> {
        let bytes = self.fixed_bytes(config).cache;
        if let Some(in_force) = &*self.in_force()
            && in_force.snapshot.cache.bytes == bytes
        {
            return Ok(Arc::clone(&in_force.snapshot.cache));
        }
        let reservation = self.lease.try_reserve(bytes)?;
        let cache = Cache::new(bytes, self.shared.cache_key(), Instant::now());
        Ok(Arc::new(ChargedCache::new(cache, bytes, reservation)))
    }

    /// The query log for a configuration: the one in force, unless its settings differ.
    fn query_log(&self, config: &Forwarder) -> io::Result<Option<Arc<QueryLog>>> {
        let Some(wanted) = &config.query_log else {
            return Ok(None);
        };
        if let Some(in_force) = &*self.in_force()
            && let Some(open) = &in_force.snapshot.query_log
            && open.config == *wanted
        {
            return Ok(Some(Arc::clone(open)));
        }
        Ok(Some(Arc::new(QueryLog::open(wanted, self.workers)?)))
    }

    fn tables(&self, config: &Forwarder) -> Result<Arc<Reservation>, OverBudget> {
        if let Some(in_force) = &*self.in_force()
            && in_force.tables.bytes() > 0
        {
            return Ok(Arc::clone(&in_force.tables));
        }
        let bytes = self.fixed_bytes(config).tables(self.workers);
        let reservation = self.lease.try_reserve(bytes)?;
        if config.is_asked() {
            // Allocated now rather than by the first query.
            let _ = (self.shared.coalescer(), self.shared.rate_limiter());
        }
        Ok(Arc::new(reservation))
    }

    /// Reservation for the buffers of a configuration's listeners.
    fn buffers(&self, config: &Forwarder) -> Result<Arc<Reservation>, OverBudget> {
        let bytes = self.workers * self.fixed_bytes(config).worker_listeners;
        if let Some(in_force) = &*self.in_force()
            && in_force.buffers.bytes() == bytes
        {
            return Ok(Arc::clone(&in_force.buffers));
        }
        Ok(Arc::new(self.lease.try_reserve(bytes)?))
    }

    fn fixed_bytes(&self, config: &Forwarder) -> FixedBytes {
        FixedBytes::of(config, self.workers, self.budget_bytes)
    }

    /// Loads TLS of the listeners. Listeners that stay keep their tickets.
    #[expect(
        clippy::disallowed_methods,
        reason = "secrets of tickets have a time from when they are made"
    )]
    fn load_tls(&self, config: &Forwarder) -> Result<Tls, PrepareError> {
        let in_force = self.in_force();
        let last = |address| {
            let in_force = in_force.as_ref()?;
            in_force.snapshot.tls_at(address)
        };
        let now = Instant::now();
        let mut tls = Tls::default();
        for listener in &config.listeners {
            let Some(session) = &listener.tls else {
                tls.listeners.push(None);
                continue;
            };
            let address = listener.address.to_string();
            let loaded = ListenerTls::load(session, &address, last(listener.address), now);
            let loaded = loaded.map_err(|cause| PrepareError::Other {
                key: "dns.listener.tls",
                cause: Box::new(cause),
            })?;
            let names = loaded.certificates().into_iter();
            let names: Vec<String> = names.flat_map(|(_, summary)| summary.names).collect();
            tls.designations.extend(Designation::of(listener, &names));
            // DoH listeners are served by the gateway, with TLS of its own.
            let is_served_here = listener.stream_protocol() == Some(Protocol::Tls);
            let served = is_served_here.then(|| Arc::new(loaded));
            tls.listeners.push(served);
        }
        Ok(tls)
    }

    /// TLS of the listeners that are served here, in the configuration in force.
    #[must_use]
    pub fn tls(&self) -> Vec<Arc<ListenerTls>> {
        let in_force = self.in_force();
        let in_force = in_force.iter();
        in_force
            .flat_map(|in_force| in_force.snapshot.tls.iter().flatten().cloned())
            .collect()
    }

    /// Puts the snapshot of `prepared` in force.
    fn replace(&self, prepared: PreparedForwarder) -> Option<Arc<Snapshot>> {
        let mut in_force = self.in_force();
        let last = in_force.as_ref().map(|in_force| &*in_force.snapshot);
        let known = last.map(Snapshot::files);
        let PreparedFiles { lists, hosts } = prepared.files;
        let files = Files {
            lists: lists
                .map(Arc::new)
                .or_else(|| Some(Arc::clone(&known?.lists)))?,
            hosts: hosts
                .map(Arc::new)
                .or_else(|| Some(Arc::clone(&known?.hosts)))?,
        };
        let places = self.metrics.lists.replace(&files.lists);
        let program = Program::new(&prepared.config.rules, self.shared.names_key());
        let told = (prepared.config, prepared.sessions, prepared.tls);
        let kept = (prepared.cache, prepared.query_log);
        let snapshot = Snapshot::new(told, kept, (files.clone(), program), last);
        let snapshot = Arc::new(snapshot.with_files(files, places));
        if snapshot.has_times() {
            snapshot.look_at_the_clock();
        }
        self.metrics.set_query_log(snapshot.query_log.as_ref());
        self.metrics.set_cache(&snapshot.cache);
        *in_force = Some(InForce {
            snapshot: Arc::clone(&snapshot),
            tables: prepared.tables,
            buffers: prepared.buffers,
            authorities: prepared.authorities,
            rereads: JoinSet::new(),
        });
        Some(snapshot)
    }
}

impl<C: AsRef<Forwarder>> Service<C> for DnsService {
    fn read_ahead(self: Arc<Self>, config: &C) -> LocalFuture<ReadAhead> {
        let config = config.as_ref();
        let (lists, hosts) = (config.lists.clone(), config.hosts.clone());
        Box::pin(DnsService::clone(&self).read_files_ahead(lists, hosts))
    }

    fn prepare(
        self: Arc<Self>,
        config: &C,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let config = config.as_ref();
        for listener in &config.listeners {
            let datagrams = listener.has_datagrams();
            let datagrams = datagrams.then(|| SocketKey::datagram(listener.address));
            let stream = listener.stream_protocol();
            let stream = stream.map(|_| SocketKey::stream(ListenAddress::Tcp(listener.address)));
            for key in datagrams.iter().chain(&stream) {
                let bound = sockets.bind(key);
                bound.map_err(|cause| PrepareError::Bind {
                    key: "dns.listener.listen",
                    cause,
                })?;
            }
        }
        let tls = self.load_tls(config)?;
        let refused = |key| {
            move |cause: OverBudget| PrepareError::Other {
                key,
                cause: Box::new(cause),
            }
        };
        // Watched before they are loaded, so that a change in between is noticed.
        let authorities = Watch::new(Sessions::files(&config.upstreams));
        let sessions = Sessions::load(&config.upstreams);
        Ok(Box::new(PreparedForwarder {
            authorities,
            sessions: sessions.map_err(|cause| PrepareError::Other {
                key: "dns.upstream.tls",
                cause: Box::new(cause),
            })?,
            cache: self.cache(config).map_err(refused("dns.cache.bytes"))?,
            tables: self.tables(config).map_err(refused("node.memory_budget"))?,
            buffers: self.buffers(config).map_err(refused("dns.listener"))?,
            query_log: self
                .query_log(config)
                .map_err(|cause| PrepareError::Other {
                    key: "dns.log.queries.file",
                    cause: Box::new(cause),
                })?,
            files: self
                .files(config)
                .map_err(|(key, error)| PrepareError::Other {
                    key,
                    cause: Box::new(error),
                })?,
            service: DnsService::clone(&self),
            config: config.clone(),
            tls,
        }))
    }

    fn serve(self: Arc<Self>, worker: Rc<Worker>) -> LocalFuture<Drained> {
        let changes = self.changes.take_receiver(worker.index);
        let wakes = self.shared.wakes.take_receiver(worker.index);
        Box::pin(async move {
            let _ = self.drain.set(worker.drain.clone());
            let intake = Intake {
                changes,
                wakes: Some(wakes),
                metrics: Some(self.metrics.worker(worker.index)),
                shared: Arc::clone(&self.shared),
                lease: self.lease.account().lease(),
                holders: self.holders.clone(),
            };
            worker::serve(worker, intake).await
        })
    }
}

impl Prepared for PreparedForwarder {
    fn change(self: Box<Self>, sockets: Vec<BoundSockets>) -> LocalFuture<()> {
        Box::pin(async move {
            let service = self.service.clone();
            let _turn = service.turn.lock().await;
            let Some(snapshot) = service.replace(*self) else {
                return;
            };
            service.cache_file.use_snapshot(&snapshot);
            service.changes.send(&snapshot, sockets).await;
            service.keep_files_current();
        })
    }
}
