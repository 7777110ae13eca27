//! Does memory drift, and do two variants differ? Pure functions over numbers.
//!
//! The same numbers and the same seed give the same answer: nothing here reads a clock, a file or
//! a global. Every answer says what it rests on and how sure it is; where numbers don't suffice
//! there is no answer (`None`), never a zero.
//!
//! Leaves out what the numbers mean: units, leak or retention, sentences.

mod theil_sen;

pub use theil_sen::theil_sen;
