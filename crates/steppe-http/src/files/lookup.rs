//! Maps a request's path to a file below a folder.
//!
//! Invariant: the path that is opened has no empty, hidden or dot segment, and consists of
//! the segments that the route was matched with, or is the fallback of the configuration. Where
//! links lead elsewhere, that path has no hidden segment either.
//!
//! Non-goals: lists of folders, which `listing` writes.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

use steppe_mem::{Buffer, Lease, OverBudget};
use steppe_net::{File, FolderContents, Opened, Root};

use super::coding::AcceptedCodings;
use super::media_type;
use crate::config::{Coding, FallbackFor, Files};
use crate::limits::FILE_PATH_BYTES_MAX;
use crate::path::{FilePattern, SegmentNames, decoded};

/// The index, the fallback and the lifetimes of a folder's files.
#[derive(Debug)]
pub(super) struct FolderRules {
    index: String,
    fallback: Option<Arc<str>>,
    fallback_for: FallbackFor,
    cache_control: Option<Rules>,
    listing: bool,
    /// Number of segments of the route's path before its `{rest*}`.
    skipped: usize,
}

/// Values of `Cache-Control` by file; the first that matches counts.
type Rules = Arc<[(FilePattern, Arc<str>)]>;

impl FolderRules {
    /// Those of a route whose path has `skipped` segments before its `{rest*}`.
    pub(super) fn of(files: &Files, skipped: usize) -> Self {
        Self {
            index: files.index.clone(),
            fallback: files.fallback.as_deref().map(Arc::from),
            fallback_for: files.fallback_for,
            cache_control: rules(files),
            listing: files.listing,
            skipped,
        }
    }

    /// The segments of a path below the folder.
    fn segments<'a>(&self, path: &'a [u8]) -> std::iter::Skip<SegmentNames<'a>> {
        SegmentNames::new(path).skip(self.skipped)
    }
}

/// `None` where no file has a `Cache-Control`.
fn rules(files: &Files) -> Option<Rules> {
    let rules = files.cache_control.iter();
    let rules = rules.map(|rule| (rule.files.clone(), rule.value.as_str().into()));
    Some(rules.collect::<Arc<_>>()).filter(|rules: &Rules| !rules.is_empty())
}

/// A path below a folder.
#[derive(Debug)]
pub(super) struct FileLookup {
    path: Buffer,
    /// End of the path without a suffix for a coding.
    plain_end: usize,
    accepted: AcceptedCodings,
    /// The request's path ended with a slash: the folder's index is requested.
    is_folder: bool,
    /// The end of the folder's path, where a folder without an index is listed.
    listed_end: Option<usize>,
    /// The path to look up if there is no file here.
    fallback: Option<Arc<str>>,
    cache_control: Option<Rules>,
}

/// Reasons why a path is not looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unserved {
    /// A name in it is hidden.
    Hidden,
    /// No file can have this name.
    NoFile,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum FoundFile {
    /// A file.
    File(Representation),
    /// A folder, requested without a trailing slash.
    Folder,
    /// A folder without an index, which is listed.
    Unindexed(FolderContents),
    /// Nothing that may be served.
    Nothing,
}

/// A representation of a resource (RFC 9110 §3.2).
#[derive(Debug)]
pub(super) struct Representation {
    pub(super) file: File,
    pub(super) media_type: &'static str,
    /// `None` for the identity coding.
    pub(super) coding: Option<Coding>,
    /// The value of `Cache-Control`.
    pub(super) cache_control: Option<Arc<str>>,
}

/// Most bytes appended to a path: a coding's suffix and the terminating NUL.
const END_BYTES: usize = 5;

/// Dotfiles are not served, except for this folder at the top (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

impl FileLookup {
    /// The lookup of the normalized `path` of a request, for the identity coding or one of `accepted`. `None` where the
    /// path is never served.
    pub(super) fn new(
        path: &[u8],
        names: &FolderRules,
        accepted: AcceptedCodings,
        lease: &Lease,
    ) -> Result<Option<Self>, OverBudget> {
        let fallback = names.fallback.clone();
        let fallback = fallback.filter(|_| falls_back(path, names));
        let path_bytes = path.len() + names.index.len() + 1;
        let is_too_long = path_bytes + END_BYTES > FILE_PATH_BYTES_MAX;
        let most = match &fallback {
            Some(fallback) if is_too_long => fallback.len(),
            Some(fallback) => fallback.len().max(path_bytes),
            None if is_too_long => return Ok(None),
            None => path_bytes,
        };
        let mut lookup = Self {
            path: Buffer::take(lease, most + END_BYTES)?,
            plain_end: 0,
            accepted,
            is_folder: false,
            listed_end: None,
            fallback,
            cache_control: names.cache_control.clone(),
        };
        let filled = match is_too_long {
            true => Err(Unserved::NoFile),
            false => lookup.fill(path, names),
        };
        Ok(match filled {
            Ok(()) => Some(lookup),
            Err(Unserved::NoFile) if lookup.fall_back() => Some(lookup),
            Err(_) => None,
        })
    }

