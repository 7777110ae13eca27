//! Other files that a file includes: `include = ["sites/*.toml"]`.
//!
//! Invariant: all files make one tree, like one file, the including one first and the others in byte order of their
//! paths; a key that two files give is a mistake that names both places. Lists of tables are appended, and tables
//! merged if one of the two has no value of its own, as headers of TOML name tables above them.

use std::io;
use std::path::{Path, PathBuf};

use crate::limits::{FILE_BYTES_MAX, INCLUDED_DEPTH_MAX, INCLUDED_FILES_MAX};
use crate::mistake::{Mistake, Span, shown};
use crate::mistakes::Mistakes;
use crate::outside::Outside;
use crate::placeholder::Placing;
use crate::sources::Sources;
use crate::syntax::{Syntax, parse_part};
use crate::tree::{Entry, Value, ValueKind};

/// The key that names other files.
pub const INCLUDE: &str = "include";

/// Adds the files that `tree`, the tree of the first file, includes, and fills in the values of placeholders.
pub(crate) fn include(
    tree: &mut Value,
    sources: &mut Sources<'_>,
    outside: &mut dyn Outside,
    mistakes: &mut Mistakes,
) {
    let first = &sources.files()[0];
    let (name, folder) = (first.name.clone(), first.folder().to_owned());
    let canonical = outside.canonical(Path::new(&name)).ok();
    let mut including = Including {
        sources,
        outside,
        mistakes,
        ancestors: canonical.clone().into_iter().collect(),
        included: canonical
            .map(|path| (path, Span::at(0)))
            .into_iter()
            .collect(),
    };
    including.complete(tree, &folder);
}

/// The state of an inclusion.
struct Including<'a, 's> {
    sources: &'a mut Sources<'s>,
    outside: &'a mut dyn Outside,
    mistakes: &'a mut Mistakes,
    /// The file that is being completed, and those that include it, by canonical path.
    ancestors: Vec<PathBuf>,
    /// Every file, by canonical path, and the pattern that has included it.
    included: Vec<(PathBuf, Span)>,
}

impl Including<'_, '_> {
    /// Fills in the values of placeholders, and appends the trees of included files.
    fn complete(&mut self, tree: &mut Value, folder: &Path) {
        let mut placing = Placing {
            folder,
            outside: &mut *self.outside,
            placed: &mut self.sources.placed,
            mistakes: self.mistakes,
        };
        placing.place(tree);
        let entry = tree.take(INCLUDE);
        let (Some(entry), ValueKind::Table(entries)) = (entry, &mut tree.kind) else {
            return;
        };
        let Some(patterns) = self.patterns(entry.value) else {
            self.mistakes.set_partial();
            return;
        };
        for (pattern, span) in patterns {
            for path in self.paths(&pattern, span, folder) {
                match self.file(&path, span) {
                    Some(ValueKind::Table(included)) => {
                        merge("", entries, included, self.mistakes);
                    }
                    _ => self.mistakes.set_partial(),
                }
            }
        }
    }

    /// The patterns of a list, with their places; `None`: the mistake was reported.
    fn patterns(&mut self, value: Value) -> Option<Vec<(String, Span)>> {
        let span = value.span;
        let items = match value.kind {
            ValueKind::List(items) => items,
            ValueKind::Refused => return None,
            ref kind => {
                let help = match kind {
                    ValueKind::Text(pattern) => format!("write [\"{}\"]", shown(pattern)),
                    _ => "write [\"sites/*.toml\"]".to_owned(),
                };
                let mistake = Mistake::new(span, "`include` takes a list of paths");
                let mistake = mistake.label(format!("found {}", value.describe()));
                self.mistakes.push(mistake.help(help));
                return None;
            }
        };
        let mut patterns = Vec::new();
        for item in items {
            match item.kind {
                ValueKind::Text(pattern) if pattern.is_empty() || pattern.contains('\0') => {
                    let message = "a path can't be empty, nor contain NUL";
                    let mistake = Mistake::new(item.span, message);
                    self.mistakes.push(mistake.label("in `include`"));
                    return None;
                }
                ValueKind::Text(pattern) => patterns.push((pattern, item.span)),
                ValueKind::Refused => return None,
                _ => {
                    let found = format!("found {}", item.describe());
                    let mistake = Mistake::new(item.span, "`include` takes paths");
                    self.mistakes.push(mistake.label(found));
                    return None;
                }
            }
        }
        Some(patterns)
    }

    /// The paths that a pattern of a file in `folder` matches.
    fn paths(&mut self, pattern: &str, span: Span, folder: &Path) -> Vec<PathBuf> {
        if !pattern.contains(['*', '?', '[']) {
            return vec![folder.join(pattern)];
        }
        // Pattern characters in the name of the folder are literal.
        let whole = match Path::new(pattern).is_absolute() || folder.as_os_str().is_empty() {
            true => pattern.to_owned(),
            false => format!(
                "{}/{pattern}",
                glob::Pattern::escape(&folder.to_string_lossy())
            ),
        };
        let found = self.outside.matches(&whole, INCLUDED_FILES_MAX);
        let pattern = shown(pattern);
        let problem = match found {
            Ok(paths) if paths.len() <= INCLUDED_FILES_MAX => return paths,
            Ok(_) => format!("`{pattern}` matches more than {INCLUDED_FILES_MAX} files"),
            Err(why) => format!("can't include `{pattern}`: {why}"),
        };
        let mistake = Mistake::new(span, problem);
        self.mistakes.push(mistake.label("this pattern"));
        self.mistakes.set_partial();
        Vec::new()
    }

