//! Takes secrets out of what a run leaves behind: reports are uploaded, and folders passed on.
//!
//! By name: the value of a key that is called like a secret, and what stands before the `@` of a URL.
//! Left out: a secret under an innocent name, or within an argument; `docs/lab.md` says so.

use std::sync::LazyLock;

use regex::Regex;

/// The text of a scenario without its secrets.
pub(super) fn text(text: &str) -> String {
    let text = VALUE.replace_all(text, "${key}\"(hidden)\"");
    USER.replace_all(&text, "://(hidden)@").into_owned()
}

/// The value of a variable, or a note that it is hidden.
pub(super) fn value(name: &str, value: &str) -> String {
    if NAME.is_match(name) {
        return "(hidden)".to_owned();
    }
    USER.replace_all(value, "://(hidden)@").into_owned()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file compiles, which its test shows")
}

const WORDS: &str = "secret|token|passw|pwd|credential|authorization|cookie|api[-_]?key|private";

static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i){WORDS}")));
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    let key = format!(r#"(?P<key>["']?[\w.-]*(?:{WORDS})[\w.-]*["']?\s*=\s*)"#);
    pattern(&format!(r#"(?i){key}(?:"(?:[^"\\]|\\.)*"|'[^']*')"#))
});
static USER: LazyLock<Regex> = LazyLock::new(|| pattern("://[^/@\\s\"']+@"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_not() {
        let scenario = "env = { DB_PASSWORD = \"hun\\\"ter2\", MALLOC_ARENA_MAX = \"2\" }\n\
            headers = { authorization = 'Bearer abc', accept = \"*/*\" }\n\
            url = \"http://joe:pw@127.0.0.1:80/\"\n";
        let masked = text(scenario);
        for secret in ["hun", "ter2", "Bearer", "abc", "joe", "pw@"] {
            assert!(!masked.contains(secret), "{secret} in {masked}");
        }
        assert!(masked.contains("MALLOC_ARENA_MAX = \"2\""), "{masked}");
        assert!(masked.contains("accept = \"*/*\""), "{masked}");
        assert_eq!(value("API_KEY", "x"), "(hidden)");
        assert_eq!(value("MALLOC_ARENA_MAX", "2"), "2");
        assert_eq!(
            value("DATABASE_URL", "pg://a:b@host/x"),
            "pg://(hidden)@host/x"
        );
    }
}
