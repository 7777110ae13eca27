//! STUB
#![allow(missing_docs, unused)]
pub fn machine() -> crate::record::Machine {
    Default::default()
}
pub fn examine() -> Vec<crate::record::Capability> {
    vec![]
}
pub fn print(
    c: &[crate::record::Capability],
    json: bool,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    Ok(())
}
