//! Keys of filters, by their kind.

use std::time::Duration;

use super::authentication::{AUTHORIZE, BASIC_AUTH, FORWARD_AUTH, JWT};
use super::compress::COMPRESS;
use super::error_pages::ERROR_PAGES;
use super::transform::TRANSFORM;
use crate::config::limits::{CACHE_BYTES, RATE_ENTRIES, RATE_MAX};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table, Tagged, Variant};

const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

pub static FILTER: Tagged = Tagged {
    name: "http.filter",
    doc: "What is done to exchanges on their way, by name.",
    tag: "kind",
    tag_doc: "What the filter does.",
    variants: &[
        Variant {
            name: "transform",
            doc: TRANSFORM.doc,
            table: Some(&TRANSFORM),
        },
        Variant {
            name: "cors",
            doc: CORS.doc,
            table: Some(&CORS),
        },
        Variant {
            name: "ip",
            doc: IP.doc,
            table: Some(&IP),
        },
        Variant {
            name: "redirect",
            doc: REDIRECT.doc,
            table: Some(&REDIRECT),
        },
        Variant {
            name: "request-id",
            doc: REQUEST_ID.doc,
            table: Some(&REQUEST_ID),
        },
        Variant {
            name: "security-headers",
            doc: SECURITY_HEADERS.doc,
            table: Some(&SECURITY_HEADERS),
        },
        Variant {
            name: "jwt",
            doc: JWT.doc,
            table: Some(&JWT),
        },
        Variant {
            name: "basic-auth",
            doc: BASIC_AUTH.doc,
            table: Some(&BASIC_AUTH),
        },
        Variant {
            name: "forward-auth",
            doc: FORWARD_AUTH.doc,
            table: Some(&FORWARD_AUTH),
        },
        Variant {
            name: "rate-limit",
            doc: RATE_LIMIT.doc,
            table: Some(&RATE_LIMIT),
        },
        Variant {
            name: "authorize",
            doc: AUTHORIZE.doc,
            table: Some(&AUTHORIZE),
        },
        Variant {
            name: "cache",
            doc: CACHE.doc,
            table: Some(&CACHE),
        },
        Variant {
            name: "compress",
            doc: COMPRESS.doc,
            table: Some(&COMPRESS),
        },
        Variant {
            name: "error-pages",
            doc: ERROR_PAGES.doc,
            table: Some(&ERROR_PAGES),
        },
    ],
};

static CACHE: Table = Table {
    name: "http.filter",
    doc: "Stores responses, and answers with them, as a shared cache does (RFC 9111).",
    keys: &[
        Key::new(
            "bytes",
            Kind::Size(CACHE_BYTES.0, CACHE_BYTES.1),
            "Memory that it takes at most, of the node's budget; it gives way before anybody is refused.",
        )
        .absent(Absent::Text("64MiB")),
        Key::new(
            "max_object_bytes",
            Kind::Size(1, CACHE_BYTES.1),
            "Content of a response that is stored; without it an eighth of `bytes`.",
        ),
        Key::new(
            "stale_while_revalidate",
            Kind::Duration(Duration::ZERO, YEAR),
            "How long what is stale is used while another is fetched, unless the response says so itself.",
        )
        .absent(Absent::Text("0s")),
        Key::new(
            "stale_if_error",
            Kind::Duration(Duration::ZERO, YEAR),
            "How long what is stale is used where its server fails, unless the response says so itself.",
        )
        .absent(Absent::Text("0s")),
        Key::new(
            "request_directives",
            Kind::Boolean,
            "Whether requests may ask for what is newer, by their `Cache-Control`.",
        )
        .absent(Absent::Yes),
        Key::new(
            "store_set_cookie",
            Kind::Boolean,
            "Stores responses that set cookies, where they are `public`: every client gets these.",
        )
        .absent(Absent::No),
        Key::new(
            "cache_status",
            Kind::Boolean,
            "Tells clients where a response is from: `Cache-Status`.",
        )
        .absent(Absent::Yes),
    ],
    needs: Needs::Nothing,
};

static CORS: Table = Table {
    name: "http.filter",
    doc: "Says which other origins may read responses, and answers their preflights.",
    keys: &[
        Key::new(
            "origins",
            Kind::List(&Kind::Text(Form::Origin), 1),
            "Origins such as \"https://app.example.com\" or \"https://*.example.com\"; \"*\" is all.",
        )
        .required(),
        Key::new(
            "methods",
            Kind::List(&Kind::Text(Form::Method), 1),
            "Methods that their scripts may use.",
        )
        .absent(Absent::Texts(&["GET", "HEAD", "POST"])),
        Key::new(
            "headers",
            Kind::List(&Kind::Text(Form::FieldName), 0),
            "Request fields that they may set.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "expose",
            Kind::List(&Kind::Text(Form::FieldName), 0),
            "Response fields that they may read.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "credentials",
            Kind::Boolean,
            "Whether their requests may carry cookies and `Authorization`.",
        )
        .absent(Absent::No),
        Key::new(
            "max_age",
            Kind::Duration(Duration::ZERO, DAY),
            "How long browsers may keep a preflight's answer.",
        ),
    ],
    needs: Needs::Nothing,
};

