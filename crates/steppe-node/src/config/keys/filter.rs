//! Keys of filters, by their kind.

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table, Tagged, Variant};
use steppe_http::config::keys::{cache, compress};

use super::authentication::{AUTHORIZE, BASIC_AUTH, FORWARD_AUTH, JWT};
use super::error_pages::ERROR_PAGES;
use super::transform::TRANSFORM;
use crate::config::forms;
use crate::config::limits::{RATE_ENTRIES, RATE_MAX};

const DAY: Duration = Duration::from_secs(86_400);

pub static FILTER: Tagged = Tagged {
    name: "http.filter",
    doc: "Filters that routes apply to requests and responses, by name.",
    tag: "kind",
    tag_doc: "Kind of the filter.",
    variants: &[
        Variant::new("transform", &TRANSFORM, &()),
        Variant::new("cors", &CORS, &()),
        Variant::new("ip", &IP, &()),
        Variant::new("redirect", &REDIRECT, &()),
        Variant::new("request-id", &REQUEST_ID, &()),
        Variant::new("security-headers", &SECURITY_HEADERS, &()),
        Variant::new("jwt", &JWT, &()),
        Variant::new("basic-auth", &BASIC_AUTH, &()),
        Variant::new("forward-auth", &FORWARD_AUTH, &()),
        Variant::new("rate-limit", &RATE_LIMIT, &()),
        Variant::new("authorize", &AUTHORIZE, &()),
        Variant::new("cache", &cache::TABLE, &()),
        Variant::new("compress", &compress::TABLE, &()),
        Variant::new("error-pages", &ERROR_PAGES, &()),
    ],
};

static CORS: Table = Table {
    name: "http.filter",
    doc: "Lets scripts of other origins read responses, and answers their preflights.",
    keys: &[
        &Spec::new(
            "origins",
            Kind::List(&Kind::Text(&forms::ORIGIN), 1),
            "Allowed origins: \"https://app.example.com\", \"https://*.example.com\" for every \
             subdomain (of the same scheme and port), or \"*\" for all.",
        )
        .required(),
        &Spec::new(
            "methods",
            Kind::List(&Kind::Text(&forms::METHOD), 1),
            "Methods that scripts of those origins may use.",
        )
        .absent(Absent::Texts(&["GET", "HEAD", "POST"])),
        &Spec::new(
            "headers",
            Kind::List(&Kind::Text(&forms::FIELD_NAME), 0),
            "Request fields that they may set.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "expose",
            Kind::List(&Kind::Text(&forms::FIELD_NAME), 0),
            "Response fields that they may read.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "credentials",
            Kind::Boolean,
            "Allows cookies and `Authorization` in their requests; not with \"*\".",
        )
        .absent(Absent::No),
        &Spec::new(
            "max_age",
            Kind::Duration(Duration::ZERO, DAY),
            "Time that browsers may keep the response to a preflight. Without it, the browser's \
             own.",
        ),
    ],
    needs: Needs::Nothing,
};

static IP: Table = Table {
    name: "http.filter",
    doc: "Allows or refuses clients by network. Refused requests get 403.",
    keys: &[
        &Spec::new(
            "allow",
            Kind::List(&Kind::Text(&forms::NETWORK), 1),
            "Networks that are allowed. Without it, all. The address is the client's, as far as \
             `trusted_proxies` vouch for it.",
        ),
        &Spec::new(
            "deny",
            Kind::List(&Kind::Text(&forms::NETWORK), 1),
            "Networks that are refused, even if `allow` has them. IPv4 clients have their IPv4 \
             address on IPv6 sockets too: a network of IPv4-mapped addresses is an error.",
        ),
    ],
    needs: Needs::Any(&["allow", "deny"]),
};

