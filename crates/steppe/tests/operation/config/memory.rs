//! The memory that a start reserves: `steppe check` and `steppe run` compute it alike.

use std::fmt::Write as _;

use expect_test::expect;
use steppe_node::config;
use steppe_node::container::{LimitSource, MemoryLimit};
use steppe_node::needs::{self, Needs};
use steppe_testkit::{Document, Port, Scratch, Steppe};

const FORWARDER: &str = r#"
[node]
memory_budget = "{budget}"
workers = {workers}
[admin]
listen = "{admin}"
[[dns.listener]]
listen = "{plain}"
[dns.cache]
bytes = "12MiB"
[dns.list.ads]
files = ["ads.txt"]
[[dns.rule]]
list = "ads"
block = "zero"
[[dns.rule]]
records = "192.0.2.80"
"#;

/// The exit code of `steppe check` for a file of this text, and its output.
fn check(text: &str, options: &[&str]) -> (i32, String) {
    let scratch = Scratch::new("check-memory");
    scratch.write("steppe.toml", text);
    let mut list = String::new();
    for number in 0..200_000 {
        writeln!(list, "n{number}.example").expect("a string takes it");
    }
    scratch.write("ads.txt", list);
    let mut command = Steppe::command();
    command.arg("check").arg("steppe.toml").args(options);
    let output = command.current_dir(scratch.path()).output();
    let output = output.expect("the binary starts");
    let said = [output.stdout, output.stderr].concat();
    let code = output.status.code().expect("it ends by itself");
    (code, String::from_utf8(said).expect("text"))
}

fn forwarder(budget: &str, workers: &str) -> String {
    let text = FORWARDER
        .replace("{budget}", budget)
        .replace("{workers}", workers);
    text.replace("{admin}", "127.0.0.1:9900")
        .replace("{plain}", "127.0.0.1:5300")
}

#[test]
fn what_run_would_refuse_for_memory_is_refused_with_the_sum() {
    let (code, said) = check(&forwarder("16MiB", "4"), &[]);
    assert_eq!(code, 1, "{said}");
    expect![[r#"
          × `memory_budget`: 16.0 MiB is too little to start with 4 workers
           ╭─[steppe.toml:3:17]
         2 │ [node]
         3 │ memory_budget = "16MiB"
           ·                 ───┬───
           ·                    ╰── too little
         4 │ workers = 4
           ╰────
          help: raise the budget, or lower `node.workers`, `dns.cache.bytes` or the number of list rules
                      52 KiB  admin: history and last errors
                    12.0 MiB  dns.cache.bytes
                     705 KiB  dns: tables that all workers share
                     3.2 MiB  dns: tables of workers, 813 KiB each
                     616 KiB  dns.listener: buffers of workers, 154 KiB each
                    16.5 MiB  of 16.0 MiB is reserved before the node serves, with 4 workers

        steppe.toml: 1 error
    "#]].assert_eq(&said);
    // A budget that is enough for all but the list.
    let (code, said) = check(&forwarder("20MiB", "1"), &[]);
    assert_eq!(code, 1, "{said}");
    expect![[r#"
        steppe.toml: node.memory_budget: 20.0 MiB is too little to start with 1 worker
              52 KiB  admin: history and last errors
            12.0 MiB  dns.cache.bytes
             770 KiB  dns: tables that all workers share
             2.2 MiB  dns: tables of workers, 2.2 MiB each
             154 KiB  dns.listener: buffers of workers, 154 KiB each
             5.2 MiB  dns.list: while the files are read
            20.4 MiB  of 20.0 MiB is reserved before the node serves, with 1 worker
          help: raise the budget, or lower `node.workers`, `dns.cache.bytes` or the number of list rules
    "#]].assert_eq(&said);
}

#[test]
fn check_answers_for_another_machine() {
    let of = |options| check(&forwarder("50%", "\"auto\""), options);
    let (code, said) = of(&["--workers", "64", "--memory", "512MiB"]);
    assert_eq!(code, 0, "{said}");
    expect![[r#"
        steppe.toml: ok: 1 listener (127.0.0.1:5300), 0 routes, 2 rules, 0 upstreams, memory budget 50%
              52 KiB  admin: history and last errors
            12.0 MiB  dns.cache.bytes
             4.4 MiB  dns: tables that all workers share
            50.8 MiB  dns: tables of workers, 813 KiB each
             9.6 MiB  dns.listener: buffers of workers, 154 KiB each
             5.2 MiB  dns.list: while the files are read
            82.0 MiB  of 256.0 MiB is reserved before the node serves, with 64 workers
    "#]].assert_eq(&said);
    let (code, said) = of(&["--workers", "64", "--memory", "64MiB"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("too little to start with 64 workers"),
        "{said}"
    );
    let (code, said) = check(&forwarder("1GiB", "1"), &["--memory", "512MiB"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("1GiB is more than the given memory of 512MiB"),
        "{said}"
    );
    let (code, said) = of(&["--memory", "lots"]);
    assert_eq!(code, 2, "{said}");
}

/// The smallest budget that `check` accepts starts, and one MiB less does not.
#[test]
fn run_decides_as_check_does() {
    let is_accepted = |mib: &u32| check(&forwarder(&format!("{mib}MiB"), "3"), &[]).0 == 0;
    let least = (13..64).find(is_accepted).expect("some budget is enough");
    let mut list = String::new();
    for number in 0..200_000 {
        writeln!(list, "n{number}.example").expect("a string takes it");
    }
    let builder = |mib: u32| {
        Steppe::builder()
            .with("budget", format!("{mib}MiB"))
            .with("workers", 3)
            .with("plain", Port::free().keep())
            .with_file("ads.txt", &list)
    };
    println!("{least} MiB are enough");
    let node = builder(least).start(FORWARDER);
    assert_eq!(node.admin_get("/readyz").text(), "ready\n");
    assert!(node.stop().success());
    let (status, said) = builder(least - 1).run(&["run", "-c"], FORWARDER);
    assert_eq!(status.code(), Some(3), "{said}");
}

#[test]
fn auto_takes_as_many_workers_as_the_budget_carries_and_says_so() {
    let node = Steppe::builder()
        .with("budget", "17MiB")
        .with("workers", "\"auto\"")
        .with("plain", Port::free().keep())
        .with_file("ads.txt", "ads.example\n")
        .start(FORWARDER);
    if needs::cpus() > 1 {
        let said = node.said();
        assert!(
            said.contains("the memory budget carries fewer workers than CPUs"),
            "{said}"
        );
    }
    assert!(node.stop().success());
}

/// The examples on a machine of 1 GiB.
#[test]
fn examples_of_the_pages_start_with_1_to_64_workers() {
    let limit = MemoryLimit {
        bytes: 1 << 30,
        source: LimitSource::Given,
    };
    let is_of_the_lab = |page: &&Document| !page.name.contains("/lab");
    let pages = Document::all();
    let counts = pages.iter().filter(is_of_the_lab).map(|page| {
        page.check_toml(|text| {
            let Some(config) = config::read(&page.name, text).config else {
                return Ok(());
            };
            let budget_bytes = match config.node.memory_budget.bytes(limit) {
                Ok(bytes) => bytes,
                // More than this machine has.
                Err(_) => return Ok(()),
            };
            for cpus in 1..=64 {
                let workers = needs::workers(&config, budget_bytes, cpus);
                let needs = Needs::fixed(&config, budget_bytes, workers);
                needs.fit().map_err(|refused| refused.to_string())?;
            }
            Ok(())
        })
    });
    let count: usize = counts.sum();
    assert!(count > 20, "{count} configurations");
}
