//! Text reports of runs of every kind: Markdown, JUnit, the terminal, `explain`.

use std::path::PathBuf;

use expect_test::expect;
use steppe_lab::record::{FolderError, GrowingSite, Interval, LoadedRun, Outcome};
use steppe_lab::report::{self, Colors, ExplainError, ReportError};

use crate::runs;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("steppe-lab-report-{name}-{}", std::process::id()))
}

fn terminal(run: &LoadedRun, colors: Colors) -> String {
    let verdict = run.verdict.as_ref().expect("it was judged");
    report::terminal(verdict, &run.manifest, 100, colors)
}

#[test]
fn a_folder_gets_all_its_reports() {
    for (name, made) in runs::all() {
        let path = made.write(&scratch(name));
        let written = report::write_all(&path).unwrap();
        // The folder as it is read equals the run that was written.
        let html = std::fs::read_to_string(&written.html).unwrap();
        let expected = report::html(&made.run, &made.timelines()).unwrap();
        assert!(
            html == expected,
            "{name}: {} bytes and {}",
            html.len(),
            expected.len()
        );
        let texts = [
            (&written.markdown, report::markdown(&made.run).unwrap()),
            (&written.summary, report::summary(&made.run).unwrap()),
            (&written.junit, report::junit(&made.run).unwrap()),
        ];
        for (file, text) in texts {
            assert_eq!(std::fs::read_to_string(file).unwrap(), text, "{name}");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_row_cut_short_hides_nothing_of_a_run_that_was_killed() {
    let mut made = runs::incomplete();
    made.run.verdict = None;
    let path = made.write(&scratch("cut"));
    let samples = path.join("samples.csv");
    let mut rows = std::fs::read_to_string(&samples).unwrap();
    rows.push_str("default,0,459");
    std::fs::write(&samples, rows).unwrap();
    let written = report::write_all(&path).unwrap();
    let html = std::fs::read_to_string(written.html).unwrap();
    assert!(html.contains("NO VERDICT") && html.contains("RSS over time"));
    std::fs::remove_dir_all(&path).unwrap();
    let missing = report::write_all(&path);
    assert!(matches!(
        missing,
        Err(ReportError::Folder(FolderError::NoRun(_)))
    ));
}

#[test]
fn summary_of_a_comparison() {
    expect![[r#"
        ### ❌ NO-GO: decoder

        after costs 1.098 times the CPU per operation, 1.082 at least; the limit is 1.05.

        | Variant | Metric | Value | Limit | Verdict |
        |---|---|---:|---:|---|
        | second to first | CPU per operation | 1.098 (1.082 to 1.114) | 1.05 | ❌ NO-GO |
        | second to first | System calls per operation | 1.001 (0.998 to 1.004) | 1.02 | ✅ GO |
        | second to first | Latency, p99 | 1.02 (0.94 to 1.13) | 1.1 | ⚠️ INCONCLUSIVE |
        | second to first | RSS | 1 (0.996 to 1.003) | none set |  measured |
        | second to first | Instructions per operation | – | 1.05 | ⚠️ INCONCLUSIVE |

        ab, exit code 1, 2026-01-17T09:30:00Z
    "#]]
    .assert_eq(&report::summary(&runs::ab().run).unwrap());
}

#[test]
fn summary_of_a_run_that_is_worth_nothing() {
    expect![[r####"
        ### ❌ INVALID: gateway under load

        The measurement can't be used: the generator, not the server, set the pace. **Incomplete.** **Single run.**

        > **Generator saturated:** load "http 1": its thread was idle 2 % of the time in epoch 7<br>Help: add threads = 2, lower the rate, or run the lab on another machine

        > **Interrupted:** ended by Ctrl-C after 9 of 60 epochs

        | Variant | Metric | Value | Limit | Verdict |
        |---|---|---:|---:|---|
        | default | Growth at rest | – | 32 KiB/epoch | ⚠️ INCONCLUSIVE |

        soak, exit code 5, 2026-01-17T09:30:00Z
    "####]].assert_eq(&report::summary(&runs::incomplete().run).unwrap());
}

#[test]
fn summary_of_a_run_that_was_killed() {
    expect![[r#"
        ### ⚠️ NO VERDICT: killed

        The run ended before it could be judged; it had measured nothing. **Incomplete.**

        soak, 2026-01-17T09:30:00Z
    "#]]
    .assert_eq(&report::summary(&runs::empty().run).unwrap());
}

#[test]
fn markdown_of_leaks() {
    expect![[r#"
        # LEAK: leaky

        1,000 blocks of 128,000 bytes are lost: keep (leaky.c:31).

        leaks, 2026-01-17T09:30:00Z, exit code 1

        ## default: LEAK

        1 run

        | Metric | Value | Interval | Limit | Verdict | |
        |---|---:|---|---:|---|---|
        | Lost memory | 125 KiB | – | 0 KiB | **LEAK** | 128000 bytes in the worst epoch, limit 0<br>measured and held against the limit |


        125 KiB were allocated and not freed:

        - **125 KiB** in 1,000 blocks, definitely lost
            - malloc (vg_replace_malloc.c:446)
            - keep (leaky.c:31)
            - answer (leaky.c:88)
        - **304 B** in 1 block, possibly lost
            - malloc (vg_replace_malloc.c:446)
            - keep (leaky.c:31)
            - answer (leaky.c:88)

        ## Run

        - Scenario: leaky (soak.toml)
        - Command: steppe-lab soak soak.toml
        - Started: 2026-01-17T09:30:00Z
        - Finished: 2026-01-17T09:55:21Z
        - Variants: 1
        - Runs: 1
        - Seed: 7
        - Steppe Lab: 0.0.0
        - Cost of measuring: sampler 2.14 s of CPU, all of the lab 184 s, at most 21.0 MiB of memory

        default:

        ```text
        RUST_LOG=warn /usr/local/bin/server --listen 127.0.0.1:8080
        ```

        - default: 1 process ended with exit status: 0

        ## Machine

        - Kernel: 6.8.0-51-generic
        - Architecture: x86_64
        - CPU: AMD EPYC 7763 64-Core Processor
        - CPUs: 8
        - Memory: 32.0 GiB
        - Governor: unknown
        - Transparent huge pages: madvise
        - Control groups: v2
        - Load average at the start: 0.31

        | Not measured | Reason | Consequence |
        |---|---|---|
        | instructions | the hardware counter is not supported here; run on a machine without virtualization | no instructions per operation |

        SHA-256:

        - soak.toml: c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4
        - /usr/local/bin/server: 9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f
    "#]].assert_eq(&report::markdown(&runs::leaks().run).unwrap());
}

#[test]
fn terminal_of_cycles() {
    expect![[r#"
        ✕ UNBOUNDED  large payloads (single run)
        zero-copy grows without bound: 907 MiB a cycle, of 64 that it may.

                                 metric      value            interval        limit         verdict
         baseline (as expected)  rss_growth  1,085 MiB/cycle  1,009 to 1,182  64 MiB/cycle  UNBOUNDED
         baseline, 2 arenas      rss_growth  54.84 MiB/cycle  51 to 59.77     64 MiB/cycle  STABLE
         zero-copy               rss_growth  886 MiB/cycle    823.9 to 965.7  64 MiB/cycle  UNBOUNDED
         zero-copy, 2 arenas     rss_growth  54.84 MiB/cycle  51 to 59.77     64 MiB/cycle  STABLE

        exit code 1
    "#]].assert_eq(&terminal(&runs::cycles().run, Colors::Plain));
}

#[test]
fn terminal_of_a_run_that_is_worth_nothing() {
    expect![[r#"
        ! INVALID  gateway under load (incomplete) (single run)
        The measurement can't be used: the generator, not the server, set the pace.

         metric      value  interval  limit         verdict
         rss_growth  –                32 KiB/epoch  INCONCLUSIVE

        generator saturated: load "http 1": its thread was idle 2 % of the time in epoch 7
          help: add threads = 2, lower the rate, or run the lab on another machine

        interrupted: ended by Ctrl-C after 9 of 60 epochs

        note: 1 look at smaps failed
          help: nothing to do

        exit code 5
    "#]]
    .assert_eq(&terminal(&runs::incomplete().run, Colors::Plain));
}

#[test]
fn colors_only_where_they_are_asked_for() {
    let run = runs::unbounded().run;
    assert!(terminal(&run, Colors::Ansi).starts_with("\u{1b}[1;31m✕ LEAK\u{1b}[0m"));
    assert!(!terminal(&run, Colors::Plain).contains('\u{1b}'));
    assert!(!terminal(&runs::hostile().run, Colors::Plain).contains('\u{1b}'));
}

#[test]
fn explain_growth() {
    let text = report::explain(&runs::unbounded().run, "rss_growth").unwrap();
    expect![[r#"
        default rss_growth: UNBOUNDED
          grows by 200.4 KiB an epoch, 204.9 at most, of 32 that it may
          The limit of 512 MiB is reached in 3.4 hours.
          Live bytes grow alike: a leak, of 8.6 bytes an operation.

        Rule
          one point per epoch, its Theil-Sen slope, against the budget (5 fresh processes of 48 points, 95 % interval)
          STABLE: the whole window's upper bound is under the budget
          UNBOUNDED: the lower bound is over it, for the whole window and for its last half
          GROWING: for the whole window only; else INCONCLUSIVE
          other shapes: growth that slows down is judged by the rest without its curve, steps by their corners, a saw-tooth by its troughs

        Points (Memory at rest, 5 runs laid over each other, by epoch)
          43.5 MiB │                                                           :
                   │                                                      ·##-#:
                   │                                            :::-:#:#-#:
                   │                                       :##-#::: : ·
                   │                            · ·:-####-#:
                   │                       :::#-:#::
                   │               ::-####-::·
                   │        ·###-##:·
                   │:#-####-:
          32.5 MiB │:
                   └────────────────────────────────────────────────────────────
                    12                                                        59
          dashes: the slope
          240 counted, 60 dropped as warm-up

        Interval
          whole window 200.4 KiB/epoch (196.2 to 204.9)
                         ┊                                 ├●┤
          last half    194.4 KiB/epoch (156 to 246.9)
                         ┊                         ├───────●──────────┤
          budget       32 KiB/epoch

        Next
          compare with live_growth: live bytes that stay flat mean retention (try another allocator as a variant), else find the code: in a managed runtime with `target.collect` and `target.profile`, in a native program with `steppe-lab leaks`
    "#]].assert_eq(&text);
}

#[test]
fn explain_a_comparison() {
    let text = report::explain(&runs::ab().run, "p99").unwrap();
    expect![[r#"
        comparison p99: INCONCLUSIVE
          1.02 times the first, 0.94 to 1.13

        Rule
          the ratio of the second variant to the first, in pairs of fresh processes (paired bootstrap over 12 pairs, 95 % interval)
          GO: the upper bound is under the limit; NO-GO: the lower is over it; else INCONCLUSIVE

        Each run of before
          2.62 ms │           ·
                  │                           ·
                  │
                  │                                ·
                  │                     ·
                  │                                                ·
                  │·                                                     ·
                  │                ·                          ·
                  │     ·                                ·
          2.21 ms │                                                           ·
                  └────────────────────────────────────────────────────────────
                   1                                                         12

        Each run of after
          2.67 ms │           ·
                  │                           ·                    ·
                  │                                      ·
                  │                     ·
                  │     ·          ·
                  │                                ·                          ·
                  │                                                      ·
                  │                                           ·
                  │
          2.12 ms │·
                  └────────────────────────────────────────────────────────────
                   1                                                         12

        Interval
          value        1.02 (0.94 to 1.13)
                         ├──────────────────●──────────────────┊──────┤
          limit        1.1

        Next
          the limit lies within the interval: use more pairs, a longer measurement, or a quieter machine (`calibrate` shows the smallest effect detected here)
    "#]].assert_eq(&text);
}

#[test]
fn explain_what_could_not_be_seen() {
    let text = report::explain(&runs::incomplete().run, "rss_growth").unwrap();
    expect![[r#"
        default rss_growth: INCONCLUSIVE
          5 points are too few to tell

        Rule
          one point per epoch, its Theil-Sen slope, against the budget (block bootstrap over 1 series of 5 points, exploratory, 95 % interval)
          STABLE: the whole window's upper bound is under the budget
          UNBOUNDED: the lower bound is over it, for the whole window and for its last half
          GROWING: for the whole window only; else INCONCLUSIVE
          other shapes: growth that slows down is judged by the rest without its curve, steps by their corners, a saw-tooth by its troughs

        Points (Memory at rest, 1 run, by epoch)
          30.6 MiB │                                                           ·
                   │                                            ·
                   │
                   │
                   │
                   │               ·
                   │
                   │
                   │
          28.9 MiB │·
                   └────────────────────────────────────────────────────────────
                    4                                                          8
          4 counted, 4 dropped as warm-up, 1 could not be seen

        Interval
          nothing was measured

        Next
          too few points to judge: run to the planned end, with more epochs or pairs; the report lists missing measurements
    "#]].assert_eq(&text);
}

#[test]
fn explain_names_the_metrics_there_are() {
    let unknown = report::explain(&runs::unbounded().run, "rss").unwrap_err();
    expect![[r#"no finding for "rss"; there are: errors, live_growth, p99, rss_growth"#]]
        .assert_eq(&unknown.to_string());
    let killed = report::explain(&runs::empty().run, "rss");
    assert_eq!(killed, Err(ExplainError::NoVerdict));
}

#[test]
fn junit_of_expected_growth() {
    expect![[r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="large payloads" tests="6" failures="2" errors="0">
          <testsuite name="run" tests="1" failures="1" errors="0" skipped="0" timestamp="2026-01-17T09:30:00Z">
            <testcase classname="large payloads" name="verdict">
              <properties>
                <property name="kind" value="cycle"/>
              </properties>
              <failure type="UNBOUNDED" message="zero-copy grows without bound: 907 MiB a cycle, of 64 that it may."/>
              <system-out>single run: Intervals come from one process, not from fresh ones: an exploration, not a gate.</system-out>
            </testcase>
          </testsuite>
          <testsuite name="baseline" tests="2" failures="0" errors="0" skipped="0" timestamp="2026-01-17T09:30:00Z">
            <testcase classname="large payloads.baseline" name="rss_growth">
              <properties>
                <property name="label" value="Growth at rest"/>
                <property name="word" value="UNBOUNDED"/>
                <property name="unit" value="KiB/cycle"/>
                <property name="limit" value="65536"/>
                <property name="value" value="1110840"/>
                <property name="lower" value="1033081"/>
                <property name="upper" value="1210816"/>
              </properties>
              <system-out>grows by 1110840 KiB a cycle, 1210816 at most, of 65536 that it may
        UNBOUNDED, as expected
        block bootstrap over 1 series of 3 points, exploratory, 95 % interval</system-out>
            </testcase>
            <testcase classname="large payloads.baseline" name="word">
            </testcase>
          </testsuite>
          <testsuite name="baseline, 2 arenas" tests="1" failures="0" errors="0" skipped="0" timestamp="2026-01-17T09:30:00Z">
            <testcase classname="large payloads.baseline, 2 arenas" name="rss_growth">
              <properties>
                <property name="label" value="Growth at rest"/>
                <property name="word" value="STABLE"/>
                <property name="unit" value="KiB/cycle"/>
                <property name="limit" value="65536"/>
                <property name="value" value="56152"/>
                <property name="lower" value="52221"/>
                <property name="upper" value="61206"/>
              </properties>
              <system-out>grows by 56152 KiB a cycle, 61206 at most, of 65536 that it may
        block bootstrap over 1 series of 3 points, exploratory, 95 % interval</system-out>
            </testcase>
          </testsuite>
          <testsuite name="zero-copy" tests="1" failures="1" errors="0" skipped="0" timestamp="2026-01-17T09:30:00Z">
            <testcase classname="large payloads.zero-copy" name="rss_growth">
              <properties>
                <property name="label" value="Growth at rest"/>
                <property name="word" value="UNBOUNDED"/>
                <property name="unit" value="KiB/cycle"/>
                <property name="limit" value="65536"/>
                <property name="value" value="907227"/>
                <property name="lower" value="843721"/>
                <property name="upper" value="988877"/>
              </properties>
              <failure type="UNBOUNDED" message="grows by 907227 KiB a cycle, 988877 at most, of 65536 that it may"/>
              <system-out>grows by 907227 KiB a cycle, 988877 at most, of 65536 that it may
        block bootstrap over 1 series of 3 points, exploratory, 95 % interval</system-out>
            </testcase>
          </testsuite>
          <testsuite name="zero-copy, 2 arenas" tests="1" failures="0" errors="0" skipped="0" timestamp="2026-01-17T09:30:00Z">
            <testcase classname="large payloads.zero-copy, 2 arenas" name="rss_growth">
              <properties>
                <property name="label" value="Growth at rest"/>
                <property name="word" value="STABLE"/>
                <property name="unit" value="KiB/cycle"/>
                <property name="limit" value="65536"/>
                <property name="value" value="56152"/>
                <property name="lower" value="52221"/>
                <property name="upper" value="61206"/>
              </properties>
              <system-out>grows by 56152 KiB a cycle, 61206 at most, of 65536 that it may
        block bootstrap over 1 series of 3 points, exploratory, 95 % interval</system-out>
            </testcase>
          </testsuite>
        </testsuites>
    "#]].assert_eq(&report::junit(&runs::cycles().run).unwrap());
}

fn number(node: &roxmltree::Node<'_, '_>, name: &str) -> usize {
    let text = node.attribute(name).expect("the attribute");
    text.parse().expect("a number")
}

/// Numbers of cases, failures and errors by the file's attributes; equal to the elements in it.
fn junit_counts(xml: &str) -> (usize, usize, usize) {
    let document = roxmltree::Document::parse(xml).expect("it is XML");
    let count = |name: &str| {
        let elements = document
            .descendants()
            .filter(|node| node.has_tag_name(name));
        elements.count()
    };
    let found = (count("testcase"), count("failure"), count("error"));
    let sum = |name: &str| -> usize {
        let suites = document
            .descendants()
            .filter(|node| node.has_tag_name("testsuite"));
        suites.map(|suite| number(&suite, name)).sum()
    };
    assert_eq!((sum("tests"), sum("failures"), sum("errors")), found);
    let root = document.root_element();
    let told = |name: &str| number(&root, name);
    assert_eq!((told("tests"), told("failures"), told("errors")), found);
    found
}

#[test]
fn junit_is_red_exactly_where_the_exit_code_is() {
    for (name, made) in runs::all() {
        let (cases, failures, errors) = junit_counts(&report::junit(&made.run).unwrap());
        assert!(cases > 0, "{name}");
        let exit_code = made.run.verdict.map(|verdict| verdict.exit_code);
        assert_eq!(failures + errors == 0, exit_code == Some(0), "{name}");
    }
}

#[test]
fn junit_knows_every_word() {
    let words = [
        (Outcome::Stable, 0, 0),
        (Outcome::Go, 0, 0),
        (Outcome::Inconclusive, 2, 0),
        (Outcome::Growing, 2, 0),
        (Outcome::NoGo, 2, 0),
        (Outcome::Unbounded, 2, 0),
        (Outcome::Leak, 2, 0),
        (Outcome::Invalid, 0, 2),
        (Outcome::TargetFailed, 0, 2),
    ];
    for (word, failures, errors) in words {
        let mut run = runs::calibration().run;
        let verdict = run.verdict.as_mut().unwrap();
        verdict.outcome = word;
        verdict.exit_code = word.exit_code();
        verdict.comparisons.truncate(1);
        verdict.comparisons[0].outcome = word;
        let counts = junit_counts(&report::junit(&run).unwrap());
        assert_eq!(counts, (2, failures, errors), "{word}");
    }
}

#[test]
fn junit_of_an_expectation_that_was_not_met_is_red() {
    let mut run = runs::stable().run;
    let verdict = run.verdict.as_mut().unwrap();
    verdict.variants[0].expect = Some(Outcome::Unbounded);
    let xml = report::junit(&run).unwrap();
    assert!(xml.contains("STABLE, where UNBOUNDED was expected"));
    assert_eq!(junit_counts(&xml).1, 1);
}

#[test]
fn text_of_others_stays_text() {
    let run = runs::hostile().run;
    let xml = report::junit(&run).unwrap();
    junit_counts(&xml);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let name = document.root_element().attribute("name").unwrap();
    assert!(name.starts_with("<img src=x onerror=alert(1)>"), "{name}");

    for text in [
        report::markdown(&run).unwrap(),
        report::summary(&run).unwrap(),
    ] {
        assert!(text.contains("&lt;img src=x"), "{text}");
        // A code block holds the text as it is, behind a fence that is longer than any in it.
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            assert!(is_code || !line.contains("<img"), "{line}");
            let borders = line.replace("\\|", "").matches('|').count();
            assert!(is_code || !line.starts_with('|') || borders > 3, "{line}");
        }
        assert!(!text.contains(['\0', '\u{1b}', '\u{202e}']));
    }
}

#[test]
fn every_row_of_a_table_has_its_cells() {
    for (name, made) in runs::all() {
        for text in [
            report::markdown(&made.run).unwrap(),
            report::summary(&made.run).unwrap(),
        ] {
            let mut width = None;
            for line in text.lines() {
                if !line.starts_with('|') {
                    width = None;
                    continue;
                }
                let borders = line.replace("\\|", "").matches('|').count();
                assert_eq!(*width.get_or_insert(borders), borders, "{name}: {line}");
            }
        }
    }
}

#[test]
fn what_is_no_number_is_not_shown_as_one() {
    let mut made = runs::stable();
    let finding = &mut made.run.verdict.as_mut().unwrap().variants[0].findings[0];
    finding.value = Some(Interval {
        lower: f64::NAN,
        estimate: f64::INFINITY,
        upper: f64::NEG_INFINITY,
    });
    finding.limit = Some(f64::NAN);
    finding.text = "broken".to_owned();
    finding.last_half = None;
    for epoch in &mut made.run.epochs {
        epoch.p99_us = Some(f64::NAN);
        epoch.p50_us = Some(-0.0);
    }
    let html = report::html(&made.run, &made.timelines()).unwrap();
    assert!(!html.contains("NaN") && !html.contains("inf,") && !html.contains("\"inf"));
    assert!(
        report::explain(&made.run, "rss_growth")
            .unwrap()
            .contains("broken")
    );
}

#[test]
fn a_ratio_without_a_limit_is_a_figure_and_not_go() {
    let made = runs::ab();
    let text = report::explain(&made.run, "rss").unwrap();
    assert!(text.starts_with("comparison rss: measured\n"), "{text}");
    assert!(text.contains("no limit is set"), "{text}");
    assert!(!text.contains("GO"), "{text}");
    let page = report::html(&made.run, &made.timelines()).unwrap();
    assert!(page.contains(">1 measured<"), "no ratio that was measured");
    let junit = report::junit(&made.run).unwrap();
    let case = junit
        .split("<testcase")
        .find(|case| case.contains("name=\"rss\""));
    let case = case.expect("a case");
    assert!(case.contains("name=\"word\" value=\"measured\""), "{case}");
    for text in [report::markdown(&made.run), report::summary(&made.run)] {
        let text = text.unwrap();
        let row = text.lines().find(|line| line.contains("| RSS |"));
        let row = row.expect("a row");
        assert!(row.contains("measured") && !row.contains("GO"), "{row}");
    }
}

/// Names come from the target: none of them is markup or a command of a terminal.
#[test]
fn what_grew_by_a_profile_is_listed_and_harmless() {
    let mut made = runs::leaks();
    let verdict = made.run.verdict.as_mut().unwrap();
    let growing = |kind: &str, site: &str, bytes, count| GrowingSite {
        kind: kind.to_owned(),
        site: site.to_owned(),
        bytes,
        count,
    };
    verdict.variants[0].growing = vec![
        growing("heap", "remember (app.js:12)", Some(4_450_000), None),
        growing("heap", "<b>|\u{1b}[31m", Some(2_048), Some(3)),
        growing("goroutines", "main.wait (main.go:9)", None, Some(4_125)),
    ];
    let text = terminal(&made.run, Colors::Plain);
    let lines = text
        .lines()
        .skip_while(|line| !line.contains("growth from the end of warm-up"));
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    expect![[r#"
        default: growth from the end of warm-up to the end of the run, by the runtime's own profile
                              4.24 MiB  remember (app.js:12)
                   2.00 KiB, 3 objects  <b>|\u{1b}[31m
                      4,125 goroutines  main.wait (main.go:9)"#]]
    .assert_eq(&lines.join("\n"));
    let text = report::markdown(&made.run).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| !line.contains("| Place or type"));
    let rows: Vec<&str> = rows.take_while(|line| !line.is_empty()).collect();
    expect![[r#"
        | Place or type | Bytes | Count |
        |---|---:|---:|
        | remember (app.js:12) | 4.24 MiB | – |
        | &lt;b&gt;\|\u{1b}\[31m | 2.00 KiB | 3 objects |
        | main.wait (main.go:9) | – | 4,125 goroutines |"#]]
    .assert_eq(&rows.join("\n"));
    let page = report::html(&made.run, &made.timelines()).unwrap();
    assert!(page.contains("<code>&lt;b&gt;|"), "not escaped");
}
