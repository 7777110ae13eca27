//! Work of a run: which cases, how often, and what is counted after them.

use super::case::Case;
use super::page;

/// Options with every default filled in.
pub struct Plan {
    pub rounds: usize,
    pub scale: f64,
    /// Counts taken after the rounds.
    pub traced: Traced,
    pub cases: Vec<Case>,
}

/// Counts taken after the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traced {
    Nothing,
    /// No verdict on two builds rests on system calls.
    Instructions,
    InstructionsAndSyscalls,
}

impl Plan {
    /// The tables of the page that its cases fill.
    pub const fn on_page(&self) -> &'static [&'static str] {
        match self.traced {
            Traced::Nothing => &[page::THROUGHPUT, page::MEMORY],
            _ => &[page::THROUGHPUT, page::MEMORY, page::INSTRUCTIONS],
        }
    }
}
