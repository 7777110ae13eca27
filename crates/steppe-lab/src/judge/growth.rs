//! Drift of every series, compared with its allowed change; and the attribution of growth to a leak or retention.

use std::fmt::Write as _;

use super::attribution::attribute;
use super::kept::number;
use super::machine::MachineDrift;
use super::series::{Allowed, Memory, Rule, Series};
use super::{Evidence, Measured, figure, float, undecided};
use crate::limits::{COLLECTIONS_MIN, MISSING_SHARE_MAX};
use crate::record::{Epoch, Finding, Interval, Method, Outcome, RunKind};
use crate::scenario::Budget;
use crate::stats::{
    ALPHA, Alarm, Drift, Hypothesis, Shape, Teeth, holm, judge_drift, judge_memory,
};

/// Findings on every series that was measured, or that the scenario asks for.
pub(super) fn findings(
    measured: &Measured<'_>,
    budget: &Budget,
    evidence: Evidence<'_>,
    kind: RunKind,
) -> Vec<Finding> {
    let judge = Judge {
        measured,
        budget,
        evidence,
        kind,
    };
    let machine = MachineDrift::of(measured, evidence.seed);
    let mut findings: Vec<Finding> = Vec::new();
    for series in Series::all(quiet_bytes(measured)) {
        let Some(mut finding) = judge.finding(&series) else {
            continue;
        };
        if series.is_timing {
            machine.withdraw(&mut finding);
        }
        findings.push(finding);
    }
    withdraw_by_chance(&mut findings, evidence.look.level(ALPHA));
    attribute(&mut findings, evidence.live_is_whole);
    findings
}

/// The column of memory at rest. Without any reading of the parts of memory, RSS is used for the whole run: a change
/// from one to the other would be a step.
fn quiet_bytes(measured: &Measured<'_>) -> fn(&Epoch) -> Option<f64> {
    if measured.max(Epoch::held_bytes).is_some() {
        |epoch| epoch.held_bytes().map(float)
    } else {
        |epoch| epoch.rss_bytes.map(float)
    }
}

/// Inputs for the judgment of a series.
struct Judge<'a> {
    measured: &'a Measured<'a>,
    budget: &'a Budget,
    evidence: Evidence<'a>,
    kind: RunKind,
}

/// Unit and limit of a series.
struct Scale {
    unit: String,
    /// A slope of one `unit`, as the change of the column in a step.
    per_step: f64,
    /// Allowed slope in `unit`; infinite if none is set.
    limit: f64,
    /// True if a finding is needed in any case: the scenario names the series, or the series is memory at rest.
    is_asked: bool,
    /// True if the limit comes from the headroom below a hard limit.
    is_by_headroom: bool,
}

