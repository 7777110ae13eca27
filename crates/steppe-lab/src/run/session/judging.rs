//! Verdicts of a session: at the looks of a run that goes on until it is decided, and at its end.

use super::Session;
use crate::judge::{self, Evidence};
use crate::record::{Epoch, Problem, ProblemKind, RunKind, VariantVerdict, Verdict};
use crate::run::looking::Due;
use crate::run::{RunError, manifest, mask};
use crate::stats::Look;

impl Session<'_> {
    /// True if a process has no more steps after `steps` of them.
    pub(super) fn is_over_after(&mut self, variant: &str, steps: usize) -> bool {
        let Some(due) = self.plan.due else {
            return false;
        };
        let counted = self.plan.steps.iter().filter(|step| !step.warmup).count();
        self.lost = self.quality.lost(counted * self.plan.runs.len());
        match due {
            _ if self.lost.is_some() => true,
            Due::Steps(every) if steps.is_multiple_of(every) => self.look(variant),
            _ => false,
        }
    }

    /// Looks at the measurements of a variant. True: it is decided, or this was its last look.
    pub(super) fn look(&mut self, variant: &str) -> bool {
        let look = self.looking.next(variant);
        let epochs = self.counted(variant);
        let Some(verdict) = self.judged(variant, look) else {
            return true;
        };
        let mut looking = std::mem::take(&mut self.looking);
        let judge = |earlier| self.judged(variant, earlier);
        let is_over = looking.take((look, epochs), verdict, judge);
        self.looking = looking;
        is_over
    }

    fn counted(&self, variant: &str) -> u64 {
        let of = |epoch: &&Epoch| epoch.variant == variant && !epoch.warmup;
        self.epochs.iter().filter(of).count() as u64
    }

    /// The verdict on a variant by all its measurements.
    fn judged(&self, variant: &str, look: Look) -> Option<VariantVerdict> {
        let scenario = self.request.scenario;
        let variant = scenario.variants.iter().find(|it| it.name == variant)?;
        let variant = std::slice::from_ref(variant);
        let (budget, kind) = (&scenario.budget, self.request.kind);
        judge::variants(self.evidence(look), variant, budget, kind).pop()
    }

    fn evidence(&self, look: Look) -> Evidence<'_> {
        let services = &self.request.scenario.services;
        Evidence {
            epochs: &self.epochs,
            latency: &self.latency,
            limit_bytes: self.limit_bytes,
            live_is_whole: services.iter().all(|service| !service.measure),
            seed: self.request.scenario.seed,
            look,
        }
    }

    /// The verdict of the last look, or of a new one if there were epochs since.
    fn decided(&mut self, variant: &str) -> Option<VariantVerdict> {
        let epochs = self.counted(variant);
        if self.looking.verdict(variant, epochs).is_none() {
            self.look(variant);
        }
        self.looking.verdict(variant, epochs)
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn finish(mut self, complete: bool) -> Result<Verdict, RunError> {
        self.request.progress.end();
        let quality = std::mem::take(&mut self.quality);
        let budget = &self.request.scenario.budget;
        self.problems.extend(quality.problems(&self.epochs, budget));
        self.problems.extend(self.profiles.problems());
        let early = self.lost.take().map(|lost| format!("ended early: {lost}"));
        for text in self.looking.ended_early().chain(early) {
            self.problems
                .push(Problem::new(ProblemKind::Note, text, ""));
        }
        let kind = self.request.kind;
        let (mut variants, comparisons) = match &self.plan.ab {
            Some(plan) => {
                let names = (
                    self.plan.variants[0].0.as_str(),
                    self.plan.variants[1].0.as_str(),
                );
                let evidence = self.evidence(Look::ONLY);
                let found = judge::comparisons(evidence, names, &self.run_latency, plan, kind);
                let budget = &self.request.scenario.budget;
                let limits = match kind {
                    // Calibration tries the machine, not the program.
                    RunKind::Calibrate => Vec::new(),
                    _ => judge::limits(evidence, [names.0, names.1], budget),
                };
                (limits, found)
            }
            None => {
                let variants = &self.request.scenario.variants;
                let names = variants.iter().map(|variant| variant.name.as_str());
                let verdicts = match self.plan.due {
                    Some(_) => names.filter_map(|name| self.decided(name)).collect(),
                    None => names
                        .filter_map(|name| self.judged(name, Look::ONLY))
                        .collect(),
                };
                (verdicts, Vec::new())
            }
        };
        if self.plan.ab.is_none() {
            let metrics = std::mem::take(&mut self.metrics);
            let notes = metrics.judge(&mut variants, &self.epochs, self.request.scenario);
            self.problems.extend(notes);
        }
        for variant in &mut variants {
            self.places.tell(variant);
            self.profiles.tell(variant);
        }
        manifest::finish(&mut self.manifest, self.sampler_cpu, complete);
        mask::problems(&mut self.problems);
        let verdict = judge::whole(kind, complete, variants, comparisons, self.problems);
        self.folder
            .write_manifest(&self.manifest)
            .map_err(RunError::Lost)?;
        self.folder
            .write_verdict(&verdict)
            .map_err(RunError::Lost)?;
        Ok(verdict)
    }
}