static RATE_LIMIT: Table = Table {
    name: "http.filter",
    doc: "Limits the rate of requests, or their number in flight, for all workers together. \
     Requests beyond it get 429 with `Retry-After`.",
    keys: &[
        &Spec::new(
            "rate",
            Kind::Integer(1, RATE_MAX),
            "Requests that each key may send in the time `per`.",
        ),
        &Spec::new(
            "concurrent",
            Kind::Integer(1, RATE_MAX),
            "Requests in flight for each key. A request counts until its response has ended, a \
             tunnel until it begins.",
        ),
        &Spec::new(
            "per",
            Kind::Duration(Duration::from_secs(1), DAY),
            "Time that `rate` refers to.",
        )
        .absent(Absent::Text("1s")),
        &Spec::new(
            "burst",
            Kind::Integer(1, RATE_MAX),
            "Requests that may arrive at once. Without it, `rate`.",
        ),
        &Spec::new(
            "key",
            Kind::Text(&forms::RATE_KEY),
            "Key that requests are counted by: \"ip\", \"header:NAME\", \"jwt:CLAIM\" (after a \
             `jwt` filter) or \"route\". Requests without the field share one key. A request \
             with several lines of the field gets 400. A field whose value clients choose freely \
             does not limit them.",
        )
        .absent(Absent::Text("ip")),
        &Spec::new(
            "ipv4_prefix",
            Kind::Integer(1, 32),
            "Leading bits of an IPv4 address that form the key.",
        )
        .absent(Absent::Number(32)),
        &Spec::new(
            "ipv6_prefix",
            Kind::Integer(1, 128),
            "Leading bits of an IPv6 address that form the key: a host has a whole /64.",
        )
        .absent(Absent::Number(64)),
        &Spec::new(
            "entries",
            Kind::Integer(RATE_ENTRIES.0, RATE_ENTRIES.1),
            "Keys that are remembered, at 16 bytes each for `rate` and 8 for `concurrent`.",
        )
        .absent(Absent::Number(65_536)),
        &Spec::new(
            "store",
            Kind::Text(&forms::RATE_STORE),
            "URL of a Valkey or Redis database (5 or later) that shares `rate` among nodes with \
             a filter of this name: \"redis://127.0.0.1:6379/0\", with `USER:PASSWORD@` or \
             without. While it is unreachable, each node limits by itself.",
        )
        .secret(),
    ],
    needs: Needs::Any(&["rate", "concurrent"]),
};

static REDIRECT: Table = Table {
    name: "http.filter",
    doc: "Redirects requests to another URL.",
    keys: &[
        &Spec::new(
            "to",
            Kind::Text(&forms::FIELD_VALUE),
            "Value of `Location`. `{host}`, `{path}` (in normal form) and `{query}` (with its \
             `?`) insert the request's own.",
        )
        .required(),
        &Spec::new(
            "status",
            Kind::Integer(301, 308),
            "301, 302, 303, 307 or 308.",
        )
        .absent(Absent::Number(308)),
    ],
    needs: Needs::Nothing,
};

static REQUEST_ID: Table = Table {
    name: "http.filter",
    doc: "Gives each request a random ID (128 bits) for server and client.",
    keys: &[
        &Spec::new(
            "header",
            Kind::Text(&forms::FIELD_NAME),
            "Field that carries the ID, in hexadecimal.",
        )
        .absent(Absent::Text("x-request-id")),
        &Spec::new(
            "keep",
            Kind::Boolean,
            "Keeps the ID that a client sends, if it is a token of at most 128 bytes.",
        )
        .absent(Absent::No),
    ],
    needs: Needs::Nothing,
};

static SECURITY_HEADERS: Table = Table {
    name: "http.filter",
    doc: "Adds security fields to responses. A field that the server sent stays unchanged.",
    keys: &[
        &Spec::new(
            "nosniff",
            Kind::Boolean,
            "Adds `X-Content-Type-Options: nosniff`.",
        )
        .absent(Absent::Yes),
        &Spec::new(
            "frame_options",
            Kind::Choice(&["deny", "sameorigin", "off"]),
            "Value of `X-Frame-Options`; \"off\" adds none.",
        )
        .absent(Absent::Text("deny")),
        &Spec::new(
            "referrer_policy",
            Kind::Text(&forms::FIELD_VALUE),
            "Value of `Referrer-Policy`; \"\" adds none.",
        )
        .absent(Absent::Text("strict-origin-when-cross-origin")),
        &Spec::new(
            "content_security_policy",
            Kind::Text(&forms::FIELD_VALUE),
            "Value of `Content-Security-Policy`.",
        ),
        &Spec::new(
            "permissions_policy",
            Kind::Text(&forms::FIELD_VALUE),
            "Value of `Permissions-Policy`.",
        ),
        &Spec::new(
            "cross_origin_opener_policy",
            Kind::Choice(&["same-origin", "same-origin-allow-popups", "unsafe-none"]),
            "Value of `Cross-Origin-Opener-Policy`.",
        ),
    ],
    needs: Needs::Nothing,
};
