//! What the reader gives: values of the types that the table of keys names.
//!
//! Invariant: a value that could not be read is [`Typed::Invalid`], and its mistake was reported;
//! so whoever takes a value out and gets `None` stops without a word. A table keeps the keys of its
//! file alone: what holds for the others comes from `defaults`, so that a thousand routes share
//! their defaults.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use steppe_dns::config::Server as DnsServer;
use steppe_dns::wire::{Name, Rtype};
use steppe_etcd::Endpoint;
use steppe_http::config::{ClientCertMatch, HashOn, HostPattern, Statuses};
use steppe_http::path::PathPattern;
use steppe_net::{ListenAddress, ServerAddress};

use crate::config::defaults;
use crate::config::mistake::Span;
use crate::config::table::{Absent, Key, Support, Table};

/// A value that was read, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) typed: Typed,
}

/// A value that was read.
#[derive(Debug, Clone)]
pub(super) enum Typed {
    /// Its mistake was reported.
    Invalid,
    Text(String),
    Choice(&'static str),
    Boolean(bool),
    Number(u64),
    Size(u64),
    Share(f64),
    Duration(Duration),
    Listen(ListenAddress),
    Server(ServerAddress),
    Network(IpNet),
    DnsServer(DnsServer),
    EtcdEndpoint(Endpoint),
    /// On the heap: the bytes of the longest name would be every value's size.
    DnsName(Box<Name>),
    DnsType(Rtype),
    HashOn(HashOn),
    Statuses(Statuses),
    Pin([u8; 32]),
    Fingerprint([u8; 32]),
    File(PathBuf),
    Host(HostPattern),
    Path(PathPattern),
    List(Vec<Node>),
    Map(Vec<Named>),
    Table(Fields),
    /// A table that one of its keys tells apart.
    Variant {
        /// That key.
        tag: &'static str,
        /// What it says.
        name: &'static str,
        /// The other keys.
        fields: Fields,
    },
}

/// An entry of a map: its key is the file's own.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) value: Node,
}

/// A table of known keys. Those that are absent have their defaults.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// What may stand in it.
    pub(super) table: &'static Table,
    /// What opens it.
    pub(super) span: Span,
    /// Keys that are in the file, in its order.
    pub(super) given: Vec<Field>,
}

/// A key that is in the file.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) key: &'static Key,
    /// Where it stands.
    pub(super) span: Span,
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
        let key = self.table.key(name);
        debug_assert!(key.is_some(), "`{}` has no key `{name}`", self.table.name);
        self.value(key?)
    }

    /// The value of a key of its table, as [`Self::node`] gives it.
    pub(super) fn value(&self, key: &'static Key) -> Option<&Node> {
        #[cfg(test)]
        taken::mark(self.table, key);
        match self.field(key) {
            Some(field) => Some(&field.value),
            None if self.has_default(key) => defaults::of(key),
            None => None,
        }
    }

    fn field(&self, key: &'static Key) -> Option<&Field> {
        self.given.iter().find(|field| std::ptr::eq(field.key, key))
    }

    /// Whether the default of an absent key holds, if it has one.
    fn has_default(&self, key: &Key) -> bool {
        let is_overruled = self.given.iter().any(|field| field.key.is_exclusive);
        match &key.support {
            _ if is_overruled => false,
            Support::Served {
                absent: Absent::TextsWhere { key, says, .. },
                ..
            } => self.take::<&str>(key) == Some(says),
            Support::Served {
                absent: Absent::TableWhere { key, says },
                ..
            } => (self.take::<&str>(key)).is_some_and(|said| says.contains(&said)),
            _ => true,
        }
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
        let field = self.given.iter().find(|field| field.key.name == name)?;
        Some(field.span)
    }

    /// Puts a value in the place of what was read, or of a default.
    ///
    /// # Panics
    /// When its table has no such key.
    pub(super) fn set(&mut self, name: &str, typed: Typed) {
        let key = self.table.key(name).expect("a key of the table");
        self.given.retain(|field| !std::ptr::eq(field.key, key));
        let span = self.span;
        let value = Node { span, typed };
        self.given.push(Field { key, span, value });
    }

    /// The value of a key, to be changed; a default becomes the table's own.
    pub(super) fn node_mut(&mut self, name: &str) -> Option<&mut Node> {
        if self.given(name).is_none() {
            let default = self.node(name)?.typed.clone();
            self.set(name, default);
        }
        let field = self.given.iter_mut().find(|field| field.key.name == name)?;
        Some(&mut field.value)
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
            Typed::Table(fields) | Typed::Variant { fields, .. } => Some(fields),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn fields_mut(&mut self) -> Option<&mut Fields> {
        match &mut self.typed {
            Typed::Table(fields) | Typed::Variant { fields, .. } => Some(fields),
            _ => None,
        }
    }
}

/// Which keys were asked for, for a test that none is left out.
#[cfg(test)]
pub(super) mod taken {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use crate::config::table::{Key, Table};

    thread_local! {
        static TAKEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// A key with its table, as a test names it.
    pub(in crate::config) fn full_name(table: &Table, key: &Key) -> String {
        format!("{}.{}", table.name, key.name)
    }

    pub(super) fn mark(table: &Table, key: &Key) {
        TAKEN.with_borrow_mut(|taken| taken.insert(full_name(table, key)));
    }

    /// Everything that this thread asked for since it was asked last.
    pub(in crate::config) fn drain() -> BTreeSet<String> {
        TAKEN.take()
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
    u64: Number | Size;
    f64: Share;
    Duration: Duration;
    ListenAddress: Listen;
    ServerAddress: Server;
    IpNet: Network;
    DnsServer: DnsServer;
    Endpoint: EtcdEndpoint;
    Rtype: DnsType;
    HashOn: HashOn;
    Statuses: Statuses;
    [u8; 32]: Pin | Fingerprint;
    PathBuf: File;
    HostPattern: Host;
    PathPattern: Path;
}

impl FromNode for Name {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.typed {
            Typed::DnsName(name) => Some(**name),
            _ => None,
        }
    }
}

impl FromNode for usize {
    fn from_node(node: &Node) -> Option<Self> {
        Self::try_from(u64::from_node(node)?).ok()
    }
}

impl FromNode for u8 {
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

/// `client_cert` of a route, which more than one part of a configuration looks at.
impl FromNode for ClientCertMatch {
    fn from_node(node: &Node) -> Option<Self> {
        let client_cert = node.fields()?;
        Some(Self {
            subject: client_cert.optional("subject")?,
            san: client_cert.optional("san")?,
            fingerprint: client_cert.optional("fingerprint")?,
        })
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
