//! A run as words and figures, ready to be put into a template.
//!
//! Everything here is plain text; the templates escape it. Findings come in the order that the
//! verdict has them.

use serde::Serialize;

use crate::limits;
use crate::record::{
    Capability, Epoch, Finding, GrowingSite, LeakSite, LoadedRun, Machine, Manifest, Method,
    Outcome, Problem, ProblemKind, RunKind, VariantEntry, VariantVerdict, Verdict, total,
};

use super::figure;
use super::metric;
use super::tracks::{self, is_start};
use super::unjudged::{self, SeriesView};

/// A whole run.
#[derive(Debug, Serialize)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) answer: Answer,
    pub(super) headline: String,
    pub(super) exit_code: Option<u8>,
    /// Labels that weaken the answer: `incomplete`, `single run`.
    pub(super) labels: Vec<Label>,
    pub(super) problems: Vec<ProblemView>,
    pub(super) variants: Vec<VariantView>,
    pub(super) comparisons: Vec<FindingView>,
    pub(super) facts: Vec<Fact>,
    pub(super) machine: Vec<Fact>,
    pub(super) seen: Vec<Capability>,
    pub(super) missing: Vec<Capability>,
    pub(super) commands: Vec<CommandView>,
    pub(super) hashes: Vec<Fact>,
    pub(super) endings: Vec<Ending>,
    pub(super) scenario_text: String,
    pub(super) started: String,
    pub(super) has_epochs: bool,
    /// Series of a run without a verdict.
    pub(super) series: Vec<SeriesView>,
}

