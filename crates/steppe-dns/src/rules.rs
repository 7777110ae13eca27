//! Domain lists, a million names in a few bytes each, and rules of the configuration.
//!
//! `syntax` reads lines of lists, `builder` collects what they say, `index` answers. ADR 0021 has the
//! layout. `program` is the rules of the configuration, compiled: which of them decides, by its `names`
//! among other things, and which have `settings`.

mod builder;
mod index;
mod names;
mod pattern;
mod program;
mod settings;
mod syntax;

pub(crate) use program::{Asked, Found, Program, Rewriting, Why};

pub use builder::{BuildError, Builder, Mark};
pub use index::{Index, ListSet, Matches, hash_name};
pub use pattern::{NamePatterns, PatternError};
pub use settings::Settings;
pub use syntax::{Line, LineRule, PlainScope, Reader, Scope, Verdict};
