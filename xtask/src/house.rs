//! `cargo xtask house`: figures of the house style for four crates of Steppe, beside those of its peers.
//!
//! It prints and passes: `cargo xtask tidy` is the judge. Code is what the sources of a package's library have without
//! tests: items for `cfg(test)`, and files or folders called `tests`, `testing` or `fakes`. Non-goals: whether a name or
//! a sentence is any good, and code that macros make.

mod figures;
mod file;
mod kind;
mod peers;
mod shape;
mod subject;
mod table;

use std::path::PathBuf;

use anyhow::Result;

use figures::Figures;
pub use kind::Kind;
use subject::Subject;

/// The definitions of the rows, for `--help`.
pub const DEFINITIONS: &str = "\
Counts steppe-http, steppe-net, steppe-mem and steppe-telemetry together, rustls and hyper as Cargo.lock has them, and \
the packages below each PATH. Tests are left out: items for cfg(test), and files or folders called tests, testing or fakes.

code lines: lines with code; no comments, documentation or blank lines.
doc comment blocks: adjacent lines of `///` or `//!` are one. A riddle is a block whose first line opens with
  a question: What Who Whose Whom Whoever Whatever Whether How Nobody; or
  a pronoun: It They Of That Those Its Their.
functions with a tuple: a parameter is a tuple, a reference to one or an Option of one. Closures, and methods as a trait has them, don't count.
functions over 70 lines: from the signature to the closing brace.
expect, unwrap: calls of these methods; in gateway/ of steppe-http, and in all code.
impl blocks elsewhere: without a trait, in another file than the type.
files in circles: files that use each other, as `cargo xtask tidy` finds them; methods called on self count.
definitions with a shared name: structs, enums, unions, traits and type aliases whose name another file of these crates defines too.
rows of known.toml: violations that are older than their rule, by rule and file.";

/// A call of the command.
pub struct Request {
    pub with_peers: bool,
    pub list: Option<Kind>,
    pub paths: Vec<PathBuf>,
}

/// Prints the table, or the places behind one of its figures. True: always.
///
/// # Errors
/// Sources can't be read, or peers not be fetched.
pub fn command(request: &Request) -> Result<bool> {
    let given = request.paths.iter().map(|path| Subject::below(path));
    let given: Vec<Subject> = given.collect::<Result<_>>()?;
    if let Some(kind) = request.list {
        let ours = Some(Subject::steppe()?).filter(|_| given.is_empty());
        for subject in ours.iter().chain(&given) {
            for place in Figures::of(subject).places(kind) {
                println!("{place}");
            }
        }
        return Ok(true);
    }
    let mut subjects = vec![Subject::steppe()?];
    subjects.extend(peers::of_lock_file()?);
    if request.with_peers {
        subjects.extend(peers::fetched()?);
    }
    subjects.extend(given);
    let figures = subjects.iter().map(Figures::of).collect::<Vec<_>>();
    print!("{}", table::printed(&figures));
    Ok(true)
}
