//! The GitHub Action: its script as a runner would call it, on real processes, and its YAML.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use steppe_testkit::{is_left_to_long_tier, skip};

use super::harness::{Lab, alone, free_port, program};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/actions/steppe-lab")
}

/// The script with the variables that a runner sets, and those of the inputs.
fn compare(lab: &Lab, inputs: &[(&str, &str)]) -> Output {
    let mut command = Command::new("bash");
    command
        .arg(folder().join("compare.sh"))
        .current_dir(&lab.folder)
        .env("STEPPE_LAB", env!("CARGO_BIN_EXE_steppe-lab"))
        .env("RUNNER_TEMP", &lab.folder)
        .env("GITHUB_OUTPUT", lab.folder.join("output"))
        .env("GITHUB_STEP_SUMMARY", lab.folder.join("step-summary.md"))
        .envs(inputs.iter().copied());
    command.output().expect("bash")
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn measured_a_change_that_computes_far_more_fails_the_job_and_is_in_its_summary() {
    if is_left_to_long_tier(
        "measured_a_change_that_computes_far_more_fails_the_job_and_is_in_its_summary",
    ) {
        return;
    }
    let _alone = alone();
    let lab = Lab::new("action");
    let (program, port) = (program("steady"), free_port());
    let server = |work| format!("{program} 127.0.0.1:{port} {work}");
    let (base, head) = (server(50_000), server(400_000));
    let url = format!("http://127.0.0.1:{port}/");
    let inputs = [
        ("LAB_BASE", base.as_str()),
        ("LAB_HEAD", head.as_str()),
        ("LAB_URL", url.as_str()),
        ("LAB_RATE", "300"),
        ("LAB_WARMUP", "50ms"),
        ("LAB_LENGTH", "200ms"),
    ];
    let output = compare(&lab, &inputs);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("::error title=steppe-lab::NO-GO, exit code 1"),
        "{said}"
    );
    let outputs = "word=NO-GO\nexit-code=1\nreport=steppe-lab/report.html\n";
    assert_eq!(lab.read("output"), outputs);
    let summary = lab.read("step-summary.md");
    assert!(
        summary.contains("| Variant | Metric | Value | Limit | Verdict |"),
        "{summary}"
    );
    let rows = summary
        .lines()
        .filter(|line| line.starts_with("| second to first |"));
    assert!(rows.count() > 1, "{summary}");
    assert!(lab.folder.join("steppe-lab/report.html").exists());
}

#[test]
fn wrong_inputs_are_told_and_nothing_is_run() {
    let lab = Lab::new("action-wrong");
    let good = [
        ("LAB_BASE", "true"),
        ("LAB_HEAD", "true"),
        ("LAB_URL", "http://127.0.0.1:1/"),
    ];
    let told = |wrong: (&str, &str), text: &str| {
        let output = compare(&lab, &[&good[..], &[wrong]].concat());
        let said = said(&output);
        assert!(
            !output.status.success() && said.contains(text),
            "{wrong:?}: {said}"
        );
        assert!(!lab.folder.join("steppe-lab").exists(), "{wrong:?}");
    };
    told(("LAB_RATE", "1\n[budget]"), "rate is not a number");
    told(("LAB_BASE", "a\nb"), "the input base has a line break");
    told(("LAB_HEAD", ""), "the input head is missing");
    told(
        ("LAB_BASE", "cd x && y"),
        "the input base is more than one command",
    );
    told(
        ("LAB_OUTPUT", "x\nword=GO"),
        "the input output has a line break",
    );
    told(
        ("LAB_FAIL_ON", "sometimes"),
        "fail-on is no-go, inconclusive or never",
    );
    told(("LAB_METRIC", "beauty"), "`metric` has no \"beauty\"");
    told(("LAB_PAIRS", "3"), "`pairs` is out of range");
}

/// `never` is about verdicts: where there is none, the job fails.
#[test]
fn a_lab_that_is_missing_is_no_success() {
    let lab = Lab::new("action-missing");
    let inputs = [
        ("LAB_BASE", "PORT=1 true"),
        ("LAB_HEAD", "true"),
        ("LAB_URL", "http://127.0.0.1:1/"),
        ("LAB_FAIL_ON", "never"),
        ("STEPPE_LAB", "/none/such"),
    ];
    let output = compare(&lab, &inputs);
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    let left = fs::read_dir(&lab.folder).expect("its folder").flatten();
    let names: Vec<String> = left
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["output"], "the scenario is removed");
}

/// Every input reaches the script, and the script reads nothing else.
#[test]
fn inputs_and_script_agree() {
    let yaml = fs::read_to_string(folder().join("action.yml")).expect("action.yml");
    let script = fs::read_to_string(folder().join("compare.sh")).expect("compare.sh");
    let passed = yaml
        .lines()
        .filter_map(|line| line.trim().strip_prefix("LAB_"));
    let passed: Vec<(&str, &str)> = passed.filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(passed.len(), 13);
    for (name, value) in &passed {
        let input = name.to_lowercase().replace('_', "-");
        assert_eq!(*value, format!("${{{{ inputs.{input} }}}}"));
        assert!(
            yaml.contains(&format!("\n  {input}:\n")),
            "no input {input}"
        );
        assert!(
            script.contains(&format!("${{LAB_{name}:")),
            "{name} is not read"
        );
    }
    let read = script
        .match_indices("${LAB_")
        .map(|(at, _)| &script[at + 6..]);
    for name in read.filter_map(|rest| rest.split(':').next()) {
        assert!(
            passed.iter().any(|(known, _)| *known == name),
            "{name} is not passed"
        );
    }
}

#[test]
fn the_yaml_is_sound() {
    let name = "the_yaml_is_sound";
    let path = folder().join("action.yml");
    let read = "import sys, yaml; a = yaml.safe_load(open(sys.argv[1])); \
                assert a['runs']['using'] == 'composite'; \
                assert all(s['shell'] == 'bash' for s in a['runs']['steps']); \
                assert all('description' in i for i in a['inputs'].values()); \
                assert all(isinstance(i.get('default', ''), str) for i in a['inputs'].values())";
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output();
    if !has_yaml.is_ok_and(|output| output.status.success()) {
        return skip(name, "needs python3 with PyYAML");
    }
    let output = Command::new("python3")
        .args(["-c", read])
        .arg(path)
        .output()
        .expect("python3");
    assert!(output.status.success(), "{}", said(&output));
}
