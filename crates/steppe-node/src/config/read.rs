//! The tree, read by the table of keys.
//!
//! Invariant: every key and value of the file is either in the result or named by a mistake, and
//! one cause gives one mistake. Non-goals: what several keys say together, which `check` judges.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use steppe_http::path::PathPattern;

use super::grammar::{self, Refusal};
use super::keys::ROOT;
use super::mistake::{Mistake, Span, shown};
use super::mistakes::Mistakes;
use super::table::{Absent, Choice, Form, Key, Kind, Support, Table, Tagged};
use super::tree::{Entry, Value, ValueKind};
use super::typed::{Field, Fields, FromNode, Named, Node, Typed};

/// Reads a whole file.
pub(super) fn read(text: &str, base: &Path, root: &Value, mistakes: &mut Mistakes) -> Fields {
    let mut reader = Reader {
        text,
        base,
        mistakes,
    };
    match &root.kind {
        ValueKind::Table(entries) => reader.table(&ROOT, root.span, entries, None),
        _ => reader.table(&ROOT, root.span, &[], None),
    }
}

struct Reader<'a> {
    text: &'a str,
    /// What relative paths count from.
    base: &'a Path,
    mistakes: &'a mut Mistakes,
}

impl Reader<'_> {
    /// Reads the entries of a table, but for its tag.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn table(
        &mut self,
        table: &'static Table,
        span: Span,
        entries: &[Entry],
        tag: Option<&str>,
    ) -> Fields {
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
        // A mistyped key that has been named is not missing as well. Few tables ask.
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

    fn field(&mut self, table: &Table, key: &'static Key, entry: &Entry) -> Option<Field> {
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
        Node {
            span: value.span,
            typed: self.typed(name, kind, value).unwrap_or(Typed::Invalid),
        }
    }

    /// `None` once the mistake is reported.
    fn typed(&mut self, name: &str, kind: &'static Kind, value: &Value) -> Option<Typed> {
        match (kind, &value.kind) {
            (Kind::Text(form), ValueKind::Text(text)) => self.text(name, *form, value, text),
            (Kind::Integer(min, max), ValueKind::Integer(number)) => {
                let number = u64::try_from(*number).ok();
                let number = number.filter(|number| (min..=max).contains(&number));
                self.in_range(name, kind, value, number.map(Typed::Number))
            }
            (Kind::Duration(min, max), ValueKind::Text(text)) => {
                let read = grammar::duration(text);
                let duration = self.accept(name, value, text, read)?;
                let duration = (min..=max).contains(&&duration).then_some(duration);
                self.in_range(name, kind, value, duration.map(Typed::Duration))
            }
            (Kind::Size(min, max), ValueKind::Text(text)) => {
                let read = grammar::size(text);
                let size = self.accept(name, value, text, read)?;
                let size = (min..=max).contains(&&size).then_some(size);
                self.in_range(name, kind, value, size.map(Typed::Size))
            }
            (Kind::Share, ValueKind::Text(text)) => {
                let read = grammar::percent(text);
                self.accept(name, value, text, read).map(Typed::Share)
            }
            (Kind::Share, ValueKind::Float(number)) => {
                let read = grammar::share(*number);
                self.accept(name, value, "", read).map(Typed::Share)
            }
            (Kind::Choice(choices), ValueKind::Text(text)) => {
                self.choice(name, choices, value, text).map(Typed::Choice)
            }
            (Kind::Boolean, ValueKind::Boolean(value)) => Some(Typed::Boolean(*value)),
            (Kind::List(item, min), ValueKind::List(items)) => {
                self.list(name, item, *min, value, items)
            }
            (Kind::Set(item), ValueKind::List(items)) => {
                let list = self.list(name, item, 1, value, items)?;
                Some(in_order(item, list))
            }
            (Kind::OneOrMany(item), ValueKind::List(items)) => {
                self.list(name, item, 1, value, items)
            }
            (Kind::OneOrMany(item), _) => {
                let item = self.value(name, item, value);
                Some(Typed::List(vec![item]))
            }
            (Kind::Map(form, item), ValueKind::Table(entries)) => {
                Some(Typed::Map(self.map(*form, item, entries)))
            }
            (Kind::Table(table), ValueKind::Table(entries)) => {
                Some(Typed::Table(self.table(table, value.span, entries, None)))
            }
            (Kind::Tagged(tagged), ValueKind::Table(entries)) => {
                self.tagged(tagged, value.span, entries)
            }
            (Kind::Either(kinds), _) => match kinds.iter().find(|kind| takes(kind, value)) {
                Some(kind) => self.typed(name, kind, value),
                None => self.wrong_type(name, kind, value),
            },
            _ => self.wrong_type(name, kind, value),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn text(&mut self, name: &str, form: Form, value: &Value, text: &str) -> Option<Typed> {
        let read = read_text(form, text, self.base);
        self.accept(name, value, text, read)
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn choice(
        &mut self,
        name: &str,
        choices: &[Choice],
        value: &Value,
        text: &str,
    ) -> Option<&'static str> {
        let Some(choice) = choices.iter().find(|choice| choice.name == text) else {
            let names = || choices.iter().map(|choice| choice.name);
            let served = choices.iter().filter(|choice| choice.is_served);
            let served: Vec<_> = served
                .map(|choice| format!("\"{}\"", choice.name))
                .collect();
            let help = match closest(text, names()) {
                Some(closest) => format!("did you mean \"{closest}\"?"),
                None => format!("it takes {}", served.join(", ")),
            };
            let mistake = Mistake::new(value.span, format!("`{name}` has no \"{}\"", shown(text)));
            self.mistakes.push(mistake.label("unknown").help(help));
            return None;
        };
        if !choice.is_served {
            self.later(value.span, &format!("\"{text}\" in `{name}`"));
            return None;
        }
        Some(choice.name)
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn list(
        &mut self,
        name: &str,
        item: &'static Kind,
        min: usize,
        value: &Value,
        items: &[Value],
    ) -> Option<Typed> {
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

    fn map(&mut self, form: Form, item: &'static Kind, entries: &[Entry]) -> Vec<Named> {
        let mut named: Vec<Named> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        for entry in entries {
            let value = self.value(&entry.name, item, &entry.value);
            let name = match read_text(form, &entry.name, self.base) {
                Ok(Typed::Text(name)) => name,
                // Names that differ in case, or by a last dot, are one name.
                Ok(Typed::DnsName(name)) => name.to_lower().to_string(),
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
        let Some(table) = variant.table else {
            self.later(tag.value.span, &format!("\"{text}\" in `{}`", tagged.tag));
            return None;
        };
        let fields = self.table(table, span, entries, Some(tagged.tag));
        Some(Typed::Variant {
            tag: tagged.tag,
            name: variant.name,
            fields,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn accept<T>(
        &mut self,
        name: &str,
        value: &Value,
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
        let start = span.start + 1;
        let raw = self.text.get(start..span.end.saturating_sub(1));
        if raw == Some(text) {
            return Span::from(start + range.start..start + range.end);
        }
        span
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn in_range(
        &mut self,
        name: &str,
        kind: &Kind,
        value: &Value,
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

    fn wrong_type(&mut self, name: &str, kind: &Kind, value: &Value) -> Option<Typed> {
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

    fn missing(&mut self, table: &Table, key: &Key, span: Span) {
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

/// Reads the default of a key; `None` where it has none.
pub(super) fn default(key: &'static Key) -> Option<Node> {
    let Support::Served { kind, absent } = &key.support else {
        return None;
    };
    let span = Span::at(0);
    let text = |text: &&str| Value {
        span,
        kind: ValueKind::Text((*text).to_owned()),
    };
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
        text: "",
        base: Path::new(""),
        mistakes: &mut mistakes,
    };
    let node = reader.value(key.name, kind, &Value { span, kind: value });
    debug_assert!(mistakes.is_empty(), "`{}`: {mistakes:?}", key.name);
    Some(node)
}

/// A set in the order of its choices, each once.
fn in_order(item: &Kind, list: Typed) -> Typed {
    let (Kind::Choice(choices), Typed::List(mut items)) = (item, list) else {
        return Typed::Invalid;
    };
    let place = |node: &Node| {
        let name = <&str>::from_node(node);
        choices.iter().position(|choice| Some(choice.name) == name)
    };
    items.sort_by_key(place);
    items.dedup_by_key(|node| place(node));
    Typed::List(items)
}

/// Whether this is the kind of several that a value is meant for.
fn takes(kind: &Kind, value: &Value) -> bool {
    match (kind, &value.kind) {
        (Kind::Share, ValueKind::Text(text)) => text.ends_with('%'),
        // A number in quotes is a number.
        (Kind::Choice(_), ValueKind::Text(text)) => text.parse::<u64>().is_err(),
        (Kind::Share, ValueKind::Float(_))
        | (Kind::Boolean, ValueKind::Boolean(_))
        | (Kind::Integer(..), ValueKind::Integer(_))
        | (Kind::Text(_) | Kind::Size(..), ValueKind::Text(_))
        | (Kind::Table(_), ValueKind::Table(_)) => true,
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

fn read_text(form: Form, text: &str, base: &Path) -> Result<Typed, Refusal> {
    match form {
        Form::Any => Ok(Typed::Text(text.to_owned())),
        Form::Name => grammar::name(text).map(Typed::Text),
        Form::File | Form::Folder => grammar::file(text, base).map(Typed::File),
        Form::FileName => grammar::file_name(text).map(Typed::Text),
        Form::Listen => grammar::listen_address(text, base).map(Typed::Listen),
        Form::Server => grammar::server_address(text, base).map(Typed::Server),
        Form::Network => grammar::network(text).map(Typed::Network),
        Form::Method => grammar::method(text).map(Typed::Text),
        Form::FieldName => grammar::field_name(text).map(Typed::Text),
        Form::FieldValue => grammar::field_value(text).map(Typed::Text),
        Form::Origin => grammar::origin(text).map(Typed::Text),
        Form::RateKey => grammar::rate_key(text).map(|_| Typed::Text(text.to_owned())),
        Form::TokenSource => grammar::token_source(text).map(|_| Typed::Text(text.to_owned())),
        Form::RuleMethod if text == "*" => Ok(Typed::Text(text.to_owned())),
        Form::RuleMethod => grammar::method(text).map(Typed::Text),
        Form::Pattern => grammar::pattern(text).map(|_| Typed::Text(text.to_owned())),
        Form::TextSource => grammar::text_source(text).map(|_| Typed::Text(text.to_owned())),
        Form::MemberPath => grammar::member_path(text).map(Typed::Text),
        Form::Json => grammar::json(text).map(Typed::Text),
        Form::MediaRange => grammar::media_range(text).map(|_| Typed::Text(text.to_owned())),
        Form::HashOn => grammar::hash_on(text).map(Typed::HashOn),
        Form::CookieName => grammar::cookie_name(text).map(Typed::Text),
        Form::Target => grammar::target(text).map(Typed::Text),
        Form::Statuses => grammar::statuses(text).map(Typed::Statuses),
        Form::ServerName => grammar::server_name(text).map(Typed::Text),
        Form::Pin => grammar::pin(text).map(Typed::Pin),
        Form::Subject => grammar::subject(text).map(Typed::Text),
        Form::AltName => grammar::alt_name(text).map(Typed::Text),
        Form::Fingerprint => grammar::fingerprint(text).map(Typed::Fingerprint),
        Form::DnsServer => grammar::dns_server(text).map(Typed::DnsServer),
        Form::DnsBootstrap => grammar::dns_bootstrap(text).map(|_| Typed::Text(text.to_owned())),
        Form::SubnetPrefixes => {
            grammar::subnet_prefixes(text).map(|_| Typed::Text(text.to_owned()))
        }
        Form::Clients => grammar::clients(text).map(|_| Typed::Text(text.to_owned())),
        Form::DnsName => grammar::dns_name(text).map(|name| Typed::DnsName(Box::new(name))),
        Form::DnsType => grammar::dns_type(text).map(Typed::DnsType),
        Form::DnsRecord => grammar::dns_record(text).map(|_| Typed::Text(text.to_owned())),
        Form::DnsClientId => grammar::dns_client_id(text).map(|_| Typed::Text(text.to_owned())),
        Form::Collector => grammar::collector(text).map(Typed::Text),
        Form::RateStore => grammar::rate_store(text).map(Typed::Text),
        Form::HedgeAfter => grammar::hedge_after(text).map(|_| Typed::Text(text.to_owned())),
        Form::Url => grammar::url(text).map(Typed::Text),
        Form::Hours => grammar::hours(text).map(|_| Typed::Text(text.to_owned())),
        Form::TimeZone => grammar::time_zone(text).map(|_| Typed::Text(text.to_owned())),
        Form::Service => grammar::service(text).map(Typed::Text),
        Form::Services => grammar::services(text).map(Typed::Text),
        Form::EtcdEndpoint => grammar::etcd_endpoint(text).map(Typed::EtcdEndpoint),
        Form::EtcdPrefix => grammar::etcd_prefix(text).map(Typed::Text),
        Form::TransportSecurity => grammar::transport_security(text).map(Typed::Text),
        Form::Host => grammar::host(text)
            .map(Typed::Host)
            .map_err(|(message, help)| Refusal::new(message).help(help)),
        Form::Path => PathPattern::parse(text).map(Typed::Path).map_err(|error| {
            let refusal = Refusal::new(format!("`{}` is not a path pattern", shown(text)));
            Refusal {
                range: Some(error.span.clone()),
                ..refusal.help(error.to_string())
            }
        }),
    }
}

/// The known name that a mistyped one is nearest to.
pub(super) fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing costs the product of the lengths.
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

/// `warning` for `warn`.
fn is_longer(typed: &str, name: &str) -> bool {
    name.len() >= 3 && typed.starts_with(name)
}

const CLOSEST_BYTES_MAX: usize = 64;
