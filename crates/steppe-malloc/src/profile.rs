//! Profiles (placeholder).
/// What the allocator trades memory for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Fast first.
    Speed,
    /// The default.
    Balanced,
    /// Small first.
    Lean,
}
/// Changes the profile of the running process.
pub fn set(_: Profile) {}
/// The profile in force.
#[must_use]
pub fn current() -> Profile {
    Profile::Balanced
}
