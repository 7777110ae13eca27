//! Looks at a target: a set of processes, and everything that descends from them.
//!
//! Three looks at three prices. [`Observer::fast`] reads `statm` alone, microseconds a process.
//! [`Observer::slow`] reads everything that does not disturb the target. [`Observer::quiet`] reads
//! `smaps_rollup`, which holds the target's memory lock for milliseconds and belongs to moments without
//! load. Counters (CPU, faults, switches, system calls) count from the moment a process was attached to
//! and never go backwards, even when processes end.
//!
//! A figure that can't be read is `None`, and [`Observer::capabilities`] has the reason. Leaves out
//! systems other than Linux, and the live bytes that a target reports itself.

pub(crate) mod capability;
pub mod cgroup;
mod handles;
mod perf;
mod places;
mod proc_file;
mod sockets;
mod stat;
mod switches;
mod tree;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::limits::QUICK_ROLLUP;
use crate::record::Sample;
use cgroup::{Charge, Place};
use perf::{CountError, Counters, Event};
use proc_file::{Reader, is_gone};
use sockets::Namespace;
use stat::{Rollup, Status, Used, sum};
use switches::SwitchTally;
use tree::Tree;

pub use handles::Handles;
pub use places::{Place as GrowthPlace, Places, Unit as PlaceUnit, grown};
pub use sockets::{Sockets, TcpState};

/// Optional observations of a target: those that cost something, and its control group.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Count system calls (about 0.4 µs each).
    pub syscalls: bool,
    /// Count instructions.
    pub instructions: bool,
    /// The target's own control group ([`cgroup::Group::path`]): every process in it belongs to the
    /// target. Without one, the group of the roots is read if no other process is in it.
    pub cgroup: Option<PathBuf>,
}

/// Why a target can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The process has ended, or never existed.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process belongs to another user, or is hidden.
    #[error("no permission to observe process {pid}")]
    Refused {
        /// The process id.
        pid: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// The figures of [`Observer::fast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fast {
    /// Sum over the tree; `None` when no process is left.
    pub rss_bytes: Option<u64>,
    /// Processes that are alive.
    pub processes: u64,
}

/// The figures of [`Observer::slow`], which can be read under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "named after the columns of record::Sample")]
pub struct Slow {
    pub rss_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// Peak RSS since [`Observer::reset_high_water`].
    pub hwm_bytes: Option<u64>,
    /// Time on a CPU; where perf events are refused, to the tick of the kernel's clock (10 ms
    /// mostly).
    pub cpu_us: Option<u64>,
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    /// Context switches; those of a thread that ended between two looks lack its last part.
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    pub processes: u64,
    pub threads: Option<u64>,
    pub open_files: Option<u64>,
    pub sockets: Option<Sockets>,
    pub syscalls: Option<u64>,
    pub instructions: Option<u64>,
    pub cgroup: Option<Charge>,
    /// CPU time that the look took.
    pub cost: Duration,
}

/// The parts of memory in a moment without load, read by [`Observer::quiet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "named after the columns of record::Epoch")]
pub struct Quiet {
    pub rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    /// Shared anonymous mappings and tmpfs files, each process's share of them.
    pub shmem_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub handles: Handles,
}

/// One target: a set of root processes, and everything that descends from them.
#[derive(Debug)]
pub struct Observer {
    roots: Vec<u32>,
    wanted: Wanted,
    reader: Reader,
    tree: Tree,
    switches: SwitchTally,
    sockets: sockets::Counter,
    inodes: Vec<u64>,
    /// Process id and number of open descriptors, as last counted.
    open_files: Vec<(u32, u64)>,
    syscalls: Option<Result<Counters, CountError>>,
    instructions: Option<Result<Counters, CountError>>,
    task_clock: Option<Result<Counters, CountError>>,
    group: Result<Place, String>,
    /// Highest sum of `statm` since the high-water mark was reset: an ended process leaves no other
    /// trace.
    highest_rss_bytes: u64,
    page_bytes: u64,
    ticks_per_s: u64,
}

