//! Forms of strings: media types, paths of routes.

use std::path::Path;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::mistake::shown;

use crate::config::MediaRange;
use crate::path::PathPattern;

/// Media type, or all subtypes of a type.
pub(super) static MEDIA_RANGE: Form<MediaRange> = Form::new(
    "a media type such as \"application/json\" or \"text/*\"",
    media_range,
)
.pattern("^[!#$%&'+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+$");

/// Path of a route.
pub static PATH: Form<PathPattern> =
    Form::new("a path such as \"/v1/{id}\" or \"/{rest*}\"", path_pattern)
        .pattern("^/")
        .shown_by(ToString::to_string);

/// `TYPE/SUBTYPE` or `TYPE/*`.
fn media_range(text: &str, _: &Path) -> Read<MediaRange> {
    let is_one =
        |text: &str| !text.contains('*') || text.split_once('/').is_some_and(|(_, sub)| sub == "*");
    MediaRange::parse(text)
        .filter(|_| is_one(text))
        .ok_or_else(|| {
            Refusal::new(format!("`{}` is not a media type", shown(text))).help(
                "write a type and its subtype, or all of a type: \"application/json\", \"text/*\"",
            )
        })
}

fn path_pattern(text: &str, _: &Path) -> Read<PathPattern> {
    PathPattern::parse(text).map_err(|error| {
        let refusal = Refusal::new(format!("`{}` is not a path pattern", shown(text)));
        Refusal {
            range: Some(error.span.clone()),
            ..refusal.help(error.to_string())
        }
    })
}
