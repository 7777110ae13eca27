//! The mutants that survived, compared with those that may.
//!
//! Mutants go by cargo-mutants' names without line and column, so that an edit elsewhere in a file changes
//! none. Two mutants of a function may have one name then: the list has the number that survive.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde::Deserialize;

/// The committed list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Files to mutate, relative to the root of the workspace.
    files: Vec<String>,
    /// Parts of names of the library tests that are run.
    tests: Vec<String>,
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// A mutant that no test can tell from the code, or need not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    mutant: String,
    /// Number of mutants of this name that survive.
    #[serde(default = "one")]
    times: usize,
    /// The reason why the mutant is harmless.
    why: String,
}

fn one() -> usize {
    1
}

/// The results of cargo-mutants: names of mutants, by outcome.
#[derive(Debug, Default)]
pub struct Run {
    pub caught: Vec<String>,
    pub missed: Vec<String>,
    /// Mutants with which the tests did not end: they count as noticed.
    pub timeouts: Vec<String>,
    /// Mutants that do not build.
    pub unviable: Vec<String>,
    /// All mutants that were to be tried.
    pub generated: Vec<String>,
}

impl List {
    /// Parses the committed list.
    ///
    /// # Errors
    /// The text is no list, or an entry is listed twice, of no listed file, or without a reason.
    pub fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)?;
        let mut seen = BTreeSet::new();
        for Survivor { mutant, times, why } in &list.survivor {
            ensure!(seen.insert(mutant), "listed twice: {mutant}");
            let is_of_list = list.files.iter().any(|file| file == file_of(mutant));
            ensure!(is_of_list, "of a file that is not listed: {mutant}");
            ensure!(!why.trim().is_empty(), "without a reason: {mutant}");
            ensure!(*times > 0, "it survives 0 times: {mutant}");
        }
        Ok(list)
    }

    /// Parts of names of the tests that must notice.
    pub fn tests(&self) -> &[String] {
        &self.tests
    }

    /// The files whose paths have one of `parts`; all of them when there is none.
    ///
    /// # Errors
    /// A part is in no path.
    pub fn select(&self, parts: &[String]) -> Result<Vec<&str>> {
        for part in parts {
            let is_known = self.files.iter().any(|file| file.contains(part));
            ensure!(is_known, "no file of the list has {part} in its path");
        }
        let is_wanted =
            |file: &&str| parts.is_empty() || parts.iter().any(|part| file.contains(part));
        let files = self.files.iter().map(String::as_str);
        Ok(files.filter(is_wanted).collect())
    }

    /// The differences between the list and a run of these files, a line each.
    pub fn compare(&self, files: &[&str], run: &Run) -> Vec<String> {
        let mut wrong = Vec::new();
        for file in files {
            let (done, wanted) = (run.done(file), of(&run.generated, file).count());
            if done < wanted {
                wrong.push(format!(
                    "not run: {} of {wanted} mutants of {file}",
                    wanted - done
                ));
            }
        }
        let missed: BTreeSet<_> = run.missed.iter().collect();
        for mutant in missed {
            let survives = times(&run.missed, mutant);
            let listed = self.times(mutant);
            if survives > listed {
                wrong.push(format!(
                    "{survives} of this name survive, and {listed} are listed: {mutant}"
                ));
            }
        }
        for Survivor {
            mutant,
            times: listed,
            ..
        } in &self.survivor
        {
            let file = file_of(mutant);
            // A file that was run in part can't be compared.
            let is_whole = run.done(file) == of(&run.generated, file).count();
            let survives = times(&run.missed, mutant);
            if files.contains(&file) && is_whole && survives < *listed {
                wrong.push(format!(
                    "{listed} of this name are listed, and {survives} survive: {mutant}"
                ));
            }
        }
        wrong
    }

    fn times(&self, mutant: &str) -> usize {
        let listed = self.survivor.iter().find(|entry| entry.mutant == mutant);
        listed.map_or(0, |entry| entry.times)
    }
}

impl Run {
    fn done(&self, file: &str) -> usize {
        let all = [&self.caught, &self.missed, &self.timeouts, &self.unviable];
        all.iter().map(|names| of(names, file).count()).sum()
    }

    /// The counts of a file, as a line.
    pub fn row(&self, file: &str) -> String {
        let count = |names| of(names, file).count();
        format!(
            "{:4} caught, {:3} missed, {:3} timeouts, {:3} unviable  {file}",
            count(&self.caught),
            count(&self.missed),
            count(&self.timeouts),
            count(&self.unviable)
        )
    }
}

fn of<'a>(names: &'a [String], file: &'a str) -> impl Iterator<Item = &'a String> {
    names.iter().filter(move |name| file_of(name) == file)
}

fn times(names: &[String], mutant: &str) -> usize {
    names.iter().filter(|name| *name == mutant).count()
}

fn file_of(mutant: &str) -> &str {
    mutant.split_once(": ").map_or(mutant, |(file, _)| file)
}

