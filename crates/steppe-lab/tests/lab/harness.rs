//! Runs `steppe-lab` in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;

use serde_json::Value;
use steppe_testkit::{FileLock, Port, Resource, is_built};

/// A scratch folder, removed when it is dropped and nothing failed.
pub struct Lab {
    pub folder: PathBuf,
}

/// The output and exit code of a command.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Lab {
    pub fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("steppe-lab-e2e-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a scratch folder");
        Self { folder }
    }

    pub fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.folder.join(name), text).expect("a file");
        self
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn verdict(&self, run: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{run}/verdict.json"))).expect("JSON")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steppe-lab"));
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_remove("GITHUB_STEP_SUMMARY");
        command
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("steppe-lab")
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command(arguments).output().expect("steppe-lab");
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Soaks by `scenario`, into `run`: the exit code and the verdict, without the effects of a late load.
    pub fn soak(&self, scenario: &str) -> (i32, Value) {
        self.write("soak.toml", scenario);
        let said = self.in_time("run", || self.run(&["soak", "soak.toml", "-o", "run"]));
        of_target(said.code, self.verdict("run"))
    }

    /// The result of `soak`, which writes the folder `run`: another try where its load was late.
    pub fn in_time<T>(&self, run: &str, mut soak: impl FnMut() -> T) -> T {
        for _ in 1..CHANCES {
            let said = soak();
            let verdict = fs::read_to_string(self.folder.join(run).join("verdict.json"));
            let verdict: Option<Value> = verdict.ok().and_then(|it| serde_json::from_str(&it).ok());
            if !verdict.is_some_and(|verdict| is_late(&verdict)) {
                return said;
            }
            fs::remove_dir_all(self.folder.join(run)).expect("it was written");
        }
        soak()
    }
}

const CHANCES: usize = 3;

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Said {
    #[track_caller]
    pub fn ended_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        let said = format!("{}{}", self.out, self.err);
        assert!(said.contains(text), "no {text:?} in\n{said}");
        self
    }
}

/// Keeps soaks of other tests away from a measured test, which judges times.
pub fn alone() -> FileLock {
    FileLock::exclusive(Resource::Machine)
}

/// Lets soaks run together that are judged by memory, descriptors and processes, at a few hundred requests a
/// second: each waits most of its time, and another of its kind changes nothing.
pub fn among_others() -> FileLock {
    FileLock::shared(Resource::Machine)
}

/// The path of a program of `testdata/`. The runner builds them before the tests; `cargo test --test lab` alone
/// does not.
pub fn program(name: &str) -> String {
    static BUILT: Once = Once::new();
    let lab = Path::new(env!("CARGO_BIN_EXE_steppe-lab"));
    let folder = lab.parent().expect("it is in a folder");
    BUILT.call_once(|| {
        if is_built() {
            return;
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // The features that `cargo test --workspace` builds them with: no crate is built twice.
        cargo.args(["build", "--quiet", "--locked", "--workspace", "--examples"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo").success());
    });
    let program = folder.join("examples").join(format!("lab-{name}"));
    program.display().to_string()
}

/// A free port, which is this test's alone, however long it waits for a lock.
pub fn free_port() -> u16 {
    Port::free().keep().port()
}

/// A scenario for a program of `testdata/`: `rest` follows its target and its load.
pub fn scenario(name: &str, arguments: &str, load: &str, rest: &str) -> String {
    let (program, port) = (program(name), free_port());
    format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}"{arguments}]
ready = "tcp://127.0.0.1:{port}"
live_bytes = {{ url = "http://127.0.0.1:{port}/memory", pointer = "/live_bytes" }}
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
{load}
{rest}
"#
    )
}

/// True if a load began too few requests in time, or had to wait for a processor.
///
/// Beside other tests a load may be late: that breaks a limit or makes the run invalid, and says nothing about
/// the target.
fn is_late(verdict: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_missed =
        |finding: &Value| finding["metric"] == "rate_kept" && finding["word"] == "NO-GO";
    let mut variants = list(&verdict["variants"]).into_iter();
    variants.any(|variant| list(&variant["findings"]).iter().any(is_missed))
        || list(&verdict["problems"])
            .iter()
            .any(|problem| problem["kind"] == "generator-saturated")
}

/// The result for the target: the exit code and the verdict without the findings on the load.
fn of_target(code: i32, mut verdict: Value) -> (i32, Value) {
    let is_blamed = verdict["word"] != "NO-GO" && verdict["word"] != "INVALID";
    if is_blamed || verdict["complete"] != true || !is_late(&verdict) {
        return (code, verdict);
    }
    let findings = verdict["variants"][0]["findings"].as_array();
    let others = findings
        .expect("findings")
        .iter()
        .filter(|finding| finding["metric"] != "rate_kept");
    let rank = |finding: &Value| WORDS.iter().position(|(word, _)| finding["word"] == *word);
    let (word, code) = WORDS[others.filter_map(rank).max().expect("findings")];
    verdict["word"] = word.into();
    (code, verdict)
}

/// Words of findings, from good to bad, and the exit code of a run with each.
const WORDS: [(&str, i32); 7] = [
    ("GO", 0),
    ("STABLE", 0),
    ("INCONCLUSIVE", 3),
    ("GROWING", 3),
    ("NO-GO", 1),
    ("UNBOUNDED", 1),
    ("LEAK", 1),
];

/// A finding of a verdict's first variant.
pub fn finding<'a>(verdict: &'a Value, metric: &str) -> &'a Value {
    let findings = verdict["variants"][0]["findings"]
        .as_array()
        .expect("findings");
    let found = findings.iter().find(|finding| finding["metric"] == metric);
    found.unwrap_or_else(|| panic!("no {metric} in {verdict:#}"))
}
