//! The schema, checked by a validator of the few keywords that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use steppe_node::config;

/// The positions and keywords by which a value is refused; none if it is accepted. Of patterns, only that of
/// placeholders is checked.
fn refusals(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let is_ok = match keyword.as_str() {
            "not" => false,
            "type" => is_type(rule, value),
            "const" => rule == value,
            "enum" => rule.as_array().is_some_and(|names| names.contains(value)),
            "minimum" => value.is_string() || value.as_f64() >= rule.as_f64(),
            "maximum" => value.is_string() || value.as_f64() <= rule.as_f64(),
            "exclusiveMinimum" => value.is_string() || value.as_f64() > rule.as_f64(),
            "minItems" => value.as_array().map(|items| items.len() as u64) >= rule.as_u64(),
            "required" => rule.as_array().is_some_and(|names| {
                let is_there = |name: &Value| value.get(name.as_str().unwrap_or("")).is_some();
                names.iter().all(is_there)
            }),
            "anyOf" => accepting(rule, value) > 0,
            "oneOf" => accepting(rule, value) == 1,
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    found.extend(refusals(rule, item, &format!("{at}[]")));
                }
                true
            }
            "properties" | "additionalProperties" => {
                found.extend(members(schema, keyword, value, at));
                true
            }
            "propertyNames" => value
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, _)| refusals(rule, &json!(name), at).is_empty()),
            "pattern" if rule == PLACEHOLDER => value
                .as_str()
                .is_none_or(|text| text.contains("${env:") || text.contains("${file:")),
            "pattern" | "description" | "default" | "title" | "$schema" | "$comment" => true,
            other => panic!("the validator does not know `{other}`"),
        };
        if !is_ok {
            found.push(format!("{at}: {keyword}"));
        }
    }
    found
}

const PLACEHOLDER: &str = r"\$\{(env|file):";

fn members(schema: &Value, keyword: &str, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, member) in value.as_object().into_iter().flatten() {
        let known = schema.get("properties").and_then(|known| known.get(name));
        let at = format!("{at}.{name}");
        match (known, keyword, &schema["additionalProperties"]) {
            (Some(known), "properties", _) => found.extend(refusals(known, member, &at)),
            (None, "additionalProperties", Value::Bool(false)) => {
                found.push(format!("{at}: unknown"))
            }
            (None, "additionalProperties", each) => found.extend(refusals(each, member, &at)),
            _ => {}
        }
    }
    found
}

fn accepting(schemas: &Value, value: &Value) -> usize {
    let schemas = schemas.as_array().into_iter().flatten();
    schemas
        .filter(|schema| refusals(schema, value, "").is_empty())
        .count()
}

fn is_type(rule: &Value, value: &Value) -> bool {
    if let Value::Array(rules) = rule {
        return rules.iter().any(|rule| is_type(rule, value));
    }
    match rule.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        other => panic!("no type {other:?}"),
    }
}

/// A file as JSON, parsed by the `toml` crate.
fn json_of(text: &str) -> Value {
    fn value(toml: &toml::de::DeValue<'_>) -> Value {
        use toml::de::DeValue;
        match toml {
            DeValue::String(text) => json!(text),
            DeValue::Integer(number) => json!(number.as_str().parse::<u64>().expect("small")),
            DeValue::Float(number) => json!(number.as_str().parse::<f64>().expect("finite")),
            DeValue::Boolean(flag) => json!(flag),
            DeValue::Datetime(date) => json!(date.to_string()),
            DeValue::Array(items) => items.iter().map(|item| value(item.get_ref())).collect(),
            DeValue::Table(entries) => entries
                .iter()
                .map(|(name, item)| (name.get_ref().to_string(), value(item.get_ref())))
                .collect(),
        }
    }
    let root = toml::de::DeTable::parse(text).expect("valid TOML");
    value(&toml::de::DeValue::Table(root.into_inner()))
}

fn example(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    json_of(&fs::read_to_string(folder.join(name)).expect("an example"))
}

#[test]
fn it_accepts_the_examples() {
    let schema = config::schema();
    for name in ["first.toml", "gateway-bench-h1.toml"] {
        assert_eq!(refusals(&schema, &example(name), ""), [""; 0], "{name}");
    }
    assert_eq!(refusals(&schema, &json_of(config::DEFAULT), ""), [""; 0]);
}

#[test]
fn it_accepts_every_effective_configuration() {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/full.effective.json"),
    );
    let full: Value = serde_json::from_str(&text.expect("the data of a test")).expect("JSON");
    assert_eq!(refusals(&config::schema(), &full, ""), [""; 0]);
}

