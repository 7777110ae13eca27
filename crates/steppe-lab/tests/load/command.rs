//! Command loads: shells that print what a test needs, and wrk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use signal_hook::flag;
use steppe_lab::load::{Burst, Driver, Interval, LoadFailure, check};
use steppe_lab::scenario::{CommandLoad, Load, LoadKind, Pace, Program};

use crate::servers::{Nginx, Scratch, free_addr};
use crate::{PATIENCE, burst, errors_of, load};

fn command(words: &[&str]) -> Load {
    let command = Program {
        cmd: words.iter().map(|&word| word.to_owned()).collect(),
        env: BTreeMap::from([("OWN".to_owned(), "yes".to_owned())]),
        cwd: None,
    };
    load(LoadKind::Command(CommandLoad { command }), Pace::Closed)
}

fn shell(script: &str) -> Load {
    command(&["sh", "-c", script])
}

fn start(load: &Load, folder: &Path) -> Driver {
    heed_interrupts();
    let log = |name: &str| folder.join(format!("{name}.log"));
    Driver::start(std::slice::from_ref(load), 5, Instant::now(), log).unwrap()
}

/// Installs the handler that the lab has. A program inherits an ignored SIGINT, which a shell's `&`
/// leaves behind, and a shell cannot trap it then; a signal that has a handler is back at its
/// default after exec.
fn heed_interrupts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ends_the_tests = Arc::new(AtomicBool::new(true));
        flag::register_conditional_default(SIGINT, ends_the_tests).unwrap();
    });
}

/// One burst to the program's own end.
fn to_end(load: &Load) -> (Interval, Vec<LoadFailure>) {
    let scratch = Scratch::new();
    let mut driver = start(load, scratch.path());
    driver.resume(Burst {
        to_end: true,
        ..burst(3)
    });
    wait_for(|| driver.is_done());
    assert!(driver.pause(PATIENCE));
    (driver.take().remove(0), driver.failures())
}

