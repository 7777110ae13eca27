//! Keys as typed constants: `static BYTES: Key<u64> = key("bytes", size(1, MAX), "…").required();`, read by
//! `fields.get(&BYTES)`.
//!
//! Invariant: the type of the value that is read is the type that the key takes. A key that neither has a default nor
//! is required is an [`OptionalKey`], and gives an `Option`. Non-goals: tables within tables, which are read by place.

use std::any::Any;
use std::time::Duration;

use crate::choice::Choices;
use crate::form::{AnyForm, Form};
use crate::limits::{TIMEOUT_MAX, TIMEOUT_MIN};
use crate::mistake::Span;
use crate::table::{Absent, Kind, Spec, Table};
use crate::typed::{Fields, Named, Node, Typed};

/// A table's list of keys: `keys! { BYTES, WAIT }`.
#[macro_export]
macro_rules! keys {
    ($($key:expr),* $(,)?) => { &[$(&$key.spec),*] };
}

/// The values that a key takes, which are read as `T`.
pub struct Type<T: 'static> {
    kind: Kind,
    read: Reading<T>,
}

/// A key that always has a value: it must be there, or has a default.
pub struct Key<T: 'static> {
    /// The key's entry in the table of keys.
    pub spec: Spec,
    read: Reading<T>,
}

/// A key that may be absent.
pub struct OptionalKey<T: 'static> {
    /// The key's entry in the table of keys.
    pub spec: Spec,
    read: Reading<T>,
}

/// The conversion of a node to a value.
enum Reading<T: 'static> {
    Node(fn(&Node) -> Option<T>),
    /// A function that builds the value of a table.
    Table(fn(&Fields) -> Option<T>),
    /// The item type of a node that holds several values.
    Items(&'static dyn Items<T>),
}

