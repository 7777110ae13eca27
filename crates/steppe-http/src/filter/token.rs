//! The identity behind a request, as `jwt` and other filters verified it, for the filters after
//! them.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};
use steppe_mem::Reservation;

/// A token that was verified.
pub struct Token {
    /// As it was sent.
    pub(super) text: Box<str>,
    /// The claims.
    pub(super) claims: Map<String, Value>,
    /// When it expires, in Unix seconds, leeway included.
    pub(super) ends_at: u64,
    /// The charge for its memory, for as long as a cache or an exchange has it.
    pub(super) charge: Option<Reservation>,
}

/// The identity behind an exchange. Clones share it, for a filter whose finding takes time.
#[derive(Debug, Clone, Default)]
pub struct Identity(Rc<RefCell<FoundIdentity>>);

#[derive(Debug, Default)]
struct FoundIdentity {
    token: Option<Arc<Token>>,
    api_key: Option<Arc<str>>,
    is_authenticated: bool,
}

impl Identity {
    /// The verified token; `None`: the request has none.
    #[must_use]
    pub fn token(&self) -> Option<Arc<Token>> {
        self.0.borrow().token.clone()
    }

    /// The name that its API key has; `None`: it has none.
    #[must_use]
    pub fn api_key(&self) -> Option<Arc<str>> {
        self.0.borrow().api_key.clone()
    }

    /// True when a filter found out who it is from: its response is for that one, as if the request had
    /// `Authorization` (RFC 9111 §3.5), whatever it carried instead.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.0.borrow().is_authenticated
    }

    /// A filter found out who it is from, by other means than a token.
    pub(crate) fn authenticate(&self) {
        self.0.borrow_mut().is_authenticated = true;
    }

    pub(crate) fn set(&self, token: Arc<Token>) {
        let mut found = self.0.borrow_mut();
        found.token = Some(token);
        found.is_authenticated = true;
    }

    pub(crate) fn set_api_key(&self, name: Arc<str>) {
        let mut found = self.0.borrow_mut();
        found.api_key = Some(name);
        found.is_authenticated = true;
    }

    pub(crate) fn clear(&self) {
        *self.0.borrow_mut() = FoundIdentity::default();
    }
}

impl Token {
    /// One that says this, whoever signed it, until the process ends.
    pub(crate) fn said(claims: Map<String, Value>) -> Self {
        Self {
            text: Box::default(),
            claims,
            ends_at: u64::MAX,
            charge: None,
        }
    }

    /// Bytes that it takes of the budget.
    pub(super) fn bytes(&self) -> u64 {
        self.charge
            .as_ref()
            .map_or(0, |charge| charge.bytes() as u64)
    }

    /// A claim; of `a.b` the member `b` of `a`, where there is no claim of that whole name.
    pub(super) fn claim(&self, name: &str) -> Option<&Value> {
        let nested = || {
            let mut names = name.split('.');
            let first = self.claims.get(names.next()?)?;
            names.try_fold(first, |value, name| value.get(name))
        };
        self.claims.get(name).or_else(nested)
    }

    /// True when it has this scope: a word of `scope` (RFC 8693 §4.2), or an item of `scp`.
    pub(super) fn has_scope(&self, wanted: &str) -> bool {
        ["scope", "scp"]
            .iter()
            .any(|name| match self.claims.get(*name) {
                Some(Value::String(words)) => words.split(' ').any(|word| word == wanted),
                Some(Value::Array(items)) => items.iter().any(|item| item == wanted),
                _ => false,
            })
    }
}

/// A claim as text: a string, a number or a truth; `None` of anything else.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Tokens are secrets.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clones_share_what_was_found_until_it_is_cleared() {
        let identity = Identity::default();
        let clone = identity.clone();
        assert!(identity.token().is_none() && !identity.is_authenticated());
        identity.authenticate();
        assert!(clone.token().is_none() && clone.is_authenticated());
        identity.clear();
        assert!(!clone.is_authenticated());
        identity.set(Arc::new(Token::said(Map::new())));
        assert!(clone.token().is_some() && clone.is_authenticated());
        identity.clear();
        assert!(clone.token().is_none() && !clone.is_authenticated());
        identity.set_api_key("ci".into());
        assert_eq!(clone.api_key().as_deref(), Some("ci"));
        assert!(clone.is_authenticated());
        identity.clear();
        assert!(clone.api_key().is_none() && !clone.is_authenticated());
    }

    #[test]
    fn a_scope_is_a_whole_word_or_an_item() {
        let said = |claims: Value| match claims {
            Value::Object(claims) => Token::said(claims),
            _ => Token::said(Map::new()),
        };
        for claims in [
            json!({"scope": "read write"}),
            json!({"scp": ["read", "write"]}),
        ] {
            let token = said(claims);
            assert!(token.has_scope("read") && token.has_scope("write"));
            assert!(!token.has_scope("rea") && !token.has_scope("read write"));
        }
        let other = said(json!({"scope": "write"}));
        assert!(!other.has_scope("read"));
        assert!(!said(json!({"scope": {"read": true}})).has_scope("read"));
    }

    #[test]
    fn a_token_does_not_show_what_it_says() {
        let mut token = Token::said(Map::new());
        token.text = "secret".into();
        assert_eq!(format!("{token:?}"), "Token { .. }");
    }
}
