//! Change of the machine's speed during a run: timings then say nothing of the target.

use super::kept::number;
use super::{Measured, float};
use crate::limits::{CONTROL_SHARE_MAX, STEAL_RISE_MAX};
use crate::record::{Epoch, Finding, Outcome};
use crate::stats::judge_drift;

/// Change of the control loop and of steal time over the run; see `run::control`.
pub(super) struct MachineDrift {
    /// Growth of the control loop's time, in per cent of its first value; `None` unless it certainly grew.
    control: Option<f64>,
    /// Growth of steal time, in per cent of all CPU time, likewise.
    steal: Option<f64>,
}

impl MachineDrift {
    pub(super) fn of(measured: &Measured<'_>, seed: u64) -> Self {
        let control = |epoch: &Epoch| epoch.control_ns.map(float);
        let level = measured.epochs().find_map(control);
        let slower = rise(measured, control, seed);
        Self {
            control: slower.zip(level).map(|(rise, level)| rise * 100.0 / level),
            steal: rise(measured, |epoch| epoch.steal, seed)
                .filter(|rise| *rise >= STEAL_RISE_MAX)
                .map(|rise| rise * 100.0),
        }
    }

    /// Withdraws an alarm that the change of the machine explains.
    pub(super) fn withdraw(&self, finding: &mut Finding) {
        let grown = finding.value.map_or(0.0, |value| value.estimate);
        let slower = self
            .control
            .filter(|slower| *slower >= grown * CONTROL_SHARE_MAX);
        let is_alarm = matches!(finding.outcome, Outcome::Unbounded | Outcome::Growing);
        if !is_alarm || (slower.is_none() && self.steal.is_none()) {
            return;
        }
        finding.outcome = Outcome::Inconclusive;
        let mut changes = Vec::new();
        if let Some(slower) = slower {
            changes.push(format!(
                "a fixed piece of work took {} % longer",
                number(slower)
            ));
        }
        if let Some(steal) = self.steal {
            changes.push(format!(
                "steal time rose by {} % of the CPU time",
                number(steal)
            ));
        }
        finding.notes.push(format!(
            "the machine changed: at the end, {}",
            changes.join(", and ")
        ));
    }
}

/// Rise of a column from the first point to the last; `None` unless even the lower bound of its slope is above 0.
fn rise(measured: &Measured<'_>, of: impl Fn(&Epoch) -> Option<f64>, seed: u64) -> Option<f64> {
    let value = |epoch: &&Epoch| of(epoch).unwrap_or(f64::NAN);
    let runs: Vec<Vec<f64>> = measured
        .runs
        .values()
        .map(|epochs| epochs.iter().map(value).collect())
        .collect();
    let steps = runs.iter().map(Vec::len).max()?.checked_sub(1)?;
    let drift = judge_drift(&runs, 0.0, seed)?;
    (drift.whole.lower > 0.0).then(|| drift.whole.estimate * float(steps as u64))
}
