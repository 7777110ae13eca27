//! Every kind of mistake and its report: each file of `broken` is beside its expected report.
//! `UPDATE_EXPECT=1` writes the reports again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect, expect_file};
use steppe_dns::limits::{LISTS_MAX, RULES_PER_PROGRAM_MAX};
use steppe_node::config::{self, Checks, Drawing, Machine, Objection, Outcome};
use steppe_node::container::{LimitSource, MemoryLimit};
use steppe_node::needs::Needs;

/// Files with warnings alone.
const WARNINGS: [&str; 3] = ["method_case.toml", "no_route.toml", "unused.toml"];

/// The prefix of files whose mistakes depend on the machine.
const OF_MACHINE: &str = "machine_";

fn broken() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let files = fs::read_dir(folder).expect("the folder is part of the project");
    let files = files.map(|file| file.expect("it can be listed").path());
    let is_configuration =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending != "stderr");
    let name = |path: &Path| {
        path.file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned()
    };
    files
        .filter(is_configuration)
        .map(|path| (name(&path), path))
        .collect()
}

/// Reads a file as `steppe check` does: for a machine with 256 MiB, or the text alone.
fn outcome(name: &str, text: &str) -> Outcome {
    if !name.starts_with(OF_MACHINE) {
        return config::read(name, text);
    }
    let limit = MemoryLimit {
        bytes: 256 << 20,
        source: LimitSource::Given,
    };
    let read_token = |_: &Path| Err("no file of these is a token".to_owned());
    let checks = Checks {
        limit: Some(limit),
        machine: Some(Machine { read_token }),
        judge: &|config| {
            let needs = Needs::fixed(config, 16 << 20, 4);
            let (message, help) = needs.fit().err()?.message_and_help();
            Some(Objection { message, help })
        },
    };
    // Cargo runs tests in the folder of their package.
    let path = Path::new("tests/broken").join(name);
    config::load_checked(&path, &checks).expect("it can be read")
}

/// Each mistake comes with advice: in the help, by naming the other place, or in the message.
#[test]
fn every_mistake_says_what_to_do() {
    let mut silent = Vec::new();
    for (name, path) in broken() {
        let text = fs::read_to_string(&path).expect("a text");
        let report = outcome(&name, &text).report;
        for mistake in report.mistakes() {
            if mistake.help.is_none() && mistake.also.is_empty() && !is_advice(&mistake.message) {
                silent.push(format!("{name}: {}", mistake.message));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

/// True if a message itself says what would be right, or is about syntax, whose label does.
fn is_advice(message: &str) -> bool {
    let syntax = ["invalid TOML: ", "invalid JSON: "];
    let bounds = [" takes ", " at most ", " can't ", "nested deeper than "];
    syntax.iter().any(|start| message.starts_with(start))
        || bounds.iter().any(|words| message.contains(words))
}

#[test]
fn every_mistake_is_reported() {
    let files = broken();
    assert!(files.len() >= 20, "{} files", files.len());
    for (name, path) in files {
        let text = fs::read_to_string(&path).expect("a text");
        let outcome = outcome(&name, &text);
        let is_warning = WARNINGS.contains(&name.as_str());
        assert_eq!(outcome.config.is_some(), is_warning, "{name}");
        assert_eq!(outcome.report.errors() == 0, is_warning, "{name}");
        let drawn = outcome.report.render(Drawing::Plain);
        expect_file![path.with_added_extension("stderr")].assert_eq(&drawn);
    }
}

#[test]
fn reports_are_in_the_order_of_the_file_and_plain() {
    for (name, path) in broken() {
        let text = fs::read_to_string(&path).expect("a text");
        let report = outcome(&name, &text).report;
        let starts: Vec<_> = report
            .mistakes()
            .iter()
            .map(|each| each.span.start)
            .collect();
        assert!(starts.is_sorted(), "{name}: {starts:?}");
        let drawn = report.render(Drawing::Plain);
        let is_plain = |char: char| char == '\n' || !char.is_control();
        assert!(drawn.chars().all(is_plain), "{name}: {drawn:?}");
        assert!(report.render(Drawing::Color).contains('\u{1b}'), "{name}");
    }
}

/// The forwarder's tables have bounds: these files are too long for the folder `broken`.
#[test]
fn tables_that_are_too_long_are_reported() {
    let cases: [(String, Expect); 3] = [
        (
            repeated(RULES_PER_PROGRAM_MAX + 1, rule),
            expect!["`dns.rule` has 1025 entries: at most 1024"],
        ),
        (
            repeated(usize::from(LISTS_MAX) + 1, list),
            expect!["`dns.list` has 65 entries: at most 64"],
        ),
        (
            repeated(16, upstream) + &repeated(RULES_PER_PROGRAM_MAX, cached),
            expect![
                "17 upstreams and 1024 rules with `cache` make 17425 parts of the cache, more than 16384"
            ],
        ),
    ];
    for (lines, expected) in cases {
        let text = format!("{FORWARDER}{lines}");
        let outcome = config::read("long.toml", &text);
        assert!(outcome.config.is_none());
        let too_long =
            |message: &str| message.contains(" at most ") || message.contains(" more than ");
        let mistakes = outcome.report.mistakes().iter();
        let told: Vec<&str> = mistakes
            .map(|mistake| mistake.message.as_str())
            .filter(|message| too_long(message))
            .collect();
        expected.assert_eq(&told.join("\n"));
    }
}

const FORWARDER: &str = r#"
[[dns.listener]]
listen = "127.0.0.1:5300"
[dns.upstream.public]
servers = ["udp://9.9.9.9"]
"#;

fn repeated(count: usize, line: fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

fn rule(number: usize) -> String {
    format!("[[dns.rule]]\nsuffix = \"{number}.example\"\nforward = \"public\"\n")
}

fn upstream(number: usize) -> String {
    format!("[dns.upstream.u{number}]\nservers = [\"udp://192.0.2.{number}\"]\n")
}

fn list(number: usize) -> String {
    format!("[dns.list.l{number}]\nfiles = [\"{number}.txt\"]\n")
}

fn cached(number: usize) -> String {
    format!(
        "{}cache = {{ max_ttl = \"{}s\" }}\n",
        rule(number),
        number + 1
    )
}
