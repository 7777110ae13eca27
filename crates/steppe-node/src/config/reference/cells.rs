//! The cells of a key: its values, its default and its meaning, in Markdown.

use steppe_config::form::AnyForm;
use steppe_config::table::{Absent, Kind};

/// Text of the table of keys, in Markdown: strings in quotes become code.
pub(super) fn prose(text: &str) -> String {
    let mut prose = String::new();
    for (at, part) in text.split('`').enumerate() {
        let is_code = at % 2 == 1;
        if is_code {
            prose.push_str(&format!("`{part}`"));
            continue;
        }
        for (at, part) in part.split('"').enumerate() {
            let is_quoted = at % 2 == 1;
            match is_quoted {
                true => prose.push_str(&format!("`\"{part}\"`")),
                false => prose.push_str(part),
            }
        }
    }
    prose.replace('|', "\\|")
}

/// Text in lines of a page's width; code stays on one line.
pub(super) fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 119;
    let mut lines = vec![String::new()];
    let mut word = String::new();
    for part in text.split(' ') {
        let space = if word.is_empty() { "" } else { " " };
        word += &format!("{space}{part}");
        let is_in_code = word.matches('`').count() % 2 == 1;
        if is_in_code {
            continue;
        }
        let word = std::mem::take(&mut word);
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                *line += if line.is_empty() { "" } else { " " };
                *line += &word;
            }
            _ => lines.push(word),
        }
    }
    lines.join("\n")
}

/// The values that a key takes; `target` leads to its tables.
pub(super) fn takes(kind: &Kind, target: &str) -> String {
    match kind {
        Kind::Text(form) => of_form(*form),
        Kind::Duration(..) => format!("a duration {}", kind.range()),
        Kind::Size(..) => format!("a size {}", kind.range()),
        Kind::Share => "a share".to_owned(),
        Kind::Choice(choices) => {
            let names = choices.names().into_iter();
            let names: Vec<String> = names.map(|name| format!("`\"{name}\"`")).collect();
            names.join(", ")
        }
        Kind::Integer(..) | Kind::Real(_) | Kind::Boolean => kind.expects(),
        Kind::Table(_) | Kind::Tagged(_) => format!("[a table]({target})"),
        Kind::List(Kind::Table(_), _) => format!("[a list of tables]({target})"),
        Kind::List(item @ Kind::Choice(_), _) | Kind::Set(item) => {
            format!("a list of {}", takes(item, target))
        }
        Kind::List(item, _) => format!("a list, each item {}", takes(item, target)),
        Kind::OneOrMany(item) => format!("{}, or a list of them", takes(item, target)),
        Kind::Map(_, Kind::Table(_) | Kind::Tagged(_)) => format!("[tables by name]({target})"),
        Kind::Map(name, value) => {
            let (name, value) = (of_form(*name), takes(value, target));
            format!("a table; each name is {name}, each value {value}")
        }
        Kind::Either(kinds) => {
            let kinds: Vec<String> = kinds.iter().map(|kind| takes(kind, target)).collect();
            kinds.join(", or ")
        }
    }
}

fn of_form(form: &dyn AnyForm) -> String {
    prose(form.expects())
}

/// The default of a key.
pub(super) fn default(absent: Absent) -> String {
    match absent {
        Absent::Required => "required".to_owned(),
        Absent::Nothing => "none".to_owned(),
        Absent::Text(text) => format!("`\"{text}\"`"),
        Absent::Number(number) => format!("`{number}`"),
        Absent::No => "`false`".to_owned(),
        Absent::Yes => "`true`".to_owned(),
        Absent::Texts(texts) => format!("`{texts:?}`"),
        Absent::TextsWhere { key, says, texts } => {
            format!("with `{key} = \"{says}\"`: `{texts:?}`")
        }
        Absent::Table => "`{}`".to_owned(),
        Absent::TableWhere { key, says } => {
            let says: Vec<String> = says.iter().map(|says| format!("`\"{says}\"`")).collect();
            format!("`{{}}` with `{key}` {}", says.join(" or "))
        }
    }
}
