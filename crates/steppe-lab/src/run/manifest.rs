//! Writes the manifest of a run, before it begins and at its end.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::RunRequest;
use super::environment::program;
use super::mask;
use super::plan::Plan;
use crate::doctor;
use crate::record::{Manifest, VariantEntry};
use crate::scenario::Running;
use crate::target::{RunningTarget, executable};

/// Version of the layout of files.
const FORMAT: u32 = 1;

pub(super) fn begin(request: RunRequest<'_>, variants: &[(String, usize)]) -> Manifest {
    Manifest {
        format: FORMAT,
        lab_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: request
            .command
            .iter()
            .map(|word| mask::text(word))
            .collect(),
        kind: request.kind,
        scenario_name: request.scenario.name.clone(),
        scenario_path: request.path.to_string_lossy().into_owned(),
        scenario_sha256: hex(&Sha256::digest(request.text.as_bytes())),
        scenario_text: mask::text(request.text),
        started: now(),
        finished: None,
        complete: false,
        seed: request.scenario.seed,
        machine: doctor::machine(),
        capabilities: Vec::new(),
        variants: variants
            .iter()
            .map(|(name, index)| entry(request, name, *index))
            .collect(),
        runs: Vec::new(),
        sampler_cpu_us: None,
        lab_cpu_us: None,
        lab_hwm_bytes: None,
    }
}

/// Adds the lab's own costs, and the time of the end.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub(super) fn finish(manifest: &mut Manifest, sampler_cpu: std::time::Duration, complete: bool) {
    manifest.finished = Some(now());
    manifest.complete = complete;
    manifest.sampler_cpu_us = u64::try_from(sampler_cpu.as_micros()).ok();
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu = std::time::Duration::try_from(cpu).ok();
    manifest.lab_cpu_us = cpu.and_then(|cpu| u64::try_from(cpu.as_micros()).ok());
    manifest.lab_hwm_bytes = own_high_water();
}

fn entry(request: RunRequest<'_>, name: &str, index: usize) -> VariantEntry {
    let variant = &request.scenario.variants[index];
    let target = &request.scenario.target;
    if let Some(running) = target.running() {
        return running_entry(running, name);
    }
    let program = target.command().map(|command| program(command, variant));
    let program = program.unwrap_or_default();
    let executable = executable(&program).ok();
    let env = program.env.iter();
    let env = env.map(|(name, value)| (name.clone(), mask::value(name, value)));
    VariantEntry {
        name: name.to_owned(),
        env: env.collect(),
        preload: variant
            .preload
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        executable_sha256: executable
            .as_deref()
            .and_then(|path| file_sha256(path).ok()),
        executable: executable.map(|path| path.to_string_lossy().into_owned()),
        cmd: program.cmd,
    }
}

/// The entry of a target that was not started by the lab.
fn running_entry(running: &Running, name: &str) -> VariantEntry {
    let found = RunningTarget::find(running).ok();
    let (cmd, executable) = found.map_or_else(Default::default, |found| found.command());
    VariantEntry {
        name: name.to_owned(),
        cmd: cmd.iter().map(|word| mask::text(word)).collect(),
        executable_sha256: executable
            .as_deref()
            .and_then(|path| file_sha256(path).ok()),
        executable: executable.map(|path| path.to_string_lossy().into_owned()),
        ..VariantEntry::default()
    }
}

fn file_sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn own_high_water() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1_024)
}

#[expect(
    clippy::disallowed_methods,
    reason = "people want to know when it was; nothing is measured by it"
)]
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

impl Plan {
    /// The variants as the manifest lists them.
    pub(super) fn entries(&self) -> &[(String, usize)] {
        &self.variants
    }
}
