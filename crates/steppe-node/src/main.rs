//! The binary `steppe`.
fn main() {}
