//! The figures that consist of places.

use clap::ValueEnum;

/// The places that `--list` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Documentation that opens with a question
    Questions,
    /// Documentation that opens with a pronoun
    Pronouns,
    /// Functions with a tuple as parameter
    Tuples,
    /// Functions over 70 lines
    Long,
    /// Calls of expect and unwrap
    Expects,
    /// Inherent impl blocks outside of the type's file
    Impls,
    /// Files in circles
    Circles,
    /// Definitions that share their name
    Names,
}
