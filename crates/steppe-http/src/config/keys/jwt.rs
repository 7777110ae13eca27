//! Keys of the filter that asks for a token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::{ANY, FILE, Form, Read, Refusal};
use steppe_config::key::{
    Key, OptionalKey, choice, duration, integer, key, list, map, section, table, text,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Table};
use steppe_config::typed::{Fields, Node};
use steppe_net::config::forms;

use super::DAY;
use super::forms::{FIELD_NAME, refuse_ours};
use crate::config::{JwksUrl, Jwt, JwtKey, TokenSource};
use crate::limits::VERIFIED_TOKENS_MAX;

/// `[http.filter.NAME]` of the kind `jwt`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Requires a JSON Web Token signed by a known key; without one, 401.",
    keys! { ISSUER, AUDIENCE, LEEWAY, KEYS, JWKS, FROM, FORWARD_CLAIMS, CACHE_ENTRIES },
)
.needing(Needs::Any(&["keys", "jwks"]));

static ISSUER: OptionalKey<String> = key(
    "issuer",
    text(&ANY),
    "`iss` that a token must have. Without it, any.",
);

static AUDIENCE: OptionalKey<Vec<String>> = key(
    "audience",
    list(&text(&ANY), 1),
    "Values of which a token must have one in its `aud`. Without it, any.",
);

static LEEWAY: Key<Duration> = key(
    "leeway",
    duration(Duration::ZERO, Duration::from_secs(3600)),
    "Tolerance for clocks that differ.",
)
.or(Absent::Text("30s"));

static KEYS: OptionalKey<Vec<JwtKey>> = key(
    "keys",
    list(&table(&KEY, jwt_key), 1),
    "Keys that tokens may be signed with. Their files are read with the configuration, and again \
     by each reload.",
);

static JWKS: OptionalKey<(Vec<PathBuf>, Option<JwksUrl>)> = section("jwks", &SET, key_set);

static FROM: Key<Vec<TokenSource>> = key(
    "from",
    list(&text(&TOKEN_SOURCE), 1),
    "Places where the token is looked for, in this order: \"header:NAME\" (in `authorization` \
     after `Bearer`), \"cookie:NAME\", \"query:NAME\".",
)
.or(Absent::Texts(&["header:authorization"]));

static FORWARD_CLAIMS: Key<Vec<(String, String)>> = key(
    "forward_claims",
    map(&ANY, &text(&FIELD_NAME)),
    "Claims that are forwarded to servers, each with its field: strings, numbers and booleans. \
     \"a.b\" is the member `b` of `a`. A client's own copies of these fields are removed.",
)
.secret()
.or(Absent::Table);

static CACHE_ENTRIES: Key<usize> = key(
    "cache_entries",
    integer(0, VERIFIED_TOKENS_MAX),
    "Verified tokens that are remembered until they expire. Each takes what its parsed claims \
     take, all of them a sixteenth of the node's budget at most.",
)
.or(Absent::Number(1024));

static KEY: Table = Table::new(
    "http.filter.keys",
    "A key that tokens may be signed with.",
    keys! { ID, ALGORITHM, SECRET_FILE, PUBLIC_KEY_FILE },
)
.needing(Needs::One(&["secret_file", "public_key_file"]));

static ID: OptionalKey<String> = key(
    "id",
    text(&ANY),
    "`kid` of tokens that this key has signed. Without it, any.",
);

