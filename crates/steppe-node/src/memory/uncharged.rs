//! Charges the budget with resident memory that no reservation covers, and pays debts by closing connections.
//!
//! Charges cover the memory that the node knows of. Allocators round up and have fragmentation, libraries keep memory
//! of their own, and a charge may be wrong. So a thread compares RSS with the charges and makes the difference a forced
//! charge of `node/uncharged`, even if nothing is free. Not counted are free pages that the allocator hands out again
//! before it takes new ones, and the *baseline*: pages of the program's files, its configuration and stacks, measured
//! when serving begins and at each reload, up to [`BASELINE_BYTES_MAX`].
//!
//! The thread is woken whenever a thread requested another [`NOTICE_BYTES`](steppe_mem::limits::NOTICE_BYTES), and
//! looks every [`EVERY`] otherwise. In debt it purges free pages; by then caches and idle portions have been given up,
//! and nothing that needs a reservation is read. Debt that stays is paid by closing connections, those that hold most
//! first.
//!
//! Invariant: RSS stays within the sum of the budget, the baseline, and the allocations between two looks.

mod resident;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use steppe_mem::{Account, Budget, Clients, ForcedCharge, Shed};

use super::StackMark;
use crate::allocator;
use resident::Resident;

/// Environment variable: `off` if RSS does not measure the node, as under valgrind or a sanitizer.
const VARIABLE: &str = "STEPPE_UNCHARGED";

/// The account's name.
const ACCOUNT: &str = "uncharged";

/// Interval of looks while threads allocate little.
const EVERY: Duration = Duration::from_millis(100);

/// Interval of looks in debt, and the shortest while threads allocate much.
const EVERY_IN_DEBT: Duration = Duration::from_millis(1);

/// Interval at which tasks are woken whose client held its share.
const WAKE_EVERY: Duration = Duration::from_millis(20);

/// Time without a connection that can pay after which the pause in debt ends: the memory may be held elsewhere.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Age at which debt is paid by connections. Before that, free pages are purged.
const SHED_AFTER: Duration = Duration::from_millis(2);

/// Doublings, at most, of the bytes to free: one each time that connections are told to close within a debt.
const ROUNDS_MAX: u32 = 6;

/// Time for connections that were told to close to end, before others are told.
const SHED_EVERY: Duration = Duration::from_millis(10);

/// Time between two purges of free pages among used ones.
const PURGE_EVERY: Duration = Duration::from_millis(20);

/// Pause after a look as a multiple of its duration, up to [`LOOK_PAUSE_MAX`].
const LOOK_SHARE: u32 = 10;

/// The longest pause between two looks while threads allocate much: a worker fills some hundred MiB a second.
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(5);

/// Bytes of the program's own memory that are outside of the budget. The rest is uncharged, and counts.
const BASELINE_BYTES_MAX: u64 = 20 << 20;

/// Divisor of the budget for the room that is kept free for clients that hold little, while uncharged memory has at
/// least one [`UNCHARGED_PART`]th of it: else the node would stand at the limit without a debt, and each newcomer would
/// be refused.
const ROOM_PART: u64 = 16;
const UNCHARGED_PART: u64 = 4;

/// Free bytes of the allocator below which it is not purged in a hurry.
const PURGE_BYTES_MIN: u64 = 1 << 20;

/// The measuring thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Uncharged {
    figures: Arc<UnchargedFigures>,
    thread: Option<JoinHandle<()>>,
}

/// Figures of the thread, for status pages and metrics.
#[derive(Debug, Default)]
pub struct UnchargedFigures {
    baseline_bytes: AtomicU64,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
    debt_peak_bytes: AtomicU64,
    debts: AtomicU64,
    is_baseline_wanted: AtomicBool,
    is_over: AtomicBool,
}

impl UnchargedFigures {
    /// Memory of the program itself, in bytes.
    #[must_use]
    pub fn baseline_bytes(&self) -> u64 {
        self.baseline_bytes.load(Ordering::Relaxed)
    }

    /// Resident memory beyond baseline and charges, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Peak of [`Self::bytes`].
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Peak of the debt, in bytes.
    #[must_use]
    pub fn debt_peak_bytes(&self) -> u64 {
        self.debt_peak_bytes.load(Ordering::Relaxed)
    }

    /// Number of debts so far.
    #[must_use]
    pub fn debts(&self) -> u64 {
        self.debts.load(Ordering::Relaxed)
    }
}

