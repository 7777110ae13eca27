//! `[[load]]`: the load on the target.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::ANY;
use steppe_config::key::{Key, OptionalKey, boolean, choice, integer, key, list, map, real, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table, Tagged, Variant};
use steppe_config::typed::{Fields, Node};

use super::super::{CommandLoad, DnsLoad, Expect, HttpLoad, Load, LoadKind, Pace};
use super::forms::{
    DNS_NAME, FIELD_NAME, FIELD_VALUE, LOAD_URL, METHOD, PATH, RECORD_TYPE, SOCKET, STATUSES, TIME,
    TIME_OR_NONE,
};
use super::target::{CMD, CWD, ENV, check_command, program};
use crate::limits::{BODY_BYTES_MAX, CONNECTIONS_MAX, LOAD_THREADS_MAX, STREAMS_MAX};

/// `[[load]]`.
pub static LOAD: Tagged = Tagged {
    name: "load",
    doc: "A source of operations. Several run at once.",
    tag: "kind",
    tag_doc: "HTTP/1.1, HTTP/2, DNS, or a program of yours.",
    variants: &[
        Variant::new(Kind::Http1.name(), &HTTP, &Kind::Http1),
        Variant::new(Kind::Http2.name(), &HTTP, &Kind::Http2),
        Variant::new(Kind::Dns.name(), &DNS, &Kind::Dns),
        Variant::new(Kind::Command.name(), &COMMAND, &Kind::Command),
    ],
};

/// Values of `load.kind`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http1,
    Http2,
    Dns,
    Command,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http",
            Self::Http2 => "h2",
            Self::Dns => "dns",
            Self::Command => "command",
        }
    }
}

static HTTP: Table = Table::new(
    "load",
    "HTTP/1.1, kept alive, or HTTP/2: by ALPN with https, with prior knowledge with http.",
    keys![
        NAME,
        RATE,
        SEED,
        RAMP,
        THREADS,
        TIMEOUT,
        URL,
        METHOD_KEY,
        HEADERS,
        BODY_BYTES,
        EXPECT_STATUS,
        CONNECTIONS,
        STREAMS,
        CA,
        VERIFY,
    ],
);

static DNS: Table = Table::new(
    "load",
    "Queries of DNS.",
    keys![
        NAME,
        RATE,
        SEED,
        RAMP,
        THREADS,
        TIMEOUT,
        SERVER,
        TRANSPORT,
        NAMES,
        SPREAD,
        TYPE,
        RCODE,
        CONNECTIONS,
    ],
);

static COMMAND: Table = Table::new(
    "load",
    "A program that writes the lines of the lab's protocol.",
    keys![NAME, RATE, SEED, CMD, ENV, CWD,],
);

static NAME: OptionalKey<String> = key(
    "name",
    text(&ANY),
    "Names it in reports. Without it: kind and number.",
);

static RATE: OptionalKey<f64> = key(
    "rate_per_s",
    real(0.001),
    "An open loop with this rate. Without it, each connection starts the next operation after the \
     last one.",
);

static SEED: OptionalKey<u64> = key(
    "seed",
    integer(0, u64::MAX),
    "Seed of its random choices. Without it: its number in the file.",
);

static RAMP: Key<Duration> = key(
    "ramp",
    text(&TIME_OR_NONE),
    "Time in which the rate, or the number of busy connections, rises from zero.",
)
.or(Absent::Text("0s"));

static THREADS: Key<u32> = key(
    "threads",
    integer(1, LOAD_THREADS_MAX as u64),
    "Threads that generate it.",
)
.or(Absent::Number(1));

static TIMEOUT: Key<Duration> =
    key("timeout", text(&TIME), "A slower response is an error.").or(Absent::Text("10s"));

static URL: Key<String> = key("url", text(&LOAD_URL), "http://… or https://….").required();

static METHOD_KEY: Key<String> =
    key("method", text(&METHOD), "Method of the requests.").or(Absent::Text("GET"));

static HEADERS: Key<Vec<(String, String)>> = key(
    "headers",
    map(&FIELD_NAME, &text(&FIELD_VALUE)),
    "Header fields of the requests.",
)
.or(Absent::Table);

static BODY_BYTES: Key<u64> = key(
    "body_bytes",
    integer(0, BODY_BYTES_MAX),
    "Length of the request's content.",
)
.or(Absent::Number(0));

static EXPECT_STATUS: Key<Vec<Expect>> = key(
    "expect_status",
    text(&STATUSES),
    "Statuses that are a success, such as \"2xx, 429\".",
)
.or(Absent::Text("2xx"));

static CONNECTIONS: Key<u32> = key(
    "connections",
    integer(1, CONNECTIONS_MAX as u64),
    "Connections; over UDP: sockets.",
)
.or(Absent::Number(1));

