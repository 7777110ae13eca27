//! What rules say of a query beside what becomes of it, as a configuration writes it.

use std::time::Duration;

use steppe_dns::config::{
    CacheBounds, CachePolicy, RateOf, Rule, RuleLog, RuleRate, Stale, StalePolicy,
};
use steppe_dns::rules::Settings;

use crate::config::duration_text;

/// One key of a rule, and what it says.
pub(super) struct Setting {
    /// The rule's number, from 0.
    pub(super) rule: usize,
    pub(super) key: &'static str,
    pub(super) says: String,
}

/// Those that count for a query.
pub(super) fn of(rules: &[Rule], settings: Settings) -> impl Iterator<Item = Setting> {
    let cache = setting("cache", rules, settings.cache, |rule| rule.cache.map(cache));
    let log = setting("log", rules, settings.log, |rule| {
        rule.log.as_ref().map(log)
    });
    let rate = setting("rate", rules, settings.rate, |rule| rule.rate.map(rate));
    [cache, log, rate].into_iter().flatten()
}

fn setting(
    key: &'static str,
    rules: &[Rule],
    rule: Option<usize>,
    says: impl Fn(&Rule) -> Option<String>,
) -> Option<Setting> {
    let rule = rule?;
    let says = says(rules.get(rule)?)?;
    Some(Setting { rule, key, says })
}

fn cache(policy: CachePolicy) -> String {
    let CachePolicy::Kept(bounds) = policy else {
        return OFF.to_owned();
    };
    let CacheBounds {
        min_ttl,
        max_ttl,
        negative_ttl_max,
        serve_stale,
    } = bounds;
    let time = |key: &str, time: Option<Duration>| {
        time.map(|time| format!("{key} = \"{}\"", duration_text(time)))
    };
    let parts = [
        time("min_ttl", min_ttl),
        time("max_ttl", max_ttl),
        time("negative_ttl_max", negative_ttl_max),
        serve_stale.map(stale),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{{ {} }}", parts.join(", "))
}

fn stale(policy: StalePolicy) -> String {
    let StalePolicy::Served(stale) = policy else {
        return format!("serve_stale = {OFF}");
    };
    let only = match stale.only {
        Stale::Positive => "positive",
        Stale::All => "all",
    };
    format!(
        "serve_stale = {{ up_to = \"{}\", after = \"{}\", only = \"{only}\" }}",
        duration_text(stale.up_to),
        duration_text(stale.after)
    )
}

fn log(log: &RuleLog) -> String {
    match log {
        RuleLog::Off => "false".to_owned(),
        RuleLog::On => "true".to_owned(),
        RuleLog::Tagged(tag) => format!("\"{tag}\""),
    }
}

fn rate(rate: RuleRate) -> String {
    let of = match rate.of {
        RateOf::Client => "client",
        RateOf::All => "all",
    };
    format!("{{ qps = {}, of = \"{of}\" }}", rate.queries_per_second)
}

const OFF: &str = "\"off\"";
