//! One row: an epoch's figures from the looks before and after a stretch of load, and from the
//! loads.

use hdrhistogram::Histogram;

use super::sampler::Look;
use crate::limits::P999_OPERATIONS_MIN;
use crate::load::Interval;
use crate::record::{Epoch, total};

/// The looks of one epoch.
pub(super) struct Snapshots {
    pub(super) before: Look,
    /// Look when the load has just paused.
    pub(super) after: Look,
    pub(super) quiet: Look,
    pub(super) live_bytes: Option<u64>,
}

/// Fills in everything but the epoch's name and times.
pub(super) fn fill(epoch: &mut Epoch, looks: &Snapshots, loads: &[Interval]) {
    of_loads(epoch, loads);
    of_memory(epoch, looks);
    of_counters(epoch, looks);
    of_sockets(epoch, looks);
    epoch.control_ns = looks.after.machine.control_ns;
    epoch.steal = looks.after.machine.steal;
}

/// All loads' response times in one histogram.
pub(super) fn response(loads: &[Interval]) -> Option<Histogram<u64>> {
    merged(loads, |load| &load.response)
}

fn merged(loads: &[Interval], of: impl Fn(&Interval) -> &Histogram<u64>) -> Option<Histogram<u64>> {
    let (first, rest) = loads.split_first()?;
    let mut merged = of(first).clone();
    for load in rest {
        // All histograms have the same bounds; values beyond them were counted at the bounds.
        merged.add(of(load)).ok()?;
    }
    Some(merged)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of an operation: far below 2^53"
)]
fn of_loads(epoch: &mut Epoch, loads: &[Interval]) {
    if loads.is_empty() {
        return;
    }
    epoch.operations = Some(total(loads.iter().map(|load| load.operations)));
    epoch.errors = Some(total(loads.iter().map(|load| load.errors)));
    epoch.refused = Some(total(loads.iter().map(|load| load.refused)));
    let open = || loads.iter().filter(|load| load.intended.is_some());
    let done = open().fold(0, |sum: u64, load| {
        sum.saturating_add(load.operations + load.errors + load.refused)
    });
    epoch.kept = open().next().map(|_| done);
    let owed = loads.iter().filter_map(|load| load.intended);
    epoch.intended = loads
        .iter()
        .any(|load| load.intended.is_some())
        .then(|| total(owed));
    let busy = loads.iter().filter_map(|load| load.generator.busy());
    epoch.generator_busy = busy.reduce(f64::max);
    let held = loads.iter().filter_map(|load| load.hwm_bytes);
    epoch.load_hwm_bytes = held.reduce(u64::saturating_add);
    if let Some(response) = response(loads).filter(|response| !response.is_empty()) {
        let at = |quantile| Some(response.value_at_quantile(quantile) as f64);
        epoch.p50_us = at(0.5);
        epoch.p90_us = at(0.9);
        epoch.p99_us = at(0.99);
        epoch.p999_us = at(0.999).filter(|_| response.len() >= P999_OPERATIONS_MIN);
        epoch.max_us = Some(response.max() as f64);
    }
    let service = merged(loads, |load| &load.service).filter(|service| !service.is_empty());
    if let Some(service) = service {
        epoch.service_p50_us = Some(service.value_at_quantile(0.5) as f64);
        epoch.service_p99_us = Some(service.value_at_quantile(0.99) as f64);
    }
}

fn of_memory(epoch: &mut Epoch, looks: &Snapshots) {
    if let Some(quiet) = looks.quiet.quiet {
        epoch.rss_bytes = quiet.rss_bytes;
        epoch.pss_bytes = quiet.pss_bytes;
        epoch.uss_bytes = quiet.uss_bytes;
        epoch.anonymous_bytes = quiet.anonymous_bytes;
        epoch.shmem_bytes = quiet.shmem_bytes;
        epoch.swap_bytes = quiet.swap_bytes;
        epoch.zombies = quiet.handles.zombies;
        epoch.mappings = quiet.handles.mappings;
        epoch.files_left = quiet.handles.files_left;
        epoch.mappings_left = quiet.handles.mappings_left;
        epoch.tasks_left = quiet.handles.tasks_left;
    }
    epoch.hwm_bytes = looks.after.slow.hwm_bytes;
    epoch.live_bytes = looks.live_bytes;
    let charge = looks.quiet.slow.cgroup;
    epoch.cgroup_bytes = charge.and_then(|charge| charge.bytes);
    epoch.cgroup_sock_bytes = charge.and_then(|charge| charge.sock_bytes);
    epoch.cgroup_reclaimable_bytes = charge.and_then(|charge| charge.reclaimable_bytes);
}

fn of_counters(epoch: &mut Epoch, looks: &Snapshots) {
    let (before, after) = (&looks.before.slow, &looks.after.slow);
    let since = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
    epoch.cpu_us = since(before.cpu_us, after.cpu_us);
    epoch.minor_faults = since(before.minor_faults, after.minor_faults);
    epoch.major_faults = since(before.major_faults, after.major_faults);
    epoch.voluntary_switches = since(before.voluntary_switches, after.voluntary_switches);
    epoch.involuntary_switches = since(before.involuntary_switches, after.involuntary_switches);
    epoch.syscalls = since(before.syscalls, after.syscalls);
    epoch.instructions = since(before.instructions, after.instructions);
}

fn of_sockets(epoch: &mut Epoch, looks: &Snapshots) {
    let after = &looks.after.slow;
    epoch.processes = Some(after.processes);
    epoch.threads = after.threads;
    epoch.open_files = after.open_files;
    let samples = looks.after.samples.iter().chain(&looks.quiet.samples);
    for sample in samples {
        epoch.established_max = epoch.established_max.max(sample.established);
        epoch.close_wait_max = epoch.close_wait_max.max(sample.close_wait);
        epoch.time_wait_max = epoch.time_wait_max.max(sample.time_wait);
        epoch.other_tcp_max = epoch.other_tcp_max.max(sample.other_tcp);
    }
}
