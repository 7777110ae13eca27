//! Selection of the streams of one program.
//!
//! **Invariant:** a process is known by ID and start time: a later one with the same ID is not taken for it.

use super::sys::Playing;
use crate::device::{Follow, Target, Which};
use crate::limits::{ANCESTORS_MAX, PROCESSES_MAX};
use crate::process::{Identity, Processes};

/// Selects the streams of a program; see the module.
pub struct Tracker<P> {
    which: Which,
    follow: Follow,
    processes: P,
    /// Processes that are captured, also those that have ended.
    known: Vec<Identity>,
    /// Executable and name of the requested process.
    program: Option<(String, String)>,
    /// True once a stream was selected.
    has_begun: bool,
    /// Time at which a known process was last alive, in ms since the machine started.
    alive_ms: u64,
}

impl<P: Processes> Tracker<P> {
    /// A tracker that knows no stream yet.
    pub fn new(target: &Target, processes: P) -> Self {
        let by_default = match target.which {
            Which::Process { .. } => Follow::Children,
            Which::Name(_) => Follow::Restart,
        };
        let known = match target.which {
            Which::Process { pid, start_ms } => {
                let now = processes.identity(pid);
                vec![Identity {
                    start_ms: start_ms.or(now.start_ms),
                    ..now
                }]
            }
            Which::Name(_) => Vec::new(),
        };
        Self {
            which: target.which.clone(),
            follow: target.follow.unwrap_or(by_default),
            known,
            program: None,
            has_begun: false,
            alive_ms: processes.now_ms(),
            processes,
        }
    }

    /// The tracked program.
    pub fn which(&self) -> &Which {
        &self.which
    }

    /// Selects the streams that the program plays.
    pub fn select(&mut self, playing: Vec<Playing>) -> Vec<Playing> {
        self.is_alive();
        let mut taken = Vec::new();
        for stream in playing {
            if self.takes(&stream) {
                taken.push(stream);
            }
        }
        self.has_begun |= !taken.is_empty();
        taken
    }

    fn takes(&mut self, stream: &Playing) -> bool {
        if stream.pid == UNKNOWN_PID {
            // Only the name tells such a stream from others.
            return matches!(&self.which, Which::Name(name) if is_named(stream, name));
        }
        let identity = self.processes.identity(stream.pid);
        let is_known = self.known.contains(&identity);
        if is_known && self.program.is_none() {
            self.program = Some((stream.binary.clone(), stream.name.clone()));
        }
        if is_known {
            return true;
        }
        if !self.is_followed(stream) {
            return false;
        }
        if self.known.len() >= PROCESSES_MAX {
            let processes = &self.processes;
            self.known
                .retain(|known| processes.identity(known.pid) == *known);
        }
        if self.known.len() < PROCESSES_MAX {
            self.known.push(identity);
        }
        true
    }

    /// True if the process of a stream is to be captured from now on.
    fn is_followed(&mut self, stream: &Playing) -> bool {
        match (&self.which, self.follow) {
            (Which::Name(name), Follow::Restart) => is_named(stream, name),
            (Which::Name(name), Follow::Children) if !self.has_begun => {
                is_named(stream, name) || self.is_descendant(stream.pid)
            }
            (Which::Name(name), Follow::Nothing) => !self.has_begun && is_named(stream, name),
            (_, Follow::Children) => self.is_descendant(stream.pid),
            (Which::Process { .. }, Follow::Restart) => self.is_restart(stream),
            (Which::Process { .. }, Follow::Nothing) => false,
        }
    }

    /// True if an ancestor of the process is known.
    fn is_descendant(&self, pid: u32) -> bool {
        let parents = std::iter::successors(Some(pid), |&pid| self.processes.parent(pid));
        let is_process = |&pid: &u32| pid != UNKNOWN_PID;
        let mut parents = parents.skip(1).take(ANCESTORS_MAX).take_while(is_process);
        parents.any(|pid| self.known.contains(&self.processes.identity(pid)))
    }

