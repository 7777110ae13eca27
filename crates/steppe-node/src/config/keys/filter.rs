//! Keys of filters, by their kind.

use std::time::Duration;

use super::compress::COMPRESS;
use super::error_pages::ERROR_PAGES;
use super::transform::{REQUEST_JSON, RESPONSE_JSON, REWRITE};
use crate::config::limits::{CACHE_BYTES, RATE_ENTRIES, RATE_MAX, VERIFIED_TOKENS_MAX};
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

static TRANSFORM: Table = Table {
    name: "http.filter",
    doc: "Rewrites paths and queries; rewrites, removes, sets and appends fields, in this order; edits JSON.",
    keys: &[
        Key::new(
            "request_headers",
            Kind::Table(&REQUEST_EDITS),
            REQUEST_EDITS.doc,
        )
        .absent(Absent::Table),
        Key::new(
            "response_headers",
            Kind::Table(&RESPONSE_EDITS),
            RESPONSE_EDITS.doc,
        )
        .absent(Absent::Table),
        Key::new(
            "path",
            Kind::List(&Kind::Table(&PATH_EDIT), 0),
            "Other paths: of these, the first whose pattern matches.",
        )
        .absent(Absent::Texts(&[])),
        Key::new("query", Kind::Table(&QUERY_EDITS), QUERY_EDITS.doc).absent(Absent::Table),
        Key::new("request_json", Kind::Table(&REQUEST_JSON), REQUEST_JSON.doc),
        Key::new(
            "response_json",
            Kind::Table(&RESPONSE_JSON),
            RESPONSE_JSON.doc,
        ),
    ],
    needs: Needs::Nothing,
};

static REQUEST_EDITS: Table = Table {
    name: "http.filter.request_headers",
    doc: "Edits of the request, before it is forwarded.",
    keys: EDIT_KEYS,
    needs: Needs::Nothing,
};

static RESPONSE_EDITS: Table = Table {
    name: "http.filter.response_headers",
    doc: "Edits of the response, before it is sent.",
    keys: EDIT_KEYS,
    needs: Needs::Nothing,
};

static EDIT_KEYS: &[Key] = &[
    Key::new(
        "rewrite",
        Kind::List(&Kind::Table(&REWRITE), 0),
        "Fields that are made of what patterns find, in this order.",
    )
    .absent(Absent::Texts(&[])),
    Key::new(
        "remove",
        Kind::List(&Kind::Text(Form::FieldName), 0),
        "Fields that are taken out.",
    )
    .absent(Absent::Texts(&[])),
    Key::new(
        "set",
        Kind::Map(Form::FieldName, &Kind::Text(Form::FieldValue)),
        "Fields that replace whatever had their name.",
    )
    .absent(Absent::Table)
    .secret(),
    Key::new(
        "append",
        Kind::Map(
            Form::FieldName,
            &Kind::OneOrMany(&Kind::Text(Form::FieldValue)),
        ),
        "Field lines that are added.",
    )
    .absent(Absent::Table)
    .secret(),
];

static PATH_EDIT: Table = Table {
    name: "http.filter.path",
    doc: "Another path for those that match.",
    keys: &[
        Key::new(
            "pattern",
            Kind::Text(Form::Pattern),
            "A regular expression; what it matches of the path in normal form is replaced.",
        )
        .required(),
        Key::new(
            "to",
            Kind::Text(Form::Any),
            "By what: ${NAME} stands for what that group matched.",
        )
        .required(),
    ],
    needs: Needs::Nothing,
};

