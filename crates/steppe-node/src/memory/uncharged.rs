//! Charges the budget with resident memory that no reservation covers, and pays debts by closing connections.
//!
//! Charges count what the node knows that it takes. Allocators round up and have fragmentation, libraries keep
//! memory of their own, and a charge may be wrong. So a thread compares RSS with the charges and makes the
//! difference a forced charge of `node/uncharged`, whatever is free. Not counted are free pages that the
//! allocator hands out again before it takes new ones, and the *baseline*: pages of the program's files, its
//! configuration and stacks, as they were when serving began and at each reload, up to [`BASELINE_BYTES_MAX`].
//!
//! The thread is woken whenever a thread asked for another [`NOTICE_BYTES`](steppe_mem::limits::NOTICE_BYTES), and
//! looks every [`EVERY`] otherwise. In debt it purges free pages; caches and idle portions have given way by then,
//! and nothing is read that takes a reservation. Debt that stays is paid by connections, those that hold most
//! first.
//!
//! Invariant: RSS stays within the budget, the baseline, and what is allocated between two looks.

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

/// In the environment: `off` where RSS says nothing of the node, as under valgrind or a sanitizer.
const VARIABLE: &str = "STEPPE_UNCHARGED";

/// The account's name.
const ACCOUNT: &str = "uncharged";

/// Interval of looks while nobody asks for much.
const EVERY: Duration = Duration::from_millis(100);

/// Interval of looks in debt, and the shortest while threads ask for much.
const EVERY_IN_DEBT: Duration = Duration::from_millis(1);

/// Tasks whose client held its share are woken so often.
const WAKE_EVERY: Duration = Duration::from_millis(20);

/// Connections stand still in debt until none has held anything for so long: others may hold what is owed.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Debt of this age is paid by connections. Before that, free pages are purged.
const SHED_AFTER: Duration = Duration::from_millis(2);

/// Each time that connections are told to close within a debt, twice as much is asked for, so many times.
const ROUNDS_MAX: u32 = 6;

/// Time for connections that were told to close, before others are told.
const SHED_EVERY: Duration = Duration::from_millis(10);

/// Between two purges of pages that are free among used ones.
const PURGE_EVERY: Duration = Duration::from_millis(20);

/// A look takes one part in so many of the thread's time, where [`LOOK_PAUSE_MAX`] allows such a pause.
const LOOK_SHARE: u32 = 10;

/// The longest pause between two looks while threads ask for much: a worker fills some hundred MiB a second.
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(5);

/// Bytes of the program's own memory that are outside of the budget. The rest is uncharged, and counts.
const BASELINE_BYTES_MAX: u64 = 20 << 20;

/// Where uncharged memory has one part in [`UNCHARGED_PART`] of the budget, one part in so many is kept free for clients
/// that hold little: else it would stand at the limit without a debt, and each newcomer would be refused.
const ROOM_PART: u64 = 16;
const UNCHARGED_PART: u64 = 4;

/// Free pages of the allocator below this are not purged in a hurry.
const PURGE_BYTES_MIN: u64 = 1 << 20;

/// The thread that measures, until it is dropped.
#[derive(Debug)]
pub struct Uncharged {
    figures: Arc<UnchargedFigures>,
    thread: Option<JoinHandle<()>>,
}

/// Its figures, for people.
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

    /// The most that was.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that it exceeded the budget by.
    #[must_use]
    pub fn debt_peak_bytes(&self) -> u64 {
        self.debt_peak_bytes.load(Ordering::Relaxed)
    }

    /// Times that a debt began.
    #[must_use]
    pub fn debts(&self) -> u64 {
        self.debts.load(Ordering::Relaxed)
    }
}

impl Uncharged {
    /// Starts the thread. What is resident now beyond the charges of `budget` is the baseline.
    ///
    /// # Errors
    /// There is no thread to be had, or no `/proc`.
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
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// A debt that is not paid yet.
struct Debt {
    since: Instant,
    /// Times that connections were told to close.
    rounds: u32,
    /// When there was a connection left last that can pay, or when it began.
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
    /// `None`: a tool takes memory of the process, and says so.
    resident: Option<Resident>,
    charge: ForcedCharge,
    figures: Arc<UnchargedFigures>,
    debt: Option<Debt>,
    /// When free pages were purged last.
    purged_at: Option<Instant>,
    /// When connections were told to close last.
    told_at: Option<Instant>,
    /// Reservations that had been held back by the last look at them.
    held_back_total: u64,
}

/// Tasks that wait for their client to hold less.
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

    /// Wakes tasks whose clients hold less again, and tells of clients that were held back for the first time. Returns
    /// the tasks that wait now. Where none `waited` and none was added, no client is looked at.
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

    /// RSS in bytes; `None` where it says nothing.
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

    /// True when there are free pages, or there may be some among used ones.
    fn wants_purge(&self, now: Instant) -> bool {
        allocator::dirty_bytes() >= PURGE_BYTES_MIN
            || self.purged_at.is_none_or(|at| now >= at + PURGE_EVERY)
    }

    /// Bytes resident that the allocator does not hand out again first.
    fn taken(seen: u64) -> u64 {
        seen.saturating_sub(allocator::dirty_bytes())
    }

    /// Charged by everybody else.
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

    /// Closes connections where debt has stayed.
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
        // Connections that can pay go on doing so.
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
        // An amount that did not help was too little, whatever those held that were told.
        let rounds = debt.rounds;
        debt.rounds = (rounds + 1).min(ROUNDS_MAX);
        // Twice the room, so that what grows on does not owe at once again.
        let room = self.budget.root().limit_bytes() / ROOM_PART;
        let clients = self.budget.clients();
        tell_shed(owed, &clients.shed((owed + room) << rounds));
        // Those that were told may take a while to end.
        if clients.can_pay() {
            debt.paid_at = now;
        }
    }

    /// The debt, and what lacks of the room for others.
    fn owed_bytes(&self) -> u64 {
        let (root, debt) = (self.budget.root(), self.budget.debt_bytes());
        if self.charge.bytes() < root.limit_bytes() / UNCHARGED_PART {
            return debt;
        }
        let room = root.limit_bytes() / ROOM_PART;
        debt + room.saturating_sub(root.headroom_bytes())
    }
}

/// The pause behind a look that took so long: however much is asked for, looks leave the processor to others. It has a
/// bound, since a look that had to wait for a processor has missed enough.
fn pause_after(taken: Duration) -> Duration {
    (taken * LOOK_SHARE).clamp(EVERY_IN_DEBT, LOOK_PAUSE_MAX)
}

/// One line for all that were told to close at once, with the one that held most.
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
