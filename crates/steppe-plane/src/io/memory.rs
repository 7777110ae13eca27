//! Budget accounts of calls, and waits for room in them.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Instant;

use steppe_mem::limits::{BUFFER_BYTES_MAX, HOLDER_BYTES};
use steppe_mem::pool::{self, Stock};
use steppe_mem::{
    Account, ClientAddress, Clients, Holding, Lease, OverBudget, Reservation, SizeClass, Waiter,
};

use super::failure::Failure;
use crate::connection::Processing;
use crate::frame::Queueing;
use crate::limits::{
    IDLE_PERMILLE, RESPONSE_SHARE_PERMILLE, RESPONSE_SHARE_PERMILLE_MAX, TABLES_PERMILLE,
    WAITING_MAX,
};
use crate::status::Status;

/// The memory of callers and workers: one for a process, or for all that share a budget.
///
/// Requests may hold all memory of bodies but a share, a quarter by default, so that they can't starve
/// responses.
#[derive(Debug, Clone)]
pub struct Memory {
    /// Account of connections and streams.
    tables: Lease,
    requests: Lease,
    responses: Lease,
    response_share_bytes: u64,
    /// Idle buffers of the threads that drive connections, if nothing else tends the pools of these threads.
    stock: Stock,
    counts: Arc<Counts>,
    /// Table of clients, to which accepted connections are charged; `None`: clients have no share.
    clients: Option<Clients>,
}

/// Holding of a connection in the table of clients, with the charge for it.
pub(crate) type Held = (Holding, Reservation);

/// Waits of bodies, over all connections.
#[derive(Debug, Default)]
struct Counts {
    /// Bodies that wait for room now.
    waiting: AtomicUsize,
    /// Bodies that had to wait for room, since the start.
    waits: AtomicU64,
}

/// Direction of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Request,
    Response,
}

impl Way {
    /// Processing to report if a body of this direction finds no room: before a response, the request was processed.
    fn processing(self) -> Processing {
        match self {
            Self::Request => Processing::None,
            Self::Response => Processing::Begun,
        }
    }
}

