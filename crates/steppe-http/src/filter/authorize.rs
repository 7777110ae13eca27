//! `authorize`: decides by method, path and what the token says.
//!
//! The first rule that matches the request decides; where none does, nobody may.

use serde_json::Value;

use super::token::{self, Token};
use super::{About, Filter, Step, refusal};
use crate::config::Rule;
use crate::error::GatewayError;
use crate::head::RequestHead;

/// Passes what its rules allow.
#[derive(Debug)]
pub struct AuthorizeFilter(Vec<Rule>);

impl AuthorizeFilter {
    /// A filter of these rules, in this order.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }
}

impl Filter for AuthorizeFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let Some(rule) = self.0.iter().find(|rule| is_for(rule, head)) else {
            return Ok(refused(None));
        };
        let token = about.identity.token();
        Ok(match is_allowed(rule, token.as_deref()) {
            true => Step::Continue,
            false => refused(Some(rule)),
        })
    }
}

fn is_for(rule: &Rule, head: &RequestHead) -> bool {
    let is_named = |method: &String| method.as_bytes() == head.method();
    let is_path = |path: &crate::path::PathPattern| path.matches(head.path());
    (rule.methods.is_empty() || rule.methods.iter().any(is_named))
        && rule.path.as_ref().is_none_or(is_path)
}

fn is_allowed(rule: &Rule, token: Option<&Token>) -> bool {
    let has_scope = |scope: &String| token.is_some_and(|token| token.has_scope(scope));
    let has_claim = |(name, values): &(String, Vec<String>)| {
        token.is_some_and(|token| {
            token
                .claim(name)
                .is_some_and(|value| is_one_of(value, values))
        })
    };
    !rule.denies
        && (rule.any_scope.is_empty() || rule.any_scope.iter().any(has_scope))
        && rule.all_scopes.iter().all(has_scope)
        && rule.claims.iter().all(has_claim)
}

/// Whether a claim, or an item of it, is one of these.
fn is_one_of(value: &Value, wanted: &[String]) -> bool {
    let is_wanted = |value: &Value| token::text(value).is_some_and(|text| wanted.contains(&text));
    match value {
        Value::Array(items) => items.iter().any(is_wanted),
        value => is_wanted(value),
    }
}

/// RFC 6750 §3.1: which scopes it would take.
fn refused(rule: Option<&Rule>) -> Step {
    let scopes = rule
        .into_iter()
        .flat_map(|rule| rule.all_scopes.iter().chain(&rule.any_scope));
    let scopes: Vec<_> = scopes.map(String::as_str).collect();
    let says = match scopes.is_empty() {
        true => "Bearer error=\"insufficient_scope\"".to_owned(),
        false => format!(
            "Bearer error=\"insufficient_scope\", scope=\"{}\"",
            scopes.join(" ")
        ),
    };
    let fields = vec![("www-authenticate".to_owned(), says)];
    refusal(403, "this is not allowed\n", fields)
}
