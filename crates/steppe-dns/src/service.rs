//! The forwarder as a service of the node.
//!
//! Invariant: there is one snapshot in force, and one cache and one table of questions in flight for all
//! workers, which a reload does not change.

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

/// What the forwarder takes from its node.
pub struct DnsContext<'a> {
    /// Everything is charged below it.
    pub budget: &'a Budget,
    /// How many workers will serve.
    pub workers: usize,
    /// What fetches lists by URL. `None`: they stay as they are.
    pub fetch: Option<Arc<dyn Fetch>>,
}

/// The forwarder, whatever its configuration. Clones share it.
#[derive(Clone)]
pub struct DnsService {
    metrics: Arc<DnsMetrics>,
    changes: Arc<Changes<Snapshot>>,
    shared: Arc<Shared>,
    in_force: Arc<Mutex<Option<InForce>>>,
    /// Held by whoever tells workers of a snapshot: they hear of each in the order that they came into force.
    turn: Arc<tokio::sync::Mutex<()>>,
    cache_file: Arc<CacheFile>,
    workers: usize,
    budget_bytes: u64,
    lease: Lease,
    /// The connections of all clients of the node.
    holders: Clients,
    /// Of the workers, once they serve.
    drain: Arc<OnceLock<Drain>>,
    fetch: Option<Arc<dyn Fetch>>,
    /// Held while lists are read anew: one index is made at a time, so that each finds the others' memory free.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Files of the configuration that is about to be prepared.
    ahead: Arc<Ahead>,
}

struct InForce {
    snapshot: Arc<Snapshot>,
    /// Tables of the workers.
    tables: Arc<Reservation>,
    /// Of listeners, of all workers.
    buffers: Arc<Reservation>,
    /// Files of authorities that certify servers, as they were read.
    authorities: Watch,
    /// Has files read again when they change, until it is dropped.
    rereads: JoinSet<()>,
}

/// A configuration whose sockets are bound.
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
    /// When the system has no random numbers to give.
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

    /// What it counts, whatever the configuration.
    #[must_use]
    pub fn metrics(&self) -> &Arc<DnsMetrics> {
        &self.metrics
    }

    /// Asks a question for `client`, on the thread of a worker. The response is as large as it has to be.
    /// `None`: nothing is served there.
    #[must_use]
    pub fn ask(&self, query: &[u8], client: Client) -> Option<Asking> {
        worker::ask(Arc::as_ptr(&self.shared).addr(), query, client)
    }

    /// What it is, and what it has counted.
    #[must_use]
    pub fn report(&self) -> Report {
        let in_force = self.in_force();
        let snapshot = in_force.as_ref().map(|in_force| &*in_force.snapshot);
        let told = (self.metrics.totals(), self.metrics.lists_report());
        Report::new(told, &self.shared.servers, snapshot)
    }

    /// Lists of which a fetched file is not in force, by name, and why.
    #[must_use]
    pub fn lists_left_out(&self) -> Vec<(String, WhyLeftOut)> {
        self.metrics.lists.left_out()
    }

    /// Forgets responses of the cache. Returns how many. It goes through the whole cache, a shard at a
    /// time, which workers that need that shard wait for: a millisecond for each MiB of it.
    #[must_use]
    pub fn flush(&self, flush: &Flush) -> u64 {
        let cache = self
            .in_force()
            .as_ref()
            .map(|in_force| Arc::clone(&in_force.snapshot.cache));
        cache.map_or(0, |cache| cache.cache.flush(flush))
    }

    /// Opens the query log anew, where there is one: whoever moved it away asks for that.
    pub fn reopen_log(&self) {
        let in_force = self.in_force();
        let log = in_force
            .as_ref()
            .and_then(|it| it.snapshot.query_log.as_ref());
        log.into_iter().for_each(|log| log.lines.reopen());
    }

    /// Writes what is left of the query log, and the cache to its file, when no worker serves any more.
    /// Returns whether that was done, each within `timeout`.
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

    /// The cache of a configuration: the one in force, unless its size is another.
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

    /// The query log of a configuration: the one in force, unless it is another one.
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
            // Made now, and not by the first query.
            let _ = (self.shared.coalescer(), self.shared.rate_limiter());
        }
        Ok(Arc::new(reservation))
    }

    /// Buffers of the listeners of a configuration.
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

    /// TLS of the listeners. Those that stay keep their tickets.
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
            // The gateway has its own of a listener that it serves.
            let is_served_here = listener.stream_protocol() == Some(Protocol::Tls);
            let served = is_served_here.then(|| Arc::new(loaded));
            tls.listeners.push(served);
        }
        Ok(tls)
    }

    /// TLS of the listeners that are served here, of the configuration in force.
    #[must_use]
    pub fn tls(&self) -> Vec<Arc<ListenerTls>> {
        let in_force = self.in_force();
        let in_force = in_force.iter();
        in_force
            .flat_map(|in_force| in_force.snapshot.tls.iter().flatten().cloned())
            .collect()
    }

    /// Makes the snapshot of `config` the one in force.
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
        // As they are before they are read: what changes meanwhile is seen to have changed.
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
