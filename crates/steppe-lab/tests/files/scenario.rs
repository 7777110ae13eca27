//! Scenario files: the examples are accepted as they stand, and broken files get reports with
//! reasons.

use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use steppe_lab::record::Outcome;
use steppe_lab::scenario::{Collect, LoadKind, Pace, Ready, Scenario};

fn example(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name);
    let text = std::fs::read_to_string(&path).expect("an example");
    Scenario::parse(&path, &text).expect("a scenario")
}

#[test]
fn a_soak_is_read() {
    let scenario = example("soak.toml");
    assert_eq!(scenario.name, "soak");
    let soak = scenario.soak.unwrap();
    assert_eq!((soak.count, soak.warmup, soak.runs), (120, 12, 1));
    assert_eq!(soak.length, Duration::from_secs(5));
    assert_eq!(soak.quiesce, Duration::from_millis(250));
    let [load] = scenario.loads.as_slice() else {
        panic!("{:?}", scenario.loads);
    };
    assert_eq!(load.pace, Pace::Open { rate_per_s: 5000.0 });
    assert_eq!(load.seed, 7);
    let LoadKind::Http1(http) = &load.kind else {
        panic!("{load:?}");
    };
    assert_eq!(http.connections, 64);
    assert_eq!(
        http.headers,
        [("accept".to_owned(), "application/json".to_owned())]
    );
    let live = scenario.target.live_bytes.unwrap();
    assert_eq!(live.pointer, "/allocator/live_bytes");
    assert_eq!(scenario.budget.per_epoch.rss_kib, Some(32.0));
    assert_eq!(scenario.budget.require, ["rss"]);
}

/// The first variant is expected to leak; its healthy twin has no expectation.
#[test]
fn runtimes_have_a_leak_and_its_healthy_twin() {
    for name in ["node", "go", "python", "java", "ruby"] {
        let scenario = example(&format!("lab/{name}.toml"));
        let expected: Vec<_> = scenario.variants.iter().map(|it| it.expect).collect();
        assert_eq!(expected, [Some(Outcome::Unbounded), None], "{name}");
        assert_eq!(scenario.budget.per_day.rss_mib, Some(2700.0), "{name}");
        let is_collected = scenario.target.collect.is_some();
        assert_eq!(is_collected, name != "python", "{name}");
        let is_profiled = scenario.target.profile.is_some();
        assert_eq!(is_profiled, name != "ruby", "{name}");
    }
}

/// Reads a scenario of `[target]`, `[epochs]` and a budget.
fn with_budget(budget: &str) -> Result<Scenario, String> {
    let text = format!(
        "[target]\ncmd = [\"x\"]\nready = \"after:1s\"\n[[load]]\nkind = \"http\"\n\
         url = \"http://127.0.0.1:1/\"\n[epochs]\n[budget]\n{budget}"
    );
    Scenario::parse(Path::new("budget.toml"), &text).map_err(|error| error.to_string())
}

#[test]
fn drift_has_shares_of_its_own_and_an_off() {
    let budget = |text: &str| with_budget(text).expect("a budget").budget;
    let default = budget("");
    assert_eq!(default.drift.share("p50"), Some(1.0));
    assert_eq!(default.drift.share("nothing"), None);
    assert_eq!(default.limit_within, Duration::from_secs(24 * 3600));
    assert_eq!(budget("drift = \"off\"").drift.share("p50"), None);
    let some = budget("limit_within = \"7days\"\ndrift = { p50 = \"off\", p99 = 3 }");
    assert_eq!(some.drift.share("p50"), None);
    assert_eq!(some.drift.share("p99"), Some(3.0));
    assert_eq!(some.drift.share("threads"), Some(1.0));
    assert_eq!(some.limit_within, Duration::from_secs(7 * 24 * 3600));
    let day = budget("rss_growth_mib_per_day = 2700\ncgroup_growth_mib_per_day = 1").per_day;
    assert_eq!((day.rss_mib, day.cgroup_mib), (Some(2700.0), Some(1.0)));
}