impl Slow {
    /// True if this look took more than a quarter of a per cent of `interval`, the time between two
    /// looks: then look less often. The rest of one per cent is for the other observations.
    pub fn is_dear(&self, interval: Duration) -> bool {
        self.cost.as_nanos() * 400 > interval.as_nanos()
    }

    /// Fills in the columns of `sample` that a slow look reads.
    pub fn write_to(&self, sample: &mut Sample) {
        let sockets = |state| self.sockets.map(|sockets| sockets.count(state));
        sample.rss_bytes = self.rss_bytes;
        sample.cpu_us = self.cpu_us;
        sample.minor_faults = self.minor_faults;
        sample.major_faults = self.major_faults;
        sample.voluntary_switches = self.voluntary_switches;
        sample.involuntary_switches = self.involuntary_switches;
        sample.processes = Some(self.processes);
        sample.threads = self.threads;
        sample.open_files = self.open_files;
        sample.syscalls = self.syscalls;
        sample.established = sockets(TcpState::Established);
        sample.close_wait = sockets(TcpState::CloseWait);
        sample.time_wait = sockets(TcpState::TimeWait);
        sample.listen = sockets(TcpState::Listen);
        sample.other_tcp = self.sockets.map(|sockets| sockets.other());
        sample.cgroup_bytes = self.cgroup.and_then(|charge| charge.bytes);
        sample.cgroup_sock_bytes = self.cgroup.and_then(|charge| charge.sock_bytes);
    }
}

impl Observer {
    /// Begins to look at `roots` and everything that descends from them.
    ///
    /// # Errors
    /// When one of them does not exist, or can't be looked at at all.
    pub fn attach(roots: &[u32], wanted: Wanted) -> Result<Self, ObserveError> {
        let mut observer = Self {
            roots: Vec::new(),
            reader: Reader::default(),
            tree: Tree::new(wanted.cgroup.as_deref()),
            switches: SwitchTally::default(),
            sockets: sockets::Counter::default(),
            inodes: Vec::new(),
            open_files: Vec::new(),
            syscalls: wanted.syscalls.then(|| Ok(Counters::new(Event::Syscalls))),
            instructions: wanted
                .instructions
                .then(|| Ok(Counters::new(Event::Instructions))),
            task_clock: Some(Ok(Counters::new(Event::TaskClock))),
            group: Err("no process to look at".to_owned()),
            highest_rss_bytes: 0,
            page_bytes: rustix::param::page_size() as u64,
            ticks_per_s: rustix::param::clock_ticks_per_second(),
            wanted,
        };
        for root in roots {
            observer.add(*root)?;
        }
        observer.group = observer.find_group();
        Ok(observer)
    }

    /// Adds another root, with its descendants. A process that has ended is not added.
    pub fn add_root(&mut self, pid: u32) {
        let _ = self.add(pid);
    }

    /// Ids of the living processes, listed anew.
    pub fn processes(&mut self) -> Vec<u32> {
        self.tree.look(&mut self.reader);
        self.tree.living().collect()
    }

    /// True if the process was alive when the tree was last looked at.
    pub fn lives(&self, pid: u32) -> bool {
        self.tree.living().any(|it| it == pid)
    }

    /// Reads resident bytes and the number of processes. Takes microseconds a process.
    pub fn fast(&mut self) -> Fast {
        if self.tree.has_newcomer(&mut self.reader) {
            self.tree.look(&mut self.reader);
        }
        let mut pages: u64 = 0;
        let mut processes = 0;
        for pid in self.tree.living() {
            let resident = self
                .reader
                .process(pid, "statm")
                .ok()
                .and_then(stat::resident_pages);
            pages = pages.saturating_add(resident.unwrap_or_default());
            // A process that has just ended has no memory left; its row is a row of zeros.
            processes += u64::from(resident.is_some_and(|pages| pages > 0));
        }
        let has_ended = processes < self.tree.living().count() as u64;
        if has_ended {
            self.tree.look(&mut self.reader);
        }
        let rss = pages.saturating_mul(self.page_bytes);
        self.highest_rss_bytes = self.highest_rss_bytes.max(rss);
        Fast {
            rss_bytes: (processes > 0).then_some(rss),
            processes,
        }
    }

