//! `authorize`: decides by method, path, what the token says, and whose the API key is.
//!
//! The first rule that matches the request decides; where none does, nobody may.

use serde_json::Value;

use std::sync::Arc;

use super::explained::Judgment;
use super::factory::{FilterFactory, FilterParts};
use super::token::{self, Token};
use super::{About, Filter, Step, refusal};
use crate::config::{Authorize, Rule};
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

/// The findings of other filters about who sends a request.
#[derive(Debug, Clone, Copy, Default)]
struct Caller<'a> {
    /// The token that was verified.
    token: Option<&'a Token>,
    /// The name of the API key.
    api_key: Option<&'a str>,
}

/// The verdict of a list of rules on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict<'a> {
    /// The rule that decides, and its number from 0. `None`: none is for the request.
    rule: Option<(usize, &'a Rule)>,
    /// The condition that the request does not meet. `None`: it passes.
    lacks: Option<Lacks<'a>>,
}

/// The reason why a request does not pass, as `steppe explain` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Lacks<'a> {
    #[error("no rule matches")]
    Rule,
    #[error("the rule denies every request that it matches")]
    Mercy,
    #[error("the token has none of the scopes in `any_scope`")]
    AnyScope,
    #[error("the token lacks the scope `{0}`")]
    Scope(&'a str),
    #[error("the claim `{0}` has none of the required values")]
    Claim(&'a str),
    #[error("the API key is none of `api_keys`")]
    ApiKey,
}

/// The verdict of `rules` on a request of this caller.
fn judge<'a>(rules: &'a [Rule], head: &RequestHead, caller: Caller<'_>) -> Verdict<'a> {
    let rule = rules
        .iter()
        .enumerate()
        .find(|(_, rule)| is_for(rule, head));
    let lacks = match rule {
        None => Some(Lacks::Rule),
        Some((_, rule)) => lacks(rule, caller),
    };
    Verdict { rule, lacks }
}

impl FilterFactory for Authorize {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(AuthorizeFilter::new(self.0.clone()))
    }

    fn explain(
        &self,
        _: &dyn Filter,
        about: &About<'_>,
        head: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        let (token, key) = (about.identity.token(), about.identity.api_key());
        let caller = Caller {
            token: token.as_deref(),
            api_key: key.as_deref(),
        };
        let Verdict { rule, lacks } = judge(&self.0, head, caller);
        let judgment = match lacks {
            None => Judgment::passes("the request satisfies the rule"),
            Some(lacks) => Judgment::answers(403, lacks.to_string()),
        };
        let rule = rule.map(|(index, _)| index);
        Ok(Judgment { rule, ..judgment })
    }
}

impl Filter for AuthorizeFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let (token, key) = (about.identity.token(), about.identity.api_key());
        let caller = Caller {
            token: token.as_deref(),
            api_key: key.as_deref(),
        };
        let verdict = judge(&self.0, head, caller);
        Ok(match verdict.lacks {
            None => Step::Continue,
            Some(_) => refused(verdict.rule.map(|(_, rule)| rule)),
        })
    }
}

fn is_for(rule: &Rule, head: &RequestHead) -> bool {
    let is_named = |method: &String| method.as_bytes() == head.method();
    let is_path = |path: &crate::path::PathPattern| path.matches(head.path());
    (rule.methods.is_empty() || rule.methods.iter().any(is_named))
        && rule.path.as_ref().is_none_or(is_path)
}

/// The condition of a matching rule that a request of this caller does not meet.
fn lacks<'a>(rule: &'a Rule, Caller { token, api_key }: Caller<'_>) -> Option<Lacks<'a>> {
    if rule.denies {
        return Some(Lacks::Mercy);
    }
    let has_scope = |scope: &String| token.is_some_and(|token| token.has_scope(scope));
    if !rule.any_scope.is_empty() && !rule.any_scope.iter().any(has_scope) {
        return Some(Lacks::AnyScope);
    }
    if let Some(scope) = rule.all_scopes.iter().find(|scope| !has_scope(scope)) {
        return Some(Lacks::Scope(scope));
    }
    let has_name = |name: &String| api_key == Some(name.as_str());
    if !rule.api_keys.is_empty() && !rule.api_keys.iter().any(has_name) {
        return Some(Lacks::ApiKey);
    }
    let has_claim = |(name, values): &&(String, Vec<String>)| {
        let claim = token.and_then(|token| token.claim(name));
        claim.is_some_and(|value| is_one_of(value, values))
    };
    let missing = rule.claims.iter().find(|claim| !has_claim(claim));
    missing.map(|(name, _)| Lacks::Claim(name))
}

