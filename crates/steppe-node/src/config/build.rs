//! The configuration out of a file that was read.
//!
//! Invariant: `None` only where a mistake was reported.

mod upstreams;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use steppe_http::access::{AccessField, AccessFormat};
use steppe_http::config::{
    Coding, FieldEdits, Files, Filter, FilterKind, Gateway, HostPattern, Listener, ListenerLimits,
    ListenerTimeouts, Respond, Route, Server, Servers, Target, Transform, Underscores, Upstream,
    UpstreamKind, UpstreamTimeouts,
};
use steppe_net::ServerAddress;
use steppe_telemetry::Destination;

use super::typed::{Fields, FromNode, Named, Node as Read, Typed};
use super::{Access, Admin, Config, Log, LogFormat, LogLevel, MemoryBudget, Node, STDOUT, Workers};

pub(super) fn config(file: &Fields) -> Option<Config> {
    let admin = match file.node("admin") {
        None => None,
        Some(admin) => Some(self::admin(admin.fields()?)?),
    };
    Some(Config {
        node: node(file.table("node")?)?,
        admin,
        log: log(file.table("log")?)?,
        http: gateway(file.table("http")?)?,
    })
}

fn node(node: &Fields) -> Option<Node> {
    let workers = match &node.node("workers")?.typed {
        Typed::Choice(_) => Workers::Auto,
        Typed::Number(count) => Workers::Count(NonZeroUsize::new(usize::try_from(*count).ok()?)?),
        _ => return None,
    };
    let memory_budget = match &node.node("memory_budget")?.typed {
        Typed::Share(share) => MemoryBudget::Share(*share),
        Typed::Number(bytes) => MemoryBudget::Bytes(*bytes),
        _ => return None,
    };
    Some(Node {
        workers,
        memory_budget,
        drain_timeout: node.take("drain_timeout")?,
    })
}

fn admin(admin: &Fields) -> Option<Admin> {
    Some(Admin {
        listen: admin.take("listen")?,
        token_file: admin.optional("token_file")?,
        probes: admin.optional("probes")?,
    })
}

