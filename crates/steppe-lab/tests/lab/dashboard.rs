//! The dashboard on a terminal during a soak; `script` (util-linux) provides the terminal.

use std::process::{Command, Stdio};

use steppe_testkit::skip;

use super::harness::{Lab, among_others, scenario};

const SHORT: &str = r#"
[epochs]
length = "200ms"
quiesce = "50ms"
count = 16
"#;

#[test]
fn a_terminal_sees_memory_slope_errors_and_the_time_left() {
    let name = "a_terminal_sees_memory_slope_errors";
    if Command::new("script")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return skip(name, "script is not installed");
    }
    let lab = Lab::new("dashboard");
    lab.write("s.toml", &scenario("steady", "", "rate_per_s = 100", SHORT));
    let _among = among_others();
    let soak = format!(
        "stty cols 100; {} soak s.toml -o run",
        env!("CARGO_BIN_EXE_steppe-lab")
    );
    let ended = Command::new("script")
        .args(["-qec", &soak, "seen"])
        .current_dir(&lab.folder)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    assert!(ended.expect("script").code().is_some());
    let seen = lab.read("seen");
    for needle in [
        " at rest  ",
        "MiB/day of 512 allowed, by ",
        "errors   0 of ",
        "so far   ",
        " left  ",
    ] {
        assert!(seen.contains(needle), "{needle} in {seen}");
    }
    // A pipe gets lines, and no codes of a terminal.
    let piped = lab.run(&["soak", "s.toml", "-o", "piped"]);
    assert!(!piped.err.contains('\u{1b}'), "{piped:?}");
}