/// The item type of several values, which are read as a `T` together.
trait Items<T>: Sync {
    fn read(&'static self, node: &Node) -> Option<T>;
}

/// A key whose value is a table or a list of tables, which are read in their place.
#[derive(Debug)]
pub struct PlaceKey {
    /// The key's entry in the table of keys.
    pub spec: Spec,
}

/// A string of a form.
pub const fn text<T: Any + Clone + Send + Sync>(form: &'static Form<T>) -> Type<T> {
    Type {
        kind: Kind::Text(form),
        read: Reading::Node(leaf),
    }
}

/// An integer from `min` to `max`, as any type of integers that holds them all.
pub const fn integer<N: TryFrom<u64>>(min: u64, max: u64) -> Type<N> {
    Type {
        kind: Kind::Integer(min, max),
        read: Reading::Node(number),
    }
}

/// A size in bytes from `min` to `max`.
pub const fn size<N: TryFrom<u64>>(min: u64, max: u64) -> Type<N> {
    Type {
        kind: Kind::Size(min, max),
        read: Reading::Node(number),
    }
}

/// A duration from `min` to `max`.
pub const fn duration(min: Duration, max: Duration) -> Type<Duration> {
    Type {
        kind: Kind::Duration(min, max),
        read: Reading::Node(leaf),
    }
}

/// A timeout that can't be off.
pub const fn timeout() -> Type<Duration> {
    duration(TIMEOUT_MIN, TIMEOUT_MAX)
}

/// A share of a whole.
pub const fn share() -> Type<f64> {
    let (kind, read) = (Kind::Share, Reading::Node(leaf));
    Type { kind, read }
}

/// `true` or `false`.
pub const fn boolean() -> Type<bool> {
    Type {
        kind: Kind::Boolean,
        read: Reading::Node(leaf),
    }
}

/// A string of `choices`, read as the value that it stands for.
pub const fn choice<E: Any + Clone + Sync>(choices: &'static Choices<E>) -> Type<E> {
    Type {
        kind: Kind::Choice(choices),
        read: Reading::Node(leaf),
    }
}

/// A number, with or without a fraction, of at least `min`.
pub const fn real(min: f64) -> Type<f64> {
    Type {
        kind: Kind::Real(min),
        read: Reading::Node(leaf),
    }
}

/// A list of at least `min` values.
pub const fn list<T>(item: &'static Type<T>, min: usize) -> Type<Vec<T>> {
    Type {
        kind: Kind::List(&item.kind, min),
        read: Reading::Items(item),
    }
}

/// A list of at least one choice, each once, in the order of the choices.
pub const fn set<E>(item: &'static Type<E>) -> Type<Vec<E>> {
    Type {
        kind: Kind::Set(&item.kind),
        read: Reading::Items(item),
    }
}

/// A value, or a list of at least one.
pub const fn one_or_many<T>(item: &'static Type<T>) -> Type<Vec<T>> {
    Type {
        kind: Kind::OneOrMany(&item.kind),
        read: Reading::Items(item),
    }
}

/// A table whose keys are of this form, each with its value.
pub const fn map<T>(name: &'static dyn AnyForm, item: &'static Type<T>) -> Type<Vec<(String, T)>> {
    Type {
        kind: Kind::Map(name, &item.kind),
        read: Reading::Items(item),
    }
}

/// A table whose keys are of this form, each with several values: it is read as a pair for each of them.
pub const fn multimap<T>(
    name: &'static dyn AnyForm,
    items: &'static Type<Vec<T>>,
) -> Type<Vec<(String, T)>> {
    Type {
        kind: Kind::Map(name, &items.kind),
        read: Reading::Items(items),
    }
}

/// Values of any kind, which `read` converts to a `T`.
pub const fn of<T>(kind: Kind, read: fn(&Node) -> Option<T>) -> Type<T> {
    let read = Reading::Node(read);
    Type { kind, read }
}

/// A table of known keys, which `build` converts to the value.
pub const fn table<T>(table: &'static Table, build: fn(&Fields) -> Option<T>) -> Type<T> {
    Type {
        kind: Kind::Table(table),
        read: Reading::Table(build),
    }
}

/// A key of this name that takes values of this type; `doc` is its description, for editors and the manual.
pub const fn key<T>(name: &'static str, takes: Type<T>, doc: &'static str) -> OptionalKey<T> {
    let Type { kind, read } = takes;
    OptionalKey {
        spec: Spec::new(name, kind, doc),
        read,
    }
}

/// A key of this name that takes a table, which `build` converts to the value, with the table's description.
pub const fn section<T>(
    name: &'static str,
    table: &'static Table,
    build: fn(&Fields) -> Option<T>,
) -> OptionalKey<T> {
    key(name, self::table(table, build), table.doc)
}

/// A key of this name whose value is read in its place.
pub const fn place(name: &'static str, kind: Kind, doc: &'static str) -> PlaceKey {
    PlaceKey {
        spec: Spec::new(name, kind, doc),
    }
}

impl<T> OptionalKey<T> {
    /// Makes the key required: its table is refused without it.
    #[must_use]
    pub const fn required(self) -> Key<T> {
        self.or(Absent::Required)
    }

    /// Sets the default of the key.
    ///
    /// # Panics
    /// If the default is no value; such a constant does not compile.
    #[must_use]
    pub const fn or(self, default: Absent) -> Key<T> {
        assert!(
            !matches!(
                default,
                Absent::Nothing | Absent::TextsWhere { .. } | Absent::TableWhere { .. }
            ),
            "this default may be nothing"
        );
        let Self { spec, read } = self;
        let spec = spec.absent(default);
        Key { spec, read }
    }

    /// Marks a key whose value `/config` must not show.
    #[must_use]
    pub const fn secret(self) -> Self {
        let Self { spec, read } = self;
        let spec = spec.secret();
        Self { spec, read }
    }

