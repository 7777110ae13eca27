//! A table of the file that is read key by key.
//!
//! Invariant: a key that nobody asked for is a mistake, so none is ignored. A value of the wrong
//! kind is a mistake and reads as absent, so that everything wrong is said at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::Mistake;

pub(super) type Mistakes = RefCell<Vec<Mistake>>;
type Value<'a> = &'a Spanned<DeValue<'a>>;

/// A value with its place.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

pub(super) struct Table<'a> {
    /// As a person would write it: `load`, `epochs`; empty for the file itself.
    name: String,
    span: Range<usize>,
    entries: &'a DeTable<'a>,
    mistakes: &'a Mistakes,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        name: &str,
        span: Range<usize>,
        entries: &'a DeTable<'a>,
        mistakes: &'a Mistakes,
    ) -> Self {
        Self {
            name: name.to_owned(),
            span,
            entries,
            mistakes,
            asked: RefCell::default(),
        }
    }

    /// Where the table begins.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where mistakes are said, after the table's end too.
    pub(super) fn mistakes(&self) -> &'a Mistakes {
        self.mistakes
    }

    pub(super) fn say(&self, mistake: Mistake) {
        self.mistakes.borrow_mut().push(mistake);
    }

    /// Whether the key is there, whatever it says.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether the key is there and a text.
    pub(super) fn is_text(&self, key: &str) -> bool {
        let value = self.entries.get(key);
        value.is_some_and(|value| matches!(value.get_ref(), DeValue::String(_)))
    }

    pub(super) fn text(&self, key: &'static str) -> Option<At<String>> {
        let value = self.ask(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(at(value, text.to_string())),
            _ => self.wrong(key, value, "a text in quotes"),
        }
    }

    pub(super) fn required_text(&self, key: &'static str, example: &str) -> Option<At<String>> {
        self.require(key, example);
        self.text(key)
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.ask(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.wrong(key, value, "true or false"),
        }
    }

    /// A whole number within bounds.
    pub(super) fn integer(&self, key: &'static str, from: u64, to: u64) -> Option<At<u64>> {
        let value = self.ask(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            return self.wrong(key, value, "a whole number");
        };
        let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
        let number = number.and_then(|number| u64::try_from(number).ok());
        match number.filter(|number| (from..=to).contains(number)) {
            Some(number) => Some(at(value, number)),
            None => self.out_of_bounds(key, value, &format!("{from} to {to}")),
        }
    }

    pub(super) fn count(&self, key: &'static str, from: u32, to: u32) -> Option<At<u32>> {
        let number = self.integer(key, from.into(), to.into())?;
        let value = u32::try_from(number.value).ok()?;
        Some(At {
            value,
            span: number.span,
        })
    }

    /// A number, whole or not, of at least `from`.
    pub(super) fn number(&self, key: &'static str, from: f64) -> Option<At<f64>> {
        let value = self.ask(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => return self.wrong(key, value, "a number"),
        };
        match number.filter(|number| number.is_finite() && *number >= from) {
            Some(number) => Some(at(value, number)),
            None => self.out_of_bounds(key, value, &format!("from {from}")),
        }
    }

    /// A length of time such as `"5s"`, `"250ms"`, `"10min"`.
    pub(super) fn duration(
        &self,
        key: &'static str,
        from: Duration,
        to: Duration,
    ) -> Option<Duration> {
        let value = self.ask(key)?;
        let DeValue::String(text) = value.get_ref() else {
            return self.wrong(key, value, "a length of time such as \"5s\" or \"250ms\"");
        };
        let Ok(duration) = humantime::parse_duration(text) else {
            return self.wrong(key, value, "a length of time such as \"5s\" or \"250ms\"");
        };
        if !(from..=to).contains(&duration) {
            let show = humantime::format_duration;
            return self.out_of_bounds(key, value, &format!("{} to {}", show(from), show(to)));
        }
        Some(duration)
    }

    pub(super) fn texts(&self, key: &'static str) -> Option<At<Vec<String>>> {
        let value = self.ask(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong(key, value, "a list of texts");
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push(text.to_string()),
                _ => return self.wrong(key, item, "a text in quotes"),
            }
        }
        Some(at(value, texts))
    }

    /// A table of texts: environment, header fields.
    pub(super) fn map(&self, key: &'static str) -> BTreeMap<String, String> {
        self.named(
            key,
            ("a table of texts", "a text in quotes"),
            |value| match value {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            },
        )
    }

    /// A table of shares by names that are not known beforehand; `None` is the word `"off"`.
    pub(super) fn shares(&self, key: &'static str) -> BTreeMap<String, Option<f64>> {
        let expected = ("a table of shares", "a share from 0, or \"off\"");
        self.named(key, expected, |value| match value {
            DeValue::String(word) if word == "off" => Some(None),
            _ => number(value).filter(|share| *share >= 0.0).map(Some),
        })
    }

    /// A table of numbers above 0 by names that are not known beforehand.
    pub(super) fn numbers(&self, key: &'static str) -> BTreeMap<String, f64> {
        self.named(key, ("a table of numbers", "a number above 0"), |value| {
            number(value).filter(|number| *number > 0.0)
        })
    }

    /// A table by names that are not known beforehand; `expected` says what it and its values are.
    fn named<T>(
        &self,
        key: &'static str,
        expected: (&str, &str),
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> BTreeMap<String, T> {
        let mut named = BTreeMap::new();
        let Some(value) = self.ask(key) else {
            return named;
        };
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong::<()>(key, value, expected.0);
            return named;
        };
        for (name, value) in entries.iter() {
            match read(value.get_ref()) {
                Some(value) => _ = named.insert(name.get_ref().to_string(), value),
                None => _ = self.wrong::<()>(key, value, expected.1),
            }
        }
        named
    }

    pub(super) fn table(&self, key: &'static str) -> Option<Table<'a>> {
        let value = self.ask(key)?;
        match value.get_ref() {
            DeValue::Table(entries) => Some(self.below(key, value, entries)),
            _ => self.wrong(key, value, &format!("a table: [{}]", self.path(key))),
        }
    }

    pub(super) fn required_table(&self, key: &'static str, example: &str) -> Option<Table<'a>> {
        self.require(key, example);
        self.table(key)
    }

    /// `[[key]]`, as often as it is there.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Table<'a>> {
        let Some(value) = self.ask(key) else {
            return Vec::new();
        };
        let expected = format!("a list of tables: [[{}]]", self.path(key));
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong::<()>(key, value, &expected);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(entries) => tables.push(self.below(key, item, entries)),
                _ => _ = self.wrong::<()>(key, item, &expected),
            }
        }
        tables
    }

    /// One of several words; what each stands for.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let known = words.iter().map(|(word, _)| *word);
            let list = known.clone().collect::<Vec<_>>().join(", ");
            let mistake = Mistake::new(text.span, format!("unknown `{key}`"), "not one of these");
            self.say(mistake.help(suggest(&text.value, known, &list)));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// Says that a value does not do, and why.
    pub(super) fn refuse<T>(
        &self,
        key: &str,
        span: Range<usize>,
        why: impl Into<String>,
    ) -> Option<T> {
        self.say(Mistake::new(span, format!("invalid `{key}`"), why));
        None
    }

    /// Says which keys nobody asked for. Every table is ended so.
    pub(super) fn end(self) {
        let asked = self.asked.take();
        for (name, _) in self.entries.iter() {
            if asked.contains(&name.get_ref().as_ref()) {
                continue;
            }
            let place = if self.name.is_empty() {
                "at the top".to_owned()
            } else {
                format!("in `{}`", self.name)
            };
            let message = format!("unknown key `{}` {place}", name.get_ref());
            let list = asked.join(", ");
            let help = suggest(name.get_ref(), asked.iter().copied(), &list);
            self.mistakes
                .borrow_mut()
                .push(Mistake::new(name.span(), message, "not a key here").help(help));
        }
    }

    fn ask(&self, key: &'static str) -> Option<Value<'a>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.entries.get(key)
    }

    pub(super) fn require(&self, key: &str, example: &str) {
        if !self.has(key) {
            let message = format!("`{}` is missing", self.path(key));
            let mistake = Mistake::new(self.span(), message, "here");
            self.say(mistake.help(format!("for example: {example}")));
        }
    }

    fn below(&self, key: &str, value: Value<'a>, entries: &'a DeTable<'a>) -> Table<'a> {
        Table::new(&self.path(key), value.span(), entries, self.mistakes)
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    fn wrong<T>(&self, key: &str, value: Value<'_>, expected: &str) -> Option<T> {
        let message = format!("`{}` is of the wrong kind", self.path(key));
        self.say(Mistake::new(
            value.span(),
            message,
            format!("expected {expected}"),
        ));
        None
    }

    fn out_of_bounds<T>(&self, key: &str, value: Value<'_>, bounds: &str) -> Option<T> {
        let message = format!("`{}` is out of bounds", self.path(key));
        self.say(Mistake::new(
            value.span(),
            message,
            format!("allowed: {bounds}"),
        ));
        None
    }
}

fn at<T>(value: Value<'_>, inner: T) -> At<T> {
    At {
        value: inner,
        span: value.span(),
    }
}

fn suggest<'k>(name: &str, known: impl Iterator<Item = &'k str>, list: &str) -> String {
    let near = known
        .map(|key| (strsim::damerau_levenshtein(name, key), key))
        .filter(|(distance, key)| *distance <= key.len().max(3) / 3)
        .min();
    match near {
        Some((_, key)) => format!("did you mean `{key}`?"),
        None => format!("known: {list}"),
    }
}

/// A finite number, whole or not.
fn number(value: &DeValue<'_>) -> Option<f64> {
    let number: f64 = match value {
        DeValue::Integer(number) => number.as_str().parse().ok()?,
        DeValue::Float(number) => number.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}
