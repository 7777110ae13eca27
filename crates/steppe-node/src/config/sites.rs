//! Sites of a configuration, which are expanded before the file is read.
//!
//! Invariant: no site is left in the tree of a file that was expanded, and `/config` shows none. Later checks get the
//! sites beside their expansion, so that mistakes name the sites.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::PathBuf;

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::outside::Outside;
use steppe_config::placeholder::rebased;
use steppe_config::read::Source;
use steppe_config::sources::Sources;
use steppe_config::table::Spec;
use steppe_config::tree::{Value, ValueKind};
use steppe_config::typed::{Fields, Node, Typed};
use steppe_config::write;
use steppe_http::config::keys::site::{AUTH, HTTPS};
use steppe_http::config::site;

use super::keys::{ROOT, SITE};

/// Replaces the sites of the tree by their expansion. Returns the sites, as they were read.
pub(super) fn expand(source: &mut Source<'_>, mistakes: &mut Mistakes) -> Option<Node> {
    let sites = source.take(&SITE.spec, mistakes)?;
    site::expand(&mut source.tree, &sites, &source.files, mistakes);
    Some(sites.read)
}

/// The long form of a valid configuration that was parsed, as TOML in one file.
pub(super) fn expanded(mut source: Source<'_>, outside: &mut dyn Outside) -> Option<String> {
    let mut mistakes = Mistakes::default();
    source.complete(outside, &mut mistakes);
    expand(&mut source, &mut mistakes);
    let file = source.read(&ROOT, &mut mistakes);
    let mut paths = HashSet::new();
    collect_paths(&file, &mut paths);
    let Source { files, tree } = &mut source;
    rebase(tree, files, &paths);
    write::toml(tree)
}

/// The places of paths that a configuration names.
fn collect_paths(fields: &Fields, paths: &mut HashSet<Span>) {
    let values = fields.given.iter().map(|field| &field.value);
    values.for_each(|value| collect_paths_of(value, paths));
}

fn collect_paths_of(node: &Node, paths: &mut HashSet<Span>) {
    match &node.typed {
        Typed::File(_) => _ = paths.insert(node.span),
        Typed::List(items) => items.iter().for_each(|item| collect_paths_of(item, paths)),
        Typed::Map(entries) => {
            let values = entries.iter().map(|entry| &entry.value);
            values.for_each(|value| collect_paths_of(value, paths));
        }
        _ => {
            if let Some(fields) = node.fields() {
                collect_paths(fields, paths);
            }
        }
    }
}

/// Makes paths and Unix sockets of included files absolute: relative ones would count from the folder of the first
/// file.
fn rebase(value: &mut Value, files: &Sources<'_>, paths: &HashSet<Span>) {
    let file = files.file(value.span.start);
    let is_included = file.start > 0;
    match (&mut value.kind, &mut value.placeholder) {
        (ValueKind::List(items), _) => {
            items.iter_mut().for_each(|item| rebase(item, files, paths));
        }
        (ValueKind::Table(entries), _) => {
            let values = entries.iter_mut().map(|entry| &mut entry.value);
            values.for_each(|value| rebase(value, files, paths));
        }
        (ValueKind::Text(text), placeholder) if is_included => {
            let Ok(folder) = std::path::absolute(file.folder()) else {
                return;
            };
            let is_path = paths.contains(&value.span);
            let prefix = match text.strip_prefix(SOCKET) {
                Some(path) if !path.starts_with('/') => SOCKET,
                None if is_path && !text.starts_with('/') => "",
                _ => {
                    if let Some(placeholder) = placeholder {
                        placeholder.written = rebased(&placeholder.written, &folder).into();
                    }
                    return;
                }
            };
            let below = |path: &str| format!("{prefix}{}/{path}", folder.display());
            if let Some(placeholder) = placeholder {
                let written = rebased(&placeholder.written, &folder);
                placeholder.written =
                    below(written.strip_prefix(prefix).unwrap_or(&written)).into();
            }
            *text = below(text.strip_prefix(prefix).unwrap_or(text));
        }
        _ => {}
    }
}

/// The start of a Unix socket's address, for every key that takes an address.
const SOCKET: &str = "unix:";

/// Keeps the sites beside their expansion.
pub(super) fn keep(sites: Option<Node>, file: &mut Fields) {
    if let Some(sites) = sites {
        file.set(&SITE.spec, sites.typed);
    }
}

/// Removes the sites, which the rest of the node does not know.
pub(super) fn drop(file: &mut Fields) {
    file.given
        .retain(|field| !std::ptr::eq(field.key, &raw const SITE.spec));
}

/// Keys of sites by the place of their values, for messages about files that they name.
pub(super) fn places(file: &Fields) -> HashMap<Span, &'static str> {
    let sites = file.items(&SITE).iter().filter_map(Node::fields);
    let nodes = sites.flat_map(|site| {
        let keys = [&HTTPS.spec, &AUTH.spec];
        keys.map(|key| Some((site.value(key)?.span, key.name)))
    });
    nodes.flatten().collect()
}

/// Reports missing files of sites. A start reports those of the long form.
pub(super) fn check_files(file: &Fields, mistakes: &mut Mistakes) {
    for site in file.items(&SITE).iter().filter_map(Node::fields) {
        for key in [&HTTPS.spec, &AUTH.spec] {
            let Some(node) = site.value(key) else {
                continue;
            };
            let within = node.fields().map_or(&[][..], |fields| &fields.given);
            let nodes = within.iter().map(|field| &field.value);
            for node in nodes.chain([node]) {
                missing(node, key, mistakes);
            }
        }
    }
}

fn missing(node: &Node, key: &Spec, mistakes: &mut Mistakes) {
    let Some(path) = node.typed.value::<PathBuf>() else {
        return;
    };
    let Err(error) = std::fs::metadata(path) else {
        return;
    };
    // Another user may have the permission that this one lacks.
    if error.kind() == ErrorKind::NotFound {
        let message = format!("cannot read {}: {error}", path.display());
        mistakes.push(
            Mistake::new(node.span, message)
                .label(format!("in `{}` of a site", key.name))
                .help(CREATE),
        );
    }
}

const CREATE: &str = "create the file, or correct the path: relative paths count from the folder of the configuration";
