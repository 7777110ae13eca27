//! Configuration files, TOML or JSON, by a table of typed keys.
//!
//! A product describes each key once, as a constant ([`key::key`]): its name, the type that it takes, its default and
//! its description. [`table::Table`]s of keys make up a file. From them follow the reader, which reports all mistakes
//! at once with their places and a help line; [`mod@schema`], [`manual`] and [`mod@effective`], which prints the
//! settings in force.
//!
//! Invariant: every key and value of a file is either in the result or named by a mistake; a value that could not be
//! read is [`typed::Typed::Invalid`], and its mistake was reported. The crate knows no product, and imports no crate of
//! Steppe.
//!
//! Non-goals: rules between keys, and objects built of their values: both are up to the product.
//!
//! # Map of files
//! - `limits.rs`: bounds of a file and of reports
//! - `mistake.rs`, `mistakes.rs`, `report.rs`: a mistake; the mistakes of one file; their rendering
//! - `sources.rs`: the files of a configuration, and places in them
//! - `tree.rs`: a file as a tree of values with their places
//! - `syntax.rs`, `syntax/`, `write.rs`: TOML and JSON into a tree; TOML out of it
//! - `outside.rs`, `include.rs`, `placeholder.rs`: other files and the environment; files that are included; values out of both
//! - `table.rs`: tables of keys, each with its kind, default and support
//! - `form.rs`, `choice.rs`, `units.rs`: meaning of strings; choices; durations, sizes and shares
//! - `key.rs`: keys as typed constants
//! - `typed.rs`, `read.rs`: typed values, and the reader
//! - `defaults.rs`, `fields.rs`: values of absent keys, and of a table
//! - `schema.rs`, `manual.rs`, `effective.rs`: JSON Schema, `FILE(5)`, the settings in force
//! - `format.rs`: the layout of a file
//! - `taken.rs`: a record of the keys that are read, for tests

pub mod choice;
mod defaults;
pub mod effective;
pub mod fields;
pub mod form;
pub mod format;
pub mod include;
pub mod key;
pub mod limits;
pub mod manual;
pub mod mistake;
pub mod mistakes;
pub mod outside;
pub mod placeholder;
pub mod read;
pub mod report;
pub mod schema;
pub mod sources;
pub mod syntax;
pub mod table;
pub mod taken;
pub mod tree;
pub mod typed;
pub mod units;
pub mod write;
