//! `watch`: attaches to a running process and shows its figures, live.
//!
//! On a terminal `watch` draws; elsewhere it writes one line for each look, or JSON. The target is
//! only looked at: nothing of it is reset, and `smaps_rollup`, which holds the target's memory lock,
//! is read seldom and only of small targets. A slope is shown as a trend; a verdict needs epochs and
//! a budget, and comes from `soak`.

mod history;
mod lines;
mod screen;
pub(crate) mod units;

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::limits::{WATCH_INTERVAL_MAX, WATCH_ROLLUP_EVERY, WATCH_ROLLUP_RSS_BYTES_MAX};
use crate::observe::{ObserveError, Observer, Wanted, thread_cpu_time};
use crate::record::Capability;
use history::{History, Look};

/// The process to watch, and the duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// The root process, watched with everything that descends from it.
    pub pid: u32,
    /// Duration; `None`: until the process ends, or the user ends it.
    pub length: Option<Duration>,
    /// Time between two looks.
    pub interval: Duration,
    /// JSON lines instead of text, and never a live view.
    pub json: bool,
}

/// Why a process can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no such process, or it may not be looked at.
    #[error("{}", help(.0))]
    Target(#[from] ObserveError),
    /// The terminal or the output failed.
    #[error("can't write the output")]
    Output(#[from] io::Error),
}

impl WatchError {
    /// The exit code of the lab.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Target(_) => 2,
            Self::Output(_) => 5,
        }
    }
}

/// Watches to the end, and returns the exit code: 0, or 4 when the target ended.
///
/// # Errors
/// When there is no such process, it may not be looked at, or the output can't be written.
pub fn run(options: WatchOptions) -> Result<u8, WatchError> {
    let is_live = !options.json && io::stdout().is_terminal() && io::stdin().is_terminal();
    let mut watch = Watch::attach(&options)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let end = if is_live {
        let mut terminal = ratatui::try_init()?;
        let end = watch.draw(&mut terminal, &options, &stop);
        ratatui::try_restore()?;
        end?
    } else {
        match watch.write(&mut io::stdout(), &options, &stop) {
            // The reader of the pipe has closed it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            end => end?,
        }
    };
    let mut out = io::stdout();
    let summary = if options.json {
        lines::summary_json(&watch, end)
    } else {
        lines::summary_text(&watch, end)
    };
    match writeln!(out, "{summary}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(if end == End::Target { 4 } else { 0 })
}

/// The reason why the watch is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The time was up.
    Planned,
    /// The user asked by `q`, or a signal.
    Asked,
    /// The process ended.
    Target,
}

/// A process that is watched.
struct Watch {
    observer: Observer,
    pid: u32,
    /// Command line in `/proc`.
    command: String,
    capabilities: Vec<Capability>,
    history: History,
    start: Instant,
    interval: Duration,
    /// True if the interval was lengthened, since a look took more than a quarter of a per cent of
    /// it.
    has_slowed: bool,
    next_look: Instant,
    last_rollup: Option<Instant>,
    /// CPU time of the lab's own thread at the start.
    cpu_before: Duration,
}

impl Watch {
    fn attach(options: &WatchOptions) -> Result<Self, ObserveError> {
        let cpu_before = thread_cpu_time();
        let wanted = Wanted {
            syscalls: true,
            ..Wanted::default()
        };
        let mut observer = Observer::attach(&[options.pid], wanted)?;
        let mut capabilities = observer.capabilities();
        // There are no operations to divide instructions by.
        capabilities.retain(|it| it.name != "instructions");
        let now = Instant::now();
        let mut watch = Self {
            observer,
            pid: options.pid,
            command: command_of(options.pid),
            capabilities,
            history: History::default(),
            start: now,
            interval: options.interval,
            has_slowed: false,
            next_look: now + options.interval,
            last_rollup: None,
            cpu_before,
        };
        watch.look();
        Ok(watch)
    }

