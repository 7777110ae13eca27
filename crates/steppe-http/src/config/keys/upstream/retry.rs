//! Keys of what is sent again, and of what is sent twice.

use std::path::Path;

use steppe_config::choice::Choices;
use steppe_config::form::{Form, Read, Refusal};
use steppe_config::key::{Key, choice, integer, key, set, share, text};
use steppe_config::keys;
use steppe_config::limits::{TIMEOUT_MAX, TIMEOUT_MIN};
use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;
use steppe_config::units::duration;

use crate::config::{Hedge, HedgeAfter, Retry, RetryOn};
use crate::limits::ATTEMPTS_MAX;

pub(super) static TABLE: Table = Table::new(
    "http.upstream.retry",
    "Retries of requests. Without this table, a server that takes no connection is passed over, \
     each server once.",
    keys! { ATTEMPTS, ON, BUDGET },
);

static ATTEMPTS: Key<u32> = key(
    "attempts",
    integer(0, ATTEMPTS_MAX),
    "Retries of one request.",
)
.or(Absent::Number(2));

static ON: Key<Vec<RetryOn>> = key(
    "on",
    set(&choice(&CONDITIONS)),
    "Conditions of a retry. \"connect\": no connection; \"reset\": the connection ended or the \
     response was malformed; \"timeout\": `timeouts.first_byte`; \"502\", \"503\", \"504\": the \
     server's status. All of these but \"connect\" need an idempotent request. The others are \
     statuses of gRPC and need `protocol = \"h2c\"` or `\"h2\"`.",
)
.or(Absent::Texts(&["connect", "reset", "502", "503", "504"]));

static CONDITIONS: Choices<RetryOn> = Choices::of(&[
    ("connect", RetryOn::CONNECT),
    ("reset", RetryOn::RESET),
    ("timeout", RetryOn::TIMEOUT),
    ("502", RetryOn::BAD_GATEWAY),
    ("503", RetryOn::UNAVAILABLE),
    ("504", RetryOn::GATEWAY_TIMEOUT),
    ("cancelled", RetryOn::CANCELLED),
    ("deadline-exceeded", RetryOn::DEADLINE_EXCEEDED),
    ("internal", RetryOn::INTERNAL),
    ("resource-exhausted", RetryOn::RESOURCE_EXHAUSTED),
    ("unavailable", RetryOn::CALL_UNAVAILABLE),
]);

static BUDGET: Key<f64> = key(
    "budget",
    share(),
    "Largest share of the upstream's requests of the last ten seconds that is retried; 30 always \
     may be.",
)
.or(Absent::Text("20%"));

pub(super) static HEDGE: Table = Table::new(
    "http.upstream.hedge",
    "Hedging: an idempotent request is sent to a second server if the first is slow. The first \
     head wins, and the other request is cancelled.",
    keys! { AFTER, MAX, HEDGE_BUDGET },
);

static AFTER: Key<HedgeAfter> = key(
    "after",
    text(&HEDGE_AFTER),
    "Time that the first server has for the head of its response: a duration, or a percentile of \
     the upstream's latest responses, \"p50\" to \"p99\".",
)
.or(Absent::Text("p95"));

static HEDGE_AFTER: Form<HedgeAfter> = Form::new(
    "a percentile such as \"p95\", or a time such as \"20ms\"",
    hedge_after,
)
.pattern("^(p[5-9][0-9]|[0-9]+(\\.[0-9]{1,9})?(us|ms|s|m|h|d))$");

/// A percentile of latencies such as `p95`, or a time.
fn hedge_after(text: &str, _: &Path) -> Read<HedgeAfter> {
    let time = || {
        let bounds = TIMEOUT_MIN..=TIMEOUT_MAX;
        let time = duration(text).ok().filter(|time| bounds.contains(time));
        time.map(HedgeAfter::Time)
    };
    HedgeAfter::percentile(text).or_else(time).ok_or_else(|| {
        Refusal::new(format!(
            "`{}` is neither a percentile nor a time",
            shown(text)
        ))
        .help("write a percentile from \"p50\" to \"p99\", or a time such as \"20ms\"")
    })
}

static MAX: Key<u64> = key(
    "max",
    integer(0, 1),
    "Further servers that one request is sent to; `0` turns hedging off.",
)
.or(Absent::Number(1));

static HEDGE_BUDGET: Key<f64> = key(
    "budget",
    share(),
    "Largest share of the upstream's requests of the last ten seconds that is sent twice; 30 \
     always may be.",
)
.or(Absent::Text("10%"));

pub(super) fn build(retry: &Fields) -> Option<Retry> {
    let on = retry.get(&ON)?.into_iter();
    Some(Retry {
        attempts: retry.get(&ATTEMPTS)?,
        on: on.fold(RetryOn::default(), RetryOn::or),
        budget: retry.get(&BUDGET)?,
    })
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
pub(super) fn hedge(hedge: &Fields) -> Option<Option<Hedge>> {
    let (after, budget) = (hedge.get(&AFTER)?, hedge.get(&HEDGE_BUDGET)?);
    Some((hedge.get(&MAX)? > 0).then_some(Hedge { after, budget }))
}

/// Statuses of gRPC come from servers of HTTP/2.
pub(super) fn check(retry: &Fields, protocol: &str, mistakes: &mut Mistakes) {
    for on in retry.items(&ON) {
        let condition: Option<&RetryOn> = on.typed.value();
        if condition.is_some_and(|on| on.has_codes()) {
            let help = "set `protocol` to \"h2c\" or \"h2\", or take it out";
            mistakes.push(no_grpc(on.span, protocol).help(help));
        }
    }
}

/// The mistake of a key that needs gRPC on an upstream of another protocol.
pub(super) fn no_grpc(at: Span, protocol: &str) -> Mistake {
    let message = format!("\"{protocol}\" does not carry gRPC");
    Mistake::new(at, message).label("needs HTTP/2")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_first_server_is_waited_for_a_percentile_or_a_time() {
        assert_eq!(
            hedge_after("p95", Path::new("")),
            Ok(HedgeAfter::Percentile(95))
        );
        let time = Duration::from_millis(20);
        assert_eq!(
            hedge_after("20ms", Path::new("")),
            Ok(HedgeAfter::Time(time))
        );
        for text in ["p49", "p100", "p9", "p+9", "p", "95", "0s", "2d", ""] {
            assert!(hedge_after(text, Path::new("")).is_err(), "{text}");
        }
    }
}
