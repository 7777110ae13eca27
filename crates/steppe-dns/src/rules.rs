//! Domain lists: a million names in a few bytes each, and where each of them stands.
//!
//! `syntax` reads lines, `builder` collects what they say, `index` answers, `sources` is the file that
//! names list and line. ADR 0021 has the layout.

mod builder;
mod index;
mod sources;
mod syntax;

pub use builder::{BuildError, Builder};
pub use index::{Index, ListSet, Matches, hash_name};
pub use sources::{Found, Origin, SourcesError, explain};
pub use syntax::{Line, LineRule, PlainScope, Reader, Scope, Verdict};
