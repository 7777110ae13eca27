//! How the table of keys is written: tables of keys, each with its kind, default and support.
//!
//! Invariant: the reader, the defaults, the suggestions, the schema, the manual and `/config` know
//! a key from here alone. Non-goals: the keys themselves, which `keys` holds.

use std::time::Duration;

use crate::config::grammar::{duration_text, size_text};
use crate::config::limits::{TIMEOUT_MAX, TIMEOUT_MIN};

/// The keys that may stand beside each other.
#[derive(Debug)]
pub struct Table {
    /// Its place in the file: `http.listener`.
    pub name: &'static str,
    /// One line for an editor.
    pub doc: &'static str,
    /// What may stand in it.
    pub keys: &'static [Key],
    /// What must stand in it, beside the keys that are required.
    pub needs: Needs,
}

/// Keys of a table that can stand for each other.
#[derive(Debug, Clone, Copy)]
pub enum Needs {
    /// There are none.
    Nothing,
    /// One of these must be there. That no two are is up to `check`.
    One(&'static [&'static str]),
    /// At least one of these must be there.
    Any(&'static [&'static str]),
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// One line for an editor.
    pub doc: &'static str,
    /// What it takes, if anything reads it.
    pub support: Support,
    /// Whether `/config` masks its strings: those of a map where the name is one of a secret,
    /// those of any other kind always.
    pub is_secret: bool,
    /// Whether no other key of its table has an effect beside it.
    pub is_exclusive: bool,
}

/// Whether a key can be used.
#[derive(Debug)]
pub enum Support {
    /// It can.
    Served {
        /// What it takes.
        kind: Kind,
        /// What holds without it.
        absent: Absent,
    },
    /// It is known, and not supported yet.
    Later,
}

/// What holds when a key is absent.
#[derive(Debug, Clone, Copy)]
pub enum Absent {
    /// A mistake.
    Required,
    /// Nothing.
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
    /// These strings where another key of the table says so; else nothing.
    TextsWhere {
        /// The other key, which takes a choice.
        key: &'static str,
        /// What it says.
        says: &'static str,
        /// The strings.
        texts: &'static [&'static str],
    },
    /// A table of defaults.
    Table,
    /// A table of defaults where another key of the table says so; else nothing.
    TableWhere {
        /// The other key, which takes a choice.
        key: &'static str,
        /// What it says, any of these.
        says: &'static [&'static str],
    },
}

