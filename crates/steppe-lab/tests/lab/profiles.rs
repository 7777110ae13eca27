//! The line or type that leaks, by the profile of the target's runtime: the leaks of `examples/lab/`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use steppe_testkit::skip;

use super::harness::{Lab, Said, among_others, free_port};

/// A plan whose budget any growth exceeds.
const REST: &str = "[epochs]\nlength = \"200ms\"\nquiesce = \"40ms\"\ncount = 24\n\
                    [budget]\nrss_growth_mib_per_day = 1\ndrift = \"off\"\n";

/// A file of `examples/lab/`, and the number of its line that has `text` in it.
fn example(file: &str, text: &str) -> (String, usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab");
    let path = path.canonicalize().expect("the examples").join(file);
    let source = fs::read_to_string(&path).expect("an example");
    let index = source.lines().position(|line| line.contains(text));
    let index = index.unwrap_or_else(|| panic!("no {text:?} in {file}"));
    (path.display().to_string(), index + 1)
}

fn has(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let quiet = command
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Soaks a program that takes its port last.
fn soak(name: &str, command: &[&str], profile: &str) -> (Value, Said) {
    let (lab, port) = (Lab::new(&format!("profile-{name}")), free_port());
    let command: Vec<String> = command.iter().map(|word| format!("{word:?}")).collect();
    let (command, profile) = (
        command.join(", "),
        profile.replace("PORT", &port.to_string()),
    );
    let port_or_address = if name == "go" {
        format!("127.0.0.1:{port}")
    } else {
        port.to_string()
    };
    let text = format!(
        "[target]\ncmd = [{command}, \"{port_or_address}\"]\nready = \"tcp://127.0.0.1:{port}\"\n\
         profile = {profile}\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\nconnections = 4\n\
         rate_per_s = 300\n{REST}"
    );
    let _among = among_others();
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    let verdict = lab.verdict("run");
    assert_eq!(verdict["complete"], true, "{}\n{}", said.out, said.err);
    if verdict["variants"][0]["growing"].is_array() {
        said.says("growth from the end of warm-up to the end of the run");
        for report in ["run/report.html", "run/report.md"] {
            let told = lab.read(report).contains("own profile");
            assert!(told, "{report}");
        }
    }
    (verdict, said)
}

/// Growing sites of a kind, most first, with their bytes and counts.
fn growing(verdict: &Value, kind: &str) -> Vec<(String, Option<u64>, Option<u64>)> {
    let sites = verdict["variants"][0]["growing"].as_array();
    let sites = sites.unwrap_or_else(|| panic!("nothing grows in {verdict:#}"));
    sites
        .iter()
        .filter(|site| site["kind"] == kind)
        .map(|site| {
            let name = site["site"].as_str().expect("a name").to_owned();
            (name, site["bytes"].as_u64(), site["count"].as_u64())
        })
        .collect()
}

#[test]
fn node_names_the_function_that_leaks() {
    if !has("node", "--version") {
        return skip("node_names_the_function_that_leaks", "no node");
    }
    let (file, line) = example("node-leak.js", "function remember(");
    let (verdict, _) = soak("node", &["node", &file], "{ runtime = \"node\" }");
    let sites = growing(&verdict, "heap");
    // The profile is sampled: a few hundred samples, live objects of the last requests among them.
    let mut first = sites.iter().take(3);
    let remember = first.find(|(site, _, _)| {
        site.starts_with("remember (") && site.ends_with(&format!("node-leak.js:{line})"))
    });
    let (_, bytes, count) = remember.unwrap_or_else(|| panic!("{sites:?}"));
    assert!(
        bytes.is_some_and(|bytes| bytes > 50_000) && count.is_none(),
        "{sites:?}"
    );
    // The inspector's session was closed: the target ended by itself.
    assert!(
        !verdict["problems"].to_string().contains("did not end"),
        "{verdict:#}"
    );
}

#[test]
fn python_names_the_line_that_leaks() {
    if !has("python3", "--version") {
        return skip("python_names_the_line_that_leaks", "no python3");
    }
    let (file, line) = example("python-leak.py", "answer = f\"");
    let (verdict, _) = soak("python", &["python3", &file], "{ runtime = \"python\" }");
    let sites = growing(&verdict, "heap");
    assert!(
        sites[0].0.ends_with(&format!("python-leak.py:{line}")),
        "{sites:?}"
    );
    assert!(sites[0].2.is_some_and(|count| count > 300), "{sites:?}");
    let is_own = |(site, ..): &(String, _, _)| !site.contains("sitecustomize");
    assert!(sites.iter().all(is_own), "{sites:?}");
}

#[test]
fn go_names_the_line_that_leaves_goroutines_behind() {
    if !has("go", "version") {
        return skip("go_names_the_line_that_leaves_goroutines_behind", "no go");
    }
    let (file, line) = example("go-leak.go", "<-never");
    let program = std::env::temp_dir().join(format!("steppe-lab-go-leak-{}", std::process::id()));
    let program = program.display().to_string();
    let built = Command::new("go")
        .args(["build", "-o", &program, &file])
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let profile = "{ runtime = \"go\", url = \"http://127.0.0.1:PORT/debug/pprof\" }";
    let (verdict, _) = soak("go", &[&program], profile);
    _ = fs::remove_file(&program);
    let sites = growing(&verdict, "goroutines");
    let place = format!("go-leak.go:{line})");
    assert!(
        sites[0].0.starts_with("main.main.func1") && sites[0].0.ends_with(&place),
        "{sites:?}"
    );
    assert!(sites[0].2.is_some_and(|count| count > 300), "{sites:?}");
}

#[test]
fn java_names_the_type_that_leaks() {
    if !has("jcmd", "-h") {
        return skip("java_names_the_type_that_leaks", "no JDK");
    }
    let (file, _) = example("java-leak.java", "record Session");
    let (verdict, _) = soak("java", &["java", &file], "{ runtime = \"java\" }");
    let sites = growing(&verdict, "heap");
    let found = sites.iter().find(|(site, ..)| site == "JavaLeak$Session");
    assert!(
        found.is_some_and(|found| found.2.is_some_and(|count| count > 300)),
        "{sites:?}"
    );
}

/// A target whose profile can't be fetched is judged all the same, and the reason is noted.
#[test]
fn what_can_not_be_fetched_is_a_note() {
    if !has("python3", "--version") {
        return skip("what_can_not_be_fetched_is_a_note", "no python3");
    }
    // With -I, Python reads no PYTHONPATH.
    let (file, _) = example("python-leak.py", "answer = f\"");
    let ask = |runtime: &str, profile: &str, reason: &str| {
        let (verdict, said) = soak(&format!("no-{runtime}"), &["python3", "-I", &file], profile);
        said.says(&format!("note: no heap profile of default: {reason}"));
        assert!(verdict["variants"][0]["growing"].is_null(), "{verdict:#}");
    };
    let profile = "{ runtime = \"go\", url = \"http://127.0.0.1:PORT/debug/pprof\" }";
    ask("go", profile, "http://127.0.0.1:");
    ask(
        "java",
        "{ runtime = \"java\" }",
        "no process `java` of the target",
    );
    ask(
        "python",
        "{ runtime = \"python\" }",
        "no process of the target is a Python",
    );
    ask(
        "node",
        "{ runtime = \"node\" }",
        "no inspector of Node.js answers",
    );
}