    fn missing(&self) -> impl Iterator<Item = &Capability> {
        self.capabilities.iter().filter(|it| !it.available)
    }

    /// Share of a core that looking took since the start, 0 to 1.
    fn cost_share(&self) -> f64 {
        let used = thread_cpu_time().saturating_sub(self.cpu_before);
        used.as_secs_f64() / self.start.elapsed().as_secs_f64().max(f64::EPSILON)
    }

    fn look(&mut self) {
        let slow = self.observer.slow();
        if slow.is_dear(self.interval) && self.interval < WATCH_INTERVAL_MAX {
            self.interval = (self.interval * 2).min(WATCH_INTERVAL_MAX);
            self.has_slowed = true;
        }
        let is_small = slow
            .rss_bytes
            .is_some_and(|it| it <= WATCH_ROLLUP_RSS_BYTES_MAX);
        let is_due = self
            .last_rollup
            .is_none_or(|last| last.elapsed() >= WATCH_ROLLUP_EVERY);
        let pss_bytes = if is_small && is_due {
            self.last_rollup = Some(Instant::now());
            self.observer.quiet().pss_bytes
        } else {
            self.history.last().and_then(|last| last.pss_bytes)
        };
        self.history.push(Look {
            at: self.start.elapsed(),
            slow,
            pss_bytes,
        });
    }

    /// Looks when a look is due. Returns whether there is something new, or why the watch is over.
    fn step(&mut self, options: &WatchOptions, stop: &AtomicBool) -> Result<bool, End> {
        if stop.load(Ordering::Relaxed) {
            return Err(End::Asked);
        }
        // This look also finds the highest memory between two slow looks.
        self.observer.fast();
        if !self.observer.lives(self.pid) {
            self.look();
            return Err(End::Target);
        }
        let is_over = options.length.is_some_and(|it| self.start.elapsed() >= it);
        let is_due = Instant::now() >= self.next_look;
        if is_over || is_due {
            self.look();
            self.next_look = Instant::now() + self.interval;
        }
        if is_over {
            Err(End::Planned)
        } else {
            Ok(is_due)
        }
    }

    /// Time until there is something to do.
    fn pause(&self, options: &WatchOptions) -> Duration {
        let left = options
            .length
            .map_or(FAST, |it| it.saturating_sub(self.start.elapsed()));
        let next = self.next_look.saturating_duration_since(Instant::now());
        FAST.min(next).min(left)
    }

    fn write(
        &mut self,
        out: &mut impl Write,
        options: &WatchOptions,
        stop: &AtomicBool,
    ) -> io::Result<End> {
        let head = if options.json {
            lines::head_json(self)
        } else {
            lines::head_text(self)
        };
        writeln!(out, "{head}")?;
        loop {
            std::thread::sleep(self.pause(options));
            let step = self.step(options, stop);
            let has_looked = matches!(step, Ok(true) | Err(End::Planned));
            if has_looked {
                let line = if options.json {
                    lines::look_json(self)
                } else {
                    lines::look_text(self)
                };
                writeln!(out, "{line}")?;
                out.flush()?;
            }
            if let Err(end) = step {
                return Ok(end);
            }
        }
    }

    fn draw(
        &mut self,
        terminal: &mut DefaultTerminal,
        options: &WatchOptions,
        stop: &AtomicBool,
    ) -> io::Result<End> {
        let mut is_new = true;
        loop {
            if is_new {
                let state = screen::State::of(self);
                terminal.draw(|frame| screen::draw(frame, &state))?;
            }
            if event::poll(self.pause(options))? {
                match self.obey(&event::read()?) {
                    Some(end) => return Ok(end),
                    None => {
                        is_new = true;
                        continue;
                    }
                }
            }
            match self.step(options, stop) {
                Ok(looked) => is_new = looked,
                Err(end) => return Ok(end),
            }
        }
    }