/// What a key takes.
#[derive(Debug)]
pub enum Kind {
    /// A string of this form.
    Text(Form),
    /// An integer from the first to the second.
    Integer(u64, u64),
    /// A string with a duration from the first to the second.
    Duration(Duration, Duration),
    /// A string with a size in bytes from the first to the second.
    Size(u64, u64),
    /// A share of a whole: `"75%"` or `0.75`.
    Share,
    /// One of these strings.
    Choice(&'static [Choice]),
    /// `true` or `false`.
    Boolean,
    /// A list with at least so many items.
    List(&'static Kind, usize),
    /// A list of at least one choice, whose order has no meaning.
    Set(&'static Kind),
    /// An item, or a list of at least one.
    OneOrMany(&'static Kind),
    /// A table whose keys are of this form, all with values of one kind.
    Map(Form, &'static Kind),
    /// A table of known keys.
    Table(&'static Table),
    /// A table of known keys that the value of one key chooses.
    Tagged(&'static Tagged),
    /// Whatever takes it first.
    Either(&'static [Kind]),
}

/// One string of several.
#[derive(Debug)]
pub struct Choice {
    /// As it is written.
    pub name: &'static str,
    /// Whether it can be used.
    pub is_served: bool,
}

/// Tables told apart by one key.
#[derive(Debug)]
pub struct Tagged {
    /// Its place in the file.
    pub name: &'static str,
    /// One line for an editor.
    pub doc: &'static str,
    /// The key that tells.
    pub tag: &'static str,
    /// One line for the tag.
    pub tag_doc: &'static str,
    /// What the key may say.
    pub variants: &'static [Variant],
}

/// One of several tables.
#[derive(Debug)]
pub struct Variant {
    /// What the tag says.
    pub name: &'static str,
    /// One line for an editor.
    pub doc: &'static str,
    /// Its other keys; `None`: not supported yet.
    pub table: Option<&'static Table>,
}

/// What a string means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A serialized origin (RFC 6454 §6), or a pattern of one.
    Origin,
    /// What a rate limit tells requests apart by.
    RateKey,
    /// A regular expression.
    Pattern,
    /// Where a text is taken from.
    TextSource,
    /// The name of a member of a JSON object, or of one within.
    MemberPath,
    /// JSON text.
    Json,
    /// A media type, or all subtypes of a type.
    MediaRange,
    /// Where a token is looked for.
    TokenSource,
    /// A method, or `*`.
    RuleMethod,
    /// Anything.
    Any,
    /// A name of a route, an upstream, a filter.
    Name,
    /// A path in the file system.
    File,
    /// The path of a folder.
    Folder,
    /// The name of a file, without a folder.
    FileName,
    /// Where to listen.
    Listen,
    /// A server to connect to.
    Server,
    /// An address, or a network.
    Network,
    /// A host of a route.
    Host,
    /// A path of a route.
    Path,
    /// A method.
    Method,
    /// A field's name.
    FieldName,
    /// A field's value.
    FieldValue,
    /// What requests are told apart by.
    HashOn,
    /// A cookie's name.
    CookieName,
    /// What a request asks for.
    Target,
    /// A set of status codes.
    Statuses,
    /// The name that a server's certificate is verified for.
    ServerName,
    /// The SHA-256 digest of a public key.
    Pin,
    /// The subject of a certificate.
    Subject,
    /// A subject alternative name of a certificate.
    AltName,
    /// The SHA-256 digest of a certificate.
    Fingerprint,
    /// The value of `Strict-Transport-Security`.
    TransportSecurity,
    /// A DNS server.
    DnsServer,
    /// Where servers' own addresses are asked for.
    DnsBootstrap,
    /// Bits of addresses of IPv4 and IPv6.
    SubnetPrefixes,
    /// Networks of clients.
    Clients,
    /// A domain name.
    DnsName,
    /// A type of DNS records.
    DnsType,
    /// A DNS record without its owner.
    DnsRecord,
    /// What a DNS client calls itself.
    DnsClientId,
    /// Hours of a day.
    Hours,
    /// A URL of http or https.
    Url,
    /// The URL of a collector of traces.
    Collector,
    /// A database of Valkey or Redis.
    RateStore,
    /// How long a first server is waited for.
    HedgeAfter,
    /// A time zone.
    TimeZone,
    /// A service of the request plane.
    Service,
    /// A service of the request plane, or all whose names begin alike.
    Services,
    /// The URL of a member of etcd.
    EtcdEndpoint,
    /// What keys in etcd begin with.
    EtcdPrefix,
}

impl Table {
    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Names of [`Self::needs`] that can be used.
    pub(super) fn served_of(&self) -> impl Iterator<Item = &'static str> {
        let is_served = |name: &&str| self.key(name).is_some_and(Key::is_served);
        self.needs.names().iter().copied().filter(is_served)
    }
}

impl Needs {
    /// Every key that it names.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::One(names) | Self::Any(names) => names,
        }
    }
}

impl Key {
    pub(super) const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        let absent = Absent::Nothing;
        let support = Support::Served { kind, absent };
        Self::with(name, doc, support)
    }

    pub(super) const fn later(name: &'static str, doc: &'static str) -> Self {
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

    pub(super) const fn absent(mut self, value: Absent) -> Self {
        match &mut self.support {
            Support::Served { absent, .. } => *absent = value,
            Support::Later => panic!("a key of a later version has no default yet"),
        }
        self
    }

    /// Marks what `/config` must not show.
    pub(super) const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Marks a key beside which the others of its table have no effect.
    pub(super) const fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    pub(super) const fn required(self) -> Self {
        self.absent(Absent::Required)
    }

    /// Whether it can be used.
    pub fn is_served(&self) -> bool {
        matches!(self.support, Support::Served { .. })
    }

    /// The first sentence of its description.
    pub(super) fn summary(&self) -> &'static str {
        summary(self.doc)
    }

    /// Whether its table is refused without it.
    pub(super) fn is_required(&self) -> bool {
        let Support::Served { absent, .. } = &self.support else {
            return false;
        };
        matches!(absent, Absent::Required)
    }
}

/// The first sentence of a description.
pub(super) fn summary(doc: &'static str) -> &'static str {
    let first = doc.split_inclusive(". ").next();
    first.unwrap_or_default().trim_end()
}

impl Choice {
    pub(super) const fn served(name: &'static str) -> Self {
        let is_served = true;
        Self { name, is_served }
    }

    pub(super) const fn later(name: &'static str) -> Self {
        let is_served = false;
        Self { name, is_served }
    }
}

impl Kind {
    /// A timeout that can't be off.
    pub(super) const TIMEOUT: Self = Self::Duration(TIMEOUT_MIN, TIMEOUT_MAX);

    /// Tables of known keys within it, not those within these.
    pub(super) fn tables(&self) -> Vec<&'static Table> {
        match self {
            Self::Table(table) => vec![table],
            Self::List(item, _) | Self::Set(item) | Self::OneOrMany(item) | Self::Map(_, item) => {
                item.tables()
            }
            Self::Tagged(tagged) => tagged
                .variants
                .iter()
                .filter_map(|each| each.table)
                .collect(),
            Self::Either(kinds) => kinds.iter().flat_map(Self::tables).collect(),
            _ => Vec::new(),
        }
    }

    /// What it takes, with an article.
    pub fn expects(&self) -> String {
        match self {
            Self::Text(form) => form.expects().to_owned(),
            Self::Integer(min, max) => format!("an integer from {min} to {max}"),
            Self::Duration(..) => "a duration such as \"250ms\", \"5s\" or \"1m\"".to_owned(),
            Self::Size(..) => "a size such as \"64KiB\" or \"10MiB\"".to_owned(),
            Self::Share => "a share such as \"75%\"".to_owned(),
            Self::Choice(choices) => {
                let names = choices.iter().filter(|choice| choice.is_served);
                let names: Vec<_> = names.map(|c| format!("\"{}\"", c.name)).collect();
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
    pub(super) fn range(&self) -> String {
        match self {
            Self::Integer(min, max) => format!("from {min} to {max}"),
            Self::Duration(min, max) => {
                format!("from {} to {}", duration_text(*min), duration_text(*max))
            }
            Self::Size(min, max) => format!("from {} to {}", size_text(*min), size_text(*max)),
            _ => String::new(),
        }
    }
}

impl Form {
    /// What it takes, with an article.
    pub fn expects(self) -> &'static str {
        match self {
            Self::Any => "a string",
            Self::Name => "a name",
            Self::File => "the path of a file",
            Self::Folder => "the path of a folder",
            Self::FileName => "a file's name",
            Self::Listen => "an address such as \"127.0.0.1:8080\", \"[::]:8080\" or \"unix:PATH\"",
            Self::Server => "an address such as \"127.0.0.1:9001\", \"name:9001\" or \"unix:PATH\"",
            Self::Network => "a network such as \"10.0.0.0/8\"",
            Self::Host => "a host such as \"example.com\" or \"*.example.com\"",
            Self::Path => "a path such as \"/v1/{id}\" or \"/{rest*}\"",
            Self::Method => "a method such as \"GET\"",
            Self::FieldName => "a field's name",
            Self::FieldValue => "a field's value",
            Self::Origin => "an origin such as \"https://app.example.com\"",
            Self::RateKey => "\"ip\", \"header:NAME\", \"jwt:CLAIM\" or \"route\"",
            Self::TokenSource => "\"header:NAME\", \"cookie:NAME\" or \"query:NAME\"",
            Self::RuleMethod => "a method such as \"GET\", or \"*\"",
            Self::Pattern => "a regular expression",
            Self::TextSource => "\"path\" or \"header:NAME\"",
            Self::MemberPath => "a member such as \"token\" or \"user.token\"",
            Self::Json => "JSON in a string, such as \"true\" or '\"text\"'",
            Self::MediaRange => "a media type such as \"application/json\" or \"text/*\"",
            Self::HashOn => "\"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\"",
            Self::CookieName => "a cookie's name",
            Self::Target => "a path such as \"/healthz\"",
            Self::Statuses => "statuses such as \"2xx\", \"200\" or \"200-399\"",
            Self::ServerName => "a host name such as \"api.internal\"",
            Self::Pin => "a digest such as \"sha256/BASE64\"",
            Self::Subject => "a subject such as \"CN=api,O=Example\"",
            Self::AltName => "a name such as \"api.internal\" or \"spiffe://example/api\"",
            Self::Fingerprint => "a SHA-256 digest in hexadecimal",
            Self::DnsServer => "a server such as \"udp://127.0.0.1:53\"",
            Self::DnsBootstrap => "an IP address such as \"9.9.9.9\"",
            Self::SubnetPrefixes => "two prefix lengths such as \"24/56\"",
            Self::Clients => "a network such as \"10.0.0.0/8\", \"loopback\" or \"private\"",
            Self::DnsName => "a domain name such as \"example.org\"",
            Self::DnsType => "a type such as \"AAAA\"",
            Self::DnsRecord => "an address, or a record such as \"MX 10 mail.example.org\"",
            Self::DnsClientId => "a client ID such as \"kids-tablet\"",
            Self::Url => "a URL such as \"https://lists.example/ads.txt\"",
            Self::Collector => "a URL such as \"http://127.0.0.1:4318\"",
            Self::RateStore => "a URL such as \"redis://127.0.0.1:6379/0\"",
            Self::HedgeAfter => "a percentile such as \"p95\", or a time such as \"20ms\"",
            Self::Hours => "hours such as \"08:00-17:30\"",
            Self::TimeZone => "a time zone such as \"Europe/Berlin\"",
            Self::EtcdEndpoint => "a URL such as \"http://127.0.0.1:2379\"",
            Self::EtcdPrefix => "a prefix of keys such as \"/steppe\"",
            Self::Service => "a service such as \"embed\"",
            Self::Services => "a service such as \"embed\", or \"embed/*\"",
            Self::TransportSecurity => "a value such as \"max-age=31536000\"",
        }
    }
}
