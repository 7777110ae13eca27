//! Keys of redirects: of the filter, and of routes that have neither upstream nor folder.

use steppe_config::key::{Key, Type, integer, key, of, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node};

use super::forms::FIELD_VALUE;
use crate::config::Redirect;

/// `[http.filter.NAME]` of the kind `redirect`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Redirects requests to another URL.",
    keys! { TO, STATUS },
);

static ROUTE_TABLE: Table = Table::new(
    "http.route.redirect",
    "Redirects requests to another URL, instead of an upstream. A string is the value of `to`.",
    keys! { TO, STATUS },
);

/// The redirect of a route: its URL, or a table.
pub(super) const fn of_route() -> Type<Redirect> {
    const KINDS: &[Kind] = &[Kind::Text(&FIELD_VALUE), Kind::Table(&ROUTE_TABLE)];
    of(Kind::Either(KINDS), from_node)
}

fn from_node(node: &Node) -> Option<Redirect> {
    let Some(to) = node.typed.value::<String>() else {
        return build(node.fields()?);
    };
    Some(Redirect {
        status: 308,
        to: to.clone(),
    })
}

static TO: Key<String> = key(
    "to",
    text(&FIELD_VALUE),
    "Value of `Location`. `{host}`, `{path}` (in normal form) and `{query}` (with its `?`) insert \
     the request's own.",
)
.required();

static STATUS: Key<u16> =
    key("status", integer(301, 308), "301, 302, 303, 307 or 308.").or(Absent::Number(308));

/// The redirect that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Redirect> {
    Some(Redirect {
        status: filter.get(&STATUS)?,
        to: filter.get(&TO)?,
    })
}

/// Refuses statuses within the range that redirect nothing.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if let Some((304..=306, at)) = filter.located(&STATUS) {
        let mistake = Mistake::new(at, "not a redirect status");
        mistakes.push(mistake.help("write 301, 302, 303, 307 or 308"));
    }
}
