//! The configuration as it is in force, defaults included, for `/config`.
//!
//! Invariant: secrets are masked, and what it gives has the keys of a file: apart from masked
//! values, reading it as JSON gives the same configuration. Left out: contents of the files that
//! are named, which are never read here.

mod upstreams;

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};
use steppe_http::access::AccessFormat;
use steppe_http::config::{
    FieldEdits, Files, Filter, FilterKind, Gateway, HostPattern, Listener, Respond, Route, Servers,
    Target, Upstream, UpstreamKind,
};
use steppe_http::proxy_protocol::ProxyVersion;
use steppe_telemetry::Destination;

use super::grammar::{duration_text, size_text};
use super::{Access, Admin, Config, LogFormat, LogLevel, MemoryBudget, Node, STDOUT, Workers};

/// Stands for a value that must not be shown.
const MASK: &str = "***";

impl Config {
    /// Every setting in force, as JSON with the keys of the file.
    pub fn effective(&self) -> Value {
        let mut root = Map::new();
        root.insert("node".to_owned(), node(&self.node));
        if let Some(admin) = &self.admin {
            root.insert("admin".to_owned(), self::admin(admin));
        }
        let log = json!({
            "level": self.log.level.to_string(),
            "format": self.log.format.to_string(),
            "access": self.log.access.as_ref().map_or(json!("off"), access),
        });
        root.insert("log".to_owned(), log);
        root.insert("http".to_owned(), gateway(&self.http));
        Value::Object(root)
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&size_text(*bytes)),
            // A share is read by dividing by 100, which this undoes to the last digit but one.
            Self::Share(share) => f.write_str(&percent_text(*share)),
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        })
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

