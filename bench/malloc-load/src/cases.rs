//! The cases, by name.

pub mod churn;
pub mod exchange;
pub mod growth;
pub mod large;
pub mod larson;
pub mod mixed;
pub mod programs;
pub mod server;

use crate::meter::Meter;

/// The function of a case: runs so many units of its kind of work.
pub type Run = fn(&mut Meter, u64);

/// Every case: its name, its unit of work, and its function.
pub const CASES: [(&str, &str, Run); 12] = [
    ("random-400", "a malloc or a free", |meter, units| {
        mixed::run(meter, 400, units);
    }),
    ("random-8192", "a malloc or a free", |meter, units| {
        mixed::run(meter, 8_192, units);
    }),
    ("random-100000", "a malloc or a free", |meter, units| {
        mixed::run(meter, 100_000, units);
    }),
    ("larson", "a malloc or a free", larson::run),
    ("handover", "a malloc or a free", exchange::handover),
    ("realloc", "a realloc", growth::run),
    ("server", "a request", server::run),
    ("churn", "a thread", churn::run),
    ("freeing", "a malloc or a free", exchange::freeing),
    ("large", "a block", large::run),
    ("compile", "a file of C++", programs::compile),
    ("sqlite", "a script of SQL", programs::sqlite),
];
