//! A/B and calibration.

use std::ops::Range;

use steppe_testkit::is_left_to_long_tier;

use crate::harness::{Lab, alone, free_port, program};

/// Two variants of the steady program: one with fixed work a request, one with `percent` more.
fn pairs(percent: u32, extra: &str) -> String {
    let (program, port) = (program("steady"), free_port());
    let work = 200_000;
    let more = work + work / 100 * percent;
    format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}", "{work}"]
ready = "tcp://127.0.0.1:{port}"
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
connections = 2
rate_per_s = 300
[ab]
pairs = 10
warmup = "100ms"
length = "400ms"
metric = "cpu_us_per_op"
limit = 1.05
{extra}
[[variant]]
name = "as it is"
[[variant]]
name = "busier"
cmd = ["{program}", "127.0.0.1:{port}", "{more}"]
"#
    )
}

/// Fifty per cent more in short runs, which any machine can tell, and ten per cent in long ones.
#[test]
fn more_cpu_a_request_is_no_go() {
    if is_left_to_long_tier("more_cpu_a_request_is_no_go") {
        return;
    }
    more_is_no_go(&pairs(50, ""), 10, 1.2..1.8);
    let long = pairs(10, "")
        .replace("400ms", "3s")
        .replace("pairs = 10", "pairs = 20");
    more_is_no_go(&long, 20, 1.05..1.2);
}

fn more_is_no_go(text: &str, pairs: usize, ratios: Range<f64>) {
    let _alone = alone();
    let lab = Lab::new("ab");
    let said = lab
        .write("ab.toml", text)
        .run(&["ab", "ab.toml", "-o", "run"]);
    said.ended_with(1).says("NO-GO").says("cpu_us_per_op");
    let verdict = lab.verdict("run");
    let gate = &verdict["comparisons"][0];
    assert_eq!(gate["metric"], "cpu_us_per_op");
    assert_eq!(gate["points"], pairs);
    println!("{}", gate["text"]);
    let ratio = gate["value"]["estimate"].as_f64().expect("a ratio");
    assert!(ratios.contains(&ratio), "{gate:#}");
}

/// Twenty calibrations (eight minutes).
#[test]
fn a_program_against_itself_is_never_no_go() {
    if is_left_to_long_tier("a_program_against_itself_is_never_no_go") {
        return;
    }
    let _alone = alone();
    for seed in 1..=20 {
        let lab = Lab::new("calibrate");
        lab.write("ab.toml", &pairs(10, ""));
        let seed = seed.to_string();
        let said = lab.run(&["calibrate", "ab.toml", "-o", "run", "--seed", &seed]);
        assert!(said.code == 0 || said.code == 3, "{said:?}");
        said.says("noise of a pair");
        let verdict = lab.verdict("run");
        assert_ne!(verdict["word"], "NO-GO");
        println!("seed {seed}: {}", verdict["comparisons"][0]["text"]);
    }
}
