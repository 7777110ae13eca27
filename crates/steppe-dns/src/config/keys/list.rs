//! Keys of lists of domains.

use std::path::PathBuf;
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::{FILE, FOLDER, NAME};
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, boolean, choice, duration, key, list, place, text,
};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Needs, Table};
use steppe_config::typed::{Fields, Named};
use steppe_net::config::forms::URL;

use crate::config::{FetchedFile, List};
use crate::rules::PlainScope;
use crate::siphash::{SipHash13, SipKey};

/// `[dns.list.NAME]`.
pub static LIST: PlaceKey =
    place("list", Kind::Map(&NAME, &Kind::Table(&TABLE)), TABLE.doc).or(Absent::Table);

static TABLE: Table = Table::new(
    "dns.list",
    "Lists of domains, by name. Up to 64 lists share one index of at most 8,388,608 rules.",
    keys! { FILES, URLS, REFRESH, STORE, REQUIRED, PLAIN_NAMES, ALIASES },
)
.needing(Needs::Any(&["files", "urls"]));

/// Files with lines of the list.
pub static FILES: OptionalKey<Vec<PathBuf>> = key(
    "files",
    list(&text(&FILE), 1),
    "Files with lines of the list: hosts files, plain names, AdBlock and RPZ, recognized line by line. \
     They are read again when they change.",
);

static URLS: OptionalKey<Vec<String>> = key(
    "urls",
    list(&text(&URL), 1),
    "URLs (http or https) that further lines are fetched from. Needs `store`.",
);

static REFRESH: Key<Duration> = key(
    "refresh",
    duration(REFRESH_MIN, REFRESH_MAX),
    "Age at which a fetched list is fetched again.",
)
.or(Absent::Text("1d"));

/// Publishers of lists ask for an hour at least.
const REFRESH_MIN: Duration = Duration::from_secs(60);

const REFRESH_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

static STORE: OptionalKey<PathBuf> = key(
    "store",
    text(&FOLDER),
    "Folder that keeps fetched lists, a file a URL, over restarts; required with `urls`. The node creates \
     it and must be able to write to it: `/var/lib/steppe/lists` under the unit of the package.",
);

static REQUIRED: Key<bool> = key(
    "required",
    boolean(),
    "`true` refuses a start without all fetched files of this list: those that are not stored are fetched \
     first, and one that cannot be fetched or used, or does not fit in the memory budget, refuses the \
     start. Otherwise the node starts without such a file, and reports it.",
)
.or(Absent::No);

static PLAIN_NAMES: Key<PlainScope> = key(
    "plain_names",
    choice(&Choices::of(&[
        ("suffix", PlainScope::Suffix),
        ("exact", PlainScope::Exact),
    ])),
    "Meaning of a line with nothing but a name: \"suffix\" includes the names below it, \"exact\" is the \
     name alone.",
)
.or(Absent::Text("suffix"));

static ALIASES: Key<bool> = key(
    "aliases",
    boolean(),
    "Where a rule blocks names of this list, a name is blocked too whose response has an alias (CNAME, or \
     the target of an HTTPS or SVCB record) that leads to a name of the list, unless a rule above that \
     one decides about the name. `false` blocks by the name in the query alone.",
)
.or(Absent::Yes);

pub(super) fn build(entry: &Named) -> Option<List> {
    let list = entry.value.fields()?;
    Some(List {
        name: entry.name.clone(),
        files: list.get(&FILES)?.unwrap_or_default(),
        fetched: fetched(&entry.name, list)?,
        refresh: list.get(&REFRESH)?,
        plain: list.get(&PLAIN_NAMES)?,
        required: list.get(&REQUIRED)?,
        aliases: list.get(&ALIASES)?,
    })
}

/// The fetched files of a list. The name of a file has the hash of its URL, so their order may change.
fn fetched(name: &str, list: &Fields) -> Option<Vec<FetchedFile>> {
    let urls = list.get(&URLS)?.unwrap_or_default();
    let store = list.get(&STORE)?;
    let files = urls.into_iter().map(|url| {
        // The hash has to be the same over restarts, so its key is fixed.
        let hash = SipHash13::of(&SipKey([0, 0]), url.as_bytes());
        let file = store.as_ref()?.join(format!("{name}-{hash:016x}.txt"));
        Some(FetchedFile { url, file })
    });
    files.collect()
}

/// Finds the mistakes in combinations of keys: URLs without a folder for fetched lists, and keys of fetching without
/// URLs.
pub(super) fn check(list: &Fields, mistakes: &mut Mistakes) {
    if let Some(urls) = list.place_of(&URLS) {
        if list.place_of(&STORE).is_none() {
            let mistake = Mistake::new(urls, "`urls` needs `store`");
            let help = "add the folder that keeps fetched lists: store = \"lists\"";
            mistakes.push(
                mistake
                    .label("no folder to keep fetched lists in")
                    .help(help),
            );
        }
        return;
    }
    for key in [&STORE.spec, &REFRESH.spec, &REQUIRED.spec] {
        if let Some(span) = list.given(key) {
            let message = format!("`{}` has no effect without `urls`", key.name);
            let mistake = Mistake::new(span, message).label("nothing is fetched");
            mistakes.push(mistake.help("add `urls`, or take it out"));
        }
    }
}