/// Reads a scenario with this `collect` of its target.
fn with_collect(collect: &str) -> Result<Scenario, String> {
    let text = format!(
        "[target]\ncmd = [\"x\"]\nready = \"after:1s\"\ncollect = {collect}\n[[load]]\n\
         kind = \"http\"\nurl = \"http://127.0.0.1:1/\"\n[epochs]\n"
    );
    Scenario::parse(Path::new("collect.toml"), &text).map_err(|error| error.to_string())
}

#[test]
fn a_collection_is_forced_by_a_url_or_by_a_signal() {
    let collect = |text: &str| with_collect(text).expect("a scenario").target.collect;
    let url = "http://127.0.0.1:6060/debug/pprof/heap?gc=1";
    assert_eq!(
        collect(&format!("{{ url = \"{url}\" }}")),
        Some(Collect::Url(url.to_owned()))
    );
    assert_eq!(
        collect("{ signal = \"USR2\" }"),
        Some(Collect::Signal(rustix::process::Signal::USR2))
    );
    let refused = [
        ("{}", "needs one of `url` and `signal`"),
        (
            "{ url = \"http://x/\", signal = \"USR1\" }",
            "takes one of `url`, `signal`",
        ),
        (
            "{ url = \"https://x/\" }",
            "write \"http://HOST:PORT/PATH\"",
        ),
        ("{ signal = \"KILL\" }", "`signal` has no \"KILL\""),
        ("\"USR2\"", "`collect` takes a table"),
    ];
    for (text, why) in refused {
        let error = with_collect(text).expect_err("it is broken");
        assert!(
            error.contains(why) && error.contains(": 1 error\n"),
            "{error}"
        );
    }
}

#[test]
fn a_budget_in_two_units_is_refused() {
    let error = with_budget("rss_growth_kib_per_epoch = 1\nrss_growth_mib_per_day = 1");
    assert!(error.is_err_and(|error| error.contains("set the same budget")));
    let error = with_budget("drift = \"on\"").expect_err("no such word");
    assert!(error.contains("`drift` has no \"on\""), "{error}");
    let error = with_budget("drift = { p51 = 1 }").expect_err("no such series");
    assert!(error.contains("did you mean `p50`?"), "{error}");
}

#[test]
fn cycles_are_read() {
    let scenario = example("cycles.toml");
    let cycle = scenario.cycle.unwrap();
    assert_eq!((cycle.count, cycle.quiesce), (20, Duration::from_secs(3)));
    let [worker] = scenario.services.as_slice() else {
        panic!("{:?}", scenario.services);
    };
    assert!(worker.after_target && worker.measure);
    assert_eq!(worker.stop_timeout, Duration::from_secs(5));
    let service = "pid = 1\n[[service]]\nname = \"x\"\ncmd = [\"x\"]\nstop_timeout = ";
    assert!(said_of(&format!("{service}\"0s\"")).contains("times from 1ms"));
    let names: Vec<_> = scenario
        .variants
        .iter()
        .map(|variant| variant.name.as_str())
        .collect();
    assert_eq!(names, ["default", "two arenas"]);
    assert_eq!(scenario.variants[1].env["MALLOC_ARENA_MAX"], "2");
    assert_eq!(scenario.budget.per_cycle.rss_kib, Some(64.0));
    assert!(matches!(scenario.target.ready, Ready::Http(_)));
}

fn check(text: &str, expected: &Expect) {
    let error = Scenario::parse(Path::new("broken.toml"), text).expect_err("it is broken");
    expected.assert_eq(&error.to_string());
}