    /// Reads everything that can be read without disturbing the target.
    pub fn slow(&mut self) -> Slow {
        let start = thread_cpu_time();
        self.tree.look(&mut self.reader);
        let memory = self.memory();
        let used = self.tree.used();
        let switches = self.switches.look(&mut self.reader, self.tree.threads());
        let processes = self.tree.living().count() as u64;
        let (open_files, sockets) = self.files();
        let lives = processes > 0;
        // CPU time in nanoseconds where perf events are allowed, else in ticks of the kernel's clock.
        let task_clock = count(&mut self.task_clock).map(|ns| ns / 1_000);
        let cpu_us = task_clock.unwrap_or_else(|| self.microseconds(used));
        let mut slow = Slow {
            rss_bytes: memory.and_then(|it| it.rss),
            anonymous_bytes: memory.and_then(|it| it.anonymous),
            swap_bytes: memory.and_then(|it| it.swap),
            hwm_bytes: memory.and_then(|it| it.hwm),
            cpu_us: Some(cpu_us),
            minor_faults: Some(used.minor_faults),
            major_faults: Some(used.major_faults),
            voluntary_switches: switches.map(|it| it.voluntary),
            involuntary_switches: switches.map(|it| it.involuntary),
            processes,
            threads: lives.then(|| self.tree.thread_count()),
            open_files,
            sockets,
            syscalls: count(&mut self.syscalls),
            instructions: count(&mut self.instructions),
            cgroup: self.charge(),
            cost: Duration::ZERO,
        };
        self.highest_rss_bytes = self
            .highest_rss_bytes
            .max(slow.rss_bytes.unwrap_or_default());
        slow.hwm_bytes = slow.hwm_bytes.map(|it| it.max(self.highest_rss_bytes));
        slow.cost = thread_cpu_time().saturating_sub(start);
        slow
    }

    /// TCP ports that the target listens on, lowest first. Empty where they can't be seen.
    pub fn listening_ports(&mut self) -> Vec<u16> {
        self.tree.look(&mut self.reader);
        self.files();
        self.sockets.listening()
    }

    /// Places of memory and open files. Only for moments without load, and seldom: every mapping is
    /// read.
    pub fn places(&mut self) -> Places {
        self.tree.look(&mut self.reader);
        places::places(self.tree.living())
    }

    /// Reads the parts of memory. Only for moments without load: the read holds the target's memory
    /// lock, some 20 ms a gibibyte. The median of three readings where one is quick.
    pub fn quiet(&mut self) -> Quiet {
        self.tree.look(&mut self.reader);
        Quiet {
            handles: self.handles(),
            ..self.memory_at_rest()
        }
    }

    fn memory_at_rest(&mut self) -> Quiet {
        let start = Instant::now();
        let first = self.rollup();
        if start.elapsed() > QUICK_ROLLUP {
            return first;
        }
        let rest = [self.rollup(), self.rollup()];
        let median = |of: fn(&Quiet) -> Option<u64>| {
            let mut readings = [of(&first)?, of(&rest[0])?, of(&rest[1])?];
            readings.sort_unstable();
            Some(readings[1])
        };
        Quiet {
            rss_bytes: median(|it| it.rss_bytes),
            pss_bytes: median(|it| it.pss_bytes),
            uss_bytes: median(|it| it.uss_bytes),
            anonymous_bytes: median(|it| it.anonymous_bytes),
            shmem_bytes: median(|it| it.shmem_bytes),
            swap_bytes: median(|it| it.swap_bytes),
            handles: Handles::default(),
        }
    }