    /// The tree of a file and of those that it includes; `None`: the mistake was reported.
    fn file(&mut self, path: &Path, span: Span) -> Option<ValueKind> {
        let name = path.to_string_lossy().into_owned();
        let canonical = self.outside.canonical(path);
        let canonical = canonical.map_err(|error| self.unreadable(&name, span, &error));
        let canonical = canonical.ok()?;
        self.check_place(&canonical, &name, span)?;
        let text = self.text(path, &name, span)?;
        self.included.push((canonical.clone(), span));
        let syntax = Syntax::of(&name, &text);
        let start = self.sources.add(name, text);
        let file = self.sources.file(start);
        let folder = file.folder().to_owned();
        let mut mistakes = Mistakes::default();
        let parsed = parse_part(syntax, &file.text, &mut mistakes);
        self.mistakes.absorb(mistakes, start);
        let (mut tree, unsure) = parsed?;
        tree.shift(start);
        let unsure = unsure.into_iter();
        self.mistakes.drop_within(
            unsure
                .map(|range| range.start + start..range.end + start)
                .collect(),
        );
        self.ancestors.push(canonical);
        self.complete(&mut tree, &folder);
        self.ancestors.pop();
        Some(tree.kind)
    }

    /// Refuses a file that includes itself, that another file has included, or that is nested too deep.
    fn check_place(&mut self, canonical: &Path, name: &str, span: Span) -> Option<()> {
        let name = shown(name);
        let mistake = |message: String| Mistake::new(span, message);
        let first = self.included.iter().find(|(path, _)| path == canonical);
        let problem = if self.ancestors.iter().any(|path| path == canonical) {
            let message = match self.ancestors.last().is_some_and(|last| last == canonical) {
                true => format!("`{name}` includes itself"),
                false => format!("`{name}` includes itself by way of other files"),
            };
            mistake(message).label("again here")
        } else if let Some((_, first)) = first {
            let mistake = mistake(format!("`{name}` is included twice")).label("again here");
            mistake.also(*first, "first here")
        } else if self.ancestors.len() > INCLUDED_DEPTH_MAX {
            let message = format!("files are included deeper than {INCLUDED_DEPTH_MAX} levels");
            mistake(message).label("too deep")
        } else if self.sources.files().len() > INCLUDED_FILES_MAX {
            let message = format!("more than {INCLUDED_FILES_MAX} files are included");
            mistake(message).label(format!("`{name}` is one too many"))
        } else {
            return Some(());
        };
        self.mistakes.push(problem);
        None
    }

    fn text(&mut self, path: &Path, name: &str, span: Span) -> Option<String> {
        let left = FILE_BYTES_MAX.saturating_sub(self.sources.bytes());
        let bytes = match self.outside.read(path, left) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unreadable(name, span, &error);
                return None;
            }
        };
        if bytes.len() > left {
            let message = format!("all files together are longer than {FILE_BYTES_MAX} bytes");
            let mistake = Mistake::new(span, message);
            let label = format!("with `{}`", shown(name));
            self.mistakes.push(mistake.label(label));
            return None;
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let message = format!("`{}` is not UTF-8: {}", shown(name), error.utf8_error());
            let mistake = Mistake::new(span, message);
            self.mistakes.push(mistake.label("included here"));
        });
        text.ok()
    }

    fn unreadable(&mut self, name: &str, span: Span, error: &io::Error) {
        let message = format!("can't read `{}`: {error}", shown(name));
        let mistake = Mistake::new(span, message);
        self.mistakes.push(mistake.label("included here"));
    }
}

/// Appends entries to those of the same table, whose path is `path`, of earlier files.
fn merge(path: &str, into: &mut Vec<Entry>, entries: Vec<Entry>, mistakes: &mut Mistakes) {
    for entry in entries {
        let Some(there) = into.iter_mut().find(|there| there.name == entry.name) else {
            into.push(entry);
            continue;
        };
        let path = match path {
            "" => entry.name.clone(),
            path => format!("{path}.{}", entry.name),
        };
        match (&mut there.value.kind, entry.value.kind) {
            (ValueKind::List(items), ValueKind::List(more))
                if are_tables(items) && are_tables(&more) =>
            {
                items.extend(more);
            }
            (ValueKind::Table(entries), ValueKind::Table(more))
                if !(has_values(entries) && has_values(&more)) =>
            {
                merge(&path, entries, more, mistakes);
            }
            _ => {
                let message = format!("`{}` is given twice", shown(&path));
                let mistake = Mistake::new(entry.name_span, message).label("again here");
                mistakes.push(mistake.also(there.name_span, "first here"));
            }
        }
    }
}

/// True for a list of tables, which headers in double brackets make.
fn are_tables(items: &[Value]) -> bool {
    let mut items = items.iter();
    items.all(|item| matches!(item.kind, ValueKind::Table(_)))
}

/// True if a table has a value of its own, besides headers of tables below it.
fn has_values(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match &entry.value.kind {
        ValueKind::Table(_) => false,
        ValueKind::List(items) => !are_tables(items),
        _ => true,
    })
}
