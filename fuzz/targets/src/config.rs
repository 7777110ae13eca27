//! Configuration: no text makes the reader panic, reports point into the text, and accepted configuration
//! can be shown, and is the same in its long form.
//!
//! An input counts up to its first byte that is not UTF-8.

use steppe_node::config::{Drawing, expand, parse};

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let text = input.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    for name in ["fuzz.toml", "fuzz.json"] {
        let (outcome, long) = expand(name, text);
        assert_eq!(outcome.config.is_some(), outcome.report.errors() == 0);
        // Drawing a report walks every span that it has.
        let drawn = outcome.report.render(Drawing::Plain);
        assert_eq!(drawn.is_empty(), outcome.report.mistakes().is_empty());
        if let Some(config) = outcome.config {
            let shown = serde_json::to_string(&config.effective()).expect("it is a JSON value");
            assert!(shown.starts_with('{'));
            let long = long.expect("the configuration is valid");
            let again = parse("fuzz.toml", &long).expect("its long form is valid");
            assert_eq!(again.effective(), config.effective());
        }
    }
}
