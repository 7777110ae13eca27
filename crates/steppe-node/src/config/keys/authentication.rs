//! Keys of the filters that ask who sends a request, and decide what they may.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;
use crate::config::limits::VERIFIED_TOKENS_MAX;

const DAY: Duration = Duration::from_secs(86_400);

pub static JWT: Table = Table {
    name: "http.filter",
    doc: "Requires a JSON Web Token signed by a known key; without one, 401.",
    keys: &[
        &Spec::new(
            "issuer",
            Kind::Text(&forms::ANY),
            "`iss` that a token must have. Without it, any.",
        ),
        &Spec::new(
            "audience",
            Kind::List(&Kind::Text(&forms::ANY), 1),
            "Values of which a token must have one in its `aud`. Without it, any.",
        ),
        &Spec::new(
            "leeway",
            Kind::Duration(Duration::ZERO, Duration::from_secs(3600)),
            "Tolerance for clocks that differ.",
        )
        .absent(Absent::Text("30s")),
        &Spec::new(
            "keys",
            Kind::List(&Kind::Table(&JWT_KEY), 1),
            "Keys that tokens may be signed with. Their files are read with the configuration, \
             and again by each reload.",
        ),
        &Spec::new("jwks", Kind::Table(&JWKS), JWKS.doc),
        &Spec::new(
            "from",
            Kind::List(&Kind::Text(&forms::TOKEN_SOURCE), 1),
            "Places where the token is looked for, in this order: \"header:NAME\" (in \
             `authorization` after `Bearer`), \"cookie:NAME\", \"query:NAME\".",
        )
        .absent(Absent::Texts(&["header:authorization"])),
        &Spec::new(
            "forward_claims",
            Kind::Map(&forms::ANY, &Kind::Text(&forms::FIELD_NAME)),
            "Claims that are forwarded to servers, each with its field: strings, numbers and \
             booleans. \"a.b\" is the member `b` of `a`. A client's own copies of these fields \
             are removed.",
        )
        .absent(Absent::Table)
        .secret(),
        &Spec::new(
            "cache_entries",
            Kind::Integer(0, VERIFIED_TOKENS_MAX),
            "Verified tokens that are remembered until they expire. Each takes what its parsed \
             claims take, all of them a sixteenth of the node's budget at most.",
        )
        .absent(Absent::Number(1024)),
    ],
    needs: Needs::Any(&["keys", "jwks"]),
};

static JWT_KEY: Table = Table {
    name: "http.filter.keys",
    doc: "A key that tokens may be signed with.",
    keys: &[
        &Spec::new(
            "id",
            Kind::Text(&forms::ANY),
            "`kid` of tokens that this key has signed. Without it, any.",
        ),
        &Spec::new(
            "algorithm",
            Kind::Choice(
                &Choices::of(&[
                    ("HS256", "HS256"),
                    ("HS384", "HS384"),
                    ("HS512", "HS512"),
                    ("RS256", "RS256"),
                    ("RS384", "RS384"),
                    ("RS512", "RS512"),
                    ("PS256", "PS256"),
                    ("PS384", "PS384"),
                    ("PS512", "PS512"),
                    ("ES256", "ES256"),
                    ("ES384", "ES384"),
                    ("EdDSA", "EdDSA"),
                ])
                .and_later(&["ES512"]),
            ),
            "Signature algorithm. The key verifies with this algorithm alone, regardless of the \
             token's header.",
        )
        .required(),
        &Spec::new(
            "secret_file",
            Kind::Text(&forms::FILE),
            "File with the secret of an HS algorithm, at least 32 bytes.",
        ),
        &Spec::new(
            "public_key_file",
            Kind::Text(&forms::FILE),
            "PEM file with the public key of another algorithm: RSA of 2,048 to 8,192 bits, \
             P-256 for ES256, P-384 for ES384.",
        ),
    ],
    needs: Needs::One(&["secret_file", "public_key_file"]),
};

static JWKS: Table = Table {
    name: "http.filter.jwks",
    doc: "Set of keys (RFC 7517) that tokens may be signed with, in a file or behind a URL.",
    keys: &[
        &Spec::new(
            "file",
            Kind::Text(&forms::FILE),
            "File with the set. Keys without `alg` verify RS256, ES256, ES384 or EdDSA, by their \
             type.",
        )
        .exclusive(),
        &Spec::new(
            "url",
            Kind::Text(&forms::URL),
            "URL (http or https) that the set is fetched from: at start, every `refresh`, and \
             for tokens of unknown keys. The node starts without the set; a fetch that fails \
             leaves the last good set in use.",
        ),
        &Spec::new(
            "refresh",
            Kind::Duration(Duration::from_secs(1), DAY),
            "Time after which the set is fetched again.",
        )
        .absent(Absent::Text("5m")),
        &Spec::new(
            "cooldown",
            Kind::Duration(Duration::from_secs(1), DAY),
            "Least time between two fetches for tokens that no key of the set has signed (if one \
             has the token's `kid`, that key alone counts).",
        )
        .absent(Absent::Text("30s")),
        &Spec::new(
            "ca",
            Kind::Text(&forms::FILE),
            "PEM file with the authorities of the URL's server. Without it, the system's.",
        ),
    ],
    needs: Needs::One(&["file", "url"]),
};

