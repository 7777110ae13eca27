//! Rules between routes, the node's budget and the folders of the machine.

use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_config::units::size_text;
use steppe_http::config::keys::{gateway, route};

use crate::config::keys::node::MEMORY_BUDGET;
use crate::config::keys::{HTTP, NODE};
use crate::config::memory_budget::MemoryBudget;

/// Checks the folders that are served, on this machine.
pub(in crate::config) fn folders(file: &Fields, mistakes: &mut Mistakes) {
    let http = file.within(&HTTP);
    let routes = http.map_or(&[][..], |http| http.items(&gateway::ROUTE));
    for route in routes.iter().filter_map(Node::fields) {
        let files = route.within(&route::FILES);
        let Some((path, at)) = files.and_then(|files| files.located(&route::files::ROOT)) else {
            continue;
        };
        let why = match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => "it is not a folder".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!(
            "`{}` can't be served: {why}",
            shown(&path.to_string_lossy())
        );
        mistakes.push(
            Mistake::new(at, message)
                .label("not a folder")
                .help("relative paths count from the folder of the configuration"),
        );
    }
}

/// Reports routes with a larger budget than the node's.
pub(super) fn budgets(file: &Fields, http: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = file.within(&NODE) else {
        return;
    };
    let Some((MemoryBudget::Bytes(whole), of_node)) = node.located(&MEMORY_BUDGET) else {
        return;
    };
    let routes = http.items(&gateway::ROUTE).iter().filter_map(Node::fields);
    for (part, at) in routes.filter_map(|route| route.located(&route::BUDGET)) {
        if part <= whole {
            continue;
        }
        let (part, whole) = (size_text(part), size_text(whole));
        let message = format!("a route's budget of {part} is more than the node's {whole}");
        let mistake = Mistake::new(at, message).label("a part of the node's budget");
        mistakes.push(match node.place_of(&MEMORY_BUDGET) {
            Some(_) => mistake.also(of_node, "the whole"),
            None => mistake,
        });
    }
}