fn percent_text(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

fn node(node: &Node) -> Value {
    let workers = match node.workers {
        Workers::Auto => json!("auto"),
        Workers::Count(count) => json!(count),
    };
    json!({
        "workers": workers,
        "memory_budget": node.memory_budget.to_string(),
        "drain_timeout": duration_text(node.drain_timeout),
    })
}

fn admin(admin: &Admin) -> Value {
    let mut object = Map::new();
    object.insert("listen".to_owned(), json!(admin.listen.to_string()));
    insert(
        &mut object,
        "token_file",
        admin.token_file.as_deref().map(Path::to_string_lossy),
    );
    insert(
        &mut object,
        "probes",
        admin.probes.as_ref().map(ToString::to_string),
    );
    Value::Object(object)
}

fn access(access: &Access) -> Value {
    let path = match (&access.destination, &access.format) {
        (Destination::Stdout, AccessFormat::Combined) => return json!("stdout"),
        (Destination::Stdout, _) => Path::new(STDOUT),
        (Destination::File(path), _) => path,
    };
    let mut object = Map::new();
    insert(&mut object, "file", Some(path.to_string_lossy()));
    match &access.format {
        AccessFormat::Combined => insert(&mut object, "format", Some("combined")),
        AccessFormat::Json(fields) => {
            let fields = fields.iter().map(|field| field.as_str());
            insert(&mut object, "format", Some("json"));
            insert(&mut object, "fields", Some(fields.collect::<Vec<_>>()));
        }
    }
    Value::Object(object)
}

fn gateway(http: &Gateway) -> Value {
    let named = |entries: Vec<(&String, Value)>| -> Value {
        let entries = entries.into_iter();
        Value::Object(entries.map(|(name, value)| (name.clone(), value)).collect())
    };
    let upstreams = http
        .upstreams
        .iter()
        .map(|each| (&each.name, upstream(each)));
    let filters = http.filters.iter().map(|each| (&each.name, filter(each)));
    let trusted: Vec<_> = http
        .trusted_proxies
        .iter()
        .map(ToString::to_string)
        .collect();
    json!({
        "trusted_proxies": trusted,
        "listener": http.listeners.iter().map(listener).collect::<Vec<_>>(),
        "upstream": named(upstreams.collect()),
        "filter": named(filters.collect()),
        "route": http.routes.iter().map(|each| route(http, each)).collect::<Vec<_>>(),
    })
}

fn listener(listener: &Listener) -> Value {
    let (limits, timeouts) = (&listener.limits, &listener.timeouts);
    json!({
        "listen": listener.address.to_string(),
        "protocols": ["h1"],
        "proxy_protocol": listener.proxy_protocol,
        "underscores": listener.underscores.as_str(),
        "limits": {
            "header_bytes": size_text(limits.header_bytes as u64),
            "header_count": limits.header_count,
            "body_bytes": size_text(limits.body_bytes),
            "connections": limits.connections,
        },
        "timeouts": {
            "header": duration_text(timeouts.header),
            "idle": duration_text(timeouts.idle),
            "write_stall": duration_text(timeouts.write_stall),
        },
    })
}

fn upstream(upstream: &Upstream) -> Value {
    match &upstream.kind {
        UpstreamKind::Servers(servers) => self::servers(servers),
        UpstreamKind::Respond(respond) => json!({ "respond": self::respond(respond) }),
    }
}

fn servers(upstream: &Servers) -> Value {
    let mut timeouts = Map::new();
    for (name, timeout) in [
        ("connect", Some(upstream.timeouts.connect)),
        ("first_byte", Some(upstream.timeouts.first_byte)),
        ("idle", Some(upstream.timeouts.idle)),
        ("total", upstream.timeouts.total),
    ] {
        insert(&mut timeouts, name, timeout.map(duration_text));
    }
    let servers = upstream.servers.iter().map(upstreams::server);
    let mut object = Map::new();
    object.insert("servers".to_owned(), servers.collect());
    insert(&mut object, "protocol", Some("h1"));
    insert(&mut object, "balance", Some(upstream.balance.as_str()));
    insert(
        &mut object,
        "hash_on",
        upstreams::hash_on(&upstream.balance),
    );
    insert(
        &mut object,
        "sticky",
        upstream.sticky.as_ref().map(upstreams::sticky),
    );
    let slow_start = duration_text(upstream.slow_start);
    insert(&mut object, "slow_start", Some(slow_start));
    insert(&mut object, "keepalive", Some(upstream.keepalive));
    insert(&mut object, "timeouts", Some(timeouts));
    insert(
        &mut object,
        "health",
        upstream.health.as_ref().map(upstreams::health),
    );
    insert(
        &mut object,
        "outlier",
        upstream.outlier.as_ref().map(upstreams::outlier),
    );
    insert(
        &mut object,
        "retry",
        upstream.retry.as_ref().map(upstreams::retry),
    );
    let proxy_protocol = upstream.proxy_protocol.map(ProxyVersion::as_str);
    insert(&mut object, "proxy_protocol", proxy_protocol);
    Value::Object(object)
}

fn respond(respond: &Respond) -> Value {
    json!({
        "status": respond.status,
        "body": String::from_utf8_lossy(&respond.body),
        "headers": several(&respond.fields),
    })
}

fn filter(filter: &Filter) -> Value {
    match &filter.kind {
        FilterKind::Transform(transform) => json!({
            "kind": "transform",
            "request_headers": edits(&transform.request),
            "response_headers": edits(&transform.response),
        }),
    }
}

fn edits(edits: &FieldEdits) -> Value {
    json!({
        "remove": edits.remove,
        "set": single(&edits.set, is_secret),
        "append": several(&edits.append),
    })
}

fn route(http: &Gateway, route: &Route) -> Value {
    let mut object = Map::new();
    object.insert("name".to_owned(), json!(route.name));
    let hosts: Vec<_> = route.hosts.iter().map(host).collect();
    insert(&mut object, "host", (!hosts.is_empty()).then_some(hosts));
    object.insert("path".to_owned(), json!(route.path.to_string()));
    let methods = (!route.methods.is_empty()).then(|| route.methods.clone());
    insert(&mut object, "methods", methods);
    object.insert("headers".to_owned(), single(&route.headers, is_secret));
    object.insert("query".to_owned(), single(&route.query, is_secret));
    let filters = route
        .filters
        .iter()
        .filter_map(|&index| http.filters.get(index));
    let filters: Vec<_> = filters.map(|filter| &filter.name).collect();
    object.insert("filters".to_owned(), json!(filters));
    match &route.target {
        Target::Upstream(index) => {
            let upstream = http.upstreams.get(*index);
            let name = upstream.map(|upstream| upstream.name.clone());
            insert(&mut object, "upstream", name);
        }
        Target::Files(files) => insert(&mut object, "files", Some(self::files(files))),
    }
    insert(&mut object, "budget", route.budget.map(size_text));
    let mut timeouts = Map::new();
    insert(&mut timeouts, "total", route.total.map(duration_text));
    object.insert("timeouts".to_owned(), Value::Object(timeouts));
    Value::Object(object)
}

fn files(files: &Files) -> Value {
    json!({
        "root": files.root.to_string_lossy(),
        "index": files.index,
        "precompressed": files.precompressed.iter().map(|coding| coding.as_str()).collect::<Vec<_>>(),
    })
}

fn host(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("*{suffix}"),
    }
}

fn single(pairs: &[(String, String)], is_masked: fn(&str) -> bool) -> Value {
    let shown = pairs.iter().map(|(name, value)| {
        let value = if is_masked(name) { MASK } else { value };
        (name.clone(), json!(value))
    });
    Value::Object(shown.collect())
}

/// Fields of which there may be several lines.
fn several(pairs: &[(String, String)]) -> Value {
    let mut object = Map::new();
    for (name, value) in pairs {
        let value = if is_secret(name) { MASK } else { value };
        let lines = object.entry(name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(lines) = lines {
            lines.push(json!(value));
        }
    }
    Value::Object(object)
}

/// Whether a name's value is better not shown: credentials, and whatever calls itself a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "passwd",
        "api-key",
        "apikey",
        "api_key",
        "credential",
        "signature",
        "session",
    ];
    words.iter().any(|word| name.contains(word))
}

fn insert(object: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value.into());
    }
}
