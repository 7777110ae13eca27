//! Settings of rules that apply to a query, in the syntax of a configuration.

use serde_json::Value;
use steppe_config::effective::effective;
use steppe_dns::rules::Settings;

use crate::config::Config;

/// A key of a rule, and its value.
pub(super) struct Setting {
    /// The rule's number, from 0.
    pub(super) rule: usize,
    pub(super) key: &'static str,
    pub(super) says: String,
}

/// The settings that apply to a query.
pub(super) fn of(config: &Config, settings: Settings) -> impl Iterator<Item = Setting> {
    let Settings { cache, log, rate } = settings;
    let settings = [("cache", cache), ("log", log), ("rate", rate)];
    settings.into_iter().filter_map(|(key, rule)| {
        let rule = rule?;
        let says = inline(effective(config.dns_rule(rule)?).get(key)?);
        Some(Setting { rule, key, says })
    })
}

/// A value in TOML, in one line.
fn inline(value: &Value) -> String {
    let Value::Object(keys) = value else {
        return value.to_string();
    };
    let keys = keys.iter();
    let keys: Vec<String> = keys
        .map(|(key, value)| format!("{key} = {}", inline(value)))
        .collect();
    format!("{{ {} }}", keys.join(", "))
}
