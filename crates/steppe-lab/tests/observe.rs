//! The observer against real processes, whose use is known from elsewhere.
//!
//! Where this machine refuses something (perf events, control groups), the lack itself is checked.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test as well")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use steppe_lab::observe::{ObserveError, Observer, Slow, TcpState, Wanted, cgroup};
use steppe_lab::record::Capability;

/// A shell that runs lines of input and reports their end.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(before: &[String]) -> Self {
        let mut words: Vec<String> = before.to_vec();
        words.push("sh".to_owned());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut shell = Self {
            child,
            input,
            output,
        };
        shell.run(":");
        shell
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a line to its end, and returns the last line that it wrote.
    fn run(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}\necho done").unwrap();
        let mut written = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended");
            if line.trim() == "done" {
                return written;
            }
            line.trim().clone_into(&mut written);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find<'a>(capabilities: &'a [Capability], name: &str) -> &'a Capability {
    let found = capabilities.iter().find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("no capability {name}"))
}

/// Checks that a missing capability has a reason and a cost.
fn assert_explained(capability: &Capability) {
    assert!(!capability.available, "{capability:?}");
    assert!(!capability.detail.is_empty(), "{capability:?}");
    assert!(!capability.lost.is_empty(), "{capability:?}");
}

fn assert_not_backwards(before: &Slow, after: &Slow) {
    assert!(after.cpu_us >= before.cpu_us, "{before:?} {after:?}");
    assert!(after.minor_faults >= before.minor_faults);
    assert!(after.major_faults >= before.major_faults);
    assert!(after.voluntary_switches >= before.voluntary_switches);
    assert!(after.involuntary_switches >= before.involuntary_switches);
    assert!(after.syscalls >= before.syscalls);
}

#[test]
fn the_whole_tree_is_found() {
    let mut shell = Shell::start(&[]);
    let mut observer = Observer::attach(&[shell.pid()], Wanted::default()).unwrap();
    assert_eq!(observer.processes(), [shell.pid()]);
    let alone = observer.fast();
    assert_eq!(alone.processes, 1);
    let before = observer.slow().open_files.unwrap();
    shell.run("exec 7</dev/null 8</dev/null");
    assert_eq!(observer.slow().open_files, Some(before + 2));
    // A child, and a grandchild whose parent is not the root.
    let grandchild = shell.run(
        "sleep 60 & child=$!\n\
         sh -c 'sleep 60 >/dev/null & echo $!; exec sleep 60 >/dev/null' > /tmp/steppe-lab-tree.$$ & middle=$!\n\
         until [ -s /tmp/steppe-lab-tree.$$ ]; do :; done; cat /tmp/steppe-lab-tree.$$; rm /tmp/steppe-lab-tree.$$",
    );
    let grandchild: u32 = grandchild.parse().unwrap();
    // The cheap look notices a new process.
    let together = observer.fast();
    assert_eq!(together.processes, 4);
    assert!(together.rss_bytes > alone.rss_bytes);
    assert!(observer.processes().contains(&grandchild));
    let quiet = observer.quiet();
    assert!(quiet.rss_bytes >= quiet.anonymous_bytes);
    assert!(quiet.anonymous_bytes > Some(0));
    // A process whose parent is gone stays a member.
    shell.run("kill $middle; wait $middle 2>/dev/null");
    assert!(observer.processes().contains(&grandchild));
    shell.run(&format!("kill $child {grandchild}; wait"));
    while observer.processes().len() > 1 {}
    assert_eq!(observer.fast().processes, 1);
}