impl Uncharged {
    /// Starts the thread. The baseline is the resident memory beyond the charges of `budget` at this time.
    ///
    /// # Errors
    /// There is no thread left, or no `/proc`.
    pub fn start(budget: &Budget, figures: Arc<UnchargedFigures>) -> io::Result<Self> {
        let watch = Watch {
            budget: budget.clone(),
            resident: match std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
                true => None,
                false => Some(Resident::open()?),
            },
            charge: ForcedCharge::new(budget.root().child(ACCOUNT, None)),
            figures: Arc::clone(&figures),
            debt: None,
            purged_at: None,
            told_at: None,
            held_back_total: 0,
        };
        figures.is_baseline_wanted.store(true, Ordering::Relaxed);
        let thread = thread::Builder::new().name("memory".to_owned());
        let thread = thread.spawn(move || watch.run())?;
        steppe_mem::alloc::set_watcher(thread.thread().clone());
        Ok(Self {
            figures,
            thread: Some(thread),
        })
    }

    /// Takes the baseline anew: another configuration is in force.
    pub fn take_baseline(&self) {
        self.figures
            .is_baseline_wanted
            .store(true, Ordering::Relaxed);
        self.thread().inspect(|thread| thread.unpark());
    }

    fn thread(&self) -> Option<&Thread> {
        self.thread.as_ref().map(JoinHandle::thread)
    }
}

impl Drop for Uncharged {
    fn drop(&mut self) {
        self.figures.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

/// A debt that is not paid yet.
struct Debt {
    since: Instant,
    /// Rounds in which connections were told to close.
    rounds: u32,
    /// Last time at which a connection could pay, or the beginning of the debt.
    paid_at: Instant,
}

impl Debt {
    fn since(now: Instant) -> Self {
        Self {
            since: now,
            rounds: 0,
            paid_at: now,
        }
    }
}

/// The state of the thread.
struct Watch {
    budget: Budget,
    /// The reader of RSS; `None`: a tool such as valgrind takes memory of the process.
    resident: Option<Resident>,
    charge: ForcedCharge,
    figures: Arc<UnchargedFigures>,
    debt: Option<Debt>,
    /// Time of the last purge of free pages.
    purged_at: Option<Instant>,
    /// Time at which connections were last told to close.
    told_at: Option<Instant>,
    /// Total of held-back reservations at the last look at them.
    held_back_total: u64,
}

/// Presence of tasks that wait for their client to hold less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldBack {
    None,
    Some,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "looks are paced by the clock")]
    fn run(mut self) {
        let _stack = StackMark::here();
        let mut woken_at = Instant::now();
        let mut waiting = HeldBack::None;
        while !self.figures.is_over.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.budget.measure_evictable();
            if let Err(error) = self.look(now) {
                tracing::warn!(%error, "cannot measure RSS: node/uncharged stays as it is");
                self.resident = None;
                self.budget.clients().resume();
            }
            if now - woken_at >= WAKE_EVERY {
                woken_at = now;
                waiting = self.see_to_held_back(waiting);
            }
            thread::sleep(pause_after(now.elapsed()));
            if self.debt.is_none() {
                thread::park_timeout(match waiting {
                    HeldBack::None => EVERY,
                    HeldBack::Some => WAKE_EVERY,
                });
            }
        }
        self.budget.clients().resume();
    }

    /// Wakes tasks whose clients hold less again, and logs clients that were held back for the first time. Returns
    /// whether tasks wait now. If none `waited` and none was added, no client is looked at.
    fn see_to_held_back(&mut self, waited: HeldBack) -> HeldBack {
        let clients = self.budget.clients();
        let total = clients.held_back_total();
        if waited == HeldBack::None && total == self.held_back_total {
            return HeldBack::None;
        }
        self.held_back_total = total;
        tell_held_back(clients);
        match self.budget.wake_held_back() {
            true => HeldBack::Some,
            false => HeldBack::None,
        }
    }

    /// RSS in bytes; `None` if it is not measured.
    fn read(&self) -> io::Result<Option<u64>> {
        self.resident.as_ref().map(Resident::read).transpose()
    }

    fn look(&mut self, now: Instant) -> io::Result<()> {
        let Some(seen) = self.read()? else {
            return Ok(());
        };
        if self
            .figures
            .is_baseline_wanted
            .swap(false, Ordering::Relaxed)
        {
            self.set_baseline(seen);
        }
        self.set(seen);
        let allowed = self.budget.root().limit_bytes() + self.figures.baseline_bytes();
        let is_over = self.budget.debt_bytes() > 0 || seen > allowed;
        if is_over && self.wants_purge(now) {
            self.purged_at = Some(now);
            allocator::purge();
            self.read()?.inspect(|&seen| self.set(seen));
        }
        self.pay(now);
        Ok(())
    }

    /// True if there are free pages, or there may be some among used ones.
    fn wants_purge(&self, now: Instant) -> bool {
        allocator::dirty_bytes() >= PURGE_BYTES_MIN
            || self.purged_at.is_none_or(|at| now >= at + PURGE_EVERY)
    }

    /// Resident bytes without those that the allocator hands out again first.
    fn taken(seen: u64) -> u64 {
        seen.saturating_sub(allocator::dirty_bytes())
    }

    /// Bytes charged by all other accounts.
    fn charged_bytes(&self) -> u64 {
        let root: &Account = self.budget.root();
        root.reserved_bytes().saturating_sub(self.charge.bytes())
    }

    fn set_baseline(&self, seen: u64) {
        let own = Self::taken(seen).saturating_sub(self.charged_bytes());
        let bytes = own.min(BASELINE_BYTES_MAX);
        self.figures.baseline_bytes.store(bytes, Ordering::Relaxed);
    }

    fn set(&mut self, seen: u64) {
        let accounted = self.charged_bytes() + self.figures.baseline_bytes();
        let bytes = Self::taken(seen).saturating_sub(accounted);
        self.charge.set(bytes);
        let figures = &self.figures;
        figures.bytes.store(bytes, Ordering::Relaxed);
        figures.peak_bytes.fetch_max(bytes, Ordering::Relaxed);
        let debt = self.budget.debt_bytes();
        figures.debt_peak_bytes.fetch_max(debt, Ordering::Relaxed);
    }

    /// Closes connections if debt has stayed.
    fn pay(&mut self, now: Instant) {
        let owed = self.owed_bytes();
        if owed == 0 {
            if let Some(Debt { since, .. }) = self.debt.take() {
                self.budget.clients().resume();
                let millis = now.duration_since(since).as_millis();
                tracing::info!(millis, "the memory budget is out of debt");
            }
            return;
        }
        let debt = self.debt.get_or_insert_with(|| {
            self.figures.debts.fetch_add(1, Ordering::Relaxed);
            Debt::since(now)
        });
        // Tasks stay paused while connections can still pay.
        if now < debt.paid_at + PAUSE_MAX {
            self.budget.clients().pause();
        } else {
            self.budget.clients().resume();
        }
        let is_told = self.told_at.is_some_and(|at| now < at + SHED_EVERY);
        if now < debt.since + SHED_AFTER || is_told {
            return;
        }
        self.told_at = Some(now);
        // The amount doubles each round: the last one did not suffice, whatever was held by the connections told.
        let rounds = debt.rounds;
        debt.rounds = (rounds + 1).min(ROUNDS_MAX);
        // The room is added, so that further growth does not make a new debt at once.
        let room = self.budget.root().limit_bytes() / ROOM_PART;
        let clients = self.budget.clients();
        tell_shed(owed, &clients.shed((owed + room) << rounds));
        // The connections told may take a while to end.
        if clients.can_pay() {
            debt.paid_at = now;
        }
    }

    /// The debt, and the missing part of the room for other clients.
    fn owed_bytes(&self) -> u64 {
        let (root, debt) = (self.budget.root(), self.budget.debt_bytes());
        if self.charge.bytes() < root.limit_bytes() / UNCHARGED_PART {
            return debt;
        }
        let room = root.limit_bytes() / ROOM_PART;
        debt + room.saturating_sub(root.headroom_bytes())
    }
}

