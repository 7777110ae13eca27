//! Problems of files, by the place where a configuration names the file.

use std::io::{self, ErrorKind};
use std::path::Path;

use steppe_net::tls::LoadError;

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Node, Typed};

/// Problems of the files of one part of the configuration, each reported once.
pub(super) struct Problems<'a> {
    /// The part of the configuration.
    pub(super) node: &'a Node,
    /// The part's name, for messages.
    name: String,
    /// Advice about a file that could be read and can't be used.
    help: &'static str,
    mistakes: &'a mut Mistakes,
    told: Vec<(Span, String)>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(node: &'a Node, name: String, mistakes: &'a mut Mistakes) -> Self {
        Self {
            node,
            name,
            help: "",
            mistakes,
            told: Vec::new(),
        }
    }

    pub(super) fn with_help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Adds a file that can't be read.
    pub(super) fn unreadable(&mut self, path: &Path, cause: &io::Error) {
        let message = format!("cannot read {}: {cause}", path.display());
        let help = match cause.kind() {
            ErrorKind::NotFound => {
                "create the file, or correct the path: relative paths count from the folder of \
                 the configuration"
            }
            ErrorKind::PermissionDenied => {
                "give the user that runs the node read access, or run the check as this user"
            }
            _ => "name a regular file",
        };
        self.push(path, (message, help));
    }

    /// Adds a file that can't be used.
    pub(super) fn unusable(&mut self, path: Option<&Path>, message: String) {
        let help = self.help;
        self.push(path.unwrap_or(Path::new("")), (message, help));
    }

    /// Adds an error of a file.
    pub(super) fn tell(&mut self, error: LoadError) {
        let message = error.to_string();
        match error {
            LoadError::Read { path, cause } => self.unreadable(&path, &cause),
            LoadError::Content { path, .. } => self.unusable(Some(&path), message),
            LoadError::NoSystemRoots | LoadError::Setup(_) => self.unusable(None, message),
        }
    }

    fn push(&mut self, path: &Path, (message, help): (String, &str)) {
        let span = place_of(self.node, path).unwrap_or(self.node.span);
        let told = (span, message);
        if self.told.contains(&told) {
            return;
        }
        let mistake = Mistake::new(span, told.1.clone()).label(format!("in {}", self.name));
        self.mistakes.push(match help {
            "" => mistake,
            help => mistake.help(help),
        });
        self.told.push(told);
    }
}

/// The place of a path within a part of the configuration.
fn place_of(node: &Node, path: &Path) -> Option<Span> {
    match &node.typed {
        Typed::File(file) => (file == path).then_some(node.span),
        Typed::List(items) => items.iter().find_map(|item| place_of(item, path)),
        Typed::Map(entries) => entries
            .iter()
            .find_map(|entry| place_of(&entry.value, path)),
        _ => {
            let given = &node.fields()?.given;
            given.iter().find_map(|field| place_of(&field.value, path))
        }
    }
}