/// A word, its tone, and a sign for readers who don't see colors.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Answer {
    pub(super) word: String,
    pub(super) tone: &'static str,
    pub(super) sign: &'static str,
    pub(super) emoji: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Label {
    pub(super) text: &'static str,
    pub(super) why: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct ProblemView {
    pub(super) kind: &'static str,
    pub(super) tone: &'static str,
    pub(super) text: String,
    pub(super) help: String,
}

#[derive(Debug, Serialize)]
pub(super) struct VariantView {
    pub(super) name: String,
    pub(super) answer: Answer,
    pub(super) expected: Option<Expected>,
    pub(super) runs: u32,
    pub(super) findings: Vec<FindingView>,
    /// Findings that are told in one line: see [`Finding::is_unremarkable`].
    pub(super) unremarkable: Vec<FindingView>,
    /// Looks of a run that goes on until it is decided, in words.
    pub(super) looks: Vec<String>,
    pub(super) leaks: Vec<LeakView>,
    /// Leaks beyond those that are listed.
    pub(super) leaks_more: usize,
    pub(super) lost: String,
    pub(super) growing: Vec<GrowingView>,
}

/// The outcome that the scenario expects of a variant; `is_met` if it came.
#[derive(Debug, Serialize)]
pub(super) struct Expected {
    pub(super) word: String,
    pub(super) is_met: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct FindingView {
    pub(super) metric: String,
    pub(super) label: String,
    pub(super) answer: Answer,
    /// Value with its unit; `–` where nothing was measured.
    pub(super) value: String,
    pub(super) range: Option<String>,
    pub(super) limit: Option<String>,
    pub(super) last_half: Option<String>,
    pub(super) text: String,
    pub(super) notes: Vec<String>,
    /// Basis of the interval, in a few words.
    pub(super) basis: String,
}

#[derive(Debug, Serialize)]
pub(super) struct LeakView {
    pub(super) kind: String,
    pub(super) size: String,
    pub(super) blocks: String,
    pub(super) stack: Vec<String>,
}

/// A growing site as text; see [`GrowingSite`].
#[derive(Debug, Serialize)]
pub(super) struct GrowingView {
    pub(super) site: String,
    /// Growth in bytes; `None`: not told.
    pub(super) size: Option<String>,
    /// Growth in objects, such as `3,200 objects`.
    pub(super) count: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Fact {
    pub(super) label: String,
    pub(super) text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct CommandView {
    pub(super) name: String,
    pub(super) line: String,
}

/// Number of a variant's processes that ended in the same way.
#[derive(Debug, Serialize)]
pub(super) struct Ending {
    pub(super) variant: String,
    pub(super) how: String,
    pub(super) runs: usize,
}

impl View {
    pub(super) fn of(run: &LoadedRun) -> Self {
        let LoadedRun { manifest, .. } = run;
        let verdict = run.verdict.as_ref();
        let (seen, missing) = manifest
            .capabilities
            .iter()
            .cloned()
            .partition(|capability| capability.available);
        Self {
            name: manifest.scenario_name.clone(),
            kind: kind(manifest.kind),
            answer: verdict.map_or_else(Answer::none, |verdict| Answer::of(verdict.outcome)),
            headline: headline(run),
            exit_code: verdict.map(|verdict| verdict.exit_code),
            labels: labels(manifest, verdict),
            problems: verdict.map_or_else(Vec::new, |verdict| problems(&verdict.problems)),
            variants: verdict.map_or_else(Vec::new, |verdict| {
                verdict.variants.iter().map(VariantView::of).collect()
            }),
            comparisons: verdict.map_or_else(Vec::new, |verdict| findings(&verdict.comparisons)),
            facts: facts(run),
            machine: machine(&manifest.machine),
            seen,
            missing,
            commands: commands(manifest),
            hashes: hashes(manifest),
            endings: endings(manifest),
            scenario_text: manifest.scenario_text.clone(),
            started: manifest.started.clone(),
            has_epochs: !run.epochs.is_empty(),
            series: unjudged::series(run),
        }
    }
}

impl Answer {
    /// The answer of a finding; a figure without a limit is no success.
    pub(super) fn of_finding(finding: &Finding) -> Self {
        if finding.is_judged() {
            Self::of(finding.outcome)
        } else {
            Self::told(finding.word())
        }
    }

    /// The answer of a variant; one without judged findings, as in a comparison, is no success.
    fn of_variant(verdict: &VariantVerdict) -> Self {
        let is_judged = verdict.findings.iter().any(Finding::is_judged);
        if is_judged || verdict.outcome.exit_code() != 0 || !verdict.leaks.is_empty() {
            Self::of(verdict.outcome)
        } else {
            Self::told("measured".to_owned())
        }
    }

    fn told(word: String) -> Self {
        Self {
            word,
            tone: "quiet",
            sign: "",
            emoji: "",
        }
    }

    pub(super) fn of(word: Outcome) -> Self {
        let (tone, sign, emoji) = match word {
            Outcome::Stable | Outcome::Go => ("good", "✓", "✅"),
            Outcome::Inconclusive => ("warn", "?", "⚠️"),
            Outcome::Growing => ("warn", "↗", "⚠️"),
            Outcome::NoGo | Outcome::Unbounded | Outcome::Leak => ("bad", "✕", "❌"),
            Outcome::Invalid | Outcome::TargetFailed => ("bad", "!", "❌"),
        };
        Self {
            word: word.to_string(),
            tone,
            sign,
            emoji,
        }
    }

    fn none() -> Self {
        Self {
            word: "NO VERDICT".to_owned(),
            tone: "warn",
            sign: "?",
            emoji: "⚠️",
        }
    }
}

fn headline(run: &LoadedRun) -> String {
    match &run.verdict {
        Some(verdict) => verdict.headline.clone(),
        None if run.epochs.is_empty() => {
            "The run ended before it could be judged; it had measured nothing.".to_owned()
        }
        None => {
            "The run ended before it could be judged; what it had measured is below.".to_owned()
        }
    }
}

pub(super) fn kind(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Soak => "soak",
        RunKind::Cycle => "cycle",
        RunKind::Ab => "ab",
        RunKind::Calibrate => "calibrate",
        RunKind::Leaks => "leaks",
    }
}

pub(super) fn labels(manifest: &Manifest, verdict: Option<&Verdict>) -> Vec<Label> {
    let mut labels = Vec::new();
    let is_complete = verdict.map_or(manifest.complete, |verdict| verdict.complete);
    if !is_complete {
        labels.push(Label {
            text: "incomplete",
            why: "The run ended before its planned end.",
        });
    }
    let is_drift = matches!(manifest.kind, RunKind::Soak | RunKind::Cycle);
    let is_single = |verdict: &Verdict| verdict.variants.iter().any(|variant| variant.runs == 1);
    if is_drift && verdict.is_some_and(is_single) {
        labels.push(Label {
            text: "single run",
            why: "Intervals come from one process, not from fresh ones: an exploration, not a gate.",
        });
    }
    labels
}

pub(super) fn problems(problems: &[Problem]) -> Vec<ProblemView> {
    let view = |problem: &Problem| {
        let (kind, tone) = match problem.kind {
            ProblemKind::GeneratorSaturated => ("generator saturated", "bad"),
            ProblemKind::MissingCapability => ("missing capability", "bad"),
            ProblemKind::TargetFailed => ("target failed", "bad"),
            ProblemKind::HelperFailed => ("service or load failed", "bad"),
            ProblemKind::Interrupted => ("interrupted", "warn"),
            ProblemKind::Note => ("note", "quiet"),
        };
        ProblemView {
            kind,
            tone,
            text: problem.text.clone(),
            help: problem.help.clone(),
        }
    };
    problems.iter().map(view).collect()
}

impl VariantView {
    fn of(verdict: &VariantVerdict) -> Self {
        let listed = verdict.leaks.iter().take(limits::REPORT_LEAK_SITES);
        let (unremarkable, remarkable): (Vec<&Finding>, Vec<&Finding>) = verdict
            .findings
            .iter()
            .partition(|finding| finding.is_unremarkable());
        let lost_bytes = total(verdict.leaks.iter().map(|leak| leak.bytes));
        Self {
            name: verdict.name.clone(),
            answer: Answer::of_variant(verdict),
            expected: verdict.expect.map(|word| Expected {
                word: word.to_string(),
                is_met: verdict.is_as_expected(),
            }),
            runs: verdict.runs,
            findings: findings(remarkable),
            unremarkable: findings(unremarkable),
            looks: verdict.looks.iter().map(ToString::to_string).collect(),
            leaks: listed.map(LeakView::of).collect(),
            leaks_more: verdict
                .leaks
                .len()
                .saturating_sub(limits::REPORT_LEAK_SITES),
            lost: whole_bytes(lost_bytes),
            growing: verdict.growing.iter().map(GrowingView::of).collect(),
        }
    }
}

/// Heading of a list of growing sites.
pub(super) const GROWING: &str = "growth from the end of warm-up to the end of the run, by the \
                                  runtime's own profile";

impl GrowingView {
    pub(super) fn of(growing: &GrowingSite) -> Self {
        let unit = match growing.kind.as_str() {
            "heap" => "objects",
            other => other,
        };
        let count = |count| format!("{} {unit}", figure::count(count));
        Self {
            site: growing.site.clone(),
            size: growing.bytes.map(whole_bytes),
            count: growing.count.map(count),
        }
    }

    /// Both figures, as far as they are known.
    pub(super) fn figures(&self) -> String {
        let figures: Vec<&str> = [&self.size, &self.count]
            .into_iter()
            .filter_map(Option::as_deref)
            .collect();
        figures.join(", ")
    }
}

impl LeakView {
    fn of(leak: &LeakSite) -> Self {
        Self {
            kind: leak.kind.clone(),
            size: whole_bytes(leak.bytes),
            blocks: match leak.blocks {
                1 => "1 block".to_owned(),
                blocks => format!("{} blocks", figure::count(blocks)),
            },
            stack: leak.stack.clone(),
        }
    }
}

pub(super) fn findings<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<FindingView> {
    findings.into_iter().map(FindingView::of).collect()
}

impl FindingView {
    pub(super) fn of(finding: &Finding) -> Self {
        let unit = unit(finding);
        let value = finding.value.as_ref();
        let half = finding.last_half.as_ref();
        Self {
            metric: finding.metric.clone(),
            label: metric::label(&finding.metric).to_owned(),
            answer: Answer::of_finding(finding),
            value: value.map_or_else(|| "–".to_owned(), |value| unit.show(value.estimate)),
            range: value.and_then(|value| unit.range(value)),
            limit: finding.limit.map(|limit| unit.show(limit)),
            last_half: half.map(|half| {
                let range = unit.range(half);
                let range = range.map_or_else(String::new, |range| format!(" ({range})"));
                format!("{}{range}", unit.show(half.estimate))
            }),
            text: finding.text.clone(),
            notes: finding.notes.clone(),
            basis: basis(finding),
        }
    }
}

/// The unit of all figures of a finding.
pub(super) fn unit(finding: &Finding) -> figure::Unit {
    let intervals = finding.value.iter().chain(&finding.last_half);
    let figures =
        intervals.flat_map(|interval| [interval.lower, interval.estimate, interval.upper]);
    figure::Unit::of(&finding.unit, figures.chain(finding.limit))
}

/// The basis of a figure: `5 fresh processes of 48 points, 95 % interval`.
pub(super) fn basis(finding: &Finding) -> String {
    let series = plural(finding.series, "series", "series");
    let points = plural(finding.points, "point", "points");
    let what = match finding.method {
        Method::FreshProcesses => {
            let processes = plural(finding.series, "fresh process", "fresh processes");
            format!("{processes} of {points}")
        }
        Method::BlockBootstrap => format!("block bootstrap over {series} of {points}, exploratory"),
        Method::PairedBootstrap => {
            let pairs = plural(finding.points, "pair", "pairs");
            format!("paired bootstrap over {pairs}")
        }
        Method::Limit => return limit_basis(finding).to_owned(),
    };
    finding.confidence.map_or_else(
        || what.clone(),
        |share| format!("{what}, {} % interval", figure::number(share * 100.0)),
    )
}

fn limit_basis(finding: &Finding) -> &'static str {
    match (finding.value, finding.limit) {
        (None, _) => "not measured",
        (Some(_), Some(_)) => "measured and held against the limit",
        (Some(_), None) => "measured; no limit is set",
    }
}

fn plural(count: u32, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{} {word}", figure::count(u64::from(count)))
}

fn facts(run: &LoadedRun) -> Vec<Fact> {
    let manifest = &run.manifest;
    let scenario = format!("{} ({})", manifest.scenario_name, manifest.scenario_path);
    let finished = manifest.finished.as_deref().unwrap_or("no");
    let mut facts = vec![
        fact("Scenario", scenario),
        fact("Command", command_line(&manifest.command)),
        fact("Started", manifest.started.clone()),
        fact("Finished", finished.to_owned()),
        fact("Variants", manifest.variants.len().to_string()),
        fact("Runs", manifest.runs.len().to_string()),
    ];
    facts.extend(measured(run));
    facts.push(fact("Seed", manifest.seed.to_string()));
    facts.push(fact("Steppe Lab", manifest.lab_version.clone()));
    facts.extend(own_cost(manifest));
    facts
}

/// Totals over the epochs; nothing where there are none.
fn measured(run: &LoadedRun) -> Vec<Fact> {
    let mut lengths: Vec<u64> = run.epochs.iter().map(|epoch| epoch.load_ms).collect();
    lengths.sort_unstable();
    let Some(load_ms) = lengths.get(lengths.len() / 2) else {
        return Vec::new();
    };
    let (_, along) = tracks::tracks(run);
    let starts = run
        .epochs
        .iter()
        .filter(|epoch| is_start(along, epoch))
        .count();
    let counted = run.epochs.iter().filter(|epoch| !epoch.warmup).count();
    let warmup = run.epochs.len() - counted - starts;
    let unit = match run.manifest.kind {
        RunKind::Cycle => "cycles",
        _ => "epochs",
    };
    let length = figure::span_ms(*load_ms);
    let summed = |of: fn(&Epoch) -> Option<u64>| {
        let is_driven = run.epochs.iter().any(|epoch| of(epoch).is_some());
        match is_driven {
            true => figure::count(total(run.epochs.iter().filter_map(of))),
            false => "not measured: the lab generated no load".to_owned(),
        }
    };
    let mut facts = vec![
        fact(
            "Measured",
            format!("{counted} {unit} of about {length} of load, and {warmup} of warm-up"),
        ),
        fact("Operations", summed(|epoch| epoch.operations)),
        fact("Errors", summed(|epoch| epoch.errors)),
    ];
    if run.epochs.iter().any(|epoch| epoch.refused > Some(0)) {
        facts.push(fact("Refused", summed(|epoch| epoch.refused)));
    }
    facts
}

fn own_cost(manifest: &Manifest) -> Option<Fact> {
    let seconds = |us: u64| {
        Some(figure::micros(
            f64::from(u32::try_from(us / 1000).ok()?) * 1e3,
        ))
    };
    let mut parts = Vec::new();
    if let Some(time) = manifest.sampler_cpu_us.and_then(seconds) {
        parts.push(format!("sampler {time} of CPU"));
    }
    if let Some(time) = manifest.lab_cpu_us.and_then(seconds) {
        parts.push(format!("all of the lab {time}"));
    }
    if let Some(bytes) = manifest.lab_hwm_bytes {
        parts.push(format!("at most {} of memory", whole_bytes(bytes)));
    }
    (!parts.is_empty()).then(|| fact("Cost of measuring", parts.join(", ")))
}

fn machine(machine: &Machine) -> Vec<Fact> {
    let unknown = || "unknown".to_owned();
    vec![
        fact("Kernel", machine.kernel.clone()),
        fact("Architecture", machine.architecture.clone()),
        fact("CPU", machine.cpu_model.clone().unwrap_or_else(unknown)),
        fact("CPUs", machine.cpus.to_string()),
        fact("Memory", whole_bytes(machine.memory_bytes)),
        fact("Governor", machine.governor.clone().unwrap_or_else(unknown)),
        fact(
            "Transparent huge pages",
            machine
                .transparent_huge_pages
                .clone()
                .unwrap_or_else(unknown),
        ),
        fact(
            "Control groups",
            machine.cgroup.clone().unwrap_or_else(|| "none".to_owned()),
        ),
        fact(
            "Load average at the start",
            machine.load_average.map_or_else(unknown, figure::number),
        ),
    ]
}

fn commands(manifest: &Manifest) -> Vec<CommandView> {
    let of_variant = |variant: &VariantEntry| {
        let mut words: Vec<String> = Vec::new();
        for (name, value) in &variant.env {
            words.push(format!("{name}={}", shell_word(value)));
        }
        if let Some(preload) = &variant.preload {
            words.push(format!("LD_PRELOAD={}", shell_word(preload)));
        }
        words.push(command_line(&variant.cmd));
        CommandView {
            name: variant.name.clone(),
            line: words.join(" "),
        }
    };
    manifest.variants.iter().map(of_variant).collect()
}

fn hashes(manifest: &Manifest) -> Vec<Fact> {
    let scenario = fact(&manifest.scenario_path, manifest.scenario_sha256.clone());
    let executables = manifest.variants.iter().filter_map(|variant| {
        let hash = variant.executable_sha256.clone()?;
        let path = variant.executable.as_deref().unwrap_or(&variant.name);
        Some(fact(path, hash))
    });
    let mut hashes: Vec<Fact> = std::iter::once(scenario).chain(executables).collect();
    hashes.dedup_by(|a, b| a.label == b.label && a.text == b.text);
    hashes
}

fn endings(manifest: &Manifest) -> Vec<Ending> {
    let mut endings: Vec<Ending> = Vec::new();
    for run in &manifest.runs {
        let how = run.ended.as_deref().unwrap_or("unknown status");
        let same = |ending: &&mut Ending| ending.variant == run.variant && ending.how == how;
        match endings.iter_mut().find(same) {
            Some(ending) => ending.runs += 1,
            None => endings.push(Ending {
                variant: run.variant.clone(),
                how: how.to_owned(),
                runs: 1,
            }),
        }
    }
    endings
}

fn fact(label: &str, text: String) -> Fact {
    Fact {
        label: label.to_owned(),
        text,
    }
}

/// A command line in the syntax of a shell.
fn command_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn whole_bytes(bytes: u64) -> String {
    figure::bytes(bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let words = ["a b", "it's", "--x=1", ""].map(str::to_owned);
        assert_eq!(command_line(&words), r"'a b' 'it'\''s' --x=1 ''");
    }
}
