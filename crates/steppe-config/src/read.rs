//! The reader: from a tree to typed values, by the table of keys.
//!
//! Invariant: every key and value of the file is either in the result or named by a mistake, and one cause gives one
//! mistake. Non-goals: rules between several keys, which `check` verifies.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::choice::{AnyChoices, Chosen};
use crate::form::{AnyForm, FromText, Refusal};
use crate::include::include;
use crate::limits::FILE_BYTES_MAX;
use crate::mistake::{Mistake, Span, shown};
use crate::mistakes::Mistakes;
use crate::outside::Outside;
use crate::sources::Sources;
use crate::syntax::{Syntax, parse_part};
use crate::table::{Absent, Kind, Spec, Support, Table, Tagged};
use crate::tree::{Entry, Placeholder, Value, ValueKind};
use crate::typed::{Field, Fields, Named, Node, Typed};
use crate::units;

/// Reads a file by the table of its keys: its tree, and the values of its keys. `None`: nothing can be read, and the
/// mistake was reported.
///
/// `name` is the file's path: its ending tells the syntax, and relative paths within count from its folder.
pub fn read(
    (name, text): (&str, &str),
    keys: &'static Table,
    mistakes: &mut Mistakes,
) -> Option<(Value, Fields)> {
    let source = Source::parse(name, text, mistakes)?;
    let fields = source.read(keys, mistakes);
    Some((source.tree, fields))
}

/// A configuration that was parsed. Its tree may be amended before it is read.
#[derive(Debug)]
pub struct Source<'a> {
    /// The files of the configuration.
    pub files: Sources<'a>,
    /// The keys and values of all files.
    pub tree: Value,
}

impl<'a> Source<'a> {
    /// Parses a file, as [`read`] does; `None`: nothing can be read, and the mistake was reported.
    pub fn parse(name: &str, text: &'a str, mistakes: &mut Mistakes) -> Option<Self> {
        if text.len() > FILE_BYTES_MAX {
            let message = format!("{} bytes, at most {FILE_BYTES_MAX} are allowed", text.len());
            mistakes.push(Mistake::new(Span::at(0), message));
            return None;
        }
        let (tree, unsure) = parse_part(Syntax::of(name, text), text, mistakes)?;
        mistakes.drop_within(unsure);
        Some(Self {
            files: Sources::new(name, text),
            tree,
        })
    }

    /// Adds the included files, and fills in the values of placeholders.
    pub fn complete(&mut self, outside: &mut dyn Outside, mistakes: &mut Mistakes) {
        include(&mut self.tree, &mut self.files, outside, mistakes);
    }

    /// Takes a key out of the file, and reads its value alone: for a key that is expanded to others. `None`: the file
    /// does not have it.
    pub fn take(&mut self, key: &'static Spec, mistakes: &mut Mistakes) -> Option<Taken> {
        let entry = self.tree.take(key.name)?;
        let Support::Served { kind, .. } = &key.support else {
            return None;
        };
        let read = self.reader(mistakes).value(key.name, kind, &entry.value);
        let written = entry.value;
        Some(Taken { written, read })
    }

    /// The values of the keys of a table.
    pub fn read(&self, keys: &'static Table, mistakes: &mut Mistakes) -> Fields {
        self.reader(mistakes).root(keys, &self.tree)
    }

    fn reader<'m>(&'m self, mistakes: &'m mut Mistakes) -> Reader<'m> {
        Reader {
            files: &self.files,
            mistakes,
        }
    }
}

/// A value that was taken out of a file.
#[derive(Debug)]
pub struct Taken {
    /// The value as the file has it.
    pub written: Value,
    /// The value as its key reads it.
    pub read: Node,
}

/// A configuration that is being read.
struct Reader<'a> {
    /// The texts that spans count in.
    files: &'a Sources<'a>,
    /// The collector of mistakes.
    mistakes: &'a mut Mistakes,
}

/// The inside of a table.
#[derive(Clone, Copy)]
struct Body<'a> {
    /// The place of the table's header, or of its brace.
    span: Span,
    entries: &'a [Entry],
}

impl<'a> Body<'a> {
    fn of(span: Span, entries: &'a [Entry]) -> Self {
        Self { span, entries }
    }
}