static STREAMS: Key<u32> = key(
    "streams",
    integer(1, STREAMS_MAX as u64),
    "Concurrent requests on a connection, for HTTP/2.",
)
.or(Absent::Number(1));

static CA: OptionalKey<PathBuf> = key(
    "ca",
    text(&PATH),
    "PEM file of trusted authorities, beside the system's.",
);

static VERIFY: Key<bool> =
    key("verify", boolean(), "`false` accepts any certificate.").or(Absent::Yes);

static SERVER: Key<SocketAddr> = key("server", text(&SOCKET), "ADDRESS:PORT.").required();

static TRANSPORT: Key<bool> = key(
    "transport",
    choice(&Choices::of(&[("udp", false), ("tcp", true)])),
    "Transport of the queries.",
)
.or(Absent::Text("udp"));

static NAMES: Key<Vec<String>> = key(
    "names",
    list(&text(&DNS_NAME), 1),
    "Names that are queried in random order; `{n}` is replaced by a random number.",
)
.required();

static SPREAD: Key<u64> =
    key("spread", integer(1, u64::MAX), "`{n}` is below it.").or(Absent::Number(1_000_000));

static TYPE: Key<String> =
    key("record_type", text(&RECORD_TYPE), "Type of the records.").or(Absent::Text("A"));

static RCODE: Key<&str> = key(
    "expect_rcode",
    choice(&Choices::of(&[
        ("NOERROR", "NOERROR"),
        ("NXDOMAIN", "NXDOMAIN"),
        ("SERVFAIL", "SERVFAIL"),
        ("REFUSED", "REFUSED"),
        ("NOTIMP", "NOTIMP"),
    ])),
    "Response code of a success.",
)
.or(Absent::Text("NOERROR"));

/// The loads of a list.
pub fn loads(node: &Node) -> Option<Vec<Load>> {
    let mut number = 0;
    node.each(|node| {
        number += 1;
        load(node, number)
    })
}

/// The load of this number in the file, from 1.
fn load(node: &Node, number: u64) -> Option<Load> {
    let (kind, fields) = node.variant::<Kind>()?;
    let name = fields.get(&NAME)?;
    let rate = fields.get(&RATE)?;
    let load = Load {
        name: name.unwrap_or_else(|| format!("{} {number}", kind.name())),
        pace: rate.map_or(Pace::Closed, |rate_per_s| Pace::Open { rate_per_s }),
        seed: fields.get(&SEED)?.unwrap_or(number),
        ramp: Duration::ZERO,
        threads: 1,
        // A command's timeout is `cycles.timeout`.
        timeout: Duration::MAX,
        kind: match kind {
            Kind::Http1 => LoadKind::Http1(http(fields)?),
            Kind::Http2 => LoadKind::Http2(http(fields)?),
            Kind::Dns => LoadKind::Dns(dns(fields)?),
            Kind::Command => LoadKind::Command(CommandLoad {
                command: program(fields)?,
            }),
        },
    };
    if load.is_command() {
        return Some(load);
    }
    Some(Load {
        ramp: fields.get(&RAMP)?,
        threads: fields.get(&THREADS)?,
        timeout: fields.get(&TIMEOUT)?,
        ..load
    })
}

fn http(load: &Fields) -> Option<HttpLoad> {
    Some(HttpLoad {
        url: load.get(&URL)?,
        method: load.get(&METHOD_KEY)?,
        headers: load.get(&HEADERS)?,
        body_bytes: load.get(&BODY_BYTES)?,
        expect: load.get(&EXPECT_STATUS)?,
        connections: load.get(&CONNECTIONS)?,
        streams: load.get(&STREAMS)?,
        ca: load.get(&CA)?,
        verify: load.get(&VERIFY)?,
    })
}

fn dns(load: &Fields) -> Option<DnsLoad> {
    Some(DnsLoad {
        server: load.get(&SERVER)?,
        tcp: load.get(&TRANSPORT)?,
        names: load.get(&NAMES)?,
        spread: load.get(&SPREAD)?,
        record_type: load.get(&TYPE)?,
        expect_rcode: load.get(&RCODE)?.to_owned(),
        connections: load.get(&CONNECTIONS)?,
    })
}

/// Finds the mistakes that the keys of loads make together.
pub fn check(loads: &[Node], mistakes: &mut Mistakes) {
    for (kind, load) in loads.iter().filter_map(Node::variant::<Kind>) {
        let streams = load.place_of(&STREAMS).filter(|_| kind == Kind::Http1);
        if let Some(at) = streams {
            let mistake = Mistake::new(at, "`streams` has no effect without `kind = \"h2\"`");
            mistakes.push(mistake.help("take it out, or set `kind = \"h2\"`"));
        }
        if kind == Kind::Command {
            check_command(load, &CMD, mistakes);
        }
    }
}