static IP: Table = Table {
    name: "http.filter",
    doc: "Lets networks in or keeps them out: 403.",
    keys: &[
        Key::new(
            "allow",
            Kind::List(&Kind::Text(Form::Network), 1),
            "Networks that may ask; without it all.",
        ),
        Key::new(
            "deny",
            Kind::List(&Kind::Text(Form::Network), 1),
            "Networks that may not, whatever `allow` says.",
        ),
    ],
    needs: Needs::Any(&["allow", "deny"]),
};

static RATE_LIMIT: Table = Table {
    name: "http.filter",
    doc: "Refuses requests beyond a rate, or a number at once, of the node whatever its number of workers: 429.",
    keys: &[
        Key::new(
            "rate",
            Kind::Integer(1, RATE_MAX),
            "Requests in `per`, for each key.",
        ),
        Key::new(
            "concurrent",
            Kind::Integer(1, RATE_MAX),
            "Requests in flight at once, for each key.",
        ),
        Key::new(
            "per",
            Kind::Duration(Duration::from_secs(1), DAY),
            "The time that `rate` counts in.",
        )
        .absent(Absent::Text("1s")),
        Key::new(
            "burst",
            Kind::Integer(1, RATE_MAX),
            "Requests that may come at once; without it `rate`.",
        ),
        Key::new(
            "key",
            Kind::Text(Form::RateKey),
            "Whose requests count together: \"ip\", \"header:NAME\", \"jwt:CLAIM\" or \"route\".",
        )
        .absent(Absent::Text("ip")),
        Key::new(
            "ipv4_prefix",
            Kind::Integer(1, 32),
            "Leading bits of an IPv4 address that count.",
        )
        .absent(Absent::Number(32)),
        Key::new(
            "ipv6_prefix",
            Kind::Integer(1, 128),
            "Leading bits of an IPv6 address that count.",
        )
        .absent(Absent::Number(64)),
        Key::new(
            "entries",
            Kind::Integer(RATE_ENTRIES.0, RATE_ENTRIES.1),
            "Keys that are remembered: 16 bytes each for `rate`, 8 for `concurrent`.",
        )
        .absent(Absent::Number(65_536)),
        Key::new(
            "store",
            Kind::Text(Form::RateStore),
            "A database of Valkey or Redis that shares `rate` among nodes; while it is away, the limit is each node's own.",
        )
        .secret(),
    ],
    needs: Needs::Any(&["rate", "concurrent"]),
};

static REDIRECT: Table = Table {
    name: "http.filter",
    doc: "Sends clients elsewhere.",
    keys: &[
        Key::new(
            "to",
            Kind::Text(Form::FieldValue),
            "The `Location`: {host}, {path} and {query} stand for the request's own, the last with its `?`.",
        )
        .required(),
        Key::new(
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
    doc: "Gives each request a name, told to its server and its client.",
    keys: &[
        Key::new("header", Kind::Text(Form::FieldName), "The field.")
            .absent(Absent::Text("x-request-id")),
        Key::new(
            "keep",
            Kind::Boolean,
            "Keeps a client's own name, where it is a token of at most 128 bytes.",
        )
        .absent(Absent::No),
    ],
    needs: Needs::Nothing,
};

static SECURITY_HEADERS: Table = Table {
    name: "http.filter",
    doc: "Tells browsers to be careful, where the server says nothing of it.",
    keys: &[
        Key::new(
            "nosniff",
            Kind::Boolean,
            "`X-Content-Type-Options: nosniff`.",
        )
        .absent(Absent::Yes),
        Key::new(
            "frame_options",
            Kind::Choice(&[
                Choice::served("deny"),
                Choice::served("sameorigin"),
                Choice::served("off"),
            ]),
            "`X-Frame-Options`.",
        )
        .absent(Absent::Text("deny")),
        Key::new(
            "referrer_policy",
            Kind::Text(Form::FieldValue),
            "`Referrer-Policy`.",
        )
        .absent(Absent::Text("strict-origin-when-cross-origin")),
        Key::new(
            "content_security_policy",
            Kind::Text(Form::FieldValue),
            "`Content-Security-Policy`.",
        ),
        Key::new(
            "permissions_policy",
            Kind::Text(Form::FieldValue),
            "`Permissions-Policy`.",
        ),
        Key::new(
            "cross_origin_opener_policy",
            Kind::Choice(&[
                Choice::served("same-origin"),
                Choice::served("same-origin-allow-popups"),
                Choice::served("unsafe-none"),
            ]),
            "`Cross-Origin-Opener-Policy`.",
        ),
    ],
    needs: Needs::Nothing,
};
