//! Domain lists, a million names in a few bytes each, and rules of the configuration.
//!
//! `syntax` reads lines of lists, `builder` collects their rules, `index` finds the lists that a name is on. ADR
//! 0021 has the layout. `program` has the rules of the configuration, compiled: it finds the rule that decides, by
//! `names` and `pattern` among other things, and the rules whose `settings` apply.

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