fn log(log: &Fields) -> Option<Log> {
    let level = match log.take("level")? {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        _ => return None,
    };
    let format = match log.take("format")? {
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        _ => return None,
    };
    Some(Log {
        level,
        format,
        access: access(log.node("access")?)?,
    })
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn access(access: &Read) -> Option<Option<Access>> {
    let Some(table) = access.fields() else {
        let stdout = Access {
            destination: Destination::Stdout,
            format: AccessFormat::Combined,
        };
        return Some((<&str>::from_node(access)? == "stdout").then_some(stdout));
    };
    let fields: Option<Vec<&str>> = table.optional("fields")?;
    let fields = fields.map(|names| names.into_iter().filter_map(AccessField::named).collect());
    let format = match table.take("format")? {
        "combined" => AccessFormat::Combined,
        "json" => AccessFormat::Json(fields.unwrap_or_else(|| AccessField::DEFAULT.to_vec())),
        _ => return None,
    };
    let path: PathBuf = table.take("file")?;
    Some(Some(Access {
        destination: if path == Path::new(STDOUT) {
            Destination::Stdout
        } else {
            Destination::File(path)
        },
        format,
    }))
}

fn gateway(http: &Fields) -> Option<Gateway> {
    Some(Gateway {
        trusted_proxies: http.take("trusted_proxies")?,
        listeners: all(http.list("listener").iter(), |each| {
            listener(each.fields()?)
        })?,
        upstreams: all(http.map("upstream").iter(), upstream)?,
        filters: all(http.map("filter").iter(), filter)?,
        routes: all(http.list("route").iter(), |each| {
            route(http, each.fields()?)
        })?,
    })
}

fn all<T, U>(items: impl Iterator<Item = T>, build: impl FnMut(T) -> Option<U>) -> Option<Vec<U>> {
    items.map(build).collect()
}

fn listener(listener: &Fields) -> Option<Listener> {
    let limits = listener.table("limits")?;
    let timeouts = listener.table("timeouts")?;
    Some(Listener {
        address: listener.take("listen")?,
        proxy_protocol: listener.take("proxy_protocol")?,
        underscores: Underscores::named(listener.take("underscores")?)?,
        limits: ListenerLimits {
            header_bytes: limits.take("header_bytes")?,
            header_count: limits.take("header_count")?,
            body_bytes: limits.take("body_bytes")?,
            connections: limits.take("connections")?,
        },
        timeouts: ListenerTimeouts {
            header: timeouts.take("header")?,
            idle: timeouts.take("idle")?,
            write_stall: timeouts.take("write_stall")?,
        },
    })
}

fn upstream(entry: &Named) -> Option<Upstream> {
    let upstream = entry.value.fields()?;
    let kind = match upstream.node("respond") {
        Some(respond) => UpstreamKind::Respond(self::respond(respond.fields()?)?),
        None => UpstreamKind::Servers(servers(upstream)?),
    };
    Some(Upstream {
        name: entry.name.clone(),
        kind,
    })
}

fn respond(respond: &Fields) -> Option<Respond> {
    Some(Respond {
        status: respond.take("status")?,
        body: respond.take::<String>("body")?.into_bytes(),
        fields: respond.take("headers")?,
    })
}

fn servers(upstream: &Fields) -> Option<Servers> {
    let timeouts = upstream.table("timeouts")?;
    Some(Servers {
        servers: all(upstream.list("servers").iter(), server)?,
        balance: upstreams::balance(upstream)?,
        sticky: upstreams::sticky(upstream)?,
        slow_start: upstream.take("slow_start")?,
        health: upstreams::health(upstream)?,
        outlier: upstreams::outlier(upstream)?,
        retry: upstreams::retry(upstream)?,
        proxy_protocol: upstreams::proxy_protocol(upstream)?,
        keepalive: upstream.take("keepalive")?,
        timeouts: UpstreamTimeouts {
            connect: timeouts.take("connect")?,
            first_byte: timeouts.take("first_byte")?,
            idle: timeouts.take("idle")?,
            total: timeouts.optional("total")?,
        },
    })
}

fn server(server: &Read) -> Option<Server> {
    match server.fields() {
        Some(table) => Some(Server {
            address: table.take("address")?,
            weight: table.take("weight")?,
        }),
        None => ServerAddress::from_node(server).map(Server::from),
    }
}

fn filter(entry: &Named) -> Option<Filter> {
    let Typed::Variant("transform", transform) = &entry.value.typed else {
        return None;
    };
    let transform = Transform {
        request: edits(transform.table("request_headers")?)?,
        response: edits(transform.table("response_headers")?)?,
    };
    Some(Filter {
        name: entry.name.clone(),
        kind: FilterKind::Transform(transform),
    })
}

fn edits(edits: &Fields) -> Option<FieldEdits> {
    Some(FieldEdits {
        remove: edits.take("remove")?,
        set: edits.take("set")?,
        append: edits.take("append")?,
    })
}

fn route(http: &Fields, route: &Fields) -> Option<Route> {
    let hosts: Option<Vec<HostPattern>> = route.optional("host")?;
    let methods: Option<Vec<String>> = route.optional("methods")?;
    let filters: Vec<String> = route.take("filters")?;
    Some(Route {
        name: route.take("name")?,
        hosts: hosts.unwrap_or_default(),
        path: route.take("path")?,
        methods: methods.unwrap_or_default(),
        headers: route.take("headers")?,
        query: route.take("query")?,
        filters: all(filters.iter(), |name| index(http.map("filter"), name))?,
        target: target(http, route)?,
        budget: route.optional("budget")?,
        total: route.table("timeouts")?.optional("total")?,
    })
}

fn target(http: &Fields, route: &Fields) -> Option<Target> {
    let Some(files) = route.node("files") else {
        let upstream: String = route.take("upstream")?;
        return Some(Target::Upstream(index(http.map("upstream"), &upstream)?));
    };
    let files = files.fields()?;
    Some(Target::Files(Files {
        root: files.take("root")?,
        index: files.take("index")?,
        precompressed: all(
            files.take::<Vec<&str>>("precompressed")?.into_iter(),
            Coding::named,
        )?,
    }))
}

fn index(defined: &[Named], name: &str) -> Option<usize> {
    defined.iter().position(|entry| entry.name == name)
}
