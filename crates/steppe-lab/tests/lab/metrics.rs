//! A target's metrics in Prometheus's text format are judged as well.

use super::harness::{Lab, Said, among_others, finding, free_port, program};

fn soak(name: &str, budget: &str) -> (Lab, Said) {
    let lab = Lab::new(name);
    let (program, port) = (program("steady"), free_port());
    let text = format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}"]
ready = "tcp://127.0.0.1:{port}"
metrics = "http://127.0.0.1:{port}/metrics"
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
connections = 4
rate_per_s = 200
[epochs]
length = "200ms"
quiesce = "40ms"
count = 36
[budget]
drift = "off"
{budget}
"#
    );
    let _among = among_others();
    let said = lab
        .write("it.toml", &text)
        .run(&["soak", "it.toml", "-o", "run"]);
    (lab, said)
}

fn metrics_of(lab: &Lab) -> Vec<String> {
    let verdict = lab.verdict("run");
    let findings = verdict["variants"][0]["findings"]
        .as_array()
        .expect("findings")
        .clone();
    let names = findings.iter().filter_map(|it| it["metric"].as_str());
    let of_target = |name: &&str| {
        ["sessions", "pool", "requests"]
            .iter()
            .any(|it| name.starts_with(it))
    };
    names.filter(of_target).map(str::to_owned).collect()
}

#[test]
fn a_gauge_that_grows_without_end_is_found_and_others_are_no_noise() {
    let (lab, said) = soak("metrics", "");
    said.ended_with(1)
        .says("sessions_growth")
        .says("2 gauges judged, 1 series measured only");
    assert_eq!(metrics_of(&lab), ["sessions_growth"]);
    let verdict = lab.verdict("run");
    assert_eq!(finding(&verdict, "sessions_growth")["word"], "UNBOUNDED");
    lab.run(&["explain", "run", "sessions_growth"])
        .ended_with(0)
        .says("the target's sessions grows by");
    // The counter is recorded with its rate.
    let text = lab.read("run/metrics.csv");
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = rows.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 3 * 36);
    let last = rows
        .iter()
        .rfind(|row| &row[3] == "requests_total")
        .expect("the counter");
    assert!(
        &last[4] == "counter" && last[6].parse::<f64>().is_ok_and(|rate| rate > 0.0),
        "{last:?}"
    );
}

#[test]
fn one_is_switched_off_and_a_counter_is_judged_by_name() {
    let metrics = "[budget.metrics]\nsessions = \"off\"\npool = 0.5\nrequests_total = 1";
    let (lab, said) = soak("metrics-named", metrics);
    assert!([0, 3].contains(&said.code), "{said:?}");
    assert_eq!(metrics_of(&lab), ["pool_growth", "requests_total_growth"]);
    assert_eq!(
        finding(&lab.verdict("run"), "pool_growth")["word"],
        "STABLE"
    );
}

#[test]
fn a_page_that_is_none_is_said() {
    let lab = Lab::new("metrics-404");
    let (program, port) = (program("steady"), free_port());
    let text = format!(
        "[target]\ncmd = [\"{program}\", \"127.0.0.1:{port}\"]\nready = \"tcp://127.0.0.1:{port}\"\n\
         metrics = \"http://127.0.0.1:{port}/memory\"\n[[load]]\nkind = \"http\"\n\
         url = \"http://127.0.0.1:{port}/\"\nrate_per_s = 100\n\
         [epochs]\nlength = \"100ms\"\nquiesce = \"20ms\"\ncount = 16\n"
    );
    let _among = among_others();
    let said = lab
        .write("it.toml", &text)
        .run(&["soak", "it.toml", "-o", "run"]);
    said.says("metrics could not be read 16 of 16 times")
        .says("no gauge and no counter");
    assert!(!lab.folder.join("run/metrics.csv").exists());
}