static QUERY_EDITS: Table = Table {
    name: "http.filter.query",
    doc: "Edits of the query, in this order.",
    keys: &[
        Key::new(
            "remove",
            Kind::List(&Kind::Text(Form::Any), 0),
            "Parameters that are taken out.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "set",
            Kind::Map(Form::Any, &Kind::Text(Form::Any)),
            "Parameters that replace whatever had their name.",
        )
        .absent(Absent::Table)
        .secret(),
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

static JWT: Table = Table {
    name: "http.filter",
    doc: "Asks for a JSON Web Token that a known key has signed: 401.",
    keys: &[
        Key::new("issuer", Kind::Text(Form::Any), "Its `iss`; without it any."),
        Key::new(
            "audience",
            Kind::List(&Kind::Text(Form::Any), 1),
            "One of these is in its `aud`; without it any.",
        ),
        Key::new(
            "leeway",
            Kind::Duration(Duration::ZERO, Duration::from_secs(3600)),
            "How far clocks may differ.",
        )
        .absent(Absent::Text("30s")),
        Key::new(
            "keys",
            Kind::List(&Kind::Table(&JWT_KEY), 1),
            "Keys that may have signed it.",
        ),
        Key::new("jwks", Kind::Table(&JWKS), JWKS.doc),
        Key::new(
            "from",
            Kind::List(&Kind::Text(Form::TokenSource), 1),
            "Where it is looked for, in this order: \"header:NAME\", \"cookie:NAME\", \"query:NAME\".",
        )
        .absent(Absent::Texts(&["header:authorization"])),
        Key::new(
            "forward_claims",
            Kind::Map(Form::Any, &Kind::Text(Form::FieldName)),
            "Claims that servers are told, and by which field; a client's own are removed.",
        )
        .absent(Absent::Table)
        .secret(),
        Key::new(
            "cache_entries",
            Kind::Integer(0, VERIFIED_TOKENS_MAX),
            "Verified tokens that are remembered until they expire.",
        )
        .absent(Absent::Number(1024)),
    ],
    needs: Needs::Any(&["keys", "jwks"]),
};

static JWT_KEY: Table = Table {
    name: "http.filter.keys",
    doc: "A key that may have signed tokens.",
    keys: &[
        Key::new(
            "id",
            Kind::Text(Form::Any),
            "The `kid` of tokens that it signed; without it, of any.",
        ),
        Key::new(
            "algorithm",
            Kind::Choice(&[
                Choice::served("HS256"),
                Choice::served("HS384"),
                Choice::served("HS512"),
                Choice::served("RS256"),
                Choice::served("RS384"),
                Choice::served("RS512"),
                Choice::served("PS256"),
                Choice::served("PS384"),
                Choice::served("PS512"),
                Choice::served("ES256"),
                Choice::served("ES384"),
                Choice::later("ES512"),
                Choice::served("EdDSA"),
            ]),
            "What it signs with, and nothing else.",
        )
        .required(),
        Key::new(
            "secret_file",
            Kind::Text(Form::File),
            "File with the secret of an HS algorithm, of at least 32 bytes.",
        ),
        Key::new(
            "public_key_file",
            Kind::Text(Form::File),
            "File with the public key of another algorithm, as PEM.",
        ),
    ],
    needs: Needs::One(&["secret_file", "public_key_file"]),
};

static JWKS: Table = Table {
    name: "http.filter.jwks",
    doc: "A set of keys (RFC 7517) that may have signed it.",
    keys: &[
        Key::new("file", Kind::Text(Form::File), "File with the set.").exclusive(),
        Key::new(
            "url",
            Kind::Text(Form::Url),
            "URL of http or https that the set is fetched from.",
        ),
        Key::new(
            "refresh",
            Kind::Duration(Duration::from_secs(1), DAY),
            "After so long, it is fetched again.",
        )
        .absent(Absent::Text("5m")),
        Key::new(
            "cooldown",
            Kind::Duration(Duration::from_secs(1), DAY),
            "For a key that it lacks, it is fetched again no sooner than so long after the last time.",
        )
        .absent(Absent::Text("30s")),
        Key::new(
            "ca",
            Kind::Text(Form::File),
            "Authorities of the URL's server, PEM; without it those of the system.",
        ),
    ],
    needs: Needs::One(&["file", "url"]),
};

static BASIC_AUTH: Table = Table {
    name: "http.filter",
    doc: "Asks for a name and a password, of which hashes are known: 401.",
    keys: &[
        Key::new(
            "users_file",
            Kind::Text(Form::File),
            "File with lines NAME:HASH, of bcrypt, argon2 or SHA-crypt, as htpasswd -B writes them.",
        )
        .required(),
        Key::new(
            "realm",
            Kind::Text(Form::FieldValue),
            "What browsers say that the password is for.",
        )
        .absent(Absent::Text("steppe")),
        Key::new(
            "forward_user",
            Kind::Text(Form::FieldName),
            "The field that servers are told the name by; a client's own is removed.",
        ),
        Key::new(
            "cache_entries",
            Kind::Integer(0, VERIFIED_TOKENS_MAX),
            "Verified passwords that are remembered, as digests.",
        )
        .absent(Absent::Number(1024)),
    ],
    needs: Needs::Nothing,
};

static FORWARD_AUTH: Table = Table {
    name: "http.filter",
    doc: "Asks another service about each request: what it answers with 2xx passes.",
    keys: &[
        Key::new(
            "upstream",
            Kind::Text(Form::Name),
            "The upstream of the service, which has servers.",
        )
        .required(),
        Key::new(
            "path",
            Kind::Text(Form::Target),
            "What it is asked for, by GET.",
        )
        .absent(Absent::Text("/")),
        Key::new(
            "request_headers",
            Kind::List(&Kind::Text(Form::FieldName), 0),
            "Fields of the request that it is shown.",
        )
        .absent(Absent::Texts(&["authorization", "cookie"])),
        Key::new(
            "response_headers",
            Kind::List(&Kind::Text(Form::FieldName), 0),
            "Fields of its answer that the request is given; a client's own are removed.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "timeout",
            Kind::TIMEOUT,
            "How long its answer may take: 504.",
        )
        .absent(Absent::Text("5s")),
    ],
    needs: Needs::Nothing,
};

static AUTHORIZE: Table = Table {
    name: "http.filter",
    doc: "Decides by method, path and claims of the token: 403.",
    keys: &[Key::new(
        "rules",
        Kind::List(&Kind::Table(&RULE), 1),
        "The first that matches the request decides; where none does, nobody may.",
    )
    .required()],
    needs: Needs::Nothing,
};

static RULE: Table = Table {
    name: "http.filter.rules",
    doc: "Which requests it is for, and what their token must say.",
    keys: &[
        Key::new(
            "methods",
            Kind::List(&Kind::Text(Form::RuleMethod), 1),
            "Methods that it is for; \"*\" and without it all.",
        ),
        Key::new(
            "path",
            Kind::Text(Form::Path),
            "Paths that it is for, as of a route; without it all.",
        ),
        Key::new(
            "any_scope",
            Kind::List(&Kind::Text(Form::Any), 1),
            "The token has one of these scopes.",
        ),
        Key::new(
            "all_scopes",
            Kind::List(&Kind::Text(Form::Any), 1),
            "The token has all of these scopes.",
        ),
        Key::new(
            "claims",
            Kind::Map(Form::Any, &Kind::OneOrMany(&Kind::Text(Form::Any))),
            "Each of these claims is, or contains, one of its values; \"a.b\" is the member b of a.",
        )
        .absent(Absent::Table)
        .secret(),
        Key::new("deny", Kind::Boolean, "Refuses what it is for.").absent(Absent::No),
    ],
    needs: Needs::Nothing,
};
