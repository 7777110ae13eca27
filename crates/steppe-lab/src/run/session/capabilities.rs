//! Capabilities of a session, and those that its scenario requires.

use std::time::Duration;

use super::{Session, Stop};
use crate::record::{Capability, Problem, ProblemKind};
use crate::run::sampler::Sampler;

/// Time until the target must tell its live bytes.
const LIVE_PATIENCE: Duration = Duration::from_secs(2);

impl Session<'_> {
    /// Takes the capabilities of the first target, which hold for all.
    pub(super) fn take_capabilities(&mut self, sampler: &Sampler) -> Result<(), Stop> {
        self.limit_bytes = self.limit(sampler);
        let mut capabilities = sampler.capabilities.clone();
        capabilities.push(self.live_capability());
        self.manifest.capabilities = capabilities;
        self.note_live_bytes();
        let missing = self
            .request
            .scenario
            .budget
            .require
            .iter()
            .find_map(|name| {
                let seen = self
                    .manifest
                    .capabilities
                    .iter()
                    .find(|seen| seen.name == *name);
                match seen {
                    Some(capability) if capability.available => None,
                    Some(capability) => Some((name, capability.detail.clone())),
                    None => Some((name, "the lab can't measure it here".to_owned())),
                }
            });
        match missing {
            None => Ok(()),
            Some((name, detail)) => Err(Problem::new(
                ProblemKind::MissingCapability,
                format!("the scenario requires `{name}`, which can't be measured here: {detail}"),
                "`steppe-lab doctor` shows the remedy; or remove it from `budget.require`",
            )
            .into()),
        }
    }

    /// Notes missing live bytes, if the scenario names a source of them.
    fn note_live_bytes(&mut self) {
        let live = self
            .manifest
            .capabilities
            .iter()
            .find(|it| it.name == "live_bytes");
        let lack = live
            .filter(|live| !live.available)
            .map(|live| live.detail.clone());
        if let Some(lack) = lack.filter(|_| self.request.scenario.target.live_bytes.is_some()) {
            let text = format!("live bytes can't be read: {lack}");
            let help = "leak and retention can't be distinguished without them";
            self.problems
                .push(Problem::new(ProblemKind::Note, text, help));
        }
    }

    fn live_capability(&self) -> Capability {
        let lost = "leak and retention can't be distinguished".to_owned();
        let name = "live_bytes".to_owned();
        let Some(live) = &self.request.scenario.target.live_bytes else {
            let detail = "the scenario has no `target.live_bytes`".to_owned();
            return Capability {
                name,
                available: false,
                detail,
                lost,
            };
        };
        match self.client.live_bytes(live, LIVE_PATIENCE) {
            Ok(_) => Capability {
                name,
                available: true,
                detail: live.url.clone(),
                lost,
            },
            Err(error) => Capability {
                name,
                available: false,
                detail: error.to_string(),
                lost,
            },
        }
    }

    /// The memory limit at which the target would be killed: the scenario's, else its group's, else
    /// the machine's memory.
    fn limit(&self, sampler: &Sampler) -> Option<u64> {
        if let Some(mib) = self.request.scenario.budget.limit_mib {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "bytes of a limit"
            )]
            return Some((mib * 1_048_576.0) as u64);
        }
        let group = sampler
            .now()
            .slow
            .cgroup
            .and_then(|charge| charge.limit_bytes);
        group
            .or(Some(self.manifest.machine.memory_bytes))
            .filter(|bytes| *bytes > 0)
    }

    /// The target's live bytes now, if it tells them.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        let live = self.request.scenario.target.live_bytes.as_ref()?;
        self.client.live_bytes(live, LIVE_PATIENCE).ok()
    }
}
