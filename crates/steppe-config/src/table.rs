//! The table of keys: tables of keys, each with its kind, default and support.
//!
//! Invariant: the reader, the defaults, the suggestions, the schema, the manual and `/config` know
//! a key from here alone. Non-goals: the keys themselves, which `keys` holds.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::choice::AnyChoices;
use crate::form::AnyForm;
use crate::units::{duration_text, size_text};

/// The keys of one table.
#[derive(Debug)]
pub struct Table {
    /// The table's place in the file: `http.listener`.
    pub name: &'static str,
    /// A description in one line, for editors.
    pub doc: &'static str,
    /// The keys of the table.
    pub keys: &'static [&'static Spec],
    /// Keys of which one is needed, besides the required ones.
    pub needs: Needs,
}

/// Alternative keys of a table.
#[derive(Debug, Clone, Copy)]
pub enum Needs {
    /// The table has no alternatives.
    Nothing,
    /// One of these must be there. `check` refuses two.
    One(&'static [&'static str]),
    /// At least one of these must be there.
    Any(&'static [&'static str]),
}

/// A key of a table.
#[derive(Debug)]
pub struct Spec {
    /// The name in a file.
    pub name: &'static str,
    /// A description in one line, for editors.
    pub doc: &'static str,
    /// The key's values, if it is supported.
    pub support: Support,
    /// True if `/config` masks its strings: those of a map if the name is one of a secret, those of any other kind
    /// always.
    pub is_secret: bool,
    /// True if no other key of its table has an effect beside it.
    pub is_exclusive: bool,
}

/// Support of a key.
#[derive(Debug)]
pub enum Support {
    /// The key is supported.
    Served {
        /// The kind of its values.
        kind: Kind,
        /// The default.
        absent: Absent,
    },
    /// The key is known, and not supported yet.
    Later,
}

/// The default of a key.
#[derive(Debug, Clone, Copy)]
pub enum Absent {
    /// None: a missing key is a mistake.
    Required,
    /// None: the key has no value then.
    Nothing,
    /// This string.
    Text(&'static str),
    /// This number.
    Number(u32),
    /// `false`.
    No,
    /// `true`.
    Yes,
    /// These strings.
    Texts(&'static [&'static str]),
    /// These strings if another key of the table has a value; else none.
    TextsWhere {
        /// The other key, which takes a choice.
        key: &'static str,
        /// The value of that key.
        says: &'static str,
        /// The strings.
        texts: &'static [&'static str],
    },
    /// A table of defaults.
    Table,
    /// A table of defaults if another key of the table has a value; else none.
    TableWhere {
        /// The other key, which takes a choice.
        key: &'static str,
        /// The values of that key, any of these.
        says: &'static [&'static str],
    },
}

