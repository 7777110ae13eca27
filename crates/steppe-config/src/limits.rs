//! Every bound of a configuration's reader, each with its reason.

use std::time::Duration;

/// Bytes of a configuration, all of its files together. A route takes about 200 bytes: room for some 5,000.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Depth of nested tables and lists. The deepest known key is five levels down; the bound keeps a hostile file from
/// deciding how deep the reader's stack grows.
pub const NESTING_MAX: usize = 32;

/// Tokens of a file: words, signs, and the space between them. A parser keeps some 50 bytes for each. A file of
/// [`FILE_BYTES_MAX`] with the shortest routes has some 350,000.
pub const TOKENS_MAX: usize = 400_000;

/// Tokens of a TOML file whose mistakes of grammar and of names are reported together; for a longer one, those of names
/// are reported once the grammar is right, since the parser keeps each error in memory.
pub const RECOVERED_TOKENS_MAX: usize = 16_384;

/// Mistakes that a report keeps and shows; the others are counted. More are of no use to a reader, and each quotes the
/// file.
pub const MISTAKES_SHOWN_MAX: usize = 100;

/// Lines of one value that a report quotes, from its first.
pub const LINES_SHOWN_MAX: usize = 8;

/// Bytes of a line that a report quotes. Longer ones (minified JSON) are named by position alone.
pub const LINE_BYTES_SHOWN_MAX: usize = 1 << 10;

/// Characters of an offending value in a message.
pub const VALUE_CHARS_SHOWN_MAX: usize = 60;

/// Files that a configuration may include. Each is opened at a start and at every reload, and checked for changes twice
/// a second.
pub const INCLUDED_FILES_MAX: usize = 1024;

/// Levels of files that include files, the first file not counted.
pub const INCLUDED_DEPTH_MAX: usize = 4;

/// Bytes of a file that a placeholder names: a key or a certificate takes some thousand.
pub const PLACED_FILE_BYTES_MAX: usize = 64 << 10;

/// Bytes of the values of all placeholders of a configuration, so that many of one file take no more than the files.
pub const PLACED_BYTES_MAX: usize = FILE_BYTES_MAX;

/// Placeholders of a configuration. Each file among them is opened at every reload, and checked for changes twice a
/// second.
pub const PLACED_MAX: usize = 4096;

/// Bytes of a placeholder's value from which messages show the placeholder in its place: a shorter one, such as a number,
/// would be found in every message.
pub const REDACTED_BYTES_MIN: usize = 4;

/// The same as [`REDACTED_BYTES_MIN`] for variables: many values are words of messages, such as `http` and `listen`.
pub const REDACTED_VARIABLE_BYTES_MIN: usize = 8;

/// Bytes of a name that a file gives to one of its parts: it is a label of metrics.
pub const NAME_BYTES_MAX: usize = 128;

/// Lower bound of every timeout that can't be off.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Upper bound of every timeout.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

// `toml` refuses deeper nesting by itself, with a message of its own.
const _: () = assert!(NESTING_MAX < 80);
const _: () = assert!(RECOVERED_TOKENS_MAX < TOKENS_MAX);
