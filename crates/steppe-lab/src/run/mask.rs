//! Hides secrets in the files of a run: reports are uploaded, and folders passed on.
//!
//! By name: the value of a key that is named like a secret, also within the query of a URL, and the
//! user information before the `@` of a URL.
//! Left out: a secret under an innocent name, or within an argument; see `docs/lab/verdicts.md`.

use std::sync::LazyLock;

use regex::Regex;

use crate::record::Problem;

/// The text of a scenario, a word of a command line or a message without its secrets.
pub(super) fn text(text: &str) -> String {
    urls(&VALUE.replace_all(text, "${key}\"(hidden)\""))
}

/// Hides secrets in problems: their texts quote URLs, and the output of targets.
pub(super) fn problems(problems: &mut [Problem]) {
    for problem in problems {
        problem.text = text(&problem.text);
        problem.help = text(&problem.help);
    }
}

/// The value of a variable, or a note that it is hidden.
pub(super) fn value(name: &str, value: &str) -> String {
    if NAME.is_match(name) {
        return "(hidden)".to_owned();
    }
    urls(value)
}

fn urls(text: &str) -> String {
    let text = USER.replace_all(text, "://(hidden)@");
    QUERY.replace_all(&text, "${key}(hidden)").into_owned()
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
static QUERY: LazyLock<Regex> = LazyLock::new(|| {
    let name = format!(r#"[^=&#\s"'`]*(?:{WORDS})[^=&#\s"'`]*"#);
    pattern(&format!(r#"(?i)(?P<key>[?&]{name}=)[^&#\s"'`)]+"#))
});
static USER: LazyLock<Regex> = LazyLock::new(|| pattern("://[^/@\\s\"']+@"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ProblemKind;

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

    #[test]
    fn secrets_of_queries_are_hidden_wherever_a_url_stands() {
        let url = "http://joe:pw@h:1/m?a=1&Access_Token=t0p&b=2#f";
        let masked = "http://(hidden)@h:1/m?a=1&Access_Token=(hidden)&b=2#f";
        assert_eq!(text(url), masked);
        assert_eq!(value("TARGET", url), masked);
        assert_eq!(
            text("`http://h/?api_key=k` has no number"),
            "`http://h/?api_key=(hidden)` has no number"
        );
        assert_eq!(text("http://h/?author=joe"), "http://h/?author=joe");
    }

    #[test]
    fn a_problem_tells_no_secret_of_its_url() {
        let said = "metrics of it (http://joe:pw@h/m?token=t0p): status 500";
        let mut problem = [Problem::new(ProblemKind::Note, said, "")];
        problems(&mut problem);
        assert_eq!(
            problem[0].text,
            "metrics of it (http://(hidden)@h/m?token=(hidden)): status 500"
        );
    }
}