/// The schema refuses the same key of the example as the reader.
#[test]
fn it_refuses_what_is_not_supported_yet() {
    let refused = refusals(&config::schema(), &example("gateway.toml"), "");
    assert!(
        refused.iter().any(|each| each.contains(".protocols")),
        "{refused:#?}"
    );
    let is_for_later = |each: &String| {
        let keyword = each.rsplit(": ").next();
        matches!(keyword, Some("not" | "enum" | "anyOf"))
    };
    assert!(refused.iter().all(is_for_later), "{refused:#?}");
}

#[test]
fn it_refuses_mistakes() {
    let schema = config::schema();
    for (wrong, keyword) in [
        (json!({ "node": { "workers": 0 } }), "anyOf"),
        (json!({ "node": { "worker": 1 } }), "unknown"),
        (json!({ "http": { "listener": [{}] } }), "required"),
        (json!({ "http": { "route": [{ "name": "a" }] } }), "oneOf"),
        (
            json!({ "http": { "route": [{ "name": "a", "upstream": "b", "client_cert": {} }] } }),
            "anyOf",
        ),
        (
            json!({ "http": { "listener": [{ "listen": "[::]:1", "tls": {} }] } }),
            "required",
        ),
        (
            json!({ "http": { "upstream": { "a": { "servers": [] } } } }),
            "minItems",
        ),
        (
            json!({ "http": { "upstream": { "a": { "servers": ["a:1"], "respond": {} } } } }),
            "oneOf",
        ),
        (
            json!({ "http": { "filter": { "a": { "kind": "nonsense" } } } }),
            "anyOf",
        ),
        (json!({ "log": { "level": "warning" } }), "anyOf"),
    ] {
        let refused = refusals(&schema, &wrong, "");
        assert!(
            refused.iter().any(|each| each.contains(keyword)),
            "{wrong}: {refused:?}"
        );
    }
}

/// The keys of a file, without names that the file chooses; a filter is listed by its kind.
fn keys_of(value: &toml::Value, at: &str, found: &mut BTreeSet<String>) {
    const MAPS: [&str; 7] = [
        ".set",
        ".append",
        ".claims",
        ".forward_claims",
        ".respond.headers",
        "route.headers",
        "route.query",
    ];
    match value {
        toml::Value::Array(items) => items.iter().for_each(|item| keys_of(item, at, found)),
        toml::Value::Table(table) if !MAPS.iter().any(|map| at.ends_with(map)) => {
            for (name, value) in table {
                let kind = value.get("kind").and_then(toml::Value::as_str);
                match (at, kind) {
                    ("", _) => keys_of(value, name, found),
                    ("http.upstream", _) => keys_of(value, "http.upstream.*", found),
                    ("http.filter", Some(kind)) => keys_of(value, &format!("{at}.{kind}"), found),
                    _ if at.starts_with("http.filter.") && name == "kind" => {}
                    _ => keys_of(value, &format!("{at}.{name}"), found),
                }
            }
        }
        _ => _ = found.insert(at.to_owned()),
    }
}

/// Uncomments the keys behind `# `.
fn uncommented(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Names of the tests in a folder's files.
fn tests_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_in(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a file of the project");
            let tests = text.split("#[test]\n").skip(1);
            let names = tests.filter_map(|test| test.split_once("fn ")?.1.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

/// Each key is listed with a test that fails if the key is ignored, as was tried by hand. A new key of the example
/// needs such a test too.
#[test]
fn each_key_of_the_largest_example_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(folder.join("../../examples/gateway.toml")).expect("an example");
    let file: toml::Value = toml::from_str(&uncommented(&text)).expect("TOML");
    let mut keys = BTreeSet::new();
    keys_of(&file, "", &mut keys);
    // Not supported yet.
    keys.retain(|key| !key.starts_with("http.listener.tls.acme."));
    let proofs: BTreeMap<_, _> = include_str!("../../data/gateway_keys.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(key, test)| (key.to_owned(), test.trim()))
        .collect();
    let proven: BTreeSet<_> = proofs.keys().cloned().collect();
    let lacking: Vec<_> = keys.difference(&proven).collect();
    assert!(lacking.is_empty(), "without a test: {lacking:?}");
    let unknown: Vec<_> = proven.difference(&keys).collect();
    assert!(unknown.is_empty(), "no such keys: {unknown:?}");
    let mut tests = BTreeSet::new();
    tests_in(&folder.join("tests"), &mut tests);
    let gone: Vec<_> = proofs
        .iter()
        .filter(|(_, test)| !tests.contains(**test))
        .collect();
    assert!(gone.is_empty(), "no such tests: {gone:?}");
}
