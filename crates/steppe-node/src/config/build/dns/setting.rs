//! What rules of the DNS forwarder say beside what they do.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use std::num::NonZeroU32;

use steppe_config::typed::{Fields, Node as Read, Typed};
use steppe_dns::config::{
    CacheBounds, CachePolicy, RateOf, RuleLog, RuleRate, ServeStale, Stale, StalePolicy,
};

use crate::config::typed::ByName;

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn cache(rule: &Fields) -> Option<Option<CachePolicy>> {
    let Some(node) = rule.node("cache") else {
        return Some(None);
    };
    if matches!(node.typed, Typed::Choice(_)) {
        return Some(Some(CachePolicy::Off));
    }
    let bounds = node.fields()?;
    Some(Some(CachePolicy::Kept(CacheBounds {
        min_ttl: bounds.optional("min_ttl")?,
        max_ttl: bounds.optional("max_ttl")?,
        negative_ttl_max: bounds.optional("negative_ttl_max")?,
        serve_stale: match bounds.node("serve_stale") {
            None => None,
            Some(stale) => Some(self::stale(stale)?),
        },
    })))
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn log(rule: &Fields) -> Option<Option<RuleLog>> {
    let Some(node) = rule.node("log") else {
        return Some(None);
    };
    Some(Some(match &node.typed {
        Typed::Boolean(false) => RuleLog::Off,
        Typed::Boolean(true) => RuleLog::On,
        Typed::Text(tag) => RuleLog::Tagged(tag.as_str().into()),
        _ => return None,
    }))
}

pub(super) fn rate(rate: &Fields) -> Option<RuleRate> {
    Some(RuleRate {
        queries_per_second: NonZeroU32::new(rate.take("qps")?)?,
        of: match rate.take("of")? {
            "client" => RateOf::Client,
            "all" => RateOf::All,
            _ => return None,
        },
    })
}

fn stale(node: &Read) -> Option<StalePolicy> {
    match node.typed {
        Typed::Choice(_) => Some(StalePolicy::Off),
        _ => Some(StalePolicy::Served(serve_stale(node.fields()?)?)),
    }
}

/// Answers past their time, of a rule or of the cache.
pub(super) fn serve_stale(stale: &Fields) -> Option<ServeStale> {
    Some(ServeStale {
        up_to: stale.take("up_to")?,
        after: stale.take("after")?,
        only: match stale.take("only")? {
            "positive" => Stale::Positive,
            "all" => Stale::All,
            _ => return None,
        },
    })
}
