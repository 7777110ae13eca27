//! Strings of a configuration.
//!
//! Invariant: text that reads is within the grammar and its bounds; nothing is guessed.

mod filter;
mod trace;

pub(super) use filter::{
    json, member_path, origin, pattern, rate_key, rate_store, text_source, token_source,
};
pub(super) use trace::collector;
