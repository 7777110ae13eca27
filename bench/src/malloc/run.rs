//! Starts the load program under an allocator, and reads its figures.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use super::build;
use super::case::Case;
use super::peer::Contestant;

/// The load programs, built.
pub struct Launcher {
    folder: PathBuf,
    /// Folder for the files of callgrind and strace.
    pub run_dir: PathBuf,
}

/// The figures of one run of a case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub operations: u64,
    /// Operations before the timed part.
    pub untimed_operations: u64,
    pub cpu_us: u64,
    pub wall_us: u64,
    /// Bytes that the case holds at its steady state by its own count; 0 if it reports none.
    pub live_bytes: u64,
    pub peak_kib: u64,
    /// Anonymous resident memory by the name of the mark.
    pub marks_kib: BTreeMap<String, u64>,
}

impl Launcher {
    /// Builds the load programs.
    ///
    /// # Errors
    /// When cargo fails.
    pub fn prepare() -> Result<Self> {
        let arguments = ["build", "--release", "--package", "steppe-malloc-load"];
        build::cargo(&arguments, &build::root())?;
        let target = build::target_dir()?;
        let run_dir = target.join("bench/run");
        std::fs::create_dir_all(&run_dir).with_context(|| run_dir.display().to_string())?;
        Ok(Self {
            folder: target.join("release"),
            run_dir,
        })
    }

    /// A program of the load crate.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs so many units of a case.
    ///
    /// # Errors
    /// When it fails, crashes, takes too long, or prints something else than figures.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub async fn run(
        &self,
        contestant: &Contestant,
        case: Case,
        units: u64,
        pause_ms: u64,
    ) -> Result<Figures> {
        let mut command = Command::new(self.program(LOAD));
        command
            .args([case.name(), &units.to_string(), &pause_ms.to_string()])
            .envs(contestant.environment());
        Figures::parse(&output(&mut command, RUN_TIMEOUT).await?)
    }

    /// The command that runs a case within another program, such as a tracer, which gets `arguments` first.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn within(&self, program: &Path, arguments: &[&OsStr], case: Case, units: u64) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(self.program(LOAD))
            .args([case.name(), &units.to_string()]);
        command
    }
}

const LOAD: &str = "steppe-malloc-load";
/// The longest run takes ten seconds on the slowest allocator seen.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);

/// Standard output of a command. When it fails, the last line of standard error is the reason.
pub async fn output(command: &mut Command, limit: Duration) -> Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(limit, command.output()).await;
    let ended = ended.with_context(|| format!("did not end within {} s", limit.as_secs()))??;
    if !ended.status.success() {
        let text = String::from_utf8_lossy(&ended.stderr);
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        bail!(
            "ended with {}: {}",
            ended.status,
            last.unwrap_or("no reason given")
        );
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

impl Figures {
    /// Operations a CPU second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / (self.cpu_us.max(1) as f64 / 1e6)
    }

    /// Operations in and outside of the timed part.
    pub const fn all_operations(&self) -> u64 {
        self.operations + self.untimed_operations
    }

    /// Memory held while the case works, or right after: its mark `live` or `load`.
    pub fn held_kib(&self) -> Option<u64> {
        self.mark("live").or_else(|| self.mark("load"))
    }

    /// Memory held after everything was freed and a pause; in the server's life, in the silence after
    /// the load.
    pub fn idle_kib(&self) -> Option<u64> {
        self.mark("idle")
    }

    pub fn mark(&self, name: &str) -> Option<u64> {
        self.marks_kib.get(name).copied()
    }

    /// A line of progress.
    pub fn describe(&self) -> String {
        let rate = self.rate();
        let held = self.held_kib().unwrap_or(0);
        let cpu = self.cpu_us as f64 / 1e6;
        format!(
            "{rate:>12.0} op/CPU s, {cpu:.2} CPU s, {held} KiB held, {} peak",
            self.peak_kib
        )
    }

    /// Parses one figure a line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut figures = Self::default();
        for line in text.lines() {
            let (name, value) = line
                .split_once(' ')
                .with_context(|| format!("said '{line}'"))?;
            let number = |text: &str| -> Result<u64> {
                text.parse().with_context(|| format!("said '{line}'"))
            };
            match name {
                "operations" => figures.operations = number(value)?,
                "untimed_operations" => figures.untimed_operations = number(value)?,
                "cpu_us" => figures.cpu_us = number(value)?,
                "wall_us" => figures.wall_us = number(value)?,
                "live_bytes" => figures.live_bytes = number(value)?,
                "peak_kib" => figures.peak_kib = number(value)?,
                "mark_kib" => {
                    let (mark, kib) = value.split_once(' ').with_context(|| line.to_owned())?;
                    figures.marks_kib.insert(mark.to_owned(), number(kib)?);
                }
                _ => bail!("said '{line}'"),
            }
        }
        ensure!(figures.operations > 0, "did no operation");
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "operations 4000000\nuntimed_operations 100\ncpu_us 2000000\nwall_us 1\n\
                        peak_kib 4000\nmark_kib live 3000\nmark_kib idle 500\n";

    #[test]
    fn what_a_run_says_is_read() {
        let figures = Figures::parse(TEXT).expect("figures");
        assert_eq!(figures.rate(), 2e6);
        assert_eq!(figures.all_operations(), 4_000_100);
        assert_eq!(
            (figures.held_kib(), figures.idle_kib()),
            (Some(3_000), Some(500))
        );
        assert_eq!((figures.peak_kib, figures.mark("tenth")), (4_000, None));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "operations 0\n",
            "operations many\n",
            "operations 1\nhello 2\n",
        ] {
            assert!(Figures::parse(text).is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'no heap' >&2; exit 4"]);
        let error = output(&mut command, RUN_TIMEOUT)
            .await
            .expect_err("it fails");
        assert_eq!(error.to_string(), "ended with exit status: 4: no heap");
    }
}