fn wait_for(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_program_says_is_what_it_did() {
    let says = "echo '# a shell'; echo latency_us 1000 30; echo latency_us 2000.4; echo ops 4; \
                echo errors 2 out of luck; echo errors 1; echo refused 5; printf 'intended 40'";
    let (interval, failures) = to_end(&shell(says));
    assert_eq!(failures, []);
    assert_eq!((interval.operations, interval.errors), (35, 3));
    assert_eq!(interval.refused, 5);
    assert_eq!(interval.intended, Some(40));
    assert_eq!(interval.service.len(), 31);
    assert_eq!(interval.response, interval.service);
    assert_eq!(errors_of(&interval, "out of luck"), 2);
    assert_eq!(errors_of(&interval, "unnamed"), 1);
    assert_eq!(
        (interval.generator.busy(), interval.saturated),
        (None, None)
    );
}

#[test]
fn measured_the_most_that_a_program_held_is_told() {
    // The memory is held for several looks, and released before the end.
    let holds = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 0.5; unset x; echo ops 1";
    let (interval, failures) = to_end(&shell(holds));
    assert_eq!(failures, []);
    let held = interval.hwm_bytes.expect("/proc tells");
    assert!(held >= 30_000_000, "{held} bytes");
}

#[test]
fn a_program_is_told_what_to_do() {
    let script = "test $0,$1 = 1,3 && test $2 -gt 0 && test $3 = 250 && test $OWN = yes && \
                  test $STEPPE_LAB_SECONDS,$STEPPE_LAB_EPOCH,$STEPPE_LAB_SEED = $0,$1,$2 && \
                  echo ops 1";
    let mut load = command(&[
        "sh",
        "-c",
        script,
        "{seconds}",
        "{epoch}",
        "{seed}",
        "{rate}",
    ]);
    load.pace = Pace::Open { rate_per_s: 250.0 };
    let scratch = Scratch::new();
    let mut driver = start(&load, scratch.path());
    driver.resume(Burst {
        length: Duration::from_millis(1500),
        epoch: 3,
        to_end: true,
    });
    wait_for(|| driver.is_done());
    assert_eq!(driver.failures(), []);
    assert_eq!(driver.take()[0].operations, 1);
}

#[test]
fn failures_are_named_with_what_the_program_said() {
    let cases = [
        shell("echo ops 1; echo 'no such host' >&2; exit 3"),
        shell("echo ops 1; kill -TERM $$"),
        shell("echo 'Running 10s test'; sleep 60"),
        shell("echo so far so good >&2"),
        command(&["./no/such/program"]),
    ];
    let said: Vec<_> = cases
        .iter()
        .map(|case| {
            let mut failure = to_end(case).1.remove(0);
            failure.at = Duration::ZERO;
            failure
        })
        .collect();
    expect_test::expect![[r#"
        [
            LoadFailure {
                load: "it",
                at: 0ns,
                reason: "its program ended with exit status: 3",
                said: Some(
                    "no such host",
                ),
            },
            LoadFailure {
                load: "it",
                at: 0ns,
                reason: "its program was ended by signal 15",
                said: None,
            },
            LoadFailure {
                load: "it",
                at: 0ns,
                reason: "it wrote an unknown line: `Running 10s test`",
                said: None,
            },
            LoadFailure {
                load: "it",
                at: 0ns,
                reason: "its program exited with status 0 and wrote no line of the protocol: nothing was measured (docs/lab/protocol.md)",
                said: Some(
                    "so far so good",
                ),
            },
            LoadFailure {
                load: "it",
                at: 0ns,
                reason: "can't start `./no/such/program`: No such file or directory (os error 2)",
                said: None,
            },
        ]
    "#]].assert_debug_eq(&said);
}

#[test]
fn a_program_that_failed_is_not_started_again() {
    let scratch = Scratch::new();
    let marks = scratch.path().join("marks");
    let script = format!("echo x >> {}; exit 1", marks.display());
    let driver = start(&shell(&script), scratch.path());
    for epoch in 0..3 {
        driver.resume(Burst {
            to_end: true,
            ..burst(epoch)
        });
        wait_for(|| driver.is_done());
        assert!(driver.pause(PATIENCE));
    }
    assert_eq!(fs::read_to_string(marks).unwrap(), "x\n");
    assert_eq!(driver.failures().len(), 1);
}

#[test]
fn a_pause_interrupts_and_what_was_said_counts() {
    let scratch = Scratch::new();
    let script = "trap 'echo ops 5; exit 130' INT; echo latency_us 10 7; echo go >&2; \
                  while :; do sleep 0.02; done";
    let mut driver = start(&shell(script), scratch.path());
    let log = scratch.path().join("it.log");
    for epoch in 0..2 {
        driver.resume(burst(epoch));
        let count = usize::try_from(epoch).unwrap() + 1;
        wait_for(|| fs::read_to_string(&log).unwrap().lines().count() == count);
        assert!(!driver.is_done());
        assert!(driver.pause(PATIENCE));
        assert_eq!(driver.take()[0].operations, 12);
    }
    assert_eq!(driver.failures(), []);
}

/// A pause ends the program and all its children, even if they ignore SIGINT.
#[test]
fn a_pause_ends_the_whole_group() {
    let scratch = Scratch::new();
    let script = "trap '' INT; sleep 1000 & echo $! $$ >&2; echo ops 1; printf 'latency_us 1'; \
                  while :; do sleep 0.02; done";
    let mut driver = start(&shell(script), scratch.path());
    driver.resume(burst(0));
    let log = scratch.path().join("it.log");
    wait_for(|| fs::read_to_string(&log).unwrap().ends_with('\n'));
    assert!(driver.pause(PATIENCE));
    // A line that was cut off is no operation.
    assert_eq!(driver.take()[0].operations, 1);
    assert_eq!(driver.failures(), []);
    let text = fs::read_to_string(&log).unwrap();
    let gone = |pid: &str| {
        let stat = fs::read_to_string(PathBuf::from("/proc").join(pid).join("stat"));
        // A zombie is dead, too.
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    wait_for(|| text.split_whitespace().all(gone));
}

#[test]
fn a_driver_that_goes_takes_its_programs_along() {
    let scratch = Scratch::new();
    let driver = start(&shell("echo $$ >&2; exec sleep 1000"), scratch.path());
    driver.resume(burst(0));
    let log = scratch.path().join("it.log");
    wait_for(|| fs::read_to_string(&log).unwrap().ends_with('\n'));
    let pid = fs::read_to_string(&log).unwrap().trim().to_owned();
    driver.stop();
    assert!(!Path::new("/proc").join(pid).exists());
}

#[test]
fn what_a_command_load_can_not_have_is_refused() {
    let mut threaded = shell("echo ops 1");
    threaded.threads = 2;
    let said: Vec<_> = [command(&[]), command(&["wrk2", "-R{rate}"]), threaded]
        .iter()
        .map(|load| check(load).unwrap_err().to_string())
        .collect();
    expect_test::expect![[r#"
        [
            "load `it`: it has no command",
            "load `it`: `{rate}` in its command needs `rate_per_s`",
            "load `it`: `threads` and `ramp` don't apply to a command load: pass them as arguments of its program",
        ]
    "#]]
    .assert_debug_eq(&said);
}

/// An example of `docs/lab/protocol.md`.
fn documented(language: &str) -> &'static str {
    let docs = include_str!("../../../../docs/lab/protocol.md");
    let (_, rest) = docs.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn wrk_speaks_the_protocol_by_the_script_of_the_documentation() {
    let nginx = Nginx::start("", "location / { return 200; }");
    let path = nginx.scratch.write("lab.lua", documented("lua"));
    let path = path.to_str().unwrap();
    let words = format!(
        "exec wrk -t1 -c4 -d$STEPPE_LAB_SECONDS -s {path} {} 3>&1 >&2",
        nginx.url("/")
    );
    let (interval, failures) = to_end(&shell(&words));
    assert_eq!(failures, []);
    assert!(interval.operations > 100, "{interval:?}");
    assert_eq!(interval.service.len(), interval.operations);
    assert_eq!(interval.errors, 0);
}

#[test]
fn the_shell_of_the_documentation_tells_answers_from_failures() {
    let nginx = Nginx::start("", "location / { return 200; }");
    let path = nginx.scratch.write("curl.sh", documented("sh"));
    let path = path.to_str().unwrap();
    let cases = [nginx.url("/"), format!("http://{}/", free_addr())];
    let [answered, refused] = cases.map(|url| {
        // Two seconds, since the script counts whole ones.
        let (interval, failures) = to_end(&command(&["sh", path, &url, "2"]));
        assert_eq!(failures, []);
        interval
    });
    assert!(
        answered.operations > 0 && answered.errors == 0,
        "{answered:?}"
    );
    assert_eq!(answered.service.len(), answered.operations);
    assert!(refused.operations == 0 && refused.errors > 0, "{refused:?}");
    assert_eq!(errors_of(&refused, "curl 7"), refused.errors);
}
