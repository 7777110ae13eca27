//! `[[load]]`: what drives the target.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::mistake::Mistake;
use super::read::program;
use super::table::{At, Table};
use super::{CommandLoad, DnsLoad, Expect, HttpLoad, Load, LoadKind, Pace};
use crate::limits::{
    BODY_BYTES_MAX, CONNECTIONS_MAX, DURATION_MAX, GENERATOR_THREADS_MAX, STREAMS_MAX,
};

/// Reads the load number `index` of the file.
pub(super) fn read(table: Table<'_>, index: usize) -> Option<Load> {
    let word = table.required_text("kind", "kind = \"http\"");
    let kind = match word.as_ref().map(|word| word.value.as_str()) {
        Some("http") => http(&table, false).map(LoadKind::Http1),
        Some("h2") => http(&table, true).map(LoadKind::Http2),
        Some("dns") => dns(&table).map(LoadKind::Dns),
        Some("command") => {
            program(&table).map(|command| LoadKind::Command(CommandLoad { command }))
        }
        // The keys depend on the kind: of an unknown one, nothing more can be said.
        _ => {
            table.choice("kind", &KINDS);
            return None;
        }
    };
    let word = word.map(|word| word.value).unwrap_or_default();
    let name = table
        .text("name")
        .map_or_else(|| format!("{word} {}", index + 1), |name| name.value);
    let pace = match table.number("rate_per_s", 0.001) {
        Some(rate) => Pace::Open {
            rate_per_s: rate.value,
        },
        None => Pace::Closed,
    };
    let seed = table.integer("seed", 0, u64::MAX).map(|seed| seed.value);
    let is_command = word == "command";
    // A command makes its own way: these would be ignored.
    let ramp = if is_command {
        None
    } else {
        table.duration("ramp", Duration::ZERO, DURATION_MAX)
    };
    let threads = if is_command {
        None
    } else {
        table.count("threads", 1, GENERATOR_THREADS_MAX)
    };
    let shortest = Duration::from_millis(1);
    let timeout = if is_command {
        None
    } else {
        table.duration("timeout", shortest, DURATION_MAX)
    };
    table.end();
    Some(Load {
        name,
        pace,
        ramp: ramp.unwrap_or_default(),
        seed: seed.unwrap_or(index as u64 + 1),
        threads: threads.map_or(1, |threads| threads.value),
        timeout: timeout.unwrap_or(TIMEOUT),
        kind: kind?,
    })
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn http(table: &Table<'_>, is_http2: bool) -> Option<HttpLoad> {
    let url = table.required_text("url", "url = \"http://127.0.0.1:8080/\"");
    let url = url.and_then(|url| http_url(table, url));
    let method = table.text("method");
    let method = match method {
        Some(method) if hyper::Method::from_bytes(method.value.as_bytes()).is_err() => {
            table.refuse("method", method.span, "not a method")
        }
        method => Some(method.map_or_else(|| "GET".to_owned(), |method| method.value)),
    };
    let headers = headers(table);
    let body_bytes = table.integer("body_bytes", 0, BODY_BYTES_MAX);
    let expect = match table.text("expect_status") {
        Some(text) => expected(table, &text),
        None => Some(vec![Expect { from: 200, to: 299 }]),
    };
    let connections = connections(table);
    let streams = if is_http2 {
        table.count("streams", 1, STREAMS_MAX)
    } else {
        None
    };
    let ca = table.text("ca").map(|path| PathBuf::from(path.value));
    let verify = table.flag("verify").unwrap_or(true);
    Some(HttpLoad {
        url: url?,
        method: method?,
        headers: headers?,
        body_bytes: body_bytes.map_or(0, |bytes| bytes.value),
        expect: expect?,
        connections,
        streams: streams.map_or(1, |streams| streams.value),
        ca,
        verify,
    })
}

fn http_url(table: &Table<'_>, url: At<String>) -> Option<String> {
    let parsed = url.value.parse::<hyper::Uri>().ok();
    let is_good = parsed.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
    });
    if is_good {
        return Some(url.value);
    }
    table.refuse(
        "url",
        url.span,
        "expected http://HOST:PORT/PATH or https://…",
    )
}