impl Judge<'_> {
    /// The finding on a series; `None` if the series is not judged, or could not be and the scenario does not name it.
    fn finding(&self, series: &Series) -> Option<Finding> {
        let points = self.points(series);
        let scale = self.scale(series, &points)?;
        let is_measured = points.iter().flatten().any(|point| point.is_finite());
        if !is_measured && !scale.is_asked {
            return None;
        }
        let limit = Some(scale.limit).filter(|limit| limit.is_finite());
        let mut finding = figure(series.metric, &scale.unit, None, limit);
        let allowed = scale.limit * scale.per_step;
        let hypothesis = Hypothesis {
            budget: allowed,
            alpha: self.evidence.look.level(ALPHA),
        };
        let seed = self.evidence.seed;
        let judged = is_whole(&points).then(|| match series.rule {
            Rule::Memory(memory) if memory.is_collected() && allowed.is_finite() => {
                judge_memory(&points, self.measured.collections(), hypothesis, seed)
            }
            _ => judge_drift(&points, hypothesis, seed),
        });
        let Some(drift) = judged.flatten() else {
            // A series that is too short has a finding only if the scenario names it or it is memory at rest.
            let is_memory = series.metric == "rss_growth";
            finding.outcome = Outcome::Inconclusive;
            finding.text = format!(
                "growth of {} could not be judged: {}",
                series.called,
                self.lack(&points)
            );
            return (scale.is_asked || is_memory).then_some(finding);
        };
        let told = |slope: Interval| Interval {
            lower: slope.lower / scale.per_step,
            estimate: slope.estimate / scale.per_step,
            upper: slope.upper / scale.per_step,
        };
        finding.outcome = drift.outcome;
        finding.method = drift.method;
        finding.value = Some(told(drift.whole));
        finding.last_half = Some(told(drift.last_half));
        finding.confidence = Some(drift.confidence);
        finding.points = drift.points;
        finding.series = drift.series;
        finding.p_value = Some(drift.over_budget_p);
        let least = drift.detectable.max(series.resolution() / span(&points));
        finding.detectable = Some(least / scale.per_step);
        // The scenario does not ask for the limit that follows from a hard limit, and only a long run can detect growth
        // by one file. No run can detect growth by a budget of 0.
        let is_said = allowed > 0.0 && !scale.is_by_headroom;
        if finding.outcome == Outcome::Stable && least > allowed && is_said {
            finding.outcome = Outcome::Inconclusive;
        }
        finding.per_step = Some(scale.per_step);
        finding.text = self.sentence(series, &finding);
        if let Some(text) = self.collections(series, &drift) {
            finding.text = text;
        } else if let Shape::Settles(_) = drift.shape {
            finding
                .text
                .extend(self.shape(series, &drift).map(|shape| format!("; {shape}")));
        }
        self.note(series, &scale, &drift, &mut finding);
        Some(finding)
    }

    /// The points of each run, with NaN where a row has no value. Series that get worse by falling change their sign.
    fn points(&self, series: &Series) -> Vec<Vec<f64>> {
        let sign = if series.falls() { -1.0 } else { 1.0 };
        let of = |epoch: &Epoch| (series.of)(epoch).map(|value| sign * value);
        let run = |epochs: &Vec<&Epoch>| {
            let first = epochs.first().map_or(0, |epoch| epoch.start_ms);
            let counts = |epoch: &&&Epoch| epoch.start_ms.saturating_sub(first) >= series.from_ms;
            let value = |epoch: &&Epoch| of(epoch).unwrap_or(f64::NAN);
            epochs.iter().filter(counts).map(value).collect()
        };
        self.measured.runs.values().map(run).collect()
    }

    /// Unit and limit of a series; `None`: the series is not to be judged.
    fn scale(&self, series: &Series, points: &[Vec<f64>]) -> Option<Scale> {
        match series.rule {
            Rule::Memory(memory) => self.memory_scale(memory, points),
            Rule::Count { unit, floor } => {
                let share = self.budget.drift.share(series.drift_name())?;
                let per_hour = self.hours_a_step()?;
                let allowed = (share * level(points)).max(floor) / span(points);
                let by_headroom = self.allowed_by_headroom(series).unwrap_or(f64::INFINITY);
                Some(Scale {
                    unit: format!("{unit}/hour"),
                    per_step: per_hour,
                    limit: allowed.min(by_headroom) / per_hour,
                    is_asked: self.is_named(series),
                    is_by_headroom: by_headroom < allowed,
                })
            }
            Rule::Share => {
                let share = self.budget.drift.share(series.drift_name())?;
                let level = Some(level(points)).filter(|level| *level > 0.0)?;
                Some(Scale {
                    unit: "% of the start".to_owned(),
                    per_step: level / PER_CENT / span(points),
                    limit: share * PER_CENT,
                    is_asked: self.is_named(series),
                    is_by_headroom: false,
                })
            }
        }
    }

    fn memory_scale(&self, memory: Memory, points: &[Vec<f64>]) -> Option<Scale> {
        let is_cycle = self.kind == RunKind::Cycle;
        let (unit, per_step) = match self.hours_a_step() {
            Some(hours) if !is_cycle => ("MiB/day", MIB * hours / HOURS_A_DAY),
            _ if is_cycle => ("KiB/cycle", KIB),
            _ => ("KiB/epoch", KIB),
        };
        let allowed = memory.allowed(self.budget, self.kind);
        let bytes_a_step = match allowed {
            Allowed::MibPerDay(mib) => mib * MIB * self.hours_a_step()? / HOURS_A_DAY,
            Allowed::KibPerStep(kib) => kib * KIB,
            Allowed::Open => {
                let share = self.budget.drift.share("hwm");
                share.map_or(f64::INFINITY, |share| share * level(points) / span(points))
            }
        };
        Some(Scale {
            unit: unit.to_owned(),
            per_step,
            limit: bytes_a_step / per_step,
            is_asked: memory == Memory::AtRest || memory.is_said(self.budget, self.kind),
            is_by_headroom: false,
        })
    }

    fn is_named(&self, series: &Series) -> bool {
        let shares = &self.budget.drift.shares;
        shares.contains_key(series.drift_name())
    }

    /// Growth in a step by which the series reaches its hard limit at the end of `budget.limit_within`.
    fn allowed_by_headroom(&self, series: &Series) -> Option<f64> {
        let left = self.headroom(series)?;
        let steps = self.budget.limit_within.as_secs_f64() / 3_600.0 / self.hours_a_step()?;
        Some(left / steps.max(1.0))
    }

    /// Headroom below a hard limit in the last epoch.
    fn headroom(&self, series: &Series) -> Option<f64> {
        let last = self.measured.epochs().last()?;
        match (series.headroom, series.rule) {
            (Some(left), _) => (left.of)(last).map(float),
            (None, Rule::Memory(_)) => {
                let limit = float(self.evidence.limit_bytes?);
                let held = (series.of)(last)?;
                Some(limit - held).filter(|left| *left > 0.0)
            }
            _ => None,
        }
    }

    fn lack(&self, points: &[Vec<f64>]) -> String {
        let (rows, seen) = seen(points);
        if seen < rows {
            format!("it was seen in {seen} of {rows} epochs")
        } else {
            format!("{rows} points in {} runs are too few", self.measured.runs())
        }
    }

    fn sentence(&self, series: &Series, finding: &Finding) -> String {
        let Some(value) = finding.value else {
            return String::new();
        };
        let Interval {
            lower,
            estimate,
            upper,
        } = value;
        // A change in the other direction is named as such, rather than as growth below zero.
        let is_turned = estimate < 0.0;
        let verb = if series.falls() == is_turned {
            "grows"
        } else {
            "falls"
        };
        let (estimate, from, to) = match is_turned {
            true => (-estimate, -upper, -lower),
            false => (estimate, lower, upper),
        };
        let mut text = format!(
            "{} {verb} by {} {} ({} to {})",
            series.called,
            number(estimate),
            finding.unit,
            number(from),
            number(to)
        );
        match finding.limit {
            Some(limit) if is_turned => {
                let way = if series.falls() { "a loss" } else { "growth" };
                _ = write!(text, "; allowed is {way} of {}", number(limit));
            }
            Some(limit) => _ = write!(text, "; allowed is {}", number(limit)),
            None => text.push_str("; no budget is set"),
        }
        if finding.method == Method::BlockBootstrap {
            text.push_str(" [single run]");
        }
        text
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn note(&self, series: &Series, scale: &Scale, drift: &Drift, finding: &mut Finding) {
        let told = |slope: f64| number(slope / scale.per_step);
        let allowed = scale.limit * scale.per_step;
        let unit = &scale.unit;
        if let Some(text) = self.shape(series, drift) {
            // The finding's own sentence has a plateau already.
            if !finding.text.ends_with(&text) {
                finding.notes.push(text);
            }
            let may_be_garbage =
                matches!(series.rule, Rule::Memory(memory) if memory.is_collected());
            let is_forced = self.measured.collections().is_some();
            if may_be_garbage && !is_forced && matches!(drift.shape, Shape::Settles(_)) {
                let text = "0 garbage collections were seen: if the target has a collector, \
                            `target.collect` forces one";
                finding.notes.push(text.to_owned());
            }
        } else if is_beside_a_curve(drift, allowed) {
            let text = "it slows down, and the rest without that curve is above the budget in the \
                        whole window and in its last half; the intervals are of curve and rest";
            finding.notes.push(text.to_owned());
        } else if drift.outcome == Outcome::Inconclusive && drift.rise > allowed {
            finding.notes.push(format!(
                "it rose by {} {unit} from the first quarter to the last: soak for longer",
                told(drift.rise)
            ));
        }
        let is_open = finding.outcome == Outcome::Inconclusive;
        let unseen = finding.detectable.filter(|least| *least > scale.limit);
        if let Some(least) = unseen.filter(|_| is_open) {
            finding.notes.push(format!(
                "the smallest growth that this run could detect is {} {unit}, which is above the \
                 budget: soak for longer",
                number(least)
            ));
        }
        if drift.outcome == Outcome::Inconclusive && drift.shape == Shape::Line {
            let steps = f64::from(drift.points.saturating_sub(1));
            let hours = self.hours_a_step().map(|hours| hours * steps);
            finding.notes.extend(undecided::notes(finding, hours));
        }
        let grows = matches!(drift.outcome, Outcome::Unbounded | Outcome::Growing);
        if !grows && !drift.significant {
            return;
        }
        if let Rule::Memory(_) = series.rule {
            finding.notes.extend(self.per_operation(drift));
        }
        if let Some((hours, text)) = self.until_limit(series, drift) {
            finding.hours_left = Some(hours);
            finding.notes.push(text);
        }
        if scale.is_by_headroom && grows {
            let within = humantime::format_duration(self.budget.limit_within);
            finding.notes.push(format!(
                "the allowance is the growth that stays below the limit for {within} \
                 (`budget.limit_within`)"
            ));
        }
    }

    /// The sentence of a finding that too few garbage collections leave INCONCLUSIVE.
    fn collections(&self, series: &Series, drift: &Drift) -> Option<String> {
        let is_collected = matches!(series.rule, Rule::Memory(memory) if memory.is_collected());
        let forced = self.measured.collections().filter(|_| is_collected);
        let is_unproven = drift.shape == Shape::Line && drift.outcome == Outcome::Inconclusive;
        if let Some(forced) = forced.filter(|forced| *forced < COLLECTIONS_MIN)
            && is_unproven
        {
            return Some(format!(
                "growth of {} can't be judged: {} forced, {COLLECTIONS_MIN} are needed \
                 (`target.collect`)",
                series.called,
                were(forced)
            ));
        }
        let Shape::Teeth(Teeth {
            collections,
            period,
        }) = drift.shape
        else {
            return None;
        };
        let lacking = COLLECTIONS_MIN.checked_sub(collections)?;
        if lacking == 0 {
            return None;
        }
        let minutes = f64::from(lacking) * period * self.hours_a_step()? * 60.0;
        Some(format!(
            "{} is a saw-tooth: {} seen, {COLLECTIONS_MIN} are needed; about {} more would show them",
            series.called,
            were(collections),
            match minutes {
                few if few < 1.5 => "a minute".to_owned(),
                many => format!("{many:.0} minutes"),
            }
        ))
    }

    /// Description of growth that is no line: a saw-tooth, a plateau or stairs.
    fn shape(&self, series: &Series, drift: &Drift) -> Option<String> {
        let is_memory = matches!(series.rule, Rule::Memory(_));
        let show = |value: f64| match is_memory {
            true => format!("{} MiB", number(value / MIB)),
            false => number(value),
        };
        match drift.shape {
            Shape::Line => None,
            Shape::Teeth(teeth) => {
                let seconds = teeth.period * self.hours_a_step()? * 3_600.0;
                let judged = match teeth.collections {
                    enough if enough >= COLLECTIONS_MIN => "memory after them is judged",
                    _ => "too few to judge memory after them",
                };
                Some(format!(
                    "it is a saw-tooth: {} collections, one every {} s; {judged}",
                    teeth.collections,
                    number(seconds)
                ))
            }
            Shape::Settles(level) => {
                Some(format!("it slows down: it levels off at {}", show(level)))
            }
            Shape::Stairs(stairs) => {
                let seconds = stairs.period * self.hours_a_step()? * 3_600.0;
                Some(format!(
                    "it grows in steps: {} every {} s, {} times",
                    show(stairs.size),
                    number(seconds),
                    stairs.count
                ))
            }
        }
    }

    fn per_operation(&self, drift: &Drift) -> Option<String> {
        let epochs = u64::try_from(self.measured.epochs().count()).ok()?;
        let operations = float(self.measured.operations()?) / float(epochs.max(1));
        (operations >= 1.0).then(|| {
            let bytes = drift.whole.estimate / operations;
            format!("{} bytes per operation", number(bytes))
        })
    }

    /// Hours until a hard limit is reached at the present slope, with a note.
    fn until_limit(&self, series: &Series, drift: &Drift) -> Option<(f64, String)> {
        let left = self.headroom(series)?;
        let slope = drift.whole.estimate;
        if slope <= 0.0 {
            return None;
        }
        let hours = left / slope * self.hours_a_step()?;
        let limit = match series.headroom {
            Some(left) => left.limit.to_owned(),
            None => {
                let bytes = float(self.evidence.limit_bytes?);
                format!("the limit of {} MiB", number(bytes / MIB))
            }
        };
        let text = format!("at this rate, {limit} is reached in {}", time(hours));
        Some((hours, text))
    }

    fn hours_a_step(&self) -> Option<f64> {
        self.measured.hours_a_step()
    }
}

