//! Keys of the filter that decides by method, path and claims.

use steppe_config::form::{ANY, Form};
use steppe_config::key::{Key, OptionalKey, boolean, key, list, map, one_or_many, table, text};
use steppe_config::keys;
use steppe_config::table::{Absent, Spec, Table};
use steppe_config::typed::{Fields, Node};

use super::forms::{self, method};
use crate::config::Rule;
use crate::path::PathPattern;

/// `[http.filter.NAME]` of the kind `authorize`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Decides by method, path and token claims. Refused requests get 403.",
    keys! { RULES },
);

/// The filter's rules.
pub static RULES: Key<Vec<Rule>> = key(
    "rules",
    list(&table(&RULE, rule), 1),
    "Rules, of which the first that matches a request by method and path decides. A request that \
     no rule matches is refused. Rules that look at a token need a `jwt` filter before this one.",
)
.required();

static RULE: Table = Table::new(
    "http.filter.rules",
    "Requests that the rule is for, and conditions on their token or API key.",
    keys! { METHODS, PATH, ANY_SCOPE, ALL_SCOPES, CLAIMS, API_KEYS, DENY },
);

static METHODS: OptionalKey<Vec<String>> = key(
    "methods",
    list(&text(&RULE_METHOD), 1),
    "Methods that the rule is for; \"*\" is all. Without it, all.",
);

static PATH: OptionalKey<PathPattern> = key(
    "path",
    text(&forms::PATH),
    "Paths that the rule is for, as in a route. Without it, all.",
);

static ANY_SCOPE: OptionalKey<Vec<String>> = key(
    "any_scope",
    list(&text(&ANY), 1),
    "Scopes of which the token must have one: words, or items, of `scope` or `scp`.",
);

static ALL_SCOPES: OptionalKey<Vec<String>> = key(
    "all_scopes",
    list(&text(&ANY), 1),
    "Scopes of which the token must have all.",
);

static CLAIMS: Key<Vec<(String, Vec<String>)>> = key(
    "claims",
    map(&ANY, &one_or_many(&text(&ANY))),
    "Claims that must equal, or contain, one of their values. \"a.b\" is the member `b` of `a`, \
     unless there is a claim \"a.b\".",
)
.secret()
.or(Absent::Table);

static API_KEYS: OptionalKey<Vec<String>> = key(
    "api_keys",
    list(&text(&ANY), 1),
    "Names of which the API key must have one. It needs an `api-keys` filter before this one.",
);

static DENY: Key<bool> = key(
    "deny",
    boolean(),
    "Refuses the requests that the rule is for.",
)
.or(Absent::No);

/// Method, or `*`.
static RULE_METHOD: Form<String> =
    Form::new("a method such as \"GET\", or \"*\"", |text, _| match text {
        "*" => Ok(text.to_owned()),
        _ => method(text),
    })
    .pattern("^[^ ]+$");

fn rule(rule: &Fields) -> Option<Rule> {
    let mut methods = rule.get(&METHODS)?.unwrap_or_default();
    if methods.iter().any(|method| method == "*") {
        methods.clear();
    }
    Some(Rule {
        methods,
        path: rule.get(&PATH)?,
        any_scope: rule.get(&ANY_SCOPE)?.unwrap_or_default(),
        all_scopes: rule.get(&ALL_SCOPES)?.unwrap_or_default(),
        claims: rule.get(&CLAIMS)?,
        api_keys: rule.get(&API_KEYS)?.unwrap_or_default(),
        denies: rule.get(&DENY)?,
    })
}

/// True if a rule looks at a token.
pub(super) fn reads_token(filter: &Fields) -> bool {
    has_any(filter, &[&ANY_SCOPE.spec, &ALL_SCOPES.spec, &CLAIMS.spec])
}

/// True if a rule looks at an API key.
pub(super) fn reads_api_key(filter: &Fields) -> bool {
    has_any(filter, &[&API_KEYS.spec])
}

/// True if a rule has one of these keys.
fn has_any(filter: &Fields, keys: &[&'static Spec]) -> bool {
    let mut rules = filter.items(&RULES).iter().filter_map(Node::fields);
    rules.any(|rule| keys.iter().any(|key| rule.given(key).is_some()))
}