    fn obey(&mut self, event: &Event) -> Option<End> {
        let Event::Key(key) = event else {
            return None;
        };
        if key.kind != KeyEventKind::Press {
            return None;
        }
        // In raw mode, the terminal delivers Ctrl-C as a key.
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => Some(End::Asked),
            _ if is_interrupt => Some(End::Asked),
            KeyCode::Char('r') => {
                self.history.restart();
                None
            }
            _ => None,
        }
    }
}

fn help(error: &ObserveError) -> String {
    match error {
        ObserveError::NoProcess(pid) => {
            format!("there is no process {pid}; `pgrep -a NAME` finds one by its name")
        }
        ObserveError::Refused { pid, source } => format!(
            "no permission to observe process {pid} ({source}); run as its user, or as root"
        ),
    }
}

/// The command line, cut to fit a title; of a process without one, its name.
fn command_of(pid: u32) -> String {
    let folder = Path::new("/proc").join(pid.to_string());
    let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let name = || std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let text = if line.trim().is_empty() { name() } else { line };
    let printable = text.trim().chars().filter(|c| !c.is_control());
    printable.take(COMMAND_CHARACTERS).collect()
}

/// Time between two looks that cost microseconds.
const FAST: Duration = Duration::from_millis(100);
const COMMAND_CHARACTERS: usize = 60;

#[cfg(test)]
mod tests {
    use std::process::Child;

    use serde_json::Value;

    use super::*;
    use crate::target::sleeper;

    fn options(child: &Child) -> WatchOptions {
        WatchOptions {
            pid: child.id(),
            length: Some(Duration::from_millis(300)),
            interval: Duration::from_millis(100),
            json: true,
        }
    }

    fn written(watch: &mut Watch, options: &WatchOptions) -> (End, String) {
        let mut out = Vec::new();
        let end = watch
            .write(&mut out, options, &AtomicBool::new(false))
            .unwrap();
        (end, String::from_utf8(out).unwrap())
    }

    #[test]
    fn each_line_of_json_stands_alone() {
        let mut child = sleeper();
        let options = options(&child);
        let mut watch = Watch::attach(&options).unwrap();
        let (end, text) = written(&mut watch, &options);
        assert_eq!(end, End::Planned);
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["event"], "attached");
        assert_eq!(lines[0]["command"], "sleep 60");
        assert!(lines.len() > 1);
        for line in &lines[1..] {
            assert_eq!(line["event"], "look");
            assert!(line["rss_bytes"].as_u64() > Some(0), "{line}");
        }
        let summary: Value = serde_json::from_str(&lines::summary_json(&watch, end)).unwrap();
        assert_eq!(summary["ended"], false);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_target_that_ends_is_said() {
        let mut child = sleeper();
        let mut options = options(&child);
        options.length = None;
        options.json = false;
        let mut watch = Watch::attach(&options).unwrap();
        child.kill().unwrap();
        // The child is not waited for: a zombie does not count as alive.
        let (end, text) = written(&mut watch, &options);
        assert_eq!(end, End::Target);
        assert!(text.starts_with("watching"), "{text}");
        let summary = lines::summary_text(&watch, end);
        assert!(summary.contains("it has ended"), "{summary}");
        assert!(
            summary.contains("KiB →"),
            "what was seen before it did: {summary}"
        );
        child.wait().unwrap();
        let gone = Watch::attach(&options).err().map(WatchError::from).unwrap();
        assert_eq!(gone.exit_code(), 2);
        assert!(gone.to_string().contains("there is no process"), "{gone}");
    }

    #[test]
    fn a_signal_ends_it() {
        let mut child = sleeper();
        let options = options(&child);
        let mut watch = Watch::attach(&options).unwrap();
        let end = watch.write(&mut Vec::new(), &options, &AtomicBool::new(true));
        assert_eq!(end.unwrap(), End::Asked);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
