//! The sampling thread: cheap looks often, slow ones once a second, others on request.
//!
//! The thread owns the observer, so that there is one look at a time. It measures its own cost.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::control::{Control, Machine};
use crate::limits::SAMPLES_HELD_MAX;
use crate::observe::{ObserveError, Observer, Places, Quiet, Slow, Wanted, thread_cpu_time};
use crate::record::{Capability, Sample};
use crate::scenario::Sampling;

/// The target to look at.
pub(super) struct Subject {
    pub(super) roots: Vec<u32>,
    pub(super) group: Option<PathBuf>,
    pub(super) variant: String,
    pub(super) run: u32,
    /// Start of the clock of all times.
    pub(super) clock: Instant,
    pub(super) sampling: Sampling,
}

/// The answer to a request.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) slow: Slow,
    /// Figures of a quiet moment, for [`Sampler::quiet`] only.
    pub(super) quiet: Option<Quiet>,
    /// Places of memory and files, for [`Sampler::places`] only.
    pub(super) places: Places,
    /// Living processes, for [`Sampler::processes`] only.
    pub(super) processes: Vec<u32>,
    /// The machine since the last look that began an epoch.
    pub(super) machine: Machine,
    /// Samples since the last look.
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// A look after the high-water marks were reset.
    Begin,
    Now,
    Quiet,
    Places,
    Processes,
}

pub(super) struct Sampler {
    asks: Option<SyncSender<Ask>>,
    looks: Receiver<Look>,
    thread: Option<JoinHandle<Duration>>,
    pub(super) capabilities: Vec<Capability>,
}

impl Sampler {
    pub(super) fn start(subject: Subject) -> Result<Self, ObserveError> {
        let wanted = Wanted {
            syscalls: true,
            instructions: true,
            cgroup: subject.group.clone(),
        };
        let mut observer = Observer::attach(&subject.roots, wanted)?;
        let capabilities = observer.capabilities();
        let (asks, asked) = sync_channel(1);
        let (answer, looks) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || Watch::new(observer, subject).run(&asked, &answer))
            .map_err(|source| ObserveError::Refused { pid: 0, source })?;
        Ok(Self {
            asks: Some(asks),
            looks,
            thread: Some(thread),
            capabilities,
        })
    }

    /// Begins an epoch: resets the high-water marks.
    pub(super) fn begin(&self) -> Look {
        self.ask(Ask::Begin)
    }

    /// Reads everything that does not disturb the target.
    pub(super) fn now(&self) -> Look {
        self.ask(Ask::Now)
    }

    /// Reads memory in a quiet moment.
    pub(super) fn quiet(&self) -> Look {
        self.ask(Ask::Quiet)
    }

    /// The places of memory and open files, in a quiet moment.
    pub(super) fn places(&self) -> Places {
        self.ask(Ask::Places).places
    }

    /// The processes that are alive now.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.ask(Ask::Processes).processes
    }

    fn ask(&self, ask: Ask) -> Look {
        let sent = self
            .asks
            .as_ref()
            .is_some_and(|asks| asks.send(ask).is_ok());
        if sent {
            self.looks.recv().unwrap_or_default()
        } else {
            Look::default()
        }
    }

    /// Ends the thread; returns its CPU time.
    pub(super) fn stop(mut self) -> Duration {
        self.asks = None;
        self.thread
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

struct Watch {
    observer: Observer,
    subject: Subject,
    samples: Vec<Sample>,
    slow_apart: Duration,
    control: Control,
}

impl Watch {
    fn new(observer: Observer, subject: Subject) -> Self {
        let slow_apart = subject.sampling.slow;
        Self {
            observer,
            subject,
            samples: Vec::new(),
            slow_apart,
            control: Control::default(),
        }
    }

    fn run(mut self, asked: &Receiver<Ask>, answer: &SyncSender<Look>) -> Duration {
        let mut next_fast = Instant::now();
        let mut next_slow = next_fast;
        loop {
            let wait = next_fast
                .min(next_slow)
                .saturating_duration_since(Instant::now());
            match asked.recv_timeout(wait) {
                Ok(ask) => {
                    if answer.send(self.look(ask)).is_err() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    if now >= next_slow {
                        self.sample_slow();
                        next_slow = now + self.slow_apart;
                        next_fast = now + self.subject.sampling.fast;
                    } else if now >= next_fast {
                        self.sample_fast();
                        next_fast = now + self.subject.sampling.fast;
                    }
                }
            }
        }
        thread_cpu_time()
    }

    fn look(&mut self, ask: Ask) -> Look {
        let mut look = Look::default();
        match ask {
            // Figures that do not change in a quiet moment were read when the load paused.
            Ask::Quiet => {
                let quiet = self.observer.quiet();
                look.slow.cgroup = self.observer.charge();
                look.quiet = Some(quiet);
                self.keep(|sample| sample.rss_bytes = quiet.rss_bytes);
            }
            Ask::Places => {
                look.places = self.observer.places();
                // Samples stay for the next look that takes them.
                return look;
            }
            Ask::Processes => {
                look.processes = self.observer.processes();
                return look;
            }
            Ask::Begin | Ask::Now => {
                if ask == Ask::Begin {
                    self.observer.reset_high_water();
                    self.control.begin();
                } else {
                    look.machine = self.control.seen();
                }
                look.slow = self.observer.slow();
                self.keep(|sample| look.slow.write_to(sample));
            }
        }
        look.samples = std::mem::take(&mut self.samples);
        look
    }

    fn sample_fast(&mut self) {
        self.control.work();
        let fast = self.observer.fast();
        self.keep(|sample| {
            sample.rss_bytes = fast.rss_bytes;
            sample.processes = Some(fast.processes);
        });
    }

    /// Takes a slow sample; doubles the interval where looks cost too much.
    fn sample_slow(&mut self) {
        let slow = self.observer.slow();
        if slow.is_dear(self.slow_apart) {
            self.slow_apart *= 2;
        }
        self.keep(|sample| slow.write_to(sample));
    }

    /// Drops every second sample, so that a long epoch is seen at half the rate from its beginning
    /// to its end.
    fn thin(&mut self) {
        let mut index = 0;
        self.samples.retain(|sample| {
            index += 1;
            // Few samples have CLOSE-WAIT sockets, and none of these may be lost.
            sample.close_wait.is_some_and(|count| count > 0) || index % 2 == 0
        });
        self.samples.truncate(SAMPLES_HELD_MAX - 1);
        self.subject.sampling.fast *= 2;
    }

    fn keep(&mut self, fill: impl FnOnce(&mut Sample)) {
        if self.samples.len() >= SAMPLES_HELD_MAX {
            self.thin();
        }
        let since = self.subject.clock.elapsed().as_millis();
        let mut sample = Sample {
            variant: self.subject.variant.clone(),
            run: self.subject.run,
            at_ms: u64::try_from(since).unwrap_or(u64::MAX),
            ..Sample::default()
        };
        fill(&mut sample);
        self.samples.push(sample);
    }
}
