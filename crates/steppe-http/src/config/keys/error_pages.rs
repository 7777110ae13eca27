//! Keys of the filter that replaces the content of errors.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use steppe_config::choice::Choices;
use steppe_config::form::{ANY, FILE};
use steppe_config::key::{Key, OptionalKey, choice, key, list, table, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Table};
use steppe_config::typed::{Fields, Node};

use super::forms::{FIELD_VALUE, STATUSES};
use crate::config::{ErrorContent, ErrorPage, ErrorPages, ErrorsOf, Statuses};
use crate::limits::{ERROR_PAGE_BYTES_MAX, ERROR_PAGES_MAX};

/// `[http.filter.NAME]` of the kind `error-pages`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Replaces the content of error responses with your own pages.",
    keys! { PAGES, OF },
);

static PAGES: Key<Vec<ErrorPage>> = key(
    "pages",
    list(&table(&PAGE, page), 1),
    "Pages, at most 32. The first one for the status is used.",
)
.required();

static OF: Key<ErrorsOf> = key(
    "of",
    choice(&Choices::of(&[
        ("gateway", ErrorsOf::Gateway),
        ("all", ErrorsOf::All),
    ])),
    "Errors that are replaced: \"gateway\" for the node's own, \"all\" for those of upstreams too.",
)
.or(Absent::Text("gateway"));

static PAGE: Table = Table::new(
    "http.filter.pages",
    "Content of some error responses.",
    keys! { STATUS, FILE_KEY, BODY, CONTENT_TYPE },
)
.needing(Needs::One(&["file", "body"]));

static STATUS: Key<Statuses> = key(
    "status",
    text(&STATUSES),
    "Statuses from 400 to 599: \"404\", \"5xx\", \"500-504\", or several separated by commas.",
)
.required();

static FILE_KEY: OptionalKey<PathBuf> = key(
    "file",
    text(&FILE),
    "File with the content, at most 64 KiB. It is read with the configuration, and again by each \
     reload.",
);

static BODY: OptionalKey<String> = key("body", text(&ANY), "The content itself, at most 64 KiB.");

static CONTENT_TYPE: OptionalKey<String> = key(
    "content_type",
    text(&FIELD_VALUE),
    "`Content-Type` of the page. Without it, by the file's name, or plain text.",
);

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<ErrorPages> {
    Some(ErrorPages {
        of: filter.get(&OF)?,
        pages: filter.get(&PAGES)?,
    })
}

fn page(page: &Fields) -> Option<ErrorPage> {
    let file = page.get(&FILE_KEY)?.map(ErrorContent::File);
    let body = page.get(&BODY)?.map(ErrorContent::Text);
    Some(ErrorPage {
        statuses: page.get(&STATUS)?,
        content: file.or(body)?,
        content_type: page.get(&CONTENT_TYPE)?,
    })
}

/// Finds the mistakes of single pages, pages that no error is left for, and one too many.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    let pages = filter.items(&PAGES);
    if let Some(page) = pages.get(ERROR_PAGES_MAX) {
        let message = format!("a filter has at most {ERROR_PAGES_MAX} pages");
        mistakes.push(Mistake::new(page.span, message).label("one too many"));
    }
    let mut before = Vec::new();
    for page in pages.iter().filter_map(Node::fields) {
        alone(page, mistakes);
        body(page, mistakes);
        if let Some((statuses, at)) = page.located(&STATUS) {
            status(&statuses, at, &before, mistakes);
            before.push(statuses);
        }
    }
}

/// A page has one content.
fn alone(page: &Fields, mistakes: &mut Mistakes) {
    if let (Some(file), Some(body)) = (page.place_of(&FILE_KEY), page.place_of(&BODY)) {
        mistakes.push(
            Mistake::new(body, "a page has one of `file` and `body`")
                .also(file, "its content is in a file")
                .help("take one of them out"),
        );
    }
}

fn body(page: &Fields, mistakes: &mut Mistakes) {
    let Some((body, at)) = page.located(&BODY) else {
        return;
    };
    let problem = match body.len() {
        0 => "`body` is empty".to_owned(),
        1..=ERROR_PAGE_BYTES_MAX => return,
        bytes => format!("`body` has {bytes} bytes: at most {ERROR_PAGE_BYTES_MAX}"),
    };
    mistakes.push(Mistake::new(at, problem).help("write some text, or name a `file`"));
}

/// A page is for errors, and for one at least that no page before it is for.
fn status(statuses: &Statuses, at: Span, before: &[Statuses], mistakes: &mut Mistakes) {
    let mut others = (100..*ERRORS.start()).filter(|status| statuses.contains(*status));
    if let Some(other) = others.next() {
        let message = format!("{other} is not an error status");
        mistakes.push(Mistake::new(at, message).help("errors are from 400 to 599"));
        return;
    }
    let is_taken = |status: &u16| before.iter().any(|earlier| earlier.contains(*status));
    let mut of_it = ERRORS.filter(|status| statuses.contains(*status));
    if of_it.all(|status| is_taken(&status)) {
        mistakes.push(
            Mistake::new(at, "earlier pages match all of these statuses")
                .label("never used")
                .help("put it before them, or take it out"),
        );
    }
}

const ERRORS: RangeInclusive<u16> = 400..=599;
