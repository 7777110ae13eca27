//! Notes on an INCONCLUSIVE finding: the range of the growth, and the time or the processes that would decide it.
//!
//! The error of a slope falls with the length of a run to the power of 3/2, and with the square root of
//! the number of processes. That holds for noise which lasts less long than the run; for other noise, the
//! estimated time is too short. Leaves out growth that is no line: a plateau or a saw-tooth has its own notes.

use super::growth::time;
use super::kept::number;
use crate::limits::DECIDING_LENGTHS_MAX;
use crate::record::{Finding, Interval, Method};

/// Notes on a finding; `hours` is the measured time of a process, without warm-up.
pub(super) fn notes(finding: &Finding, hours: Option<f64>) -> Vec<String> {
    let (Some(value), Some(limit)) = (finding.value, finding.limit) else {
        return Vec::new();
    };
    let known = known(finding, value, limit);
    let longer = shrunk(finding, value, limit).map(|share| longer(finding, share, hours));
    known.into_iter().chain(longer.flatten()).collect()
}

fn known(finding: &Finding, value: Interval, limit: f64) -> Option<String> {
    let verb = if finding.metric.ends_with("_loss") {
        "falls"
    } else {
        "grows"
    };
    if value.lower > 0.0 && value.lower <= limit && value.upper > limit {
        return Some(format!(
            "it {verb} by {} to {} {}; the budget lies within that range",
            number(value.lower),
            number(value.upper),
            finding.unit
        ));
    }
    let is_open = value.lower <= 0.0 && value.upper > limit;
    is_open.then(|| format!("it is not certain that it {verb} at all"))
}

/// Share of its error at which the finding would be decided, from 0 to below 1; `None` if no smaller error would
/// decide it.
fn shrunk(finding: &Finding, value: Interval, limit: f64) -> Option<f64> {
    let reaches = |slope: Interval| {
        let distance = (slope.estimate - limit).abs();
        let side = if slope.estimate > limit {
            slope.estimate - slope.lower
        } else {
            slope.upper - slope.estimate
        };
        distance / side
    };
    let share = if value.estimate > limit {
        let half = finding.last_half.filter(|half| half.estimate > limit)?;
        reaches(value).min(reaches(half))
    } else {
        let seen = finding.detectable.map_or(1.0, |least| limit / least);
        reaches(value).min(seen)
    };
    Some(share).filter(|share| *share < 1.0)
}

fn longer(finding: &Finding, share: f64, hours: Option<f64>) -> Option<String> {
    let too_near = || {
        Some(format!(
            "it is too close to the budget: {DECIDING_LENGTHS_MAX} times as much data would not \
             decide"
        ))
    };
    if finding.method == Method::FreshProcesses {
        let times = share.powi(-2);
        if times > f64::from(DECIDING_LENGTHS_MAX) {
            return too_near();
        }
        let more = (f64::from(finding.series) * (times - 1.0)).ceil();
        return Some(format!(
            "about {} more processes would decide",
            number(more)
        ));
    }
    let times = share.powf(-2.0 / 3.0);
    if times > f64::from(DECIDING_LENGTHS_MAX) {
        return too_near();
    }
    let more = hours? * (times - 1.0);
    Some(format!(
        "about {} more would decide",
        time((more * 60.0).ceil() / 60.0)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::figure;
    use super::*;

    fn finding(slope: (f64, f64, f64), limit: f64) -> Finding {
        let (lower, estimate, upper) = slope;
        let value = Interval {
            lower,
            estimate,
            upper,
        };
        Finding {
            method: Method::BlockBootstrap,
            value: Some(value),
            last_half: Some(value),
            detectable: Some(limit),
            series: 5,
            ..figure("rss_growth", "MiB/day", None, Some(limit))
        }
    }

    #[test]
    fn growth_that_is_certain_is_told_and_how_long_would_decide() {
        // A third of the error is to go: (3/2)^(2/3) is 1.31 times the hour.
        let notes = notes(&finding((31.0, 34.0, 37.0), 36.0), Some(1.0));
        assert_eq!(
            notes,
            [
                "it grows by 31 to 37 MiB/day; the budget lies within that range",
                "about 19 minutes more would decide",
            ]
        );
    }

    #[test]
    fn noise_is_told_as_such() {
        let notes = notes(&finding((-40.0, 0.0, 40.0), 10.0), Some(1.0));
        let expected = [
            "it is not certain that it grows at all",
            "about 1.53 hours more would decide",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn processes_are_counted_where_they_are_the_measure() {
        let fresh = Finding {
            method: Method::FreshProcesses,
            ..finding((31.0, 34.0, 37.0), 36.0)
        };
        assert_eq!(
            notes(&fresh, None)[1],
            "about 7 more processes would decide"
        );
    }

    #[test]
    fn what_is_at_the_limit_is_never_decided() {
        let notes = notes(&finding((0.5, 10.01, 20.0), 10.0), Some(1.0));
        assert!(
            notes[1].contains("20 times as much data would not decide"),
            "{notes:?}"
        );
    }
}
