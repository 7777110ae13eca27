//! Lists of functions to which a rule does not apply, each with a reason.

use super::Finding;

/// A function that is listed.
pub struct Place {
    /// Its file below `crates/`.
    pub file: &'static str,
    /// Its name; one entry stands for all functions of that name in the file.
    pub function: &'static str,
    /// Why the rule does not apply.
    pub reason: &'static str,
}

/// A list, and which of its entries the code needed.
pub struct Places<'a> {
    list: &'a [Place],
    used: Vec<bool>,
}

impl<'a> Places<'a> {
    /// None of them was needed yet.
    pub fn new(list: &'a [Place]) -> Self {
        Self {
            list,
            used: vec![false; list.len()],
        }
    }

    /// Whether a function is listed; `path` is that of its file from the root.
    pub fn has(&mut self, path: &str, function: &str) -> bool {
        let file = path.trim_start_matches("crates/");
        let entry = self
            .list
            .iter()
            .position(|place| place.file == file && place.function == function);
        if let Some(entry) = entry {
            self.used[entry] = true;
        }
        entry.is_some()
    }

    /// A finding in `list_path` for each entry that was not needed.
    pub fn stale(self, list_path: &str) -> Vec<Finding> {
        let unused = self.list.iter().zip(self.used).filter(|(_, used)| !used);
        unused
            .map(|(place, _)| {
                let message = format!(
                    "`{}` of {} is listed ({}) and need not be: take it off the list",
                    place.function, place.file, place.reason
                );
                Finding::new(list_path, 0, message)
            })
            .collect()
    }
}