/// A waiting body, counted until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Memory {
    /// The memory of `account`, with a quarter of the part for bodies reserved for responses.
    #[must_use]
    pub fn new(account: &Account) -> Self {
        Self::with_share(account, RESPONSE_SHARE_PERMILLE)
    }

    /// The memory of `account`, of which requests leave `response_permille` thousandths to responses. Values above
    /// [`RESPONSE_SHARE_PERMILLE_MAX`] count as that: otherwise requests would never have room. The share is part of
    /// the memory for bodies: [`TABLES_PERMILLE`] of the account are for connections and streams alone.
    #[must_use]
    pub fn with_share(account: &Account, response_permille: u16) -> Self {
        let response_permille = response_permille.min(RESPONSE_SHARE_PERMILLE_MAX);
        let limit_bytes = account.limit_bytes();
        let bodies_bytes = limit_bytes - permille_of(limit_bytes, TABLES_PERMILLE);
        let requests_bytes = bodies_bytes - permille_of(bodies_bytes, response_permille);
        let idle_bytes = permille_of(limit_bytes, IDLE_PERMILLE);
        let bodies = account.child("bodies", Some(bodies_bytes));
        Self {
            tables: account.child("connections", None).lease(),
            requests: bodies.child("requests", Some(requests_bytes)).lease(),
            responses: bodies.child("responses", None).lease(),
            response_share_bytes: bodies_bytes - requests_bytes,
            stock: Stock {
                lease: account.child("pool", Some(idle_bytes)).lease(),
                idle_bytes_max: usize::try_from(idle_bytes).unwrap_or(usize::MAX),
            },
            counts: Arc::default(),
            clients: None,
        }
    }

    /// The same memory, with accepted connections charged to their clients too.
    #[must_use]
    pub fn with_clients(mut self, clients: &Clients) -> Self {
        self.clients = Some(clients.clone());
        self
    }

    /// The memory for a connection from `address`, with its holding in the table of clients if there is one.
    ///
    /// # Errors
    /// If there is no room for the holding.
    pub(crate) fn for_client(
        self: &Arc<Self>,
        address: IpAddr,
    ) -> Result<(Arc<Self>, Option<Held>), OverBudget> {
        let Some(clients) = &self.clients else {
            return Ok((Arc::clone(self), None));
        };
        let holding = clients.open(ClientAddress::Shared(address), "plane");
        let mut memory = Self::clone(self);
        memory.tables = self.tables.of_holder(holding.holder());
        memory.requests = self.requests.of_holder(holding.holder());
        let charge = memory.tables.try_admit(HOLDER_BYTES + size_of::<Self>())?;
        Ok((Arc::new(memory), Some((holding, charge))))
    }

    /// Reserves bytes for an entry of a table. If there is no room, this thread's idle buffers are freed first.
    pub(crate) fn reserve_entry(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        self.tables.try_reserve(bytes).or_else(|_| {
            pool::drain();
            self.tables.try_reserve(bytes)
        })
    }

    /// As [`Memory::reserve_entry`], for a call that a peer opens: refused to a client beyond its share.
    pub(crate) fn admit_entry(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        self.tables.try_admit(bytes).or_else(|_| {
            pool::drain();
            self.tables.try_admit(bytes)
        })
    }

    /// Tends this thread's pool of idle buffers. Returns the time of the next call.
    pub(crate) fn tend(&self, now: Instant) -> Option<Instant> {
        pool::tend(&self.stock, now)
    }

    /// Memory that requests leave to responses, in bytes. A larger reservation has to wait for requests to end, which
    /// may in turn wait for it.
    #[must_use]
    pub fn response_share_bytes(&self) -> u64 {
        self.response_share_bytes
    }

    /// The number of bodies that wait for room now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.counts.waiting.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` for a handler's work on a request, from the memory of responses; waits for
    /// room.
    ///
    /// # Errors
    /// [`Status::TooLarge`] if there is never as much room, [`Status::Overloaded`] if too many bodies wait.
    ///
    /// # Cancel safety
    /// A future that is dropped holds nothing.
    pub async fn reserve(&self, bytes: usize) -> Result<Reservation, Failure> {
        self.reserve_for(Way::Response, bytes, Queueing::Allowed)
            .await
    }

    /// Reserves a buffer for a message of `len` bytes, and `beside` bytes at the same time, but at most as many as
    /// ever fit beside the buffer. Returns both reservations.
    pub(crate) async fn reserve_message(
        &self,
        way: Way,
        (len, beside): (u64, usize),
        queueing: Queueing,
    ) -> Result<[Reservation; 2], Failure> {
        let limit_bytes = self.lease(way).account().limit_bytes();
        let most = limit_bytes.min(BUFFER_BYTES_MAX as u64);
        let class = usize::try_from(len).ok().filter(|_| len <= most);
        let class = class.map(|len| SizeClass::holding(len).bytes());
        let Some(class) = class.filter(|&class| class as u64 <= limit_bytes) else {
            let failure = too_large(len, most);
            return Err(Failure {
                processing: way.processing(),
                ..failure
            });
        };
        let left = usize::try_from(limit_bytes - class as u64).unwrap_or(usize::MAX);
        let bytes = class.saturating_add(beside.min(left));
        let mut both = self.reserve_for(way, bytes, queueing).await?;
        let message = both.split(class);
        Ok([message, both])
    }

    pub(crate) async fn reserve_for(
        &self,
        way: Way,
        bytes: usize,
        queueing: Queueing,
    ) -> Result<Reservation, Failure> {
        let reserved = self.reserve_of(way, bytes, queueing).await;
        reserved.map_err(|failure| Failure {
            processing: way.processing(),
            ..failure
        })
    }

    async fn reserve_of(
        &self,
        way: Way,
        bytes: usize,
        queueing: Queueing,
    ) -> Result<Reservation, Failure> {
        let lease = self.lease(way);
        let limit_bytes = lease.account().limit_bytes();
        if bytes as u64 > limit_bytes {
            return Err(too_large(bytes as u64, limit_bytes));
        }
        if queueing == Queueing::Never {
            return lease
                .try_reserve(bytes)
                .map_err(|error| Failure::unprocessed(Status::Overloaded, error.to_string()));
        }
        let mut waiter = Waiter::default();
        let mut waiting = None;
        poll_fn(|cx| match lease.poll_reserve(cx, bytes, &mut waiter) {
            Poll::Ready(charge) => Poll::Ready(Ok(charge)),
            Poll::Pending if waiting.is_some() => Poll::Pending,
            Poll::Pending => {
                waiting = Some(self.wait()?);
                // Idle buffers of this thread are freed first, which wakes the task.
                pool::drain();
                Poll::Pending
            }
        })
        .await
    }

    pub(crate) fn lease(&self, way: Way) -> &Lease {
        match way {
            Way::Request => &self.requests,
            Way::Response => &self.responses,
        }
    }

    /// The number of bodies that had to wait for room, since the start.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.counts.waits.load(Ordering::Relaxed)
    }

    fn wait(&self) -> Result<Waiting<'_>, Failure> {
        let counts = &*self.counts;
        counts.waits.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&counts.waiting);
        let before = counts.waiting.fetch_add(1, Ordering::Relaxed);
        if before < WAITING_MAX {
            return Ok(waiting);
        }
        let detail = format!("{WAITING_MAX} bodies already wait for memory");
        Err(Failure::unprocessed(Status::Overloaded, detail))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn permille_of(bytes: u64, permille: u16) -> u64 {
    // Divided first, so that the product does not overflow.
    bytes / 1000 * u64::from(permille) + bytes % 1000 * u64::from(permille) / 1000
}

fn too_large(bytes: u64, limit_bytes: u64) -> Failure {
    let detail = format!("{bytes} bytes, at most {limit_bytes} are allowed");
    Failure::unprocessed(Status::TooLarge, detail)
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Bytes that requests, then responses, get of 8 MiB, of which 7 MiB are for bodies.
    fn room(response_permille: u16) -> [usize; 2] {
        let budget = Budget::new(8 * MIB as u64);
        let memory = Memory::with_share(budget.root(), response_permille);
        let mut held = Vec::new();
        [Way::Request, Way::Response].map(|way| {
            let before = held.len();
            held.extend(std::iter::from_fn(|| {
                memory.lease(way).try_reserve(MIB / 16).ok()
            }));
            (held.len() - before) * MIB / 16
        })
    }

    #[test]
    fn requests_leave_a_share_to_responses() {
        assert_eq!(room(0), [7 * MIB, 0]);
        assert_eq!(room(250), [21 * MIB / 4, 7 * MIB / 4]);
        assert_eq!(room(500), [7 * MIB / 2, 7 * MIB / 2]);
        for most in [900, 1000, u16::MAX] {
            assert_eq!(
                room(most),
                [
                    7 * MIB / 10 / 65_536 * 65_536,
                    7 * MIB * 9 / 10 / 65_536 * 65_536 + 65_536
                ],
                "{most}"
            );
        }
    }
}
