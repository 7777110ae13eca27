//! One soak of a truth: the scenario that is written for it, and the verdict.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::planted::Truth;
use crate::process;

/// The length of a soak.
#[derive(Clone, Copy)]
pub enum Length {
    /// The epochs of the truth.
    Own,
    /// Sixty epochs of a second.
    Minute,
}

/// The lab and the servers, copied to a folder in which no build replaces them meanwhile.
pub struct Programs {
    folder: PathBuf,
}

/// The lab's verdict.
pub struct Soaked {
    pub word: String,
    pub headline: String,
    /// Metric and word of each finding.
    pub findings: Vec<(String, String)>,
}

impl Programs {
    /// Builds the programs as tests do: quick to build, and quick enough for 300 requests a second.
    pub fn build() -> Result<Self> {
        let arguments = [
            "build",
            "--locked",
            "--package",
            "steppe-lab",
            "--bins",
            "--examples",
        ];
        process::run(&mut process::cargo(&arguments))?;
        let built = process::target_directory().join("debug");
        let folder = process::target_directory()
            .join("lab-truths")
            .join("programs");
        fs::create_dir_all(&folder)?;
        let copy = |from: PathBuf| -> Result<()> {
            let name = from.file_name().context("a program has a name")?;
            // A running program can't be overwritten, but it can be replaced.
            let to = folder.join(name);
            _ = fs::remove_file(&to);
            fs::copy(&from, to).with_context(|| from.display().to_string())?;
            Ok(())
        };
        copy(built.join("steppe-lab"))?;
        for name in ["sick", "plateau", "leaking", "retaining", "steady"] {
            copy(built.join("examples").join(format!("lab-{name}")))?;
        }
        let mut go = Command::new("go");
        go.args(["build", "-o"])
            .arg(folder.join("go-leak"))
            .arg("examples/lab/go-leak.go")
            .current_dir(process::root());
        process::run(&mut go)?;
        Ok(Self { folder })
    }

    /// Soaks a truth at 300 requests a second.
    pub fn soak(&self, truth: &Truth, length: Length, place: &Path) -> Result<Soaked> {
        _ = fs::remove_dir_all(place);
        fs::create_dir_all(place)?;
        let scenario = place.join("scenario.toml");
        let left = Path::new("/dev/shm").join(format!("steppe-lab-truths-{}", std::process::id()));
        fs::create_dir_all(&left)?;
        let text = self.scenario(truth, length, &left)?;
        fs::write(&scenario, text)?;
        println!("==> {}: {}", truth.name, truth.planted);
        let status = Command::new(self.folder.join("steppe-lab"))
            .args(["soak", "--quiet"])
            .arg(&scenario)
            .arg("-o")
            .arg(place.join("run"))
            .current_dir(process::root())
            .stdout(std::process::Stdio::null())
            .status()
            .context("cannot start steppe-lab")?;
        _ = fs::remove_dir_all(&left);
        ensure!(status.code() != Some(INTERRUPTED), "interrupted");
        Soaked::read(place)
    }

    fn scenario(&self, truth: &Truth, length: Length, left: &Path) -> Result<String> {
        // Below the ports that the kernel gives to connections: a connection could take the port first.
        let port = (10_000..15_000_u16)
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .context("no port from 10000 to 14999 is free")?;
        let address = format!("127.0.0.1:{port}");
        let fill = |text: &str| {
            text.replace("{examples}", &self.folder.display().to_string())
                .replace("{address}", &address)
                .replace("{port}", &port.to_string())
                .replace("{folder}", &left.display().to_string())
        };
        let cmd: Vec<String> = truth.cmd.iter().map(|word| fill(word)).collect();
        let (seconds, count) = match length {
            Length::Own => truth.epochs,
            Length::Minute => (1, 60),
        };
        let quiet_ms = if seconds > 1 { 250 } else { 150 };
        Ok(format!(
            "name = \"{}\"\n\n[target]\ncmd = {cmd:?}\nready = \"tcp://{address}\"\n{}\n\
             [[load]]\nkind = \"http\"\nurl = \"http://{address}/\"\nconnections = 16\n\
             rate_per_s = 300\n\n\
             [epochs]\nlength = \"{seconds}s\"\nquiesce = \"{quiet_ms}ms\"\ncount = {count}\n\n\
             [budget]\nerrors = 0\n{}",
            truth.name,
            fill(truth.target),
            truth.budget
        ))
    }
}

impl Soaked {
    /// The verdict that a soak left in `place`.
    pub fn read(place: &Path) -> Result<Self> {
        let path = place.join("run/verdict.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let verdict: Value = serde_json::from_str(&text)?;
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = verdict["variants"][0]["findings"].as_array();
        let findings = findings.map_or(&[] as &[Value], Vec::as_slice).iter();
        Ok(Self {
            word: said(&verdict["word"]),
            headline: said(&verdict["headline"]),
            findings: findings
                .map(|finding| (said(&finding["metric"]), said(&finding["word"])))
                .collect(),
        })
    }

    /// The word on one series.
    pub fn word_of(&self, metric: &str) -> Option<&str> {
        let found = self.findings.iter().find(|(name, _)| name == metric);
        found.map(|(_, word)| word.as_str())
    }

    /// True if the verdict is that something is wrong with the target.
    pub fn is_alarm(&self) -> bool {
        !["STABLE", "GO", "INCONCLUSIVE"].contains(&self.word.as_str())
    }
}

/// Exit code of a lab that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
