//! Keys of the filter that compresses.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::limits::{BROTLI_LEVELS, GZIP_LEVELS, MIN_BYTES_MAX, ZSTD_LEVELS};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static COMPRESS: Table = Table {
    name: "http.filter",
    doc: "Encodes content that clients accept encoded.",
    keys: &[
        Key::new(
            "algorithms",
            Kind::List(
                &Kind::Choice(&[
                    Choice::served("zstd"),
                    Choice::served("br"),
                    Choice::served("gzip"),
                ]),
                1,
            ),
            "Codings; of those that a client prefers alike, the first is taken.",
        )
        .absent(Absent::Texts(&["zstd", "br", "gzip"])),
        Key::new("levels", Kind::Table(&LEVELS), LEVELS.doc).absent(Absent::Table),
        Key::new(
            "min_bytes",
            Kind::Integer(0, MIN_BYTES_MAX),
            "Content that is known to be shorter goes as it is.",
        )
        .absent(Absent::Number(1024)),
        Key::new(
            "types",
            Kind::List(&Kind::Text(Form::MediaRange), 1),
            "What is encoded: \"TYPE/SUBTYPE\" or \"TYPE/*\"; event streams only by their own name.",
        )
        .absent(Absent::Texts(&[
            "text/*",
            "application/json",
            "application/javascript",
            "application/xml",
            "image/svg+xml",
        ])),
        Key::new(
            "breach",
            Kind::Choice(&[
                Choice::served("strict"),
                Choice::served("pad"),
                Choice::served("off"),
            ]),
            "Against guesses by length: no encoding where a secret may be, padding, or nothing.",
        )
        .absent(Absent::Text("pad")),
        Key::new(
            "secret_paths",
            Kind::List(&Kind::Text(Form::Path), 1),
            "Paths, as of a route, that are not encoded under `breach = \"strict\"`.",
        ),
    ],
    needs: Needs::Nothing,
};

static LEVELS: Table = Table {
    name: "http.filter.levels",
    doc: "How hard each coding tries.",
    keys: &[
        Key::new(
            "zstd",
            Kind::Integer(ZSTD_LEVELS.0, ZSTD_LEVELS.1),
            "Of Zstandard.",
        )
        .absent(Absent::Number(3)),
        Key::new(
            "br",
            Kind::Integer(BROTLI_LEVELS.0, BROTLI_LEVELS.1),
            "Of Brotli.",
        )
        .absent(Absent::Number(4)),
        Key::new(
            "gzip",
            Kind::Integer(GZIP_LEVELS.0, GZIP_LEVELS.1),
            "Of gzip.",
        )
        .absent(Absent::Number(5)),
    ],
    needs: Needs::Nothing,
};