fn headers(table: &Table<'_>) -> Option<Vec<(String, String)>> {
    let headers: Vec<_> = table.map("headers").into_iter().collect();
    for (name, value) in &headers {
        let is_good = hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && hyper::header::HeaderValue::from_str(value).is_ok();
        if !is_good {
            let why = format!("`{}` is not a field", name.escape_debug());
            return table.refuse("headers", table.span(), why);
        }
    }
    Some(headers)
}

/// `"2xx"`, a status such as `"204"`, or several of either.
fn expected(table: &Table<'_>, text: &At<String>) -> Option<Vec<Expect>> {
    let statuses: Option<Vec<_>> = text.value.split(',').map(|it| status(it.trim())).collect();
    match statuses {
        Some(statuses) => Some(statuses),
        None => table.refuse(
            "expect_status",
            text.span.clone(),
            "expected \"2xx\", \"204\" or \"2xx, 429\"",
        ),
    }
}

fn status(text: &str) -> Option<Expect> {
    let class = text.strip_suffix("xx").map(|class| class.parse::<u16>());
    match (class, text.parse::<u16>()) {
        (Some(Ok(class @ 1..=5)), _) => Some(Expect {
            from: class * 100,
            to: class * 100 + 99,
        }),
        (None, Ok(status @ 100..=599)) => Some(Expect {
            from: status,
            to: status,
        }),
        _ => None,
    }
}

fn dns(table: &Table<'_>) -> Option<DnsLoad> {
    let server = table.required_text("server", "server = \"127.0.0.1:53\"");
    let server = server.and_then(|server| match server.value.parse::<SocketAddr>() {
        Ok(address) => Some(address),
        Err(_) => table.refuse("server", server.span, "expected ADDRESS:PORT"),
    });
    let tcp = table
        .choice("transport", &[("udp", false), ("tcp", true)])
        .unwrap_or(false);
    let names = names(table);
    let spread = table.integer("spread", 1, u64::MAX);
    let record_type = parsed_text(table, "record_type", "A", |text| {
        text.parse::<hickory_proto::rr::RecordType>().is_ok()
    });
    let rcode = table.choice("expect_rcode", &RCODES).unwrap_or("NOERROR");
    let connections = connections(table);
    Some(DnsLoad {
        server: server?,
        tcp,
        names: names?,
        spread: spread.map_or(1_000_000, |spread| spread.value),
        record_type: record_type?,
        expect_rcode: rcode.to_owned(),
        connections,
    })
}

fn names(table: &Table<'_>) -> Option<Vec<String>> {
    let Some(names) = table.texts("names") else {
        if !table.has("names") {
            table.required_text("names", "names = [\"www.example.\", \"h{n}.example.\"]");
        }
        return None;
    };
    let is_name = |name: &String| {
        let name = name.replace("{n}", "18446744073709551615");
        hickory_proto::rr::Name::from_ascii(name).is_ok()
    };
    match names.value.iter().find(|name| !is_name(name)) {
        _ if names.value.is_empty() => table.refuse("names", names.span, "at least one"),
        Some(name) => {
            let why = format!("`{}` is not a domain name", name.escape_debug());
            table.refuse("names", names.span, why)
        }
        None => Some(names.value),
    }
}

fn parsed_text(
    table: &Table<'_>,
    key: &'static str,
    default: &str,
    is_good: impl Fn(&str) -> bool,
) -> Option<String> {
    match table.text(key) {
        Some(text) if is_good(&text.value) => Some(text.value),
        Some(text) => {
            table.say(Mistake::new(
                text.span,
                format!("unknown `{key}`"),
                "not known",
            ));
            None
        }
        None => Some(default.to_owned()),
    }
}

fn connections(table: &Table<'_>) -> u32 {
    table
        .count("connections", 1, CONNECTIONS_MAX)
        .map_or(1, |count| count.value)
}

const KINDS: [(&str, ()); 4] = [("http", ()), ("h2", ()), ("dns", ()), ("command", ())];

const RCODES: [(&str, &str); 5] = [
    ("NOERROR", "NOERROR"),
    ("NXDOMAIN", "NXDOMAIN"),
    ("SERVFAIL", "SERVFAIL"),
    ("REFUSED", "REFUSED"),
    ("NOTIMP", "NOTIMP"),
];

const TIMEOUT: Duration = Duration::from_secs(10);