static ALGORITHM: Key<&str> = key(
    "algorithm",
    choice(
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
    "Signature algorithm. The key verifies with this algorithm alone, regardless of the token's \
     header.",
)
.required();

static SECRET_FILE: OptionalKey<PathBuf> = key(
    "secret_file",
    text(&FILE),
    "File with the secret of an HS algorithm, at least 32 bytes.",
);

static PUBLIC_KEY_FILE: OptionalKey<PathBuf> = key(
    "public_key_file",
    text(&FILE),
    "PEM file with the public key of another algorithm: RSA of 2,048 to 8,192 bits, P-256 for \
     ES256, P-384 for ES384.",
);

static SET: Table = Table::new(
    "http.filter.jwks",
    "Set of keys (RFC 7517) that tokens may be signed with, in a file or behind a URL.",
    keys! { SET_FILE, URL, REFRESH, COOLDOWN, CA },
)
.needing(Needs::One(&["file", "url"]));

static SET_FILE: OptionalKey<PathBuf> = key(
    "file",
    text(&FILE),
    "File with the set. Keys without `alg` verify RS256, ES256, ES384 or EdDSA, by their type.",
)
.exclusive();

static URL: OptionalKey<String> = key(
    "url",
    text(&forms::URL),
    "URL (http or https) that the set is fetched from: at start, every `refresh`, and for tokens \
     of unknown keys. The node starts without the set; a fetch that fails leaves the last good set \
     in use.",
);

static REFRESH: Key<Duration> = key(
    "refresh",
    duration(Duration::from_secs(1), DAY),
    "Time after which the set is fetched again.",
)
.or(Absent::Text("5m"));

static COOLDOWN: Key<Duration> = key(
    "cooldown",
    duration(Duration::from_secs(1), DAY),
    "Least time between two fetches for tokens that no key of the set has signed (if one has the \
     token's `kid`, that key alone counts).",
)
.or(Absent::Text("30s"));

static CA: OptionalKey<PathBuf> = key(
    "ca",
    text(&FILE),
    "PEM file with the authorities of the URL's server. Without it, the system's.",
);

/// Source of a token.
static TOKEN_SOURCE: Form<TokenSource> = Form::new(
    "\"header:NAME\", \"cookie:NAME\" or \"query:NAME\"",
    token_source,
)
.pattern("^(header|cookie|query):.+$");

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Jwt> {
    let (sets, remote) = filter.get(&JWKS)?.unwrap_or_default();
    Some(Jwt {
        issuer: filter.get(&ISSUER)?,
        audience: filter.get(&AUDIENCE)?.unwrap_or_default(),
        leeway: filter.get(&LEEWAY)?,
        keys: filter.get(&KEYS)?.unwrap_or_default(),
        sets,
        remote,
        from: filter.get(&FROM)?,
        forward_claims: filter.get(&FORWARD_CLAIMS)?,
        cache_entries: filter.get(&CACHE_ENTRIES)?,
    })
}

fn jwt_key(key: &Fields) -> Option<JwtKey> {
    Some(JwtKey {
        id: key.get(&ID)?,
        algorithm: key.get(&ALGORITHM)?,
        file: key.get(&SECRET_FILE)?.or(key.get(&PUBLIC_KEY_FILE)?)?,
    })
}

/// Files of a set, or its URL.
fn key_set(set: &Fields) -> Option<(Vec<PathBuf>, Option<JwksUrl>)> {
    if let Some(file) = set.get(&SET_FILE)? {
        return Some((vec![file], None));
    }
    let remote = JwksUrl {
        url: set.get(&URL)??,
        refresh: set.get(&REFRESH)?,
        cooldown: set.get(&COOLDOWN)?,
        ca: set.get(&CA)?,
    };
    Some((Vec::new(), Some(remote)))
}

/// Finds the mistakes of what several keys say together, and fields that only the gateway writes.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if let Some(set) = filter.within(&JWKS) {
        set_in_a_file(set, mistakes);
    }
    for key in filter.items(&KEYS).iter().filter_map(Node::fields) {
        secrets(key, mistakes);
    }
    for entry in filter.entries(&FORWARD_CLAIMS) {
        if let Some(field) = entry.value.typed.value::<String>() {
            refuse_ours(field, entry.value.span, mistakes);
        }
    }
}

/// A set is in a file or behind a URL, and a file is not fetched.
fn set_in_a_file(set: &Fields, mistakes: &mut Mistakes) {
    let Some(file) = set.place_of(&SET_FILE) else {
        return;
    };
    for other in set.given.iter().filter(|each| each.span != file) {
        let name = other.key.name;
        let message = format!("`{name}` has no effect with `file`: a file is not fetched");
        mistakes.push(
            Mistake::new(other.span, message)
                .also(file, "the set is in a file")
                .help("take one of them out"),
        );
    }
}

/// A secret is for the HS algorithms, a public key for the others.
fn secrets(key: &Fields, mistakes: &mut Mistakes) {
    let Some(algorithm) = key.get(&ALGORITHM) else {
        return;
    };
    let (wrong, right) = match algorithm.starts_with("HS") {
        true => (&PUBLIC_KEY_FILE, &SECRET_FILE),
        false => (&SECRET_FILE, &PUBLIC_KEY_FILE),
    };
    if let Some(at) = key.place_of(wrong) {
        let message = format!("{algorithm} does not verify with `{}`", wrong.spec.name);
        let help = format!("set `{}`", right.spec.name);
        mistakes.push(Mistake::new(at, message).help(help));
    }
}

/// `header:NAME`, `cookie:NAME`, `query:NAME`.
fn token_source(text: &str, _: &Path) -> Read<TokenSource> {
    TokenSource::parse(text).ok_or_else(|| {
        Refusal::new(format!("`{}` is not a source of tokens", shown(text)))
            .help("write \"header:NAME\", \"cookie:NAME\" or \"query:NAME\"")
    })
}