/// The value of a key.
#[derive(Clone, Copy)]
struct Given<'a> {
    name: &'a str,
    value: &'a Value,
}

impl Reader<'_> {
    /// Reads a whole file by the table of its keys.
    fn root(&mut self, keys: &'static Table, root: &Value) -> Fields {
        match &root.kind {
            ValueKind::Table(entries) => self.table(keys, Body::of(root.span, entries), None),
            _ => self.table(keys, Body::of(root.span, &[]), None),
        }
    }

    /// Reads the entries of a table, but for its tag.
    fn table(&mut self, table: &'static Table, body: Body<'_>, tag: Option<&str>) -> Fields {
        let Body { span, entries } = body;
        let mut given = Vec::new();
        for entry in entries {
            if tag == Some(entry.name.as_str()) {
                continue;
            }
            match table.key(&entry.name) {
                None => self.unknown_key(table, entry, tag),
                Some(key) => given.extend(self.field(table, key, entry)),
            }
        }
        // A mistyped key that has been named is not reported as missing as well. Few tables need this.
        let meant = |entry: &Entry| match table.key(&entry.name) {
            Some(key) => Some(key.name),
            None => closest(&entry.name, table.keys.iter().map(|key| key.name)),
        };
        let there: LazyCell<HashSet<&str>, _> =
            LazyCell::new(|| entries.iter().filter_map(meant).collect());
        let required = table.keys.iter().filter(|key| key.is_required());
        for key in required.filter(|key| !there.contains(key.name)) {
            self.missing(table, key, span);
        }
        let alternatives = table.needs.names();
        let has_one =
            alternatives.is_empty() || alternatives.iter().any(|name| there.contains(name));
        if !has_one {
            self.none_of(table, span);
        }
        given.shrink_to_fit();
        Fields { table, span, given }
    }

    fn field(&mut self, table: &Table, key: &'static Spec, entry: &Entry) -> Option<Field> {
        match &key.support {
            Support::Later => {
                let dot = if table.name.is_empty() { "" } else { "." };
                self.later(
                    entry.name_span,
                    &format!("`{}{dot}{}`", table.name, key.name),
                );
                None
            }
            Support::Served { kind, .. } => Some(Field {
                key,
                span: entry.name_span,
                value: self.value(key.name, kind, &entry.value),
            }),
        }
    }

    fn value(&mut self, name: &str, kind: &'static Kind, value: &Value) -> Node {
        let given = Given { name, value };
        let typed = match &value.placeholder {
            Some(placeholder) if !placeholder.is_escaped => self.placed(kind, given, placeholder),
            _ => self.typed(kind, given),
        };
        let typed = typed.unwrap_or(Typed::Invalid);
        // An item of a list has its own placeholder.
        let is_scalar = !matches!(typed, Typed::List(_));
        let placeholder = value.placeholder.as_ref().filter(|_| is_scalar);
        Node {
            span: value.span,
            typed,
            placeholder: placeholder.cloned(),
        }
    }

    /// Reads a string with placeholders, also as a number, `true` or `false`; a mistake does not quote it.
    fn placed(
        &mut self,
        kind: &'static Kind,
        Given { name, value }: Given<'_>,
        placeholder: &Placeholder,
    ) -> Option<Typed> {
        let ValueKind::Text(text) = &value.kind else {
            return None;
        };
        let meanings = [
            Some(value.kind.clone()),
            text.parse().ok().map(ValueKind::Integer),
            text.parse().ok().map(ValueKind::Float),
            text.parse().ok().map(ValueKind::Boolean),
        ];
        for meaning in meanings.into_iter().flatten() {
            let value = Value {
                kind: meaning,
                ..value.clone()
            };
            let mut mistakes = Mistakes::default();
            let mut reader = Reader {
                mistakes: &mut mistakes,
                files: self.files,
            };
            let typed = reader.typed(
                kind,
                Given {
                    name,
                    value: &value,
                },
            );
            if mistakes.is_empty() && typed.is_some() {
                return typed;
            }
        }
        let message = format!("`{name}` takes {}", kind.expects());
        let written = shown(&placeholder.written);
        let mistake = Mistake::new(value.span, message);
        let mistake = mistake.label(format!("{written} stands for another value"));
        self.mistakes.push(match &*kind.range() {
            "" => mistake,
            range => mistake.help(format!("it takes values {range}")),
        });
        None
    }

    /// Reads a value of a kind; `None`: its mistake was reported.
    fn typed(&mut self, kind: &'static Kind, given: Given<'_>) -> Option<Typed> {
        match (kind, &given.value.kind) {
            (_, ValueKind::Refused) => None,
            (Kind::Text(form), ValueKind::Text(text)) => self.text(*form, given, text),
            (Kind::Integer(min, max), ValueKind::Integer(number)) => {
                let number = u64::try_from(*number).ok();
                let number = number.filter(|number| (min..=max).contains(&number));
                self.in_range(kind, given, number.map(Typed::Number))
            }
            (Kind::Duration(min, max), ValueKind::Text(text)) => {
                let read = units::duration(text);
                let duration = self.accept(given, text, read)?;
                let duration = (min..=max).contains(&&duration).then_some(duration);
                self.in_range(kind, given, duration.map(Typed::Duration))
            }
            (Kind::Size(min, max), ValueKind::Text(text)) => {
                let read = units::size(text);
                let size = self.accept(given, text, read)?;
                let size = (min..=max).contains(&&size).then_some(size);
                self.in_range(kind, given, size.map(Typed::Size))
            }
            (Kind::Share, ValueKind::Text(text)) => {
                let read = units::percent(text);
                self.accept(given, text, read).map(Typed::Share)
            }
            (Kind::Share, ValueKind::Float(number)) => {
                let read = units::share(*number);
                self.accept(given, "", read).map(Typed::Share)
            }
            (Kind::Real(_), ValueKind::Integer(number)) => self.real(kind, given, *number as f64),
            (Kind::Real(_), ValueKind::Float(number)) => self.real(kind, given, *number),
            (Kind::Choice(choices), ValueKind::Text(text)) => {
                self.choice(*choices, given, text).map(Typed::Choice)
            }
            (Kind::Boolean, ValueKind::Boolean(value)) => Some(Typed::Boolean(*value)),
            (Kind::List(item, min), ValueKind::List(_)) => self.list((item, *min), given),
            (Kind::Set(item), ValueKind::List(_)) => {
                let list = self.list((item, 1), given)?;
                Some(in_order(item, list))
            }
            (Kind::OneOrMany(item), ValueKind::List(_)) => self.list((item, 1), given),
            (Kind::OneOrMany(item), _) => {
                let item = self.value(given.name, item, given.value);
                Some(Typed::List(vec![item]))
            }
            (Kind::Map(form, item), ValueKind::Table(entries)) => {
                Some(Typed::Map(self.map(*form, item, entries)))
            }
            (Kind::Table(table), ValueKind::Table(entries)) => Some(Typed::Table(self.table(
                table,
                Body::of(given.value.span, entries),
                None,
            ))),
            (Kind::Tagged(tagged), ValueKind::Table(entries)) => {
                self.tagged(tagged, given.value.span, entries)
            }
            (Kind::Either(kinds), _) => match kinds.iter().find(|kind| takes(kind, given.value)) {
                Some(kind) => self.typed(kind, given),
                None => self.wrong_type(kind, given),
            },
            _ => self.wrong_type(kind, given),
        }
    }

    fn text(&mut self, form: &'static dyn AnyForm, given: Given<'_>, text: &str) -> Option<Typed> {
        let read = form.read(text, self.base(given.value.span));
        self.accept(given, text, read).map(Typed::from)
    }

    fn choice(
        &mut self,
        choices: &'static dyn AnyChoices,
        Given { name, value }: Given<'_>,
        text: &str,
    ) -> Option<Chosen> {
        if let Some(chosen) = choices.named(text) {
            return Some(chosen);
        }
        if choices.later().contains(&text) {
            self.later(value.span, &format!("\"{text}\" in `{name}`"));
            return None;
        }
        let names = choices.names();
        let known = names.iter().chain(choices.later()).copied();
        let help = match closest(text, known) {
            Some(closest) => format!("did you mean \"{closest}\"?"),
            None => {
                let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                format!("it takes {}", names.join(", "))
            }
        };
        let mistake = Mistake::new(value.span, format!("`{name}` has no \"{}\"", shown(text)));
        self.mistakes.push(mistake.label("unknown").help(help));
        None
    }

    fn list(
        &mut self,
        (item, min): (&'static Kind, usize),
        Given { name, value }: Given<'_>,
    ) -> Option<Typed> {
        let ValueKind::List(items) = &value.kind else {
            return None;
        };
        if items.len() < min {
            let mistake = Mistake::new(value.span, format!("`{name}` is empty"));
            let help = format!("it takes at least one item: {}", item.expects());
            self.mistakes.push(mistake.label("no item").help(help));
            return None;
        }
        let items = items.iter();
        Some(Typed::List(
            items.map(|each| self.value(name, item, each)).collect(),
        ))
    }

    fn map(
        &mut self,
        form: &'static dyn AnyForm,
        item: &'static Kind,
        entries: &[Entry],
    ) -> Vec<Named> {
        let mut named: Vec<Named> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        for entry in entries {
            let value = self.value(&entry.name, item, &entry.value);
            let name = match form.read(&entry.name, self.base(entry.name_span)) {
                Ok(FromText::Text(name)) => name,
                Ok(FromText::Parsed(name)) => name.shown(),
                Ok(_) => continue,
                Err(refusal) => {
                    let mistake = Mistake::new(entry.name_span, refusal.message).label("this key");
                    let mistake = Mistake {
                        help: refusal.help,
                        ..mistake
                    };
                    self.mistakes.push(mistake);
                    continue;
                }
            };
            // Field names that differ in case are one name.
            if let Some(&first) = seen.get(&name) {
                let message = format!("`{}` is named twice", shown(&name));
                let mistake = Mistake::new(entry.name_span, message).label("again here");
                self.mistakes.push(mistake.also(first, "first here"));
                continue;
            }
            seen.insert(name.clone(), entry.name_span);
            named.push(Named {
                name,
                span: entry.name_span,
                value,
            });
        }
        named
    }

    fn tagged(&mut self, tagged: &'static Tagged, span: Span, entries: &[Entry]) -> Option<Typed> {
        let Some(tag) = entries.iter().find(|entry| entry.name == tagged.tag) else {
            if self.mistakes.is_partial() {
                return None;
            }
            let message = format!("`{}` lacks the key `{}`", tagged.name, tagged.tag);
            let names: Vec<_> = tagged.variants.iter().map(|variant| variant.name).collect();
            let mistake = Mistake::new(span, message).label("in this table");
            let help = format!("its kinds are {}", names.join(", "));
            self.mistakes.push(mistake.help(help));
            return None;
        };
        if tag.value.kind == ValueKind::Refused {
            return None;
        }
        let ValueKind::Text(text) = &tag.value.kind else {
            let message = format!("`{}` takes a string", tagged.tag);
            let found = format!("found {}", tag.value.describe());
            let mistake = Mistake::new(tag.value.span, message).label(found);
            self.mistakes.push(mistake);
            return None;
        };
        let names = || tagged.variants.iter().map(|variant| variant.name);
        let Some(variant) = tagged.variants.iter().find(|variant| variant.name == text) else {
            let help = match closest(text, names()) {
                Some(closest) => format!("did you mean \"{closest}\"?"),
                None => format!("its kinds are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("unknown {} `{}`", tagged.tag, shown(text));
            let mistake = Mistake::new(tag.value.span, message).label("unknown");
            self.mistakes.push(mistake.help(help));
            return None;
        };
        let fields = self.table(variant.table, Body::of(span, entries), Some(tagged.tag));
        Some(Typed::Variant {
            tag: tagged.tag,
            name: variant.name,
            variant,
            fields,
        })
    }

    fn accept<T>(
        &mut self,
        Given { name, value }: Given<'_>,
        text: &str,
        read: Result<T, Refusal>,
    ) -> Option<T> {
        let refusal = match read {
            Ok(read) => return Some(read),
            Err(refusal) => refusal,
        };
        let span = match refusal.range {
            Some(range) => self.inner_span(value.span, text, range),
            None => value.span,
        };
        let mistake = Mistake::new(span, refusal.message).label(format!("in `{name}`"));
        self.mistakes.push(Mistake {
            help: refusal.help,
            ..mistake
        });
        None
    }

    /// The span of a part of a string, where the file has the string as it is.
    fn inner_span(&self, span: Span, text: &str, range: std::ops::Range<usize>) -> Span {
        let (start, file) = (span.start + 1, self.files.file(span.start));
        let within = |at: usize| at.saturating_sub(file.start);
        let raw = within(start)..within(span.end.saturating_sub(1));
        let raw = file.text.get(raw);
        if raw == Some(text) {
            return Span::from(start + range.start..start + range.end);
        }
        span
    }

    /// The folder that relative paths in a value count from.
    fn base(&self, span: Span) -> &'_ Path {
        self.files.file(span.start).folder()
    }

    fn real(&mut self, kind: &Kind, given: Given<'_>, number: f64) -> Option<Typed> {
        let is_within = matches!(kind, Kind::Real(min) if number.is_finite() && number >= *min);
        self.in_range(kind, given, is_within.then_some(Typed::Real(number)))
    }

    fn in_range(
        &mut self,
        kind: &Kind,
        Given { name, value }: Given<'_>,
        typed: Option<Typed>,
    ) -> Option<Typed> {
        if typed.is_none() {
            let range = kind.range();
            let mistake = Mistake::new(value.span, format!("`{name}` is out of range"));
            let mistake = mistake.label("out of range");
            self.mistakes
                .push(mistake.help(format!("it takes values {range}")));
        }
        typed
    }

    fn wrong_type(&mut self, kind: &Kind, given: Given<'_>) -> Option<Typed> {
        let Given { name, value } = given;
        let mistake = Mistake::new(value.span, format!("`{name}` takes {}", kind.expects()));
        let mistake = mistake.label(format!("found {}", value.describe()));
        self.mistakes.push(match type_help(kind, value) {
            Some(help) => mistake.help(help),
            None => mistake,
        });
        None
    }

    fn later(&mut self, span: Span, what: &str) {
        let mistake = Mistake::new(span, format!("{what} is not supported yet"));
        let mistake = mistake.label("not supported yet");
        self.mistakes
            .push(mistake.help("take it out: the node ignores no setting silently"));
    }

    fn missing(&mut self, table: &Table, key: &Spec, span: Span) {
        if self.mistakes.is_partial() {
            return;
        }
        let message = format!("`{}` lacks the key `{}`", table.name, key.name);
        let mistake = Mistake::new(span, message).label("in this table");
        self.mistakes
            .push(mistake.help(format!("{}: {}", key.name, key.summary())));
    }

    fn none_of(&mut self, table: &Table, span: Span) {
        if self.mistakes.is_partial() {
            return;
        }
        let served: Vec<_> = table.served_of().map(|name| format!("`{name}`")).collect();
        let message = match &*served {
            [one] => format!("`{}` lacks the key {one}", table.name),
            [others @ .., last] => {
                let others = others.join(", ");
                format!("`{}` needs one of {others} and {last}", table.name)
            }
            [] => unreachable!("a table needs only keys that can be used"),
        };
        let docs: Vec<_> = table
            .served_of()
            .filter_map(|name| table.key(name))
            .map(|key| format!("{}: {}", key.name, key.summary()))
            .collect();
        let mistake = Mistake::new(span, message).label("in this table");
        self.mistakes.push(mistake.help(docs.join("\n")));
    }

    fn unknown_key(&mut self, table: &Table, entry: &Entry, tag: Option<&str>) {
        self.mistakes.error_at(entry.name_span, || {
            let place = match table.name {
                "" => "a configuration".to_owned(),
                name => format!("`{name}`"),
            };
            let message = format!("{place} has no key `{}`", shown(&entry.name));
            let names = || table.keys.iter().map(|key| key.name).chain(tag);
            let help = match closest(&entry.name, names()) {
                Some(closest) => format!("did you mean `{closest}`?"),
                None => format!("its keys are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let mistake = Mistake::new(entry.name_span, message).label("unknown key");
            mistake.help(help)
        });
    }
}

/// Reads the default of a key; `None` if it has none.
pub(crate) fn default(key: &'static Spec) -> Option<Node> {
    let Support::Served { kind, absent } = &key.support else {
        return None;
    };
    let span = Span::at(0);
    let text = |text: &&str| Value::new(span, ValueKind::Text((*text).to_owned()));
    let value = match absent {
        Absent::Nothing | Absent::Required => return None,
        Absent::Text(default) => text(default).kind,
        Absent::Number(default) => ValueKind::Integer(i128::from(*default)),
        Absent::No => ValueKind::Boolean(false),
        Absent::Yes => ValueKind::Boolean(true),
        Absent::Texts(texts) | Absent::TextsWhere { texts, .. } => {
            ValueKind::List(texts.iter().map(text).collect())
        }
        Absent::Table | Absent::TableWhere { .. } => ValueKind::Table(Vec::new()),
    };
    let mut mistakes = Mistakes::default();
    let mut reader = Reader {
        files: &Sources::new("", ""),
        mistakes: &mut mistakes,
    };
    let node = reader.value(key.name, kind, &Value::new(span, value));
    debug_assert!(mistakes.is_empty(), "`{}`: {mistakes:?}", key.name);
    Some(node)
}

/// A set in the order of its choices, each once.
fn in_order(item: &Kind, list: Typed) -> Typed {
    let (Kind::Choice(choices), Typed::List(mut items)) = (item, list) else {
        return Typed::Invalid;
    };
    let names = choices.names();
    let place = |node: &Node| match &node.typed {
        Typed::Choice(chosen) => names.iter().position(|name| *name == chosen.name),
        _ => None,
    };
    items.sort_by_key(place);
    items.dedup_by_key(|node| place(node));
    Typed::List(items)
}

/// True if a value looks like one of this kind, among several kinds.
fn takes(kind: &Kind, value: &Value) -> bool {
    match (kind, &value.kind) {
        (Kind::Share, ValueKind::Text(text)) => text.ends_with('%'),
        // A number in quotes counts as a number.
        (Kind::Choice(_), ValueKind::Text(text)) => text.parse::<u64>().is_err(),
        (Kind::Share | Kind::Real(_), ValueKind::Float(_))
        | (Kind::Boolean, ValueKind::Boolean(_))
        | (Kind::Integer(..) | Kind::Real(_), ValueKind::Integer(_))
        | (Kind::Text(_) | Kind::Size(..), ValueKind::Text(_))
        | (Kind::List(..), ValueKind::List(_))
        | (Kind::Table(_) | Kind::Map(..), ValueKind::Table(_)) => true,
        _ => false,
    }
}

fn type_help(kind: &Kind, value: &Value) -> Option<String> {
    match (kind, &value.kind) {
        (Kind::Duration(..), ValueKind::Integer(number)) => {
            Some(format!("add a unit: \"{number}s\""))
        }
        (Kind::Size(..), ValueKind::Integer(number)) => Some(format!(
            "add a unit: \"{number}B\", \"{number}KiB\" or \"{number}MiB\""
        )),
        (Kind::List(Kind::Table(table), _), ValueKind::Table(_)) => Some(format!(
            "write `[[{}]]` in TOML, `[{{ … }}]` in JSON",
            table.name
        )),
        (Kind::List(..) | Kind::Set(_), ValueKind::Text(text)) => {
            Some(format!("write [\"{}\"]", shown(text)))
        }
        (Kind::Either(kinds), _) => kinds.iter().find_map(|kind| type_help(kind, value)),
        (Kind::Map(..), ValueKind::List(_)) => Some("give each a name of its own".to_owned()),
        (Kind::Integer(..), ValueKind::Text(text)) if text.parse::<u64>().is_ok() => {
            Some(format!("write it without quotes: {text}"))
        }
        (Kind::Boolean, ValueKind::Text(text)) if text == "false" || text == "true" => {
            Some(format!("write it without quotes: {text}"))
        }
        _ => None,
    }
}

/// The known name with the smallest edit distance to a mistyped one.
pub fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The cost of a comparison is the product of the lengths.
    if typed.len() > CLOSEST_BYTES_MAX {
        return None;
    }
    let typed = typed.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&typed, &name.to_lowercase());
    known
        .map(|name| (distance(name), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3) || is_longer(&typed, name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// True for a longer form of a name: `warning` for `warn`.
fn is_longer(typed: &str, name: &str) -> bool {
    name.len() >= 3 && typed.starts_with(name)
}

const CLOSEST_BYTES_MAX: usize = 64;
