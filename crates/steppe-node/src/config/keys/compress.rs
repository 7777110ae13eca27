//! Keys of the filter that compresses.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::limits::{BROTLI_LEVELS, GZIP_LEVELS, MIN_BYTES_MAX, ZSTD_LEVELS};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static COMPRESS: Table = Table {
    name: "http.filter",
    doc: "Compresses content for clients that accept it.",
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
            "Content codings. The client's weights decide first (RFC 9110 §12.5.3); of codings \
             that it prefers alike, the first of these is taken.",
        )
        .absent(Absent::Texts(&["zstd", "br", "gzip"])),
        Key::new("levels", Kind::Table(&LEVELS), LEVELS.doc).absent(Absent::Table),
        Key::new(
            "min_bytes",
            Kind::Integer(0, MIN_BYTES_MAX),
            "Content that is known to be shorter is sent uncompressed.",
        )
        .absent(Absent::Number(1024)),
        Key::new(
            "types",
            Kind::List(&Kind::Text(Form::MediaRange), 1),
            "Media types that are compressed: \"TYPE/SUBTYPE\" or \"TYPE/*\". Event streams are \
             compressed only if \"text/event-stream\" itself is listed.",
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
            "Protection of secrets against guesses by length (BREACH). \"strict\" compresses \
             nothing that may vary by a secret; \"pad\" adds 32 to 64 bytes on average, or 3% of \
             long content; \"off\" does neither.",
        )
        .absent(Absent::Text("pad")),
        Key::new(
            "secret_paths",
            Kind::List(&Kind::Text(Form::Path), 1),
            "Paths (as in a route) that are not compressed. Only with `breach = \"strict\"`.",
        ),
    ],
    needs: Needs::Nothing,
};

static LEVELS: Table = Table {
    name: "http.filter.levels",
    doc: "Compression levels. Higher levels cost more CPU time and memory.",
    keys: &[
        Key::new(
            "zstd",
            Kind::Integer(ZSTD_LEVELS.0, ZSTD_LEVELS.1),
            "Level of Zstandard.",
        )
        .absent(Absent::Number(3)),
        Key::new(
            "br",
            Kind::Integer(BROTLI_LEVELS.0, BROTLI_LEVELS.1),
            "Level of Brotli.",
        )
        .absent(Absent::Number(4)),
        Key::new(
            "gzip",
            Kind::Integer(GZIP_LEVELS.0, GZIP_LEVELS.1),
            "Level of gzip.",
        )
        .absent(Absent::Number(5)),
    ],
    needs: Needs::Nothing,
};
