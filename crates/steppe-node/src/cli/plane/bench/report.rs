//! The report of a run.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::counts::Counts;

/// The report as text.
pub(super) fn text(counts: &Counts) -> String {
    let seconds = counts.length().as_secs_f64().max(f64::MIN_POSITIVE);
    let answered = counts.answered.len();
    let mut text = format!(
        "{answered} answered, {} refused, {} failed in {:.2} s\n",
        counts.refused.len(),
        counts.failures(),
        seconds
    );
    if let Some(due) = counts.due {
        line(&mut text, "due", format_args!("{due} calls"));
    }
    if answered > 0 {
        let mib = |bytes: u64| per_second(bytes, seconds) / MIB;
        line(
            &mut text,
            "throughput",
            format_args!(
                "{:.1} responses/s; {:.1} MiB/s sent, {:.1} MiB/s received; {} messages",
                per_second(answered, seconds),
                mib(counts.sent_bytes),
                mib(counts.received_bytes),
                counts.messages,
            ),
        );
        line(
            &mut text,
            "latency",
            format_args!("{}", quantiles(&counts.answered)),
        );
    }
    if !counts.refused.is_empty() {
        let refused = &counts.refused;
        line(
            &mut text,
            "refused",
            format_args!(
                "overloaded ×{}, after {}",
                refused.len(),
                quantiles(refused)
            ),
        );
    }
    for (status, count) in &counts.failed {
        line(
            &mut text,
            "failed",
            format_args!("{} ×{count}", status.name()),
        );
    }
    text
}

/// The report in the lab's protocol: docs/lab/protocol.md.
pub(super) fn lines(counts: &Counts) -> String {
    let mut text = String::new();
    let mut say = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("a string takes it");
    };
    if let Some(due) = counts.due {
        say(format_args!("intended {due}"));
    }
    for value in counts.answered.iter_recorded() {
        let (us, count) = (value.value_iterated_to(), value.count_at_value());
        say(format_args!("latency_us {us} {count}"));
    }
    if !counts.refused.is_empty() {
        say(format_args!("refused {}", counts.refused.len()));
    }
    for (status, count) in &counts.failed {
        say(format_args!("errors {count} {}", status.name()));
    }
    if text.is_empty() {
        // Interrupted before a call ended.
        text.push_str("ops 0\n");
    }
    text
}

fn line(text: &mut String, of: &str, what: std::fmt::Arguments<'_>) {
    writeln!(text, "{of:<11} {what}").expect("a string takes it");
}

fn quantiles(latencies: &Histogram<u64>) -> String {
    let at = |share| shown(latencies.value_at_quantile(share));
    format!(
        "p50 {}, p99 {}, p99.9 {}, at most {}",
        at(0.5),
        at(0.99),
        at(0.999),
        shown(latencies.max())
    )
}

fn shown(us: u64) -> String {
    format!("{:.2?}", Duration::from_micros(us))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plane::bench::counts::Answer;
    use std::time::Instant;
    use steppe_plane::{Failure, Status};

    fn counts() -> Counts {
        let mut counts = Counts::new(Instant::now());
        let due = counts.start;
        let answer = Answer {
            bytes: 5,
            messages: 1,
        };
        counts.add((due, due), 5, &Ok(answer));
        for status in [Status::Overloaded, Status::Unavailable, Status::Unavailable] {
            counts.add((due, due), 5, &Err(Failure::new(status, "")));
        }
        counts
    }

    #[test]
    fn refusals_are_no_failures() {
        let lines = lines(&counts());
        assert_eq!(lines, "latency_us 1 1\nrefused 1\nerrors 2 unavailable\n");
        let text = text(&counts());
        assert!(
            text.starts_with("1 answered, 1 refused, 2 failed in "),
            "{text}"
        );
        assert!(text.contains("\nfailed      unavailable ×2\n"), "{text}");
    }
}
