//! The terminal's view of a run under way: memory, its slope, errors, the time that is left.
//!
//! The dashboard has the slope and no verdict: a verdict takes an interval, which is valid at a look
//! that was fixed beforehand, and costs CPU time that the target may want. Drawing is indicatif's.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::progress::{FINE, Progress, SoFar, fine};
use crate::judge::mean_step_ms;
use crate::limits::{DASHBOARD_BARS, DASHBOARD_EPOCHS_MIN};
use crate::record::Epoch;
use crate::report::escape;
use crate::stats::theil_sen;
use crate::watch::units;

/// Lines of figures, and a bar with the time that is left.
#[derive(Debug)]
pub struct Dashboard {
    figures: [ProgressBar; ROWS],
    bar: ProgressBar,
}

const ROWS: usize = 4;

impl Default for Dashboard {
    fn default() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let add = |template: &str| {
            let bar = all.add(ProgressBar::new(0));
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        };
        Self {
            figures: [(); ROWS].map(|()| add("{wide_msg}")),
            bar: add("{elapsed_precise} {wide_bar:.green} {percent:>3} %, {eta} left  {msg}"),
        }
    }
}

impl Progress for Dashboard {
    fn at(&self, done: f64, total: u64, what: &str) {
        self.bar.set_length(total * FINE);
        self.bar.set_position(fine(done));
        self.bar.set_message(escape::terminal(what));
    }

    fn epoch(&self, so_far: &SoFar<'_>) {
        for (row, text) in self.figures.iter().zip(rows(so_far)) {
            row.set_message(text);
        }
    }

    fn end(&self) {
        for row in &self.figures {
            row.finish_and_clear();
        }
        self.bar.finish_and_clear();
    }
}

fn rows(so_far: &SoFar<'_>) -> [String; ROWS] {
    let Some(last) = so_far.epochs.last() else {
        return Default::default();
    };
    let measured = so_far.epochs.iter().filter(|epoch| !epoch.warmup);
    let points: Vec<f64> = measured.clone().map(at_rest).collect();
    let memory: Vec<f64> = so_far.epochs.iter().map(at_rest).collect();
    let slope = mib_per_day(so_far.epochs, &points);
    let errors = sum(so_far.epochs, |epoch| epoch.errors);
    let refused = sum(so_far.epochs, |epoch| epoch.refused).filter(|count| *count > 0);
    let refused = refused.map_or_else(String::new, |count| format!(", {count} refused"));
    [
        format!(
            "memory   {} at rest  {}  highest {}",
            units::bytes(held(last)),
            bars(&memory),
            units::bytes(last.hwm_bytes),
        ),
        format!("slope    {}", slope_text(slope, points.len(), so_far)),
        format!(
            "errors   {}{refused} of {} operations; p99 {}; {} of CPU each",
            units::count(errors),
            units::count(sum(so_far.epochs, |epoch| epoch.operations)),
            told(last.p99_us.map(|us| us / 1000.0), "ms"),
            told(cpu_each(last), "\u{b5}s"),
        ),
        format!("so far   {}", outlook(slope, errors, so_far)),
    ]
}

/// Memory at rest of an epoch, in bytes; `NAN`: it was not seen.
fn at_rest(epoch: &Epoch) -> f64 {
    held(epoch).map_or(f64::NAN, units::as_f64)
}

fn held(epoch: &Epoch) -> Option<u64> {
    let anonymous = epoch.anonymous_bytes?;
    let beside = [epoch.shmem_bytes, epoch.swap_bytes];
    let beside = beside.into_iter().map(Option::unwrap_or_default).sum();
    Some(anonymous.saturating_add(beside))
}

/// The slope in MiB a day; `None`: too few points.
fn mib_per_day(epochs: &[Epoch], points: &[f64]) -> Option<f64> {
    if points.len() < DASHBOARD_EPOCHS_MIN {
        return None;
    }
    let steps_a_day = DAY_MS / mean_step_ms(epochs)?;
    Some(theil_sen(points)? / f64::from(1 << 20) * steps_a_day)
}

fn slope_text(slope: Option<f64>, points: usize, so_far: &SoFar<'_>) -> String {
    let Some(slope) = slope else {
        let warmup = so_far.epochs.iter().filter(|epoch| epoch.warmup).count();
        return format!(
            "after {DASHBOARD_EPOCHS_MIN} epochs; {points} so far, and {warmup} of warm-up"
        );
    };
    let allowed = so_far.allowed_mib_per_day;
    let allowed = allowed.map_or_else(String::new, |mib| format!(" of {mib:.0} allowed"));
    // No minus before a zero.
    let slope = slope.round() + 0.0;
    format!("{slope:+.0} MiB/day{allowed}, by {points} epochs")
}