#[test]
fn a_tree_that_is_gone_has_no_figures() {
    let mut shell = Shell::start(&[]);
    let mut observer = Observer::attach(&[shell.pid()], Wanted::default()).unwrap();
    shell.run("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    let before = observer.slow();
    shell.child.kill().unwrap();
    shell.child.wait().unwrap();
    let after = observer.slow();
    assert_not_backwards(&before, &after);
    assert_eq!(after.processes, 0);
    assert_eq!(after.rss_bytes, None);
    assert_eq!(after.open_files, None);
    assert_eq!(after.sockets, None);
    assert_eq!(observer.quiet().rss_bytes, None);
    assert_eq!(observer.high_water(), None);
    assert_explained(find(&observer.capabilities(), "rss"));
    let pid = shell.pid();
    let refused = Observer::attach(&[pid], Wanted::default());
    assert!(matches!(refused, Err(ObserveError::NoProcess(it)) if it == pid));
}

#[test]
fn measured_system_calls_of_short_lived_children_are_counted() {
    let mut shell = Shell::start(&[]);
    let wanted = Wanted {
        syscalls: true,
        instructions: true,
        ..Wanted::default()
    };
    let mut observer = Observer::attach(&[shell.pid()], wanted).unwrap();
    let capabilities = observer.capabilities();
    shell.run(":");
    let slow = observer.slow();
    for (name, value) in [
        ("syscalls", slow.syscalls),
        ("instructions", slow.instructions),
    ] {
        let capability = find(&capabilities, name);
        if capability.available {
            assert!(value > Some(0), "{capability:?}");
        } else {
            assert_eq!(value, None);
            assert_explained(capability);
        }
    }
    let mut copy = |count: u32| {
        let before = observer.slow();
        shell.run(&format!(
            "dd if=/dev/zero of=/dev/null bs=1 count={count} status=none"
        ));
        let after = observer.slow();
        assert_not_backwards(&before, &after);
        after
            .syscalls
            .zip(before.syscalls)
            .map(|(to, from)| to - from)
    };
    // Both include the cost of starting a program; each further block is a read and a write.
    let (few, many) = (copy(1), copy(20_001));
    if let Some((few, many)) = few.zip(many) {
        let blocks = (many - few).cast_signed();
        assert!((blocks - 40_000).abs() < 20, "{blocks}");
    }
}

#[test]
fn measured_what_children_used_counts_once() {
    let mut shell = Shell::start(&[]);
    let mut observer = Observer::attach(&[shell.pid()], Wanted::default()).unwrap();
    let used = |pid: u32| {
        let stat = procfs::process::Process::new(pid.cast_signed())
            .unwrap()
            .stat()
            .unwrap();
        let children = stat.cutime + stat.cstime;
        stat.utime + stat.stime + u64::try_from(children).unwrap()
    };
    let (ticks_before, start) = (used(shell.pid()), observer.slow());
    let mut last = start;
    // Children are seen while they run, or never.
    let busy = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    shell.run(&format!(
        "sh -c '{busy}; {busy}; sh -c \"{busy}\"' & child=$!"
    ));
    let mut looks = 0;
    while observer.processes().len() > 1 && looks < 10_000 {
        let now = observer.slow();
        assert_not_backwards(&last, &now);
        last = now;
        looks += 1;
        shell.run(":");
        let is_over = shell.run("kill -0 $child 2>/dev/null && echo runs || echo over");
        if is_over == "over" {
            break;
        }
    }
    assert!(looks > 1);
    shell.run("wait");
    shell.run(&format!("sh -c '{busy}'"));
    let end = observer.slow();
    assert_not_backwards(&last, &end);
    let ticks = used(shell.pid()) - ticks_before;
    let expected = ticks * 1_000_000 / rustix::param::clock_ticks_per_second();
    let counted = end.cpu_us.unwrap() - start.cpu_us.unwrap();
    // Ticks are cut off in each process, and are samples: on a busy machine they are off by more.
    // Counting a child twice would be off by half.
    let off = 60_000 + expected / 4;
    assert!(counted.abs_diff(expected) <= off, "{counted} {expected}");
    assert!(end.minor_faults > start.minor_faults);
}

#[test]
fn sockets_are_counted_by_state() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut observer = Observer::attach(&[std::process::id()], Wanted::default()).unwrap();
    let before = observer.slow();
    let mut client = TcpStream::connect(address).unwrap();
    let (server, _) = listener.accept().unwrap();
    let connected = observer.slow();
    let count = |slow: &Slow, state| slow.sockets.unwrap().count(state);
    assert_eq!(count(&before, TcpState::Listen), 1);
    assert_eq!(count(&before, TcpState::Established), 0);
    assert_eq!(count(&connected, TcpState::Established), 2);
    client.write_all(b"x").unwrap();
    drop(client);
    // The FIN and the last byte arrive before the state changes.
    let mut closing = observer.slow();
    while count(&closing, TcpState::CloseWait) == 0 {
        closing = observer.slow();
    }
    assert_eq!(count(&closing, TcpState::CloseWait), 1);
    assert_eq!(count(&closing, TcpState::Established), 0);
    // No process has the other end open any more, and still it counts as the target's.
    assert_eq!(closing.sockets.unwrap().other(), 1);
    drop(server);
}

#[test]
fn measured_the_high_water_mark_starts_again() {
    let mut shell = Shell::start(&[]);
    let mut observer = Observer::attach(&[shell.pid()], Wanted::default()).unwrap();
    let capability = find(&observer.capabilities(), "hwm").clone();
    shell.run("x=$(head -c 40000000 /dev/zero | tr '\\0' x)");
    shell.run("x=");
    let high = observer.high_water().unwrap();
    assert!(high > 40_000_000, "{high}");
    observer.reset_high_water();
    if capability.available {
        assert!(observer.high_water().unwrap() < high - 10_000_000);
    } else {
        assert_explained(&capability);
    }
}

#[test]
fn measured_a_group_of_its_own_is_charged_for_the_target() {
    let group = match cgroup::own_group("test") {
        Ok(group) => group,
        Err(error) => {
            assert!(error.to_string().contains("cgroup") || error.to_string().contains("group"));
            return;
        }
    };
    let path = group.path().to_owned();
    let mut shell = Shell::start(&group.join_command());
    let wanted = Wanted {
        cgroup: Some(path.clone()),
        ..Wanted::default()
    };
    let mut observer = Observer::attach(&[shell.pid()], wanted).unwrap();
    assert!(find(&observer.capabilities(), "cgroup").available);
    let before = observer.slow().cgroup.unwrap();
    // A daemon: its parent is gone before the next look.
    let daemon = shell.run("sh -c 'sleep 60 >/dev/null & echo $!'");
    assert!(observer.processes().contains(&daemon.parse().unwrap()));
    shell.run("x=$(head -c 20000000 /dev/zero | tr '\\0' x)");
    let after = observer.slow().cgroup.unwrap();
    assert!(after.bytes.unwrap() > before.bytes.unwrap() + 10_000_000);
    assert_eq!(after.oom_kills, Some(0));
    shell.run(&format!("kill {daemon}"));
    drop(shell);
    drop(group);
    assert!(!path.exists());
}