    /// True for a process of the same program that started after the captured one was last alive.
    fn is_restart(&mut self, stream: &Playing) -> bool {
        let Some((binary, name)) = &self.program else {
            return false;
        };
        let is_same = if binary.is_empty() {
            stream.name == *name
        } else {
            stream.binary == *binary
        };
        let start_ms = self.processes.start_ms(stream.pid);
        is_same && !self.is_alive() && start_ms.is_some_and(|start_ms| start_ms >= self.alive_ms)
    }

    /// True while one of the known processes exists. Processes of another machine do not.
    pub fn is_alive(&mut self) -> bool {
        let processes = &self.processes;
        let is_there = |known: &Identity| {
            known.start_ms.is_some() && processes.start_ms(known.pid) == known.start_ms
        };
        let is_alive = self.known.iter().any(is_there);
        if is_alive {
            self.alive_ms = self.processes.now_ms();
        }
        is_alive
    }

    /// True if the capture waits for the restart of a program that has ended.
    pub fn awaits_restart(&self) -> bool {
        self.follow == Follow::Restart
    }
}

/// Process ID of a stream whose client reported none, and of the parent of the first process.
const UNKNOWN_PID: u32 = 0;

/// True if `name` is the program's name or executable, in whatever case.
fn is_named(stream: &Playing, name: &str) -> bool {
    [&stream.name, &stream.binary]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Processes: ID, start time, parent.
    #[derive(Clone, Default)]
    struct Table {
        rows: Rc<RefCell<Vec<(u32, u64, u32)>>>,
        now_ms: Rc<RefCell<u64>>,
    }

    impl Table {
        fn start(&self, pid: u32, parent: u32) {
            *self.now_ms.borrow_mut() += 1_000;
            let now_ms = *self.now_ms.borrow();
            self.rows.borrow_mut().push((pid, now_ms, parent));
        }

        fn end(&self, pid: u32) {
            *self.now_ms.borrow_mut() += 1_000;
            self.rows.borrow_mut().retain(|row| row.0 != pid);
            // Orphans become children of the first process.
            for row in self.rows.borrow_mut().iter_mut() {
                row.2 = if row.2 == pid { 1 } else { row.2 };
            }
        }

        fn row(&self, pid: u32) -> Option<(u32, u64, u32)> {
            self.rows.borrow().iter().find(|row| row.0 == pid).copied()
        }
    }

    impl Processes for Table {
        fn start_ms(&self, pid: u32) -> Option<u64> {
            self.row(pid).map(|row| row.1)
        }

        fn parent(&self, pid: u32) -> Option<u32> {
            self.row(pid).map(|row| row.2)
        }

        fn now_ms(&self) -> u64 {
            *self.now_ms.borrow()
        }
    }

    fn stream(pid: u32, binary: &str) -> Playing {
        Playing {
            pid,
            binary: binary.to_owned(),
            name: format!("{binary}'s name"),
            ..Playing::default()
        }
    }

    fn target(which: Which, follow: Option<Follow>) -> Target {
        Target { which, follow }
    }

    fn process(pid: u32) -> Which {
        Which::Process {
            pid,
            start_ms: None,
        }
    }

    /// Process IDs of the selected streams.
    fn taken(tracker: &mut Tracker<Table>, streams: &[(u32, &str)]) -> Vec<u32> {
        let playing = streams.iter().map(|&(pid, binary)| stream(pid, binary));
        let taken = tracker.select(playing.collect());
        taken.iter().map(|stream| stream.pid).collect()
    }

    #[test]
    fn an_id_that_is_used_again_is_another_process() {
        let table = Table::default();
        table.start(10, 1);
        let mut tracker = Tracker::new(&target(process(10), None), table.clone());
        assert_eq!(
            taken(&mut tracker, &[(10, "a"), (11, "a"), (10, "a")]),
            [10, 10]
        );
        table.end(10);
        table.start(10, 1);
        assert_eq!(taken(&mut tracker, &[(10, "a")]), [0; 0]);
        assert!(!tracker.is_alive());
        // A given start time is that of one process only.
        let old = Which::Process {
            pid: 10,
            start_ms: Some(1_000),
        };
        let mut tracker = Tracker::new(&target(old, None), table);
        assert_eq!(taken(&mut tracker, &[(10, "a")]), [0; 0]);
    }

    #[test]
    fn children_are_followed_and_other_processes_are_not() {
        let table = Table::default();
        for (pid, parent) in [(10, 1), (20, 10), (30, 20), (40, 1)] {
            table.start(pid, parent);
        }
        let streams = [(30, "x"), (40, "x"), (10, "y")];
        let mut tree = Tracker::new(&target(process(10), None), table.clone());
        assert_eq!(taken(&mut tree, &streams), [30, 10]);
        let alone = target(process(10), Some(Follow::Nothing));
        assert_eq!(
            taken(&mut Tracker::new(&alone, table.clone()), &streams),
            [10]
        );
        // A known descendant stays known when its parents have ended.
        table.end(10);
        table.end(20);
        assert_eq!(taken(&mut tree, &streams), [30]);
        assert!(tree.is_alive());
        table.end(30);
        assert!(!tree.is_alive() && !tree.awaits_restart());
    }

    #[test]
    fn a_restarted_program_is_the_same_one() {
        let table = Table::default();
        table.start(10, 1);
        table.start(11, 1);
        let restart = target(process(10), Some(Follow::Restart));
        let mut tracker = Tracker::new(&restart, table.clone());
        let both = [(10, "player"), (11, "player")];
        assert_eq!(taken(&mut tracker, &both), [10]);
        table.start(12, 1);
        table.start(99, 1);
        // Another instance, and one that started while the first was alive.
        assert_eq!(taken(&mut tracker, &[(10, "player"), (12, "player")]), [10]);
        table.end(10);
        assert_eq!(
            taken(&mut tracker, &[(11, "player"), (12, "player")]),
            [0; 0]
        );
        table.start(13, 1);
        table.start(14, 1);
        assert_eq!(taken(&mut tracker, &[(14, "other"), (13, "player")]), [13]);
        assert!(tracker.awaits_restart());
    }

    #[test]
    fn streams_without_a_process_are_known_by_their_name_alone() {
        let table = Table::default();
        table.start(1, 0);
        table.start(10, 1);
        for follow in [None, Some(Follow::Children)] {
            let target = target(Which::Name("player".to_owned()), follow);
            let mut tracker = Tracker::new(&target, table.clone());
            let both = [(0, "player"), (0, "other")];
            assert_eq!(taken(&mut tracker, &both), [0], "{follow:?}");
            // A stream without a process is no ancestor.
            assert_eq!(taken(&mut tracker, &[(10, "other")]), [0; 0], "{follow:?}");
        }
        let mut process = Tracker::new(&target(process(10), None), table);
        assert_eq!(taken(&mut process, &[(0, "player")]), [0; 0]);
    }

    #[test]
    fn a_name_is_that_of_a_program_or_of_its_executable() {
        let table = Table::default();
        for pid in 10..14 {
            table.start(pid, 1);
        }
        let named = |name: &str, follow| {
            let target = target(Which::Name(name.to_owned()), follow);
            Tracker::new(&target, table.clone())
        };
        let streams = [(10, "player"), (11, "other"), (12, "player")];
        let mut all = named("Player", None);
        assert_eq!(taken(&mut all, &streams), [10, 12]);
        assert_eq!(taken(&mut named("player's name", None), &streams), [10, 12]);
        assert_eq!(taken(&mut all, &[(13, "player")]), [13]);
        // Without a restart, the processes that were there at first.
        let mut first = named("player", Some(Follow::Nothing));
        assert_eq!(taken(&mut first, &streams), [10, 12]);
        assert_eq!(taken(&mut first, &[(12, "player"), (13, "player")]), [12]);
        let mut tree = named("player", Some(Follow::Children));
        assert_eq!(taken(&mut tree, &streams), [10, 12]);
        table.start(20, 12);
        assert_eq!(taken(&mut tree, &[(20, "helper"), (13, "player")]), [20]);
    }
}