/// True if a series is UNBOUNDED only without its curve (a rise that slows down): with the curve, an interval
/// reaches the budget.
fn is_beside_a_curve(drift: &Drift, allowed: f64) -> bool {
    let is_over = drift.whole.lower > allowed && drift.last_half.lower > allowed;
    drift.outcome == Outcome::Unbounded && drift.shape == Shape::Line && !is_over
}

fn were(collections: u32) -> String {
    match collections {
        1 => "1 collection was".to_owned(),
        many => format!("{many} collections were"),
    }
}

/// A time in minutes, hours or days, by its length.
pub(super) fn time(hours: f64) -> String {
    match hours {
        few if few <= 1.0 / 60.0 => "a minute".to_owned(),
        few if few < 1.0 => format!("{} minutes", number(few * 60.0)),
        few if few < 72.0 => format!("{} hours", number(few)),
        many => format!("{} days", number(many / HOURS_A_DAY)),
    }
}

/// Level of a series at the start: the median over the runs, of each the median of the first quarter of its points.
pub(super) fn level(points: &[Vec<f64>]) -> f64 {
    let starts = points.iter().filter_map(|run| {
        let present: Vec<f64> = run
            .iter()
            .copied()
            .filter(|point| point.is_finite())
            .collect();
        let quarter = present.len().div_ceil(4);
        crate::stats::median(present.into_iter().take(quarter).collect())
    });
    crate::stats::median(starts.collect()).map_or(0.0, f64::abs)
}

