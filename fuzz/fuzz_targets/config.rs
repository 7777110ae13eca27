//! Configuration: no text makes the reader panic, reports point into the text, and what it accepts
//! can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use steppe_node::config::{Drawing, read};

fuzz_target!(|text: &str| {
    for name in ["fuzz.toml", "fuzz.json"] {
        let outcome = read(name, text);
        assert_eq!(outcome.config.is_some(), outcome.report.errors() == 0);
        // Drawing a report walks every span that it has.
        let drawn = outcome.report.render(Drawing::Plain);
        assert_eq!(drawn.is_empty(), outcome.report.mistakes().is_empty());
        if let Some(config) = outcome.config {
            let shown = serde_json::to_string(&config.effective()).expect("it is a JSON value");
            assert!(shown.starts_with('{'));
        }
    }
});