#[test]
fn everything_wrong_is_said_at_once() {
    check(
        r#"
[target]
cmd = []
ready = "udp://127.0.0.1:53"
colour = "red"
[[load]]
kind = "http"
url = "127.0.0.1:8080"
conections = 4
expect_status = "ok"
[epochs]
length = "5"
count = 1
[budget]
rss_growth_kib_per_cycle = 4
require = ["rsss"]
"#,
        &expect![[r#"
              × `cmd` is empty
               ╭─[broken.toml:3:7]
             2 │ [target]
             3 │ cmd = []
               ·       ─┬
               ·        ╰── no item
             4 │ ready = "udp://127.0.0.1:53"
               ╰────
              help: it takes at least one item: a string

              × `udp://127.0.0.1:53` is no sign of readiness
               ╭─[broken.toml:4:9]
             3 │ cmd = []
             4 │ ready = "udp://127.0.0.1:53"
               ·         ──────────┬─────────
               ·                   ╰── in `ready`
             5 │ colour = "red"
               ╰────
              help: write "http://HOST:PORT/PATH", "tcp://ADDRESS:PORT", "log:PATTERN" or "after:2s"

              × `target` has no key `colour`
               ╭─[broken.toml:5:1]
             4 │ ready = "udp://127.0.0.1:53"
             5 │ colour = "red"
               · ───┬──
               ·    ╰── unknown key
             6 │ [[load]]
               ╰────
              help: its keys are cmd, pid, cgroup, env, cwd, ready, ready_timeout, stop_timeout, live_bytes,
                    metrics, collect, profile

              × `127.0.0.1:8080` is not a URL
               ╭─[broken.toml:8:7]
             7 │ kind = "http"
             8 │ url = "127.0.0.1:8080"
               ·       ────────┬───────
               ·               ╰── in `url`
             9 │ conections = 4
               ╰────
              help: write "http://HOST:PORT/PATH" or "https://…"

              × `load` has no key `conections`
                ╭─[broken.toml:9:1]
              8 │ url = "127.0.0.1:8080"
              9 │ conections = 4
                · ─────┬────
                ·      ╰── unknown key
             10 │ expect_status = "ok"
                ╰────
              help: did you mean `connections`?

              × `ok` is no status
                ╭─[broken.toml:10:17]
              9 │ conections = 4
             10 │ expect_status = "ok"
                ·                 ──┬─
                ·                   ╰── in `expect_status`
             11 │ [epochs]
                ╰────
              help: write "2xx", "204" or "2xx, 429"

              × `5` is not a length of time
                ╭─[broken.toml:12:10]
             11 │ [epochs]
             12 │ length = "5"
                ·          ─┬─
                ·           ╰── in `length`
             13 │ count = 1
                ╰────
              help: write "250ms", "5s" or "10min"

              × `count` is out of range
                ╭─[broken.toml:13:9]
             12 │ length = "5"
             13 │ count = 1
                ·         ┬
                ·         ╰── out of range
             14 │ [budget]
                ╰────
              help: it takes values from 2 to 120960

              × `require` has no "rsss"
                ╭─[broken.toml:16:12]
             15 │ rss_growth_kib_per_cycle = 4
             16 │ require = ["rsss"]
                ·            ───┬──
                ·               ╰── unknown
                ╰────
              help: did you mean "rss"?

            broken.toml: 9 errors
        "#]],
    );
}

#[test]
fn an_empty_file_says_what_is_needed() {
    check(
        "",
        &expect![[r#"
              × `scenario` lacks the key `target`
               ╭─[broken.toml:1:1]
               ╰────
              help: target: The judged server: [target] with `cmd` and `ready`, or with `pid` or `cgroup`.

              × `scenario` lacks a `[[load]]`
               ╭─[broken.toml:1:1]
               ╰────
              help: for example: [[load]] with `kind = "http"`, `url` and `connections`

            broken.toml: 2 errors
        "#]],
    );
}

#[test]
fn an_empty_list_of_loads_drives_nothing() {
    let text = "load = []\n[target]\ncmd = [\"x\"]\nready = \"after:1s\"\n";
    let error = Scenario::parse(Path::new("it.toml"), text).expect_err("no load");
    assert!(error.to_string().contains("lacks a `[[load]]`"), "{error}");
}

#[test]
fn mistakes_of_several_keys_are_reported_together() {
    let said = said_of(
        "cmd = [\"x\"]\npid = 1\ncollect = {}\nprofile = { runtime = \"go\" }\n\
         [epochs]\nuntil = \"never\"\nquiesce = \"5s\"\n[budget.metrics]",
    );
    for part in [
        "takes one of `cmd`, `pid`, `cgroup`",
        "needs one of `url` and `signal`",
        "lacks the key `url`",
        "`until` has no",
        "leaves no time for load",
        ": 5 errors",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_unknown_kind_is_said_once() {
    check(
        "[target]\ncmd=[\"x\"]\nready=\"after:1s\"\n[[load]]\nkind=\"htp\"\nurl=\"http://x/\"\n",
        &expect![[r#"
              × unknown kind `htp`
               ╭─[broken.toml:5:6]
             4 │ [[load]]
             5 │ kind="htp"
               ·      ──┬──
               ·        ╰── unknown
             6 │ url="http://x/"
               ╰────
              help: did you mean "http"?

            broken.toml: 1 error
        "#]],
    );
}

#[test]
fn two_variants_are_asked_for() {
    check(
        "[target]\ncmd=[\"x\"]\nready=\"after:1s\"\n[[load]]\nkind=\"command\"\ncmd=[\"y\"]\n[ab]\npairs=9\nmetric=\"cpu\"\n",
        &expect![[r#"
              × `ab` compares two variants, and there are 0
               ╭─[broken.toml:7:2]
             6 │ cmd=["y"]
             7 │ [ab]
               ·  ──
             8 │ pairs=9
               ╰────
              help: give exactly two `[[variant]]` tables

              × `pairs` is out of range
               ╭─[broken.toml:8:7]
             7 │ [ab]
             8 │ pairs=9
               ·       ┬
               ·       ╰── out of range
             9 │ metric="cpu"
               ╰────
              help: it takes values from 10 to 1000

              × `metric` has no "cpu"
               ╭─[broken.toml:9:8]
             8 │ pairs=9
             9 │ metric="cpu"
               ·        ──┬──
               ·          ╰── unknown
               ╰────
              help: it takes "cpu_us_per_op", "syscalls_per_op", "instructions_per_op", "p50", "p99", "p999",
                    "rss", "hwm", "throughput"

            broken.toml: 3 errors
        "#]],
    );
}

#[test]
fn a_profile_names_its_runtime_and_go_its_url() {
    check(
        "[target]\ncmd=[\"x\"]\nready=\"after:1s\"\nprofile={runtime=\"go\"}\n[[load]]\nkind=\"command\"\ncmd=[\"y\"]\n",
        &expect![[r#"
              × `target.profile` lacks the key `url`
               ╭─[broken.toml:4:9]
             3 │ ready="after:1s"
             4 │ profile={runtime="go"}
               ·         ───────┬──────
               ·                ╰── in this table
             5 │ [[load]]
               ╰────
              help: url: Base URL of net/http/pprof, such as "http://127.0.0.1:6060/debug/pprof". For "go"
                    only.

            broken.toml: 1 error
        "#]],
    );
    check(
        "[target]\ncmd=[\"x\"]\nready=\"after:1s\"\nprofile={runtime=\"node\",url=\"http://x/\"}\n[[load]]\nkind=\"command\"\ncmd=[\"y\"]\n",
        &expect![[r#"
              × `url` has no effect without `runtime = "go"`
               ╭─[broken.toml:4:25]
             3 │ ready="after:1s"
             4 │ profile={runtime="node",url="http://x/"}
               ·                         ───
             5 │ [[load]]
               ╰────
              help: take it out

            broken.toml: 1 error
        "#]],
    );
    check(
        "[target]\npid=1\nprofile={runtime=\"python\"}\n[[load]]\nkind=\"command\"\ncmd=[\"y\"]\n",
        &expect![[r#"
              × a profile of this runtime needs a target that the lab starts
               ╭─[broken.toml:3:1]
             2 │ pid=1
             3 │ profile={runtime="python"}
               · ───────
             4 │ [[load]]
               ╰────
              help: give `target.cmd` instead of `pid` or `cgroup`, or take this out

            broken.toml: 1 error
        "#]],
    );
    check(
        "[target]\ncmd=[\"x\"]\nready=\"after:1s\"\nprofile={runtime=\"ruby\"}\n[[load]]\nkind=\"command\"\ncmd=[\"y\"]\n",
        &expect![[r#"
              × `runtime` has no "ruby"
               ╭─[broken.toml:4:18]
             3 │ ready="after:1s"
             4 │ profile={runtime="ruby"}
               ·                  ───┬──
               ·                     ╰── unknown
             5 │ [[load]]
               ╰────
              help: it takes "go", "node", "python", "java"

            broken.toml: 1 error
        "#]],
    );
}

/// The report on a target with these lines; empty where they are valid.
fn said_of(target: &str) -> String {
    let text = format!("[target]\n{target}\n");
    let read = Scenario::parse(Path::new("it.toml"), &text);
    read.err()
        .map_or_else(String::new, |error| error.to_string())
}

#[test]
fn metrics_are_named_only_of_a_target_that_tells_them() {
    let budget = "[budget]\nerrors = 0\n[budget.metrics]\npool = 0.5";
    let said = said_of(&format!("pid = 1\n{budget}"));
    assert!(
        said.contains("`budget.metrics` needs `target.metrics`"),
        "{said}"
    );
    let metrics = "metrics = \"http://127.0.0.1:9100/metrics\"";
    assert_eq!(said_of(&format!("pid = 1\n{metrics}\n{budget}")), "");
    // A mistake is reported once.
    let said = said_of(&format!("pid = 1\nmetrics = \"h\"\n{budget}"));
    assert!(said.contains("1 error\n"), "{said}");
    let rises = "[budget.rises]\nhits_total = 1";
    let said = said_of(&format!("pid = 1\n{rises}"));
    assert!(said.contains("`budget.rises` needs"), "{said}");
    assert_eq!(said_of(&format!("pid = 1\n{metrics}\n{rises}")), "");
    let said = said_of(&format!(
        "pid = 1\n{metrics}\n[budget.rises]\nhits_total = 0"
    ));
    assert!(said.contains("it takes values above 0"), "{said}");
}

#[test]
fn a_url_has_a_host_and_a_port_that_is_one() {
    for url in [
        "http://",
        "http://:80/",
        "http:///metrics",
        "http://h:99999/",
        "https://h/",
        "h:80",
    ] {
        for target in [
            format!("pid = 1\nmetrics = \"{url}\""),
            format!("pid = 1\ncollect = {{ url = \"{url}\" }}"),
            format!("pid = 1\nlive_bytes = {{ url = \"{url}\", pointer = \"\" }}"),
            format!("pid = 1\nprofile = {{ runtime = \"go\", url = \"{url}\" }}"),
        ] {
            let said = said_of(&target);
            assert!(
                said.contains("write \"http://HOST:PORT/PATH\""),
                "{target}: {said}"
            );
        }
        let said = said_of(&format!("cmd = [\"x\"]\nready = \"{url}\""));
        assert!(said.contains("is no sign of readiness"), "{url}: {said}");
    }
    for url in [
        "http://h",
        "http://127.0.0.1:80/m?a=1",
        "http://[::1]:80/",
        "http://joe:pw@h:80/",
    ] {
        assert_eq!(
            said_of(&format!("pid = 1\nmetrics = \"{url}\"")),
            "",
            "{url}"
        );
    }
    let said = said_of("cgroup = \"\"");
    assert!(
        said.contains("a path can't be empty") && said.contains("1 error\n"),
        "{said}"
    );
}
