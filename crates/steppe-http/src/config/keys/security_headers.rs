//! Keys of the filter that adds security fields.

use steppe_config::choice::Choices;
use steppe_config::key::{Key, OptionalKey, boolean, choice, key, text};
use steppe_config::keys;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use super::forms::FIELD_VALUE;

/// `[http.filter.NAME]` of the kind `security-headers`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Adds security fields to responses. A field that the server sent stays unchanged.",
    keys! { NOSNIFF, FRAME_OPTIONS, REFERRER_POLICY, CONTENT_SECURITY_POLICY, PERMISSIONS_POLICY, CROSS_ORIGIN_OPENER_POLICY },
);

static NOSNIFF: Key<bool> = key(
    "nosniff",
    boolean(),
    "Adds `X-Content-Type-Options: nosniff`.",
)
.or(Absent::Yes);

static FRAME_OPTIONS: Key<&str> = key(
    "frame_options",
    choice(&Choices::of(&[
        ("deny", "deny"),
        ("sameorigin", "sameorigin"),
        ("off", ""),
    ])),
    "Value of `X-Frame-Options`; \"off\" adds none.",
)
.or(Absent::Text("deny"));

static REFERRER_POLICY: Key<String> = key(
    "referrer_policy",
    text(&FIELD_VALUE),
    "Value of `Referrer-Policy`; \"\" adds none.",
)
.or(Absent::Text("strict-origin-when-cross-origin"));

static CONTENT_SECURITY_POLICY: OptionalKey<String> = key(
    "content_security_policy",
    text(&FIELD_VALUE),
    "Value of `Content-Security-Policy`.",
);

static PERMISSIONS_POLICY: OptionalKey<String> = key(
    "permissions_policy",
    text(&FIELD_VALUE),
    "Value of `Permissions-Policy`.",
);

static CROSS_ORIGIN_OPENER_POLICY: OptionalKey<&str> = key(
    "cross_origin_opener_policy",
    choice(&Choices::of(&[
        ("same-origin", "same-origin"),
        ("same-origin-allow-popups", "same-origin-allow-popups"),
        ("unsafe-none", "unsafe-none"),
    ])),
    "Value of `Cross-Origin-Opener-Policy`.",
);

/// The fields that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Vec<(String, String)>> {
    let opener = filter.get(&CROSS_ORIGIN_OPENER_POLICY)?;
    let nosniff = filter.get(&NOSNIFF)?.then(|| "nosniff".to_owned());
    let fields = [
        ("x-content-type-options", nosniff),
        (
            "x-frame-options",
            Some(filter.get(&FRAME_OPTIONS)?.to_owned()),
        ),
        ("cross-origin-opener-policy", opener.map(str::to_owned)),
        ("referrer-policy", Some(filter.get(&REFERRER_POLICY)?)),
        (
            "content-security-policy",
            filter.get(&CONTENT_SECURITY_POLICY)?,
        ),
        ("permissions-policy", filter.get(&PERMISSIONS_POLICY)?),
    ];
    let named = |(name, value): (&str, Option<String>)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some((name.to_owned(), value))
    };
    Some(fields.into_iter().filter_map(named).collect())
}