/// `src/a.rs: replace a` of `src/a.rs:12:5: replace a`.
pub fn without_position(name: &str) -> String {
    let (place, mutation) = name.split_once(": ").unwrap_or((name, ""));
    let file = place.split_once(':').map_or(place, |(file, _)| file);
    format!("{file}: {mutation}")
}

/// The names in cargo-mutants' own list of the mutants to try.
pub fn generated(json: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Mutant {
        name: String,
    }
    let mutants: Vec<Mutant> = serde_json::from_str(json)?;
    let names = mutants.iter().map(|mutant| without_position(&mutant.name));
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        files = ["src/a.rs", "src/b/c.rs"]
        tests = ["a::", "b::"]

        [[survivor]]
        mutant = "src/a.rs: replace < with <= in f"
        times = 2
        why = "both ends are the same"

        [[survivor]]
        mutant = "src/b/c.rs: replace g -> u8 with 0"
        why = "it is 0"
    "#;

    const LESS: &str = "src/a.rs: replace < with <= in f";
    const ZERO: &str = "src/b/c.rs: replace g -> u8 with 0";
    const FILES: [&str; 2] = ["src/a.rs", "src/b/c.rs"];

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The comparison with a run in which these survived and one of each file was caught.
    fn compared(files: &[&str], missed: &[&str], cut_off: &[&str]) -> Vec<String> {
        let caught = [
            "src/a.rs: replace f with ()",
            "src/b/c.rs: replace g with ()",
        ];
        let run = Run {
            caught: names(&caught),
            missed: names(missed),
            generated: names(&[&caught, missed, cut_off].concat()),
            ..Run::default()
        };
        List::parse(LIST).unwrap().compare(files, &run)
    }

    #[test]
    fn what_is_listed_may_survive_and_nothing_else() {
        assert!(compared(&FILES, &[LESS, ZERO, LESS], &[]).is_empty());
        let other = "src/a.rs: replace > with < in f";
        assert_eq!(
            compared(&FILES, &[LESS, ZERO, LESS, other], &[]),
            [format!("1 of this name survive, and 0 are listed: {other}")]
        );
        assert_eq!(
            compared(&FILES, &[LESS, ZERO, LESS, LESS], &[]),
            [format!("3 of this name survive, and 2 are listed: {LESS}")]
        );
    }

    #[test]
    fn what_no_longer_survives_must_leave_the_list() {
        assert_eq!(
            compared(&FILES, &[LESS, ZERO], &[]),
            [format!("2 of this name are listed, and 1 survive: {LESS}")]
        );
        assert_eq!(
            compared(&FILES, &[LESS, LESS], &[]),
            [format!("1 of this name are listed, and 0 survive: {ZERO}")]
        );
        // The other file was not run.
        assert!(compared(&FILES[..1], &[LESS, LESS], &[]).is_empty());
    }

    #[test]
    fn a_file_that_was_run_in_part_fails_and_tells_nothing_of_its_list() {
        assert_eq!(
            compared(&FILES, &[LESS, LESS], &[ZERO]),
            ["not run: 1 of 2 mutants of src/b/c.rs"]
        );
    }

    #[test]
    fn files_are_selected_by_parts_of_their_paths() {
        let list = List::parse(LIST).unwrap();
        assert_eq!(list.select(&[]).unwrap(), FILES);
        assert_eq!(list.select(&names(&["b/c"])).unwrap(), ["src/b/c.rs"]);
        assert_eq!(list.select(&names(&["a.rs", "c.rs"])).unwrap(), FILES);
        let error = list.select(&names(&["a.rs", "d.rs"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no file of the list has d.rs in its path"
        );
    }

    #[test]
    fn a_list_that_says_nothing_is_refused() {
        let refused = |from, to| {
            let text = LIST.replacen(from, to, 1);
            assert_ne!(text, LIST, "{from} is not there");
            List::parse(&text).unwrap_err().to_string()
        };
        assert_eq!(refused("it is 0", " "), format!("without a reason: {ZERO}"));
        assert_eq!(
            refused("times = 2", "times = 0"),
            format!("it survives 0 times: {LESS}")
        );
        assert_eq!(refused(ZERO, LESS), format!("listed twice: {LESS}"));
        let file = refused(r#", "src/b/c.rs""#, "");
        assert_eq!(file, format!("of a file that is not listed: {ZERO}"));
        assert!(refused("why", "because").contains("because"));
    }

    #[test]
    fn names_lose_their_positions_only() {
        assert_eq!(
            without_position("src/a.rs:12:34: replace f -> Option<a::B> with None: x"),
            "src/a.rs: replace f -> Option<a::B> with None: x"
        );
        let json = r#"[{"name": "src/a.rs:1:2: replace f with ()", "genre": "FnValue"}]"#;
        assert_eq!(generated(json).unwrap(), ["src/a.rs: replace f with ()"]);
    }

    #[test]
    fn a_file_has_its_counts() {
        let run = Run {
            caught: names(&[LESS, LESS, ZERO]),
            timeouts: names(&[LESS]),
            ..Run::default()
        };
        assert_eq!(
            run.row("src/a.rs"),
            "   2 caught,   0 missed,   1 timeouts,   0 unviable  src/a.rs"
        );
    }
}
