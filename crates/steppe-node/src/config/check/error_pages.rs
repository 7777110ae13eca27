//! What the keys of an `error-pages` filter say together.

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_http::config::Statuses;
use steppe_http::limits::{ERROR_PAGE_BYTES_MAX, ERROR_PAGES_MAX};

use crate::config::typed::FromNode;

const ERRORS: std::ops::RangeInclusive<u16> = 400..=599;

pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    let pages = filter.list("pages");
    if let Some(page) = pages.get(ERROR_PAGES_MAX) {
        let message = format!("a filter has at most {ERROR_PAGES_MAX} pages");
        mistakes.push(Mistake::new(page.span, message).label("one too many"));
    }
    let mut before: Vec<Statuses> = Vec::new();
    for page in pages.iter().filter_map(Node::fields) {
        alone(page, mistakes);
        body(page, mistakes);
        if let Some(node) = page.node("status")
            && let Some(statuses) = Statuses::from_node(node)
        {
            status(node, &statuses, &before, mistakes);
            before.push(statuses);
        }
    }
}

/// A page has one content.
fn alone(page: &Fields, mistakes: &mut Mistakes) {
    if let (Some(file), Some(body)) = (page.given("file"), page.given("body")) {
        mistakes.push(
            Mistake::new(body, "a page has one of `file` and `body`")
                .also(file, "its content is in a file")
                .help("take one of them out"),
        );
    }
}

fn body(page: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = page.node("body") else {
        return;
    };
    let problem = match String::from_node(node).map(|body| body.len()) {
        Some(0) => "`body` is empty".to_owned(),
        Some(bytes) if bytes > ERROR_PAGE_BYTES_MAX => {
            format!("`body` has {bytes} bytes: at most {ERROR_PAGE_BYTES_MAX}")
        }
        _ => return,
    };
    mistakes.push(Mistake::new(node.span, problem).help("write some text, or name a `file`"));
}

/// A page is for errors, and for one at least that no page before it is for.
fn status(node: &Node, statuses: &Statuses, before: &[Statuses], mistakes: &mut Mistakes) {
    let mut others = (100..*ERRORS.start()).filter(|status| statuses.contains(*status));
    if let Some(other) = others.next() {
        let message = format!("{other} is not an error status");
        mistakes.push(Mistake::new(node.span, message).help("errors are from 400 to 599"));
        return;
    }
    let is_taken = |status: &u16| before.iter().any(|earlier| earlier.contains(*status));
    let mut of_it = ERRORS.filter(|status| statuses.contains(*status));
    if of_it.all(|status| is_taken(&status)) {
        mistakes.push(
            Mistake::new(node.span, "earlier pages match all of these statuses")
                .label("never used")
                .help("put it before them, or take it out"),
        );
    }
}
