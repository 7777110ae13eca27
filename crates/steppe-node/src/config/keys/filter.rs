//! Keys of filters, by their kind.

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table, Tagged, Variant};
use steppe_http::config::keys::compress;

use super::authentication::{AUTHORIZE, BASIC_AUTH, FORWARD_AUTH, JWT};
use super::error_pages::ERROR_PAGES;
use super::transform::TRANSFORM;
use crate::config::forms;
use crate::config::limits::{CACHE_BYTES, RATE_ENTRIES, RATE_MAX};

const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

pub static FILTER: Tagged = Tagged {
    name: "http.filter",
    doc: "Filters that routes apply to requests and responses, by name.",
    tag: "kind",
    tag_doc: "Kind of the filter.",
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
            doc: compress::TABLE.doc,
            table: Some(&compress::TABLE),
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
    doc: "Stores and serves responses: a shared cache (RFC 9111) of the whole node.",
    keys: &[
        &Spec::new(
            "bytes",
            Kind::Size(CACHE_BYTES.0, CACHE_BYTES.1),
            "Memory of the cache, of the node's budget. The cache gives up entries before any \
             request is refused for lack of memory.",
        )
        .absent(Absent::Text("64MiB")),
        &Spec::new(
            "max_object_bytes",
            Kind::Size(1, CACHE_BYTES.1),
            "Largest content that is stored. Without it, an eighth of `bytes`.",
        ),
        &Spec::new(
            "stale_while_revalidate",
            Kind::Duration(Duration::ZERO, YEAR),
            "Time that a stale response is served while a new one is fetched, unless the \
             response sets it itself (RFC 5861). Only for responses with an explicit lifetime.",
        )
        .absent(Absent::Text("0s")),
        &Spec::new(
            "stale_if_error",
            Kind::Duration(Duration::ZERO, YEAR),
            "Time that a stale response is served if its server can't be reached or responds \
             with 500, 502, 503 or 504, unless the response sets it itself. Only for responses \
             with an explicit lifetime.",
        )
        .absent(Absent::Text("0s")),
        &Spec::new(
            "request_directives",
            Kind::Boolean,
            "Honors `Cache-Control` of requests that ask for a newer response (RFC 9111 §5.2.1). \
             With `false`, clients can't make the cache contact its servers.",
        )
        .absent(Absent::Yes),
        &Spec::new(
            "store_set_cookie",
            Kind::Boolean,
            "Stores responses that set cookies, if they are `public`: every client then gets \
             these cookies.",
        )
        .absent(Absent::No),
        &Spec::new(
            "cache_status",
            Kind::Boolean,
            "Adds `Cache-Status` (RFC 9211) to responses.",
        )
        .absent(Absent::Yes),
    ],
    needs: Needs::Nothing,
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
