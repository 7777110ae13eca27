//! `limits.connections` and the limit on open files: a start logs a value that it lowers, and warns only if that value
//! is configured.

use steppe_testkit::{NodeConfig, Steppe, eventually};

const OF_DEFAULT: &str = "the default of limits.connections is lowered to";
const OF_CONFIGURED: &str = "limits.connections lowered to";

/// The log of the start of a node that may open 1,000 files.
fn said(config: &NodeConfig) -> String {
    let builder = Steppe::builder().with_open_files(1_000);
    let node = builder.with("origin", "127.0.0.1:1").start(config);
    node.reopen_logs();
    // A line that is written after those of the start.
    eventually("it is told", || node.said().contains("logs reopened"));
    node.said()
}

fn lines<'a>(said: &'a str, text: &str) -> Vec<&'a str> {
    said.lines().filter(|line| line.contains(text)).collect()
}

#[test]
fn a_default_that_is_lowered_is_no_cause_for_an_alarm() {
    let said = said(&NodeConfig::plain());
    assert_eq!(lines(&said, OF_DEFAULT).len(), 1, "{said}");
    assert_eq!(lines(&said, "WARN"), Vec::<&str>::new());
}

#[test]
fn a_configured_limit_that_is_lowered_is_warned_of() {
    let listener =
        |number: u16| NodeConfig::plain().listener(|l| l.set("limits.connections", number));
    let warned = said(&listener(5_000));
    let warnings = lines(&warned, OF_CONFIGURED);
    assert!(
        warnings.len() == 1 && warnings[0].contains("WARN"),
        "{warned}"
    );
    assert!(warnings[0].contains("ulimit -n"), "{warned}");
    assert_eq!(lines(&warned, OF_DEFAULT), Vec::<&str>::new());
    // A limit below the number of files.
    let quiet = said(&listener(100));
    assert_eq!(lines(&quiet, OF_CONFIGURED), Vec::<&str>::new());
    assert_eq!(lines(&quiet, OF_DEFAULT), Vec::<&str>::new());
}