    /// Marks a key beside which the others of its table have no effect.
    #[must_use]
    pub const fn exclusive(self) -> Self {
        let Self { spec, read } = self;
        let spec = spec.exclusive();
        Self { spec, read }
    }
}

impl PlaceKey {
    /// Sets the default of the key.
    #[must_use]
    pub const fn or(self, default: Absent) -> Self {
        let spec = self.spec.absent(default);
        Self { spec }
    }
}

/// A key of a table.
pub trait Entry {
    /// The key's entry in the table of keys.
    fn spec(&'static self) -> &'static Spec;
}

impl<T> Entry for Key<T> {
    fn spec(&'static self) -> &'static Spec {
        &self.spec
    }
}

impl<T> Entry for OptionalKey<T> {
    fn spec(&'static self) -> &'static Spec {
        &self.spec
    }
}

impl Entry for PlaceKey {
    fn spec(&'static self) -> &'static Spec {
        &self.spec
    }
}

/// A key that [`Fields::get`] reads.
pub trait Get: Entry {
    /// The type of the key's value, its default included.
    type Value;
    /// The type of its values in a file.
    type Given;
    /// The key's value in a table; `None`: it is invalid, and its mistake was reported.
    fn read(&'static self, fields: &Fields) -> Option<Self::Value>;
    /// The key's value in a node.
    fn read_node(&'static self, node: &Node) -> Option<Self::Given>;
}

impl<T> Get for Key<T> {
    type Value = T;
    type Given = T;

    fn read(&'static self, fields: &Fields) -> Option<T> {
        self.read.read(fields.value(&self.spec)?)
    }

    fn read_node(&'static self, node: &Node) -> Option<T> {
        self.read.read(node)
    }
}

impl<T> Get for OptionalKey<T> {
    type Value = Option<T>;
    type Given = T;

    fn read(&'static self, fields: &Fields) -> Option<Option<T>> {
        match fields.value(&self.spec) {
            None => Some(None),
            Some(node) => self.read.read(node).map(Some),
        }
    }

    fn read_node(&'static self, node: &Node) -> Option<T> {
        self.read.read(node)
    }
}

impl<T> Reading<T> {
    fn read(&self, node: &Node) -> Option<T> {
        match self {
            Self::Node(read) => read(node),
            Self::Table(build) => build(node.fields()?),
            Self::Items(item) => item.read(node),
        }
    }
}

impl<T> Items<Vec<T>> for Type<T> {
    fn read(&'static self, node: &Node) -> Option<Vec<T>> {
        node.each(|item| self.read.read(item))
    }
}

impl<T> Items<Vec<(String, T)>> for Type<T> {
    fn read(&'static self, node: &Node) -> Option<Vec<(String, T)>> {
        node.entries(|value| self.read.read(value))
    }
}

impl<T> Items<Vec<(String, T)>> for Type<Vec<T>> {
    fn read(&'static self, node: &Node) -> Option<Vec<(String, T)>> {
        let Typed::Map(entries) = &node.typed else {
            return None;
        };
        let mut pairs = Vec::new();
        for Named { name, value, .. } in entries {
            let values = self.read.read(value)?.into_iter();
            pairs.extend(values.map(|value| (name.clone(), value)));
        }
        Some(pairs)
    }
}

impl Fields {
    /// The value of a key; `None`: it is invalid, and its mistake was reported.
    #[must_use]
    pub fn get<K: Get>(&self, key: &'static K) -> Option<K::Value> {
        key.read(self)
    }

    /// The value of a key and the place of that value; `None`: it is absent or invalid.
    #[must_use]
    pub fn located<K: Get>(&self, key: &'static K) -> Option<(K::Given, Span)> {
        let node = self.value(key.spec())?;
        Some((key.read_node(node)?, node.span))
    }

    /// The place of a key in the file; `None`: it is absent.
    #[must_use]
    pub fn place_of<K: Entry>(&self, key: &'static K) -> Option<Span> {
        self.given(key.spec())
    }

    /// The table that is the value of a key.
    #[must_use]
    pub fn within<K: Entry>(&self, key: &'static K) -> Option<&Self> {
        self.value(key.spec())?.fields()
    }

    /// The name of the choice that is the value of a key.
    #[must_use]
    pub fn chosen<K: Entry>(&self, key: &'static K) -> Option<&'static str> {
        self.value(key.spec())?.chosen()
    }

    /// The entries of a map; none when it is absent or invalid.
    #[must_use]
    pub fn entries<K: Entry>(&self, key: &'static K) -> &[Named] {
        match self.value(key.spec()).map(|node| &node.typed) {
            Some(Typed::Map(entries)) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none when it is absent or invalid.
    #[must_use]
    pub fn items<K: Entry>(&self, key: &'static K) -> &[Node] {
        match self.value(key.spec()).map(|node| &node.typed) {
            Some(Typed::List(items)) => items,
            _ => &[],
        }
    }
}

fn leaf<T: Any + Clone>(node: &Node) -> Option<T> {
    node.typed.value().cloned()
}

fn number<N: TryFrom<u64>>(node: &Node) -> Option<N> {
    N::try_from(*node.typed.value()?).ok()
}