    fn fill(&mut self, path: &[u8], names: &FolderRules) -> Result<(), Unserved> {
        for name in names.segments(path) {
            self.is_folder = name.is_empty();
            if self.is_folder {
                break;
            }
            self.add(name)?;
        }
        if self.is_folder {
            self.listed_end = names.listing.then_some(self.path.len());
            self.add_slash();
            let added = self.path.put(names.index.as_bytes());
            added.expect("it has room for all of a path");
        }
        self.plain_end = self.path.len();
        Ok(())
    }

    /// Puts the fallback in the place of the path; false where there is none.
    fn fall_back(&mut self) -> bool {
        let Some(fallback) = self.fallback.take() else {
            return false;
        };
        self.listed_end = None;
        self.path.truncate(0);
        let added = self.path.put(fallback.as_bytes());
        added.expect("it has room for all of a path");
        self.plain_end = self.path.len();
        true
    }

    fn add(&mut self, name: &[u8]) -> Result<(), Unserved> {
        let is_top = self.path.is_empty();
        self.add_slash();
        let start = self.path.len();
        for byte in decoded(name) {
            if matches!(byte, b'/' | 0) {
                return Err(Unserved::NoFile);
            }
            let added = self.path.put(&[byte]);
            added.expect("it has room for all of a path");
        }
        let name = &self.path.filled()[start..];
        let is_hidden = name.starts_with(b".") && !(is_top && name == WELL_KNOWN);
        match is_hidden {
            true => Err(Unserved::Hidden),
            false => Ok(()),
        }
    }

    fn add_slash(&mut self) {
        if !self.path.is_empty() {
            self.path.put(b"/").expect("it has room for all of a path");
        }
    }

    /// Opens the file, or the fallback, in the most preferred coding that exists beside it.
    pub(super) fn find(&mut self, root: &Root) -> io::Result<FoundFile> {
        match self.find_file(root)? {
            FoundFile::Nothing if self.fall_back() => Ok(match self.find_file(root)? {
                FoundFile::Folder => FoundFile::Nothing,
                found => found,
            }),
            found => Ok(found),
        }
    }

