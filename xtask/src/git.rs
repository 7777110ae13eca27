//! The checkout as git sees it: its commit, and the files that differ from another commit.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::process;

/// The hash of the commit that is checked out; `None` where there is no git or no commit.
pub fn head() -> Option<String> {
    commit("HEAD")
}

/// The hash of the commit that a name stands for, if this clone has it.
pub fn commit(name: &str) -> Option<String> {
    let name = format!("{name}^{{commit}}");
    let text = git(&["rev-parse", "--quiet", "--verify", &name]).ok()?;
    Some(text.trim().to_owned())
}

/// True when every file is as committed and no untracked file is there; ignored files do not count.
pub fn is_clean() -> bool {
    git(&["status", "--porcelain", "--untracked-files=all"])
        .is_ok_and(|text| text.trim().is_empty())
}

/// Files that differ from a commit, relative to the root: committed since, changed, deleted or not tracked yet.
pub fn changed_since(commit: &str) -> Result<BTreeSet<String>> {
    // Paths as they are, and a renamed file counts where it was and where it is.
    let changed = git(&["diff", "--name-only", "--no-renames", "-z", commit, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let paths = changed.split('\0').chain(new.split('\0'));
    let paths = paths.filter(|path| !path.is_empty());
    Ok(paths.map(str::to_owned).collect())
}

fn git(arguments: &[&str]) -> Result<String> {
    process::output(process::command("git".as_ref()).args(arguments))
}