/// Values of a key.
#[derive(Debug)]
pub enum Kind {
    /// A string of this form.
    Text(&'static dyn AnyForm),
    /// An integer from the first to the second.
    Integer(u64, u64),
    /// A string with a duration from the first to the second.
    Duration(Duration, Duration),
    /// A string with a size in bytes from the first to the second.
    Size(u64, u64),
    /// A share of a whole: `"75%"` or `0.75`.
    Share,
    /// A number, with or without a fraction, of at least this.
    Real(f64),
    /// A string of several.
    Choice(&'static dyn AnyChoices),
    /// `true` or `false`.
    Boolean,
    /// A list with at least so many items.
    List(&'static Kind, usize),
    /// A list of at least one choice, whose order has no meaning.
    Set(&'static Kind),
    /// An item, or a list of at least one.
    OneOrMany(&'static Kind),
    /// A table whose keys are of this form, all with values of one kind.
    Map(&'static dyn AnyForm, &'static Kind),
    /// A table of known keys.
    Table(&'static Table),
    /// A table of known keys that the value of one key chooses.
    Tagged(&'static Tagged),
    /// The first of these kinds that takes the value.
    Either(&'static [Kind]),
}

/// Tables told apart by one key.
#[derive(Debug)]
pub struct Tagged {
    /// The table's place in the file.
    pub name: &'static str,
    /// A description in one line, for editors.
    pub doc: &'static str,
    /// The key that selects the table.
    pub tag: &'static str,
    /// A description of the tag in one line.
    pub tag_doc: &'static str,
    /// The values of the tag, each with a table.
    pub variants: &'static [Variant],
}

/// A table that a value of the tag selects.
pub struct Variant {
    /// The value of the tag.
    pub name: &'static str,
    /// The other keys of the table.
    pub table: &'static Table,
    /// The value that the name stands for, which [`Node::variant`](crate::typed::Node::variant) gives.
    pub(crate) value: &'static (dyn Any + Sync),
}

impl Variant {
    /// The table for a tag of this name, which stands for this value.
    pub const fn new(
        name: &'static str,
        table: &'static Table,
        value: &'static (dyn Any + Sync),
    ) -> Self {
        Self { name, table, value }
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Variant").field(&self.name).finish()
    }
}

impl Table {
    /// A table of these keys at this place in the file.
    #[must_use]
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        keys: &'static [&'static Spec],
    ) -> Self {
        let needs = Needs::Nothing;
        Self {
            name,
            doc,
            keys,
            needs,
        }
    }

    /// Adds keys of which one is needed.
    #[must_use]
    pub const fn needing(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Spec> {
        self.keys.iter().copied().find(|key| key.name == name)
    }

    /// Names of [`Self::needs`] that can be used.
    pub fn served_of(&self) -> impl Iterator<Item = &'static str> {
        let is_served = |name: &&str| self.key(name).is_some_and(Spec::is_served);
        self.needs.names().iter().copied().filter(is_served)
    }
}

impl Needs {
    /// All keys that it names.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::One(names) | Self::Any(names) => names,
        }
    }
}

impl Spec {
    /// A key of this name that takes values of this kind, with a description and without a default.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        let absent = Absent::Nothing;
        let support = Support::Served { kind, absent };
        Self::with(name, doc, support)
    }

    /// A key that is known and not supported yet.
    #[must_use]
    pub const fn later(name: &'static str, doc: &'static str) -> Self {
        Self::with(name, doc, Support::Later)
    }

    const fn with(name: &'static str, doc: &'static str, support: Support) -> Self {
        Self {
            name,
            doc,
            support,
            is_secret: false,
            is_exclusive: false,
        }
    }

    /// Sets the default of the key.
    ///
    /// # Panics
    /// For a key that is not supported yet; a constant does not compile then.
    #[must_use]
    pub const fn absent(mut self, value: Absent) -> Self {
        match &mut self.support {
            Support::Served { absent, .. } => *absent = value,
            Support::Later => panic!("a key of a later version has no default yet"),
        }
        self
    }

    /// Marks a key whose value `/config` must not show.
    pub const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Marks a key beside which the others of its table have no effect.
    pub const fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    /// Makes the key required: its table is refused without it.
    #[must_use]
    pub const fn required(self) -> Self {
        self.absent(Absent::Required)
    }

    /// True if the key is supported.
    pub fn is_served(&self) -> bool {
        matches!(self.support, Support::Served { .. })
    }

    /// The first sentence of its description.
    pub fn summary(&self) -> &'static str {
        summary(self.doc)
    }

    /// True if its table is refused without it.
    pub fn is_required(&self) -> bool {
        let Support::Served { absent, .. } = &self.support else {
            return false;
        };
        matches!(absent, Absent::Required)
    }
}

/// The first sentence of a description.
pub fn summary(doc: &'static str) -> &'static str {
    let first = doc.split_inclusive(". ").next();
    first.unwrap_or_default().trim_end()
}

impl Kind {
    /// Tables of known keys within this kind, not those within these.
    pub fn tables(&self) -> Vec<&'static Table> {
        match self {
            Self::Table(table) => vec![table],
            Self::List(item, _) | Self::Set(item) | Self::OneOrMany(item) | Self::Map(_, item) => {
                item.tables()
            }
            Self::Tagged(tagged) => tagged.variants.iter().map(|each| each.table).collect(),
            Self::Either(kinds) => kinds.iter().flat_map(Self::tables).collect(),
            _ => Vec::new(),
        }
    }

    /// A description of the values, with an article.
    pub fn expects(&self) -> String {
        match self {
            Self::Text(form) => form.expects().to_owned(),
            Self::Integer(min, max) => format!("an integer from {min} to {max}"),
            Self::Duration(..) => "a duration such as \"250ms\", \"5s\" or \"1m\"".to_owned(),
            Self::Size(..) => "a size such as \"64KiB\" or \"10MiB\"".to_owned(),
            Self::Share => "a share such as \"75%\"".to_owned(),
            Self::Real(_) => "a number".to_owned(),
            Self::Choice(choices) => {
                let names = choices.names().into_iter();
                let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
                names.join(" or ")
            }
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::List(Self::Table(_), _) => "a list of tables".to_owned(),
            Self::List(item, _) | Self::Set(item) => {
                format!("a list, each item {}", item.expects())
            }
            Self::OneOrMany(item) => format!("{}, or a list of them", item.expects()),
            Self::Map(..) | Self::Table(_) | Self::Tagged(_) => "a table".to_owned(),
            Self::Either(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(Self::expects).collect();
                kinds.join(", or ")
            }
        }
    }

    /// The range of a number, for a message.
    pub fn range(&self) -> String {
        match self {
            Self::Integer(min, max) => format!("from {min} to {max}"),
            Self::Real(f64::MIN_POSITIVE) => "above 0".to_owned(),
            Self::Real(min) => format!("from {min}"),
            Self::Duration(min, max) => {
                format!("from {} to {}", duration_text(*min), duration_text(*max))
            }
            Self::Size(min, max) => format!("from {} to {}", size_text(*min), size_text(*max)),
            _ => String::new(),
        }
    }
}