    fn find_file(&mut self, root: &Root) -> io::Result<FoundFile> {
        let plain = match self.open(root, "")? {
            Opened::File(file) => file,
            Opened::Folder(_) if !self.is_folder => return Ok(FoundFile::Folder),
            Opened::Folder(_) | Opened::Nothing => return self.find_contents(root),
        };
        for coding in self.accepted.iter() {
            match self.open(root, coding.suffix()) {
                Ok(Opened::File(file)) => {
                    return Ok(FoundFile::File(self.representation(file, Some(coding))));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // A larger encoded file saves nothing: the identity coding is sent.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(FoundFile::File(self.representation(plain, None)))
    }

    /// The folder without its index, where it is listed.
    fn find_contents(&mut self, root: &Root) -> io::Result<FoundFile> {
        let Some(end) = self.listed_end else {
            return Ok(FoundFile::Nothing);
        };
        self.path.truncate(end);
        let path = match self.path.filled() {
            b"" => c".".to_owned(),
            path => CString::new(path).expect("no name has a NUL"),
        };
        Ok(match root.open(&path, is_served)? {
            Opened::Folder(folder) => FoundFile::Unindexed(root.contents(folder, path)),
            Opened::File(_) | Opened::Nothing => FoundFile::Nothing,
        })
    }

    fn open(&mut self, root: &Root, suffix: &str) -> io::Result<Opened> {
        self.path.truncate(self.plain_end);
        for bytes in [suffix.as_bytes(), &[0]] {
            self.path.put(bytes).expect("it was taken for it");
        }
        let path = CStr::from_bytes_with_nul(self.path.filled());
        root.open(path.expect("it has one NUL, at its end"), is_served)
    }

    fn representation(&self, file: File, coding: Option<Coding>) -> Representation {
        let plain = &self.path.filled()[..self.plain_end];
        Representation {
            file,
            media_type: media_type::of(plain),
            coding,
            cache_control: self.lifetime(plain),
        }
    }

    fn lifetime(&self, path: &[u8]) -> Option<Arc<str>> {
        let mut rules = self.cache_control.as_deref()?.iter();
        let found = rules.find(|(files, _)| files.matches(path));
        found.map(|(_, value)| Arc::clone(value))
    }
}

/// True if the fallback stands for a path: it has no hidden name, is not below `/.well-known`, where clients look for
/// files of their own (RFC 8615), and is a page unless the fallback is for all.
fn falls_back(path: &[u8], names: &FolderRules) -> bool {
    let is_for_all = names.fallback_for == FallbackFor::All;
    let mut names = names.segments(path);
    let is_hidden = |name: &[u8]| decoded(name).next() == Some(b'.');
    let has_dot = |name: &[u8]| decoded(name).any(|byte| byte == b'.');
    let is_page = names.clone().last().is_none_or(|name| !has_dot(name));
    !names.any(is_hidden) && (is_page || is_for_all)
}

/// True if a path that links led to, relative to the folder, is served: none of its names is hidden. Names that
/// begin with two dots are those of versions that are swapped as a whole, as Kubernetes lays out a ConfigMap, and
/// requests don't name them.
pub(super) fn is_served(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/').enumerate();
    names.all(|(at, name)| {
        let is_well_known = at == 0 && name == WELL_KNOWN;
        !name.starts_with(b".") || name.starts_with(b"..") || is_well_known
    })
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    #[track_caller]
    fn check(path: &str, skipped: usize, expected: Option<&str>) {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let names = FolderRules {
            skipped,
            ..names(None, FallbackFor::Pages)
        };
        let lookup = FileLookup::new(path.as_bytes(), &names, AcceptedCodings::default(), &lease);
        let found = lookup.expect("room").map(|lookup| {
            let path = str::from_utf8(lookup.path.filled()).expect("UTF-8");
            path.to_owned()
        });
        assert_eq!(found.as_deref(), expected, "{path}");
    }

    fn names(fallback: Option<&str>, fallback_for: FallbackFor) -> FolderRules {
        let files = Files {
            root: "/".into(),
            index: "index.html".to_owned(),
            fallback: fallback.map(str::to_owned),
            fallback_for,
            precompressed: Vec::new(),
            listing: false,
            cache_control: Vec::new(),
        };
        FolderRules::of(&files, 0)
    }

    #[test]
    fn a_fallback_stands_for_pages_or_for_all() {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let of_pages = names(Some("app.html"), FallbackFor::Pages);
        let of_all = names(Some("app.html"), FallbackFor::All);
        let long = format!("/{}", "a".repeat(FILE_PATH_BYTES_MAX));
        for (path, for_pages, for_all) in [
            ("/a", true, true),
            ("/a.b/c", true, true),
            ("/a/", true, true),
            ("/view/a%2Fb", true, true),
            (&long, true, true),
            ("/app.js", false, true),
            ("/a/b.png", false, true),
            ("/a%2Ejs", false, true),
            ("/.git/a", false, false),
            ("/%2Eenv", false, false),
            ("/.well-known/change-password", false, false),
        ] {
            for (names, expected) in [(&of_pages, for_pages), (&of_all, for_all)] {
                let lookup =
                    FileLookup::new(path.as_bytes(), names, AcceptedCodings::default(), &lease);
                let falls_back = lookup.expect("room").is_some_and(|mut lookup| {
                    let is_fallback = lookup.path.filled() == b"app.html";
                    is_fallback || lookup.fall_back()
                });
                assert_eq!(falls_back, expected, "{path}");
            }
        }
    }

    #[test]
    fn paths_lie_below_the_folder() {
        check("/", 0, Some("index.html"));
        check("/a/b.txt", 0, Some("a/b.txt"));
        check("/docs/", 1, Some("index.html"));
        check("/docs/a/", 1, Some("a/index.html"));
        check("/docs/a", 1, Some("a"));
        check("/a%20b/caf%C3%A9", 0, Some("a b/café"));
        check("/a;v=1/b;x", 0, Some("a/b"));
        check("/a%3Bv", 0, Some("a;v"));
        check("/100%2525", 0, Some("100%25"));
    }

    #[test]
    fn hidden_names_are_not_served() {
        for hidden in [
            "/.git/config",
            "/a/.env",
            "/%2Eenv",
            "/a/.well-known/b",
            "/a/..b",
            "/.;x",
        ] {
            check(hidden, 0, None);
        }
        check("/.well-known/acme", 0, Some(".well-known/acme"));
        check("/a.b", 0, Some("a.b"));
    }

    #[test]
    fn links_lead_to_no_hidden_name() {
        for (path, is_shown) in [
            ("", true),
            ("a/b.txt", true),
            ("..data/a", true),
            ("..2026_01_01/sub/a", true),
            (".well-known/a", true),
            (".env", false),
            ("a/.env", false),
            (".git/config", false),
            ("..data/.env", false),
            ("a/.well-known/b", false),
            (".", false),
        ] {
            assert_eq!(is_served(path.as_bytes()), is_shown, "{path}");
        }
    }

    #[test]
    fn neither_slashes_nor_nul_come_out_of_escapes() {
        check("/a%2Fb", 0, None);
        check("/a%00b", 0, None);
        check(&format!("/{}", "a".repeat(FILE_PATH_BYTES_MAX)), 0, None);
    }
}