fn outlook(slope: Option<f64>, errors: Option<u64>, so_far: &SoFar<'_>) -> String {
    if so_far
        .errors_max
        .is_some_and(|most| errors.unwrap_or_default() > most)
    {
        return "more operations failed than allowed".to_owned();
    }
    match (slope, so_far.allowed_mib_per_day) {
        (Some(slope), Some(allowed)) if slope > allowed => "memory grows over its budget",
        (Some(_), Some(_)) => "memory is within its budget",
        _ => "too early to say",
    }
    .to_owned()
        + "; the verdict comes at the end"
}

/// The course of a series in a few characters: its lowest point is the lowest bar.
fn bars(points: &[f64]) -> String {
    let shown = points.len().min(DASHBOARD_BARS);
    let groups = (0..shown).map(|bar| {
        let range = bar * points.len() / shown..(bar + 1) * points.len() / shown;
        points[range].iter().copied().fold(f64::NAN, f64::max)
    });
    let groups: Vec<f64> = groups.collect();
    let low = groups.iter().copied().fold(f64::NAN, f64::min);
    let high = groups.iter().copied().fold(f64::NAN, f64::max);
    // Noise of a few pages is a flat line.
    let height = (high - low).max(FLAT_BYTES);
    let bar = |point: &f64| match point {
        point if point.is_nan() => ' ',
        point => BARS[step((point - low) / height)],
    };
    groups.iter().map(bar).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of eight bars"
)]
fn step(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * (BARS.len() - 1) as f64).round() as usize
}

fn sum(epochs: &[Epoch], of: fn(&Epoch) -> Option<u64>) -> Option<u64> {
    let seen: Vec<u64> = epochs.iter().filter_map(of).collect();
    (!seen.is_empty()).then(|| seen.iter().sum())
}

fn cpu_each(epoch: &Epoch) -> Option<f64> {
    let operations = epoch.operations.filter(|count| *count > 0)?;
    Some(units::as_f64(epoch.cpu_us?) / units::as_f64(operations))
}

fn told(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} {unit}"))
}

const BARS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];
const FLAT_BYTES: f64 = 256.0 * 1024.0;
const DAY_MS: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(count: u32, growth: u64) -> Vec<Epoch> {
        let epoch = |number: u32| Epoch {
            epoch: number,
            warmup: number < 2,
            start_ms: u64::from(number) * 2000,
            operations: Some(600),
            errors: Some(0),
            p99_us: Some(2310.0),
            cpu_us: Some(120_000),
            anonymous_bytes: Some((10 << 20) + u64::from(number) * growth),
            hwm_bytes: Some(12 << 20),
            ..Epoch::default()
        };
        (0..count).map(epoch).collect()
    }

    fn shown(epochs: &[Epoch]) -> String {
        rows(&SoFar {
            epochs,
            allowed_mib_per_day: Some(512.0),
            errors_max: Some(0),
        })
        .join("\n")
    }

    #[test]
    fn the_name_of_what_runs_is_no_command_of_a_terminal() {
        let dashboard = Dashboard::default();
        dashboard.at(0.0, 1, "a\u{1b}[2Jb");
        assert_eq!(dashboard.bar.message(), "a\\u{1b}[2Jb");
        dashboard.end();
    }

    #[test]
    fn growth_over_the_budget_is_told_with_its_slope() {
        let text = shown(&epochs(40, 20 << 10));
        for needle in [
            "memory   10.8 MiB at rest  \u{2581}",
            "highest 12.0 MiB",
            // The slope is 20 KiB in 2 s.
            "slope    +844 MiB/day of 512 allowed, by 38 epochs",
            "errors   0 of 24000 operations; p99 2.3 ms; 200.0 \u{b5}s of CPU each",
            "so far   memory grows over its budget",
        ] {
            assert!(text.contains(needle), "{needle} in\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_said_of_few_epochs_and_noise_is_flat() {
        let text = shown(&epochs(6, 1 << 10));
        assert!(
            text.contains("slope    after 8 epochs; 4 so far, and 2 of warm-up"),
            "{text}"
        );
        assert!(text.contains("too early to say"), "{text}");
        assert!(text.contains(&"\u{2581}".repeat(6)), "{text}");
        assert!(shown(&epochs(40, 1 << 10)).contains("memory is within its budget"));
    }

    #[test]
    fn errors_beyond_what_may_fail_are_told_first() {
        let mut epochs = epochs(40, 20 << 10);
        epochs[7].errors = Some(3);
        assert!(shown(&epochs).contains("so far   more operations failed than allowed"));
    }

    #[test]
    fn what_is_not_seen_is_no_zero() {
        let text = shown(&vec![Epoch::default(); 12]);
        assert!(
            text.contains("errors   - of - operations; p99 -; - of CPU each"),
            "{text}"
        );
        assert!(text.contains("memory   - at rest"), "{text}");
    }
}
