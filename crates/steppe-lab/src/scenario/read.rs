//! Reads a scenario file.

/// Why a file is not a scenario.
#[derive(Debug)]
pub struct ScenarioError;
/// A part of the file.
#[derive(Debug)]
pub struct Section;