    fn handles(&mut self) -> Handles {
        let living: Vec<u32> = self.tree.living().collect();
        handles::count(
            &mut self.reader,
            self.tree.threads(),
            &living,
            &self.open_files,
        )
    }

    /// The charge of the control group; `None` if there is no group to read.
    pub fn charge(&self) -> Option<Charge> {
        self.group.as_ref().ok().map(Place::charge)
    }

    /// Resets the high-water mark of each process to its current RSS.
    pub fn reset_high_water(&mut self) {
        self.tree.look(&mut self.reader);
        for pid in self.tree.living() {
            // Where it is refused the capability `hwm` is missing.
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
        self.highest_rss_bytes = 0;
        self.fast();
    }

    /// Peak RSS since the last reset: the sum of the processes' marks, or the highest sum that was seen
    /// at once where that is more, since an ended process leaves no mark.
    pub fn high_water(&mut self) -> Option<u64> {
        self.tree.look(&mut self.reader);
        let marks = self.memory()?.hwm?;
        Some(marks.max(self.highest_rss_bytes))
    }

    /// Capabilities of the observer on this target, found by trying.
    pub fn capabilities(&mut self) -> Vec<crate::record::Capability> {
        capability::of_target(self)
    }

    fn add(&mut self, pid: u32) -> Result<(), ObserveError> {
        let is_member = self.tree.living().any(|member| member == pid);
        if is_member {
            return Ok(());
        }
        let added = self.tree.add_root(&mut self.reader, pid);
        added.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ObserveError::NoProcess(pid),
            _ => ObserveError::Refused { pid, source },
        })?;
        self.roots.push(pid);
        self.attach_counters(pid);
        self.switches.skip(&mut self.reader, self.tree.threads());
        Ok(())
    }

    /// Attaches the counters to a new root; those of other roots reach their descendants by
    /// inheritance.
    fn attach_counters(&mut self, root: u32) {
        let slots = [
            &mut self.syscalls,
            &mut self.instructions,
            &mut self.task_clock,
        ];
        for slot in slots {
            let Some(Ok(counters)) = slot else {
                continue;
            };
            // A separate tree, since processes of `self.tree` inherit their counters already.
            let mut tree = Tree::new(None);
            if tree.add_root(&mut self.reader, root).is_err() {
                continue;
            }
            let reader = &mut self.reader;
            let attached = counters.attach(|| {
                tree.look(reader);
                tree.threads().iter().map(|(_, tid)| *tid).collect()
            });
            if let Err(error) = attached {
                *slot = Some(Err(error));
            }
        }
    }

    /// Sums of `status` over the tree; `None` when no process is left.
    fn memory(&mut self) -> Option<Status> {
        let mut total: Option<Status> = None;
        for pid in self.tree.living() {
            let Ok(text) = self.reader.process(pid, "status") else {
                continue;
            };
            let status = Status::parse(text);
            // A process without memory of its own is just ending.
            if status.rss.is_none() {
                continue;
            }
            total = Some(total.map_or(status, |total| total.plus(status)));
        }
        total
    }

    fn files(&mut self) -> (Option<u64>, Option<Sockets>) {
        self.inodes.clear();
        self.open_files.clear();
        let mut open_files = None;
        let mut namespaces: Vec<Namespace> = Vec::new();
        let mut can_tell_namespaces = true;
        let ours = self.reader.inode(std::process::id(), "ns/net").ok();
        for pid in self.tree.living() {
            match self.reader.open_files(pid, &mut self.inodes) {
                Ok(count) => {
                    self.open_files.push((pid, count));
                    open_files = Some(open_files.unwrap_or(0) + count);
                }
                Err(error) if is_gone(&error) => continue,
                Err(_) => return (None, None),
            }
            match self.reader.inode(pid, "ns/net") {
                Ok(inode) if namespaces.iter().any(|seen| seen.inode == inode) => {}
                Ok(inode) => namespaces.push(Namespace {
                    inode,
                    pid,
                    is_ours: Some(inode) == ours,
                }),
                Err(error) if is_gone(&error) => {}
                Err(_) => can_tell_namespaces = false,
            }
        }
        if !can_tell_namespaces || namespaces.is_empty() {
            return (open_files, None);
        }
        self.inodes.sort_unstable();
        self.inodes.dedup();
        (
            open_files,
            self.sockets.count(&namespaces, &self.inodes).ok(),
        )
    }

    fn rollup(&mut self) -> Quiet {
        let mut total: Option<Rollup> = None;
        for pid in self.tree.living() {
            let rollup = match self.reader.process(pid, "smaps_rollup") {
                Ok(text) => Rollup::parse(text),
                // Refused, or an old kernel; `status` of a process that is gone is not found either.
                Err(_) => rollup_of_status(&mut self.reader, pid),
            };
            if let Some(rollup) = rollup {
                total = Some(total.map_or(rollup, |total| total.plus(rollup)));
            }
        }
        total.map_or_else(Quiet::default, |total| Quiet {
            rss_bytes: Some(total.rss),
            pss_bytes: total.pss,
            uss_bytes: total.uss,
            anonymous_bytes: total.anonymous,
            shmem_bytes: total.shmem,
            swap_bytes: total.swap,
            handles: Handles::default(),
        })
    }

    /// The control group to read, or the reason why none is.
    fn find_group(&mut self) -> Result<Place, String> {
        if let Some(path) = &self.wanted.cgroup {
            return Ok(Place::at(path));
        }
        let root = *self.roots.first().ok_or("no process to look at")?;
        let place = Place::of_process(root).ok_or("no memory controller is mounted")?;
        let members = place
            .members()
            .ok_or_else(|| format!("{} can't be read", place.path.display()))?;
        let family: Vec<u32> = self.tree.living().collect();
        let strangers = members.iter().filter(|pid| !family.contains(pid)).count();
        if strangers > 0 {
            return Err(format!(
                "its group {} holds {strangers} other processes too; start the target in one of \
                 its own",
                place.path.display()
            ));
        }
        Ok(place)
    }

    /// The source of CPU time, for people.
    fn cpu_source(&mut self) -> &'static str {
        match count(&mut self.task_clock) {
            Some(_) => "the task clock of perf, in nanoseconds",
            None => "/proc/PID/stat, in clock ticks: perf events are refused",
        }
    }

    fn microseconds(&self, used: Used) -> u64 {
        let us = u128::from(used.user_and_system_ticks) * 1_000_000
            / u128::from(self.ticks_per_s.max(1));
        u64::try_from(us).unwrap_or(u64::MAX)
    }
}

/// Peak RSS of a process in bytes, which the kernel keeps while the process is alive.
#[must_use]
pub fn high_water_bytes(process: Pid) -> Option<u64> {
    let id = process.as_raw_nonzero();
    let text = fs::read(format!("/proc/{id}/status")).ok()?;
    Status::parse(&text).hwm
}

/// CPU time of the calling thread: the cost of a look.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl Status {
    fn plus(self, other: Self) -> Self {
        Self {
            rss: sum(self.rss, other.rss),
            hwm: sum(self.hwm, other.hwm),
            anonymous: sum(self.anonymous, other.anonymous),
            swap: sum(self.swap, other.swap),
            switches: None,
        }
    }
}

fn count(slot: &mut Option<Result<Counters, CountError>>) -> Option<u64> {
    slot.as_mut()?.as_mut().ok()?.value()
}

/// The figures of `status`; `None` for a process that is just ending.
fn rollup_of_status(reader: &mut Reader, pid: u32) -> Option<Rollup> {
    let status = Status::parse(reader.process(pid, "status").ok()?);
    Some(Rollup {
        rss: status.rss?,
        pss: None,
        uss: None,
        anonymous: status.anonymous,
        shmem: None,
        swap: status.swap,
    })
}
