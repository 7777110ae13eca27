//! The services of the connected workers, and the choice of a worker for a call.
//!
//! Invariant: services that a peer names are charged to the budget before they are stored.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steppe_mem::{OverBudget, Reservation};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::report::{ServiceReport, WorkerReport};
use crate::io::{Kept, Link, NamedService};
use crate::limits::{FORGOTTEN_SERVICES_MAX, seat_bytes};
use crate::rest::{Refusal, Rest};

/// Services that were registered, with their connected workers.
#[derive(Debug, Default)]
pub(super) struct Registry {
    services: Mutex<HashMap<Box<str>, Arc<Service>>>,
}

/// A service.
#[derive(Debug, Default)]
pub(super) struct Service {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Notifies the call that has waited longest: a call has ended, or a worker has registered.
    freed: Notify,
    waiting: AtomicUsize,
    /// Position from which the next choice between two workers starts.
    turn: AtomicUsize,
}

/// A worker of a service, with its open calls.
#[derive(Debug)]
struct Seat {
    link: Weak<Link>,
    address: SocketAddr,
    /// Maximum of concurrent calls; `None` if unlimited.
    calls_max: Option<u32>,
    calls: AtomicU32,
    bytes: AtomicU64,
    rest: Rest,
    _charge: Reservation,
}

/// An open call at a worker, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    service: Arc<Service>,
    seat: Arc<Seat>,
    bytes: u64,
    refusal: Refusal,
}

/// A call that waits for a worker, counted until this is dropped.
pub(super) struct Waiting<'a>(&'a Service);

impl Registry {
    /// Registers the services of a peer; they replace those that it had registered.
    pub(super) fn set(
        &self,
        link: &Arc<Link>,
        address: SocketAddr,
        named: &[NamedService],
    ) -> Result<(), OverBudget> {
        let memory = &link.memory;
        let charges = named
            .iter()
            .map(|(name, _)| memory.reserve_entry(seat_bytes(name.len())));
        let charges: Vec<_> = charges.collect::<Result<_, _>>()?;
        self.retain(|name, seat| {
            // An unchanged entry keeps its counts of calls.
            !seat.is_of(link)
                || named
                    .iter()
                    .any(|it| *it.0 == *name && it.1 == seat.calls_max)
        });
        let mut services = lock(&self.services);
        for ((name, calls_max), charge) in named.iter().zip(charges) {
            let service = services.entry(name.clone()).or_default();
            if lock(&service.seats).iter().any(|seat| seat.is_of(link)) {
                continue;
            }
            lock(&service.seats).push(Arc::new(Seat {
                link: Arc::downgrade(link),
                address,
                calls_max: *calls_max,
                calls: AtomicU32::new(0),
                bytes: AtomicU64::new(0),
                rest: Rest::default(),
                _charge: charge,
            }));
            let waiting = service.waiting.load(Ordering::Relaxed);
            let room = calls_max.map_or(waiting, |max| waiting.min(max as usize));
            (0..room).for_each(|_| service.freed.notify_one());
        }
        Ok(())
    }

    /// Removes all services of a peer.
    pub(super) fn remove(&self, link: &Arc<Link>) {
        self.retain(|_, seat| !seat.is_of(link));
    }

    fn retain(&self, stays: impl Fn(&str, &Seat) -> bool) {
        let mut services = lock(&self.services);
        for (name, service) in services.iter() {
            lock(&service.seats).retain(|seat| stays(name, seat));
        }
        // Kept for calls that wait for a worker to return; the number of names without workers is bounded.
        let is_idle = |service: &Service| lock(&service.seats).is_empty();
        let idle = services.values().filter(|service| is_idle(service)).count();
        if idle > FORGOTTEN_SERVICES_MAX {
            services.retain(|_, service| {
                !is_idle(service) || service.waiting.load(Ordering::Relaxed) > 0
            });
        }
    }

    /// A service that has, or had, a worker.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Service>> {
        lock(&self.services).get(name).cloned()
    }

    pub(super) fn report(&self) -> Vec<ServiceReport> {
        let services = lock(&self.services);
        let mut report: Vec<_> = services
            .iter()
            .map(|(name, service)| ServiceReport {
                name: name.to_string(),
                waiting: service.waiting.load(Ordering::Relaxed),
                workers: lock(&service.seats).iter().map(|it| it.report()).collect(),
            })
            .collect();
        report.sort_by(|a, b| a.name.cmp(&b.name));
        report
    }
}

impl Service {
    /// A worker that takes a call of `bytes` now: of two with room, the one with fewer bytes in flight. Workers in
    /// `refused` are excluded; a worker that rests is taken only if there is no other.
    pub(super) fn take(
        self: &Arc<Self>,
        bytes: u64,
        refused: &[Weak<Link>],
    ) -> Option<(Arc<Link>, Taken)> {
        let seats = lock(&self.seats);
        let count = seats.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        // The first two with room, starting at another position each time.
        let from_turn = (0..count).map(|at| &seats[(turn + at) % count]);
        let has_refused = |seat: &Seat| refused.iter().any(|link| Weak::ptr_eq(link, &seat.link));
        let free = from_turn.filter(|seat| seat.has_room() && !has_refused(seat));
        let rested = less_loaded(free.clone().filter(|seat| !seat.rest.is_on()));
        let seat = rested.or_else(|| less_loaded(free))?;
        let link = seat.link.upgrade()?;
        seat.calls.fetch_add(1, Ordering::Relaxed);
        seat.bytes.fetch_add(bytes, Ordering::Relaxed);
        let taken = Taken {
            service: Arc::clone(self),
            seat: Arc::clone(seat),
            bytes,
            refusal: Refusal::default(),
        };
        Some((link, taken))
    }

    /// True if the service has a connected worker.
    pub(super) fn is_served(&self) -> bool {
        !lock(&self.seats).is_empty()
    }

    /// True if calls wait for a worker of the service.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Counts a call that waits. Sequentially consistent, as are the counts of calls: either it sees the room that a call
    /// leaves, or that call sees it wait.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Waits until there may be room. Each notification wakes the call that has waited longest.
    pub(super) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

impl Seat {
    fn is_of(&self, link: &Arc<Link>) -> bool {
        std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link))
    }

    fn has_room(&self) -> bool {
        let calls = self.calls.load(Ordering::SeqCst);
        self.calls_max.is_none_or(|max| calls < max)
    }

    fn load(&self) -> (u64, u32) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes, self.calls.load(Ordering::Relaxed))
    }

    fn report(&self) -> WorkerReport {
        let (bytes, calls) = self.load();
        WorkerReport {
            address: self.address,
            calls,
            calls_max: self.calls_max,
            bytes,
        }
    }
}

/// The less loaded of the first two, by bytes in flight and then by calls.
fn less_loaded<'a>(mut seats: impl Iterator<Item = &'a Arc<Seat>>) -> Option<&'a Arc<Seat>> {
    let first = seats.next()?;
    Some(match seats.next() {
        Some(second) if second.load() < first.load() => second,
        _ => first,
    })
}

impl Kept for Taken {
    fn refused(&self) {
        self.refusal.begin(&self.seat.rest);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.refusal.end(&self.seat.rest);
        self.seat.calls.fetch_sub(1, Ordering::SeqCst);
        self.seat.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.service.has_waiting() {
            self.service.freed.notify_one();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