/// True when a claim, or an item of it, is one of these.
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
    refusal(403, "insufficient permissions\n", fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steppe_mem::Budget;

    use super::*;

    fn rule(edit: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule::default();
        edit(&mut rule);
        rule
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn claims(value: &Value) -> Token {
        Token::said(value.as_object().expect("an object").clone())
    }

    fn head(method: &str, path: &str) -> RequestHead {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        RequestHead::new(method.as_bytes(), b"a", path.as_bytes(), &lease).expect("a head")
    }

    /// The number of the rule that decides, and what the request lacks.
    fn judged<'a>(rules: &'a [Rule], head: &RequestHead) -> (Option<usize>, Option<Lacks<'a>>) {
        let verdict = judge(rules, head, Caller::default());
        (verdict.rule.map(|(index, _)| index), verdict.lacks)
    }

    #[test]
    fn the_first_rule_that_is_for_a_request_decides() {
        let rules = [
            rule(|rule| {
                rule.methods = texts(&["GET", "HEAD"]);
                rule.path = Some("/open/{rest*}".parse().expect("a path"));
            }),
            rule(|rule| {
                rule.path = Some("/open/{rest*}".parse().expect("a path"));
                rule.denies = true;
            }),
            rule(|rule| rule.methods = texts(&["GET"])),
        ];
        assert_eq!(judged(&rules, &head("GET", "/open/a")), (Some(0), None));
        assert_eq!(judged(&rules, &head("HEAD", "/open/a")), (Some(0), None));
        let denied = (Some(1), Some(Lacks::Mercy));
        assert_eq!(judged(&rules, &head("PUT", "/open/a")), denied);
        assert_eq!(judged(&rules, &head("GET", "/openly")), (Some(2), None));
        assert_eq!(judged(&rules, &head("PUT", "/")), (None, Some(Lacks::Rule)));
        // Methods are told apart by case (RFC 9110 §9.1).
        assert_eq!(judged(&rules, &head("get", "/")), (None, Some(Lacks::Rule)));
        assert_eq!(judged(&[], &head("GET", "/")), (None, Some(Lacks::Rule)));
    }

    #[test]
    fn what_a_token_lacks_is_told() {
        let rule = rule(|rule| {
            rule.any_scope = texts(&["a", "b"]);
            rule.all_scopes = texts(&["c", "d"]);
            rule.claims = vec![
                ("role".to_owned(), texts(&["editor", "7"])),
                ("realm.name".to_owned(), texts(&["x"])),
            ];
        });
        for (said, expected) in [
            (json!({}), Some(Lacks::AnyScope)),
            (json!({ "scope": "c d" }), Some(Lacks::AnyScope)),
            (json!({ "scope": "b" }), Some(Lacks::Scope("c"))),
            (json!({ "scope": "a c" }), Some(Lacks::Scope("d"))),
            (
                json!({ "scp": ["a", "c", "d"] }),
                Some(Lacks::Claim("role")),
            ),
            (
                json!({ "scope": "a c d", "role": "editors" }),
                Some(Lacks::Claim("role")),
            ),
            (
                json!({ "scope": "a c d", "role": 7 }),
                Some(Lacks::Claim("realm.name")),
            ),
            (
                json!({ "scope": "a c d", "role": [1, "editor"], "realm": { "name": ["x"] } }),
                None,
            ),
            (
                json!({ "scope": "a c d", "role": "editor", "realm.name": "x" }),
                None,
            ),
        ] {
            let token = claims(&said);
            let caller = Caller {
                token: Some(&token),
                api_key: None,
            };
            assert_eq!(lacks(&rule, caller), expected, "{said}");
        }
        assert_eq!(lacks(&rule, Caller::default()), Some(Lacks::AnyScope));
    }

    #[test]
    fn a_rule_without_conditions_asks_for_no_token() {
        assert_eq!(lacks(&Rule::default(), Caller::default()), None);
    }

    #[test]
    fn an_api_key_has_one_of_the_names() {
        let rule = rule(|rule| rule.api_keys = texts(&["ci", "phone"]));
        for (api_key, expected) in [
            (Some("ci"), None),
            (Some("phone"), None),
            (Some("Ci"), Some(Lacks::ApiKey)),
            (None, Some(Lacks::ApiKey)),
        ] {
            let caller = Caller {
                token: None,
                api_key,
            };
            assert_eq!(lacks(&rule, caller), expected, "{api_key:?}");
        }
    }
}
