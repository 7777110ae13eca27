//! Keys of the filters that ask who sends a request, and decide what they may.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use crate::config::limits::VERIFIED_TOKENS_MAX;
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

const DAY: Duration = Duration::from_secs(86_400);

pub static JWT: Table = Table {
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

pub static BASIC_AUTH: Table = Table {
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

pub static FORWARD_AUTH: Table = Table {
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

pub static AUTHORIZE: Table = Table {
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
