//! Soaks that go on until every series is decided.

use super::harness::{Lab, alone, among_others, scenario};

fn plan(until: &str) -> String {
    format!(
        r#"
[epochs]
length = "200ms"
quiesce = "40ms"
count = 24
warmup = 6
{until}
[budget]
rss_growth_kib_per_epoch = 32
hwm_growth_kib_per_epoch = 64
cgroup_growth_mib_per_day = 100000
drift = "off"
"#
    )
}

const LOAD: &str = "connections = 4\nrate_per_s = 300";
/// Three requests an epoch: the last is due long before its end, so a late generator does not miss
/// it.
const SPARSE_LOAD: &str = "connections = 4\nrate_per_s = 12";

/// The kept rate of the load is judged as well.
#[test]
fn measured_what_is_flat_is_decided_at_an_early_look() {
    let _alone = alone();
    let lab = Lab::new("decided");
    let text = scenario("steady", "", SPARSE_LOAD, &plan("until = \"decided\""));
    lab.write("soak.toml", &text);
    let said = lab.in_time("run", || lab.run(&["soak", "soak.toml", "-o", "run"]));
    said.ended_with(0).says("decided at look ");
    let verdict = lab.verdict("run");
    let looks = verdict["variants"][0]["looks"].as_array().expect("looks");
    let last = looks.last().expect("a look");
    assert_eq!((&last["word"], &last["of"]), (&"STABLE".into(), &5.into()));
    assert_eq!(last["open"].as_array().map(Vec::len), Some(0), "{last:#}");
    // No epoch followed the last look.
    let rows = lab.read("run/epochs.csv").lines().count() - 1;
    assert_eq!(rows, 24 * looks.len());
    said.says(&format!(
        "default: look {0} of 5, after {1} epochs: STABLE",
        looks.len(),
        rows - 6
    ));
    assert!(
        lab.read("run/report.html")
            .contains("look 1 of 5, after 18 epochs")
    );
}

#[test]
fn a_leak_ends_it_and_says_why() {
    let _among = among_others();
    let lab = Lab::new("decided-leak");
    let text = scenario("leaking", ", \"2000\"", LOAD, &plan(""));
    let said = lab.write("soak.toml", &text).run(&[
        "soak",
        "soak.toml",
        "--until",
        "decided",
        "-o",
        "run",
    ]);
    said.ended_with(1)
        .says("growth is exceeded, and more epochs can't improve the verdict");
    let verdict = lab.verdict("run");
    assert_eq!(verdict["complete"], true);
    let looks = verdict["variants"][0]["looks"].as_array().expect("looks");
    let rows = lab.read("run/epochs.csv").lines().count() - 1;
    assert!(looks.len() < 5, "{looks:#?}");
    assert_eq!(rows, 24 * looks.len());
}

#[test]
fn five_looks_of_too_many_epochs_are_refused() {
    let lab = Lab::new("decided-long");
    let text = scenario("steady", "", LOAD, &plan("until = \"decided\""));
    lab.write("soak.toml", &text.replace("count = 24", "count = 24193"));
    lab.run(&["check", "soak.toml"])
        .ended_with(2)
        .says("may take 5 times as many epochs: 24192 at most, not 24193");
    lab.write("soak.toml", &text);
    lab.run(&["soak", "soak.toml", "--until", "sure"])
        .ended_with(2)
        .says("expected planned or decided");
}
