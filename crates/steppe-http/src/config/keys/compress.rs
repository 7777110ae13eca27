//! Keys of the filter that compresses.

use steppe_config::choice::Choices;
use steppe_config::key::{Key, OptionalKey, choice, integer, key, list, section, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::{Fields, repeated};

use super::forms::{MEDIA_RANGE, PATH};
use crate::config::{Breach, Coding, Compress, Levels, MediaRange};
use crate::path::PathPattern;

/// `[http.filter.NAME]` of the kind `compress`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Compresses content for clients that accept it.",
    keys! { ALGORITHMS, LEVELS, MIN_BYTES, TYPES, BREACH, SECRET_PATHS },
);

static ALGORITHMS: Key<Vec<Coding>> = key(
    "algorithms",
    list(&choice(&CODINGS), 1),
    "Content codings. The client's weights decide first (RFC 9110 §12.5.3); of codings that it \
     prefers alike, the first of these is taken.",
)
.or(Absent::Texts(&["zstd", "br", "gzip"]));

static CODINGS: Choices<Coding> = Choices::of(&[
    ("zstd", Coding::Zstd),
    ("br", Coding::Br),
    ("gzip", Coding::Gzip),
]);

static LEVELS: Key<Levels> = section("levels", &LEVEL, levels).or(Absent::Table);

static LEVEL: Table = Table::new(
    "http.filter.levels",
    "Compression levels. Higher levels cost more CPU time and memory.",
    keys! { ZSTD, BR, GZIP },
);

/// Beyond 9, Zstandard takes several times the time for a few percent.
static ZSTD: Key<u8> = key("zstd", integer(1, 9), "Level of Zstandard.").or(Absent::Number(3));

/// Beyond 6, Brotli takes memory and time that content compressed once is not worth.
static BR: Key<u8> = key("br", integer(1, 6), "Level of Brotli.").or(Absent::Number(4));

static GZIP: Key<u8> = key("gzip", integer(1, 9), "Level of gzip.").or(Absent::Number(5));

static MIN_BYTES: Key<u64> = key(
    "min_bytes",
    integer(0, MIN_BYTES_MAX),
    "Content that is known to be shorter is sent uncompressed.",
)
.or(Absent::Number(1024));

/// The most that content may have to be left uncompressed.
const MIN_BYTES_MAX: u64 = 1 << 20;

static TYPES: Key<Vec<MediaRange>> = key(
    "types",
    list(&text(&MEDIA_RANGE), 1),
    "Media types that are compressed: \"TYPE/SUBTYPE\" or \"TYPE/*\". Event streams are compressed \
     only if \"text/event-stream\" itself is listed.",
)
.or(Absent::Texts(&[
    "text/*",
    "application/json",
    "application/javascript",
    "application/xml",
    "image/svg+xml",
]));

static BREACH: Key<Breach> = key(
    "breach",
    choice(&Choices::of(&[
        ("strict", Breach::Strict),
        ("pad", Breach::Pad),
        ("off", Breach::Off),
    ])),
    "Protection of secrets against guesses by length (BREACH). \"strict\" compresses nothing that \
     may vary by a secret; \"pad\" adds 32 to 64 bytes on average, or 3% of long content; \"off\" \
     does neither.",
)
.or(Absent::Text("pad"));

static SECRET_PATHS: OptionalKey<Vec<PathPattern>> = key(
    "secret_paths",
    list(&text(&PATH), 1),
    "Paths (as in a route) that are not compressed. Only with `breach = \"strict\"`.",
);

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Compress> {
    Some(Compress {
        algorithms: filter.get(&ALGORITHMS)?,
        levels: filter.get(&LEVELS)?,
        min_bytes: filter.get(&MIN_BYTES)?,
        types: filter.get(&TYPES)?,
        breach: filter.get(&BREACH)?,
        secret_paths: filter.get(&SECRET_PATHS)?.unwrap_or_default(),
    })
}

fn levels(levels: &Fields) -> Option<Levels> {
    Some(Levels {
        zstd: levels.get(&ZSTD)?,
        br: levels.get(&BR)?,
        gzip: levels.get(&GZIP)?,
    })
}

/// Finds the mistakes of what several keys say together: one that has no effect, a coding that is named twice.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    let is_strict = filter.get(&BREACH) == Some(Breach::Strict);
    if let Some(at) = filter.place_of(&SECRET_PATHS).filter(|_| !is_strict) {
        let mistake = Mistake::new(
            at,
            "`secret_paths` has no effect without `breach = \"strict\"`",
        );
        mistakes.push(mistake.help("set `breach = \"strict\"`, or take it out"));
    }
    for (_, again, first) in repeated::<Coding>(filter.items(&ALGORITHMS)) {
        let mistake = Mistake::new(again, "this coding is named twice");
        mistakes.push(mistake.also(first, "named first here"));
    }
}