/// Steps of the longest run, at least one.
pub(super) fn span(points: &[Vec<f64>]) -> f64 {
    let longest = points.iter().map(Vec::len).max().unwrap_or(0);
    float(longest.saturating_sub(1).max(1) as u64)
}

/// Number of rows, and of those that have a value.
fn seen(points: &[Vec<f64>]) -> (usize, usize) {
    let rows = points.iter().map(Vec::len).sum();
    let seen = points.iter().flatten().filter(|point| point.is_finite());
    (rows, seen.count())
}

fn is_whole(points: &[Vec<f64>]) -> bool {
    let (rows, seen) = seen(points);
    (rows - seen) * 100 <= rows * MISSING_SHARE_MAX
}

/// Withdraws UNBOUNDED where it may be chance among so many series (Holm's correction). STABLE needs no
/// correction: a verdict has it only if the bound of every single series allows it.
///
/// Half of the significance level is for memory at rest, the main question of a soak: a dozen other series that
/// are judged as well do not hide a leak.
fn withdraw_by_chance(findings: &mut [Finding], alpha: f64) {
    let is_tested = |finding: &&Finding| finding.p_value.is_some() && finding.limit.is_some();
    let tested = findings.iter().filter(is_tested);
    let (at_rest, others): (Vec<&Finding>, Vec<&Finding>) = tested.partition(|it| is_at_rest(it));
    let tests = at_rest.len() + others.len();
    let weight_at_rest = float(others.len().max(1) as u64) / float(at_rest.len().max(1) as u64);
    let total = weight_at_rest * float(at_rest.len() as u64) + float(others.len() as u64);
    let is_alarm = |finding: &&mut Finding| finding.outcome == Outcome::Unbounded;
    let alarms: Vec<&mut Finding> = findings.iter_mut().filter(is_alarm).collect();
    let weighed = |finding: &&mut Finding| {
        Some(Alarm {
            p_value: finding.p_value?,
            weight: if is_at_rest(finding) {
                weight_at_rest
            } else {
                1.0
            },
        })
    };
    let p_values: Vec<Alarm> = alarms.iter().filter_map(weighed).collect();
    for (alarm, counts) in alarms.into_iter().zip(holm(&p_values, total, alpha)) {
        if !counts {
            alarm.outcome = Outcome::Inconclusive;
            alarm.notes.push(format!(
                "on its own it would be UNBOUNDED; among {tests} series judged at once, one this \
                 far over its budget may be chance: soak for longer"
            ));
        }
    }
}

fn is_at_rest(finding: &Finding) -> bool {
    ["rss_growth", "live_growth"].contains(&finding.metric.as_str())
}

const KIB: f64 = 1_024.0;
const MIB: f64 = 1_048_576.0;
const PER_CENT: f64 = 100.0;
const HOURS_A_DAY: f64 = 24.0;