/// The pause after a look of this duration: looks leave the processor to other threads even under heavy allocation. The
/// pause is bounded, since a look that had to wait for a processor has missed enough.
fn pause_after(taken: Duration) -> Duration {
    (taken * LOOK_SHARE).clamp(EVERY_IN_DEBT, LOOK_PAUSE_MAX)
}

/// Logs one line for all connections that were told to close at once, with the one that held most.
fn tell_shed(debt_bytes: u64, shed: &[Shed]) {
    let Some(first) = shed.first() else {
        return;
    };
    let client = first.client.map_or("local".to_owned(), |at| at.to_string());
    tracing::warn!(
        reason = "over_budget",
        debt_bytes,
        connections = shed.len(),
        first = client,
        first_bytes = first.bytes,
        protocol = first.kind,
        "the memory budget is in debt: connections that hold most are closed"
    );
}

fn tell_held_back(clients: &Clients) {
    for client in clients.newly_held_back() {
        tracing::warn!(
            %client,
            "a client holds its share of the memory budget and waits; if it stands for many clients, \
             as a load balancer or gateway does, list it in node.share_exempt"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_looks_are_short_whatever_a_look_took() {
        assert_eq!(pause_after(Duration::ZERO), EVERY_IN_DEBT);
        assert_eq!(
            pause_after(Duration::from_micros(200)),
            Duration::from_millis(2)
        );
        assert_eq!(pause_after(Duration::from_millis(50)), LOOK_PAUSE_MAX);
    }
}