pub static BASIC_AUTH: Table = Table {
    name: "http.filter",
    doc: "Requires a user name and a password (HTTP Basic); else 401.",
    keys: &[
        &Spec::new(
            "users_file",
            Kind::Text(&forms::FILE),
            "File with lines `NAME:HASH`; empty lines and lines that begin with `#` are skipped. \
             Hashes are bcrypt (`htpasswd -B`), argon2 (PHC strings) or SHA-crypt (`openssl \
             passwd -6`, `mkpasswd`).",
        )
        .required(),
        &Spec::new(
            "realm",
            Kind::Text(&forms::FIELD_VALUE),
            "Name of the protected area, shown by browsers.",
        )
        .absent(Absent::Text("steppe")),
        &Spec::new(
            "forward_user",
            Kind::Text(&forms::FIELD_NAME),
            "Field that forwards the user name to servers. A client's own copies are removed.",
        ),
        &Spec::new(
            "cache_entries",
            Kind::Integer(0, VERIFIED_TOKENS_MAX),
            "Verified passwords that are remembered, as digests.",
        )
        .absent(Absent::Number(1024)),
    ],
    needs: Needs::Nothing,
};

pub static FORWARD_AUTH: Table = Table {
    name: "http.filter",
    doc: "Asks another service about each request. A 2xx response lets the request pass; any \
     other is sent to the client.",
    keys: &[
        &Spec::new(
            "upstream",
            Kind::Text(&forms::NAME),
            "Upstream of the service, with `servers`.",
        )
        .required(),
        &Spec::new(
            "path",
            Kind::Text(&forms::TARGET),
            "Path that is requested from the service, by GET.",
        )
        .absent(Absent::Text("/")),
        &Spec::new(
            "request_headers",
            Kind::List(&Kind::Text(&forms::FIELD_NAME), 0),
            "Fields of the request that are sent to the service.",
        )
        .absent(Absent::Texts(&["authorization", "cookie"])),
        &Spec::new(
            "response_headers",
            Kind::List(&Kind::Text(&forms::FIELD_NAME), 0),
            "Fields of the service's response that are added to the request. A client's own \
             copies are removed.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "timeout",
            forms::TIMEOUT,
            "For the service's response, with the connection that it needs; then 504.",
        )
        .absent(Absent::Text("5s")),
    ],
    needs: Needs::Nothing,
};

pub static AUTHORIZE: Table = Table {
    name: "http.filter",
    doc: "Decides by method, path and token claims. Refused requests get 403.",
    keys: &[&Spec::new(
        "rules",
        Kind::List(&Kind::Table(&RULE), 1),
        "Rules, of which the first that matches a request by method and path decides. A request \
         that no rule matches is refused. Rules that look at a token need a `jwt` filter before \
         this one.",
    )
    .required()],
    needs: Needs::Nothing,
};

static RULE: Table = Table {
    name: "http.filter.rules",
    doc: "Requests that the rule is for, and conditions on their token.",
    keys: &[
        &Spec::new(
            "methods",
            Kind::List(&Kind::Text(&forms::RULE_METHOD), 1),
            "Methods that the rule is for; \"*\" is all. Without it, all.",
        ),
        &Spec::new(
            "path",
            Kind::Text(&forms::PATH),
            "Paths that the rule is for, as in a route. Without it, all.",
        ),
        &Spec::new(
            "any_scope",
            Kind::List(&Kind::Text(&forms::ANY), 1),
            "Scopes of which the token must have one: words, or items, of `scope` or `scp`.",
        ),
        &Spec::new(
            "all_scopes",
            Kind::List(&Kind::Text(&forms::ANY), 1),
            "Scopes of which the token must have all.",
        ),
        &Spec::new(
            "claims",
            Kind::Map(&forms::ANY, &Kind::OneOrMany(&Kind::Text(&forms::ANY))),
            "Claims that must equal, or contain, one of their values. \"a.b\" is the member `b` \
             of `a`, unless there is a claim \"a.b\".",
        )
        .absent(Absent::Table)
        .secret(),
        &Spec::new(
            "deny",
            Kind::Boolean,
            "Refuses the requests that the rule is for.",
        )
        .absent(Absent::No),
    ],
    needs: Needs::Nothing,
};
