//! What the reader gives: values of the types that the table of keys names.
//!
//! Invariant: a value that could not be read is [`Typed::Invalid`], and its mistake was reported;
//! so whoever takes a value out and gets `None` stops without a word.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use steppe_http::config::{HashOn, HostPattern, Statuses};
use steppe_http::path::PathPattern;
use steppe_net::{ListenAddress, ServerAddress};

use crate::config::mistake::Span;

/// A value that was read, and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) typed: Typed,
}

/// A value that was read.
#[derive(Debug)]
pub(super) enum Typed {
    /// Its mistake was reported.
    Invalid,
    Text(String),
    Choice(&'static str),
    Boolean(bool),
    Number(u64),
    Share(f64),
    Duration(Duration),
    Listen(ListenAddress),
    Server(ServerAddress),
    Network(IpNet),
    HashOn(HashOn),
    Statuses(Statuses),
    File(PathBuf),
    Host(HostPattern),
    Path(PathPattern),
    List(Vec<Node>),
    Map(Vec<Named>),
    Table(Fields),
    /// Its tag, and its other keys.
    Variant(&'static str, Fields),
}

/// An entry of a map: its key is the file's own.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) value: Node,
}

/// A table of known keys, those that are absent with their defaults.
#[derive(Debug)]
pub(super) struct Fields {
    /// What opens the table.
    pub(super) span: Span,
    pub(super) fields: Vec<Field>,
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Where its key stands; `None`: a default.
    pub(super) given: Option<Span>,
    pub(super) value: Node,
}

/// Types that a [`Node`] may hold.
pub(super) trait FromNode: Sized {
    /// `None` when it holds something else.
    fn from_node(node: &Node) -> Option<Self>;
}

impl Fields {
    /// The value of a key; `None` when it is absent without a default.
    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        Some(&field.value)
    }

    /// A value that must be there.
    pub(super) fn take<T: FromNode>(&self, name: &str) -> Option<T> {
        T::from_node(self.node(name)?)
    }

    /// A value that need not be there: `None` only when it is invalid.
    #[expect(clippy::option_option, reason = "invalid and absent are two things")]
    pub(super) fn optional<T: FromNode>(&self, name: &str) -> Option<Option<T>> {
        match self.node(name) {
            None => Some(None),
            Some(node) => T::from_node(node).map(Some),
        }
    }

    /// Where a key stands in the file.
    pub(super) fn given(&self, name: &str) -> Option<Span> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        field.given
    }

    /// A table below this one.
    pub(super) fn table(&self, name: &str) -> Option<&Self> {
        self.node(name)?.fields()
    }

    /// A map below this one; empty when it is absent or invalid.
    pub(super) fn map(&self, name: &str) -> &[Named] {
        match self.node(name).map(|node| &node.typed) {
            Some(Typed::Map(entries)) => entries,
            _ => &[],
        }
    }

    /// A list below this one; empty when it is absent or invalid.
    pub(super) fn list(&self, name: &str) -> &[Node] {
        match self.node(name).map(|node| &node.typed) {
            Some(Typed::List(items)) => items,
            _ => &[],
        }
    }
}

impl Node {
    /// The table that it holds, whatever its tag.
    pub(super) fn fields(&self) -> Option<&Fields> {
        match &self.typed {
            Typed::Table(fields) | Typed::Variant(_, fields) => Some(fields),
            _ => None,
        }
    }
}

/// `FromNode` for types with variants of their own.
macro_rules! from_node {
    ($($type:ty: $($variant:ident)|+;)*) => {$(
        impl FromNode for $type {
            fn from_node(node: &Node) -> Option<Self> {
                match &node.typed {
                    $(Typed::$variant(value))|+ => Some(value.clone()),
                    _ => None,
                }
            }
        }
    )*};
}

from_node! {
    String: Text;
    &'static str: Choice;
    bool: Boolean;
    u64: Number;
    f64: Share;
    Duration: Duration;
    ListenAddress: Listen;
    ServerAddress: Server;
    IpNet: Network;
    HashOn: HashOn;
    Statuses: Statuses;
    PathBuf: File;
    HostPattern: Host;
    PathPattern: Path;
}

impl FromNode for usize {
    fn from_node(node: &Node) -> Option<Self> {
        Self::try_from(u64::from_node(node)?).ok()
    }
}

impl FromNode for u16 {
    fn from_node(node: &Node) -> Option<Self> {
        Self::try_from(u64::from_node(node)?).ok()
    }
}

impl FromNode for u32 {
    fn from_node(node: &Node) -> Option<Self> {
        Self::try_from(u64::from_node(node)?).ok()
    }
}

impl<T: FromNode> FromNode for Vec<T> {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.typed {
            Typed::List(items) => items.iter().map(T::from_node).collect(),
            _ => None,
        }
    }
}

/// A map's entries; a key with several values gives several entries.
impl FromNode for Vec<(String, String)> {
    fn from_node(node: &Node) -> Option<Self> {
        let Typed::Map(entries) = &node.typed else {
            return None;
        };
        let mut pairs = Self::new();
        for entry in entries {
            let values = match &entry.value.typed {
                Typed::List(_) => Vec::from_node(&entry.value)?,
                _ => vec![String::from_node(&entry.value)?],
            };
            pairs.extend(values.into_iter().map(|value| (entry.name.clone(), value)));
        }
        Some(pairs)
    }
}
