//! The list of a folder without an index, as HTML.
//!
//! Invariant: names are text and links of a file system, which anybody may have chosen: nothing of them is markup, and
//! the page has browsers load and run nothing. Its bytes, its entries and the entries that are looked at for it have
//! bounds, and memory for them is charged before a thread begins.
//!
//! Left out: names that begin with a dot, what is neither file nor folder, links that are not served, and names that no
//! request can have. Non-goals: other orders than by name, and other forms than HTML.

use std::collections::BinaryHeap;
use std::io::{self, Write as _};
use std::ops::ControlFlow;

use steppe_mem::{Buffer, Lease};
use steppe_net::{DiskTask, FolderContents, FolderEntry};
use steppe_telemetry::clock::Clock;

use super::lookup::is_served;
use crate::error::GatewayError;
use crate::limits::{LISTING_BYTES_MAX, LISTING_ENTRIES_MAX, LISTING_SEEN_MAX};
use crate::path::normalize_in_place;

/// A list that a thread makes.
pub(super) type Listing = DiskTask<io::Result<Buffer>>;

/// An entry of the list. Ordered as it is shown: folders first, then by name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListingRow {
    is_file: bool,
    name: Box<[u8]>,
    bytes: u64,
    modified_ns: u64,
}

/// The first entries of a folder.
#[derive(Debug, Default)]
struct Rows {
    first: BinaryHeap<ListingRow>,
    seen: usize,
    left_out: usize,
    /// The folder has entries beyond the bound of those that are looked at.
    is_cut: bool,
}

/// Most bytes of a name on Linux.
const NAME_BYTES_MAX: usize = 255;

/// Memory that entries take while they are sorted.
const ROWS_BYTES: usize =
    (LISTING_ENTRIES_MAX + 1) * (NAME_BYTES_MAX + 2 * size_of::<ListingRow>());

/// Room that is kept for the end of the page.
const END_BYTES: usize = 256;

/// Begins to list a folder, in memory that is charged to `lease`.
///
/// # Errors
/// Where the budget has no room, or too many wait for a disk.
pub(super) fn start(contents: FolderContents, lease: &Lease) -> Result<Listing, GatewayError> {
    let mut page = Buffer::take(lease, LISTING_BYTES_MAX)?;
    let charge = lease.try_reserve(ROWS_BYTES)?;
    let task = contents.read(move |contents| {
        let mut rows = Rows::default();
        contents.for_each(is_served, |entry| rows.see(&entry))?;
        write_page(&mut page, contents.path().to_bytes(), rows);
        drop(charge);
        Ok(page)
    });
    task.map_err(|error| GatewayError::file(&error))
}

impl Rows {
    fn see(&mut self, entry: &FolderEntry<'_>) -> ControlFlow<()> {
        if self.seen == LISTING_SEEN_MAX {
            self.is_cut = true;
            self.left_out += 1;
            return ControlFlow::Break(());
        }
        self.seen += 1;
        if entry.name.starts_with(b".") || !can_be_requested(entry) {
            return ControlFlow::Continue(());
        }
        self.first.push(ListingRow {
            is_file: !entry.is_folder,
            name: entry.name.into(),
            bytes: entry.status.bytes,
            modified_ns: entry.status.modified_ns,
        });
        if self.first.len() > LISTING_ENTRIES_MAX {
            self.first.pop();
            self.left_out += 1;
        }
        ControlFlow::Continue(())
    }
}

/// True if a path can contain the name: not `a\b`, and no folder `;x`.
fn can_be_requested(entry: &FolderEntry<'_>) -> bool {
    let mut path = vec![b'/'];
    escape(entry.name, &mut path);
    if entry.is_folder {
        path.push(b'/');
    }
    normalize_in_place(&mut path).is_ok()
}

/// The page, as far as there is room for rows.
fn write_page(page: &mut Buffer, path: &[u8], rows: Rows) {
    let is_cut = rows.is_cut;
    let (mut left_out, mut is_full) = (rows.left_out, false);
    let mut text = Vec::new();
    begin(path, &mut text);
    put(page, &text);
    let mut clock = Clock::default();
    for row in rows.first.into_sorted_vec() {
        text.clear();
        row.write(&mut clock, &mut text);
        // Behind the first that has no room, none is shown: the list has no gaps.
        is_full |= page.spare() < text.len() + END_BYTES;
        match is_full {
            false => put(page, &text),
            true => left_out += 1,
        }
    }
    text.clear();
    text.extend(b"</tbody>\n</table>\n");
    let least = if is_cut { "at least " } else { "" };
    if left_out > 0 {
        let _ = writeln!(
            text,
            "<p>Entries that are not shown: {least}{left_out}.</p>"
        );
    }
    text.extend(b"</body>\n</html>\n");
    put(page, &text);
}

/// The beginning of a page about `path`, which is empty for the folder that is served.
fn begin(path: &[u8], text: &mut Vec<u8>) {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let is_top = path.is_empty() || path == b".";
    let mut title = Vec::new();
    title.push(b'/');
    if !is_top {
        escape_markup(path, &mut title);
        title.push(b'/');
    }
    text.extend(
        b"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <meta name=\"color-scheme\" content=\"light dark\">\n<title>Index of ",
    );
    text.extend(&title);
    text.extend(b"</title>\n</head>\n<body>\n<h1>Index of <bdi>");
    text.extend(&title);
    text.extend(b"</bdi></h1>\n");
    if !is_top {
        text.extend(b"<p><a href=\"../\">Parent folder</a></p>\n");
    }
    text.extend(
        b"<table>\n<thead>\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Bytes</th>\
        <th scope=\"col\">Modified (UTC)</th></tr>\n</thead>\n<tbody>\n",
    );
}

impl ListingRow {
    fn write(&self, clock: &mut Clock, text: &mut Vec<u8>) {
        let slash: &[u8] = if self.is_file { b"" } else { b"/" };
        // With a `./`, nothing in a name is a scheme.
        text.extend(b"<tr><td><a href=\"./");
        escape(&self.name, text);
        text.extend(slash);
        text.extend(b"\"><bdi>");
        escape_markup(&self.name, text);
        text.extend(slash);
        text.extend(b"</bdi></a></td><td>");
        if self.is_file {
            let _ = write!(text, "{}", self.bytes);
        }
        let modified = clock.at(self.modified_ns / 1_000_000_000, 0).rfc3339;
        let modified = String::from_utf8_lossy(modified);
        let shown = modified.replace('T', " ");
        let _ = writeln!(
            text,
            "</td><td><time datetime=\"{modified}Z\">{shown}</time></td></tr>"
        );
    }
}

/// Writes a name as one segment of a path: bytes that are not unreserved (RFC 3986 §2.3) are percent-encoded.
fn escape(name: &[u8], text: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(byte),
            byte if byte.is_ascii_alphanumeric() => text.push(byte),
            byte => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
}

/// Writes a name as text: characters of markup as references, control characters and invalid UTF-8 as U+FFFD.
fn escape_markup(name: &[u8], text: &mut Vec<u8>) {
    for letter in String::from_utf8_lossy(name).chars() {
        let mut letters = [0; 4];
        let reference: &str = match letter {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            letter if letter.is_control() => "\u{fffd}",
            letter => letter.encode_utf8(&mut letters),
        };
        text.extend(reference.as_bytes());
    }
}

fn put(page: &mut Buffer, text: &[u8]) {
    page.put(text).expect("there was room for all but rows");
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use steppe_mem::Budget;
    use steppe_net::FileStatus;

    use super::*;

    /// A name with a slash is a folder's.
    fn see(rows: &mut Rows, name: &[u8]) -> ControlFlow<()> {
        let folder = name.strip_suffix(b"/");
        rows.see(&FolderEntry {
            name: folder.unwrap_or(name),
            is_folder: folder.is_some(),
            status: FileStatus {
                bytes: 7,
                modified_ns: 784_111_777_000_000_000,
                inode: 1,
            },
        })
    }

    fn page(path: &[u8], rows: Rows, bytes: usize) -> String {
        let budget = Budget::new(16 << 20);
        let mut page = Buffer::take(&budget.root().lease(), bytes).expect("room");
        write_page(&mut page, path, rows);
        String::from_utf8(page.filled().to_vec()).expect("UTF-8")
    }

    fn check(path: &[u8], entries: &[&[u8]], expected: &Expect) {
        let mut rows = Rows::default();
        for name in entries {
            let _ = see(&mut rows, name);
        }
        let page = page(path, rows, 64 << 10);
        let (_, body) = page.split_once("<body>\n").expect("a body");
        expected.assert_eq(body);
    }

    #[test]
    fn folders_are_first_and_names_no_markup() {
        check(
            b"a&b/c",
            &[
                b"z.txt",
                b"<script>\"'&.txt",
                b"javascript:alert(1)",
                b"sub/",
                b"caf\xc3\xa9 \xff\n",
                b".hidden",
                b"a\\b",
                b";x",
                b";y/",
            ],
            &expect![[r#"
                <h1>Index of <bdi>/a&amp;b/c/</bdi></h1>
                <p><a href="../">Parent folder</a></p>
                <table>
                <thead>
                <tr><th scope="col">Name</th><th scope="col">Bytes</th><th scope="col">Modified (UTC)</th></tr>
                </thead>
                <tbody>
                <tr><td><a href="./sub/"><bdi>sub/</bdi></a></td><td></td><td><time datetime="1994-11-06T08:49:37Z">1994-11-06 08:49:37</time></td></tr>
                <tr><td><a href="./%3Bx"><bdi>;x</bdi></a></td><td>7</td><td><time datetime="1994-11-06T08:49:37Z">1994-11-06 08:49:37</time></td></tr>
                <tr><td><a href="./%3Cscript%3E%22%27%26.txt"><bdi>&lt;script&gt;&quot;&#39;&amp;.txt</bdi></a></td><td>7</td><td><time datetime="1994-11-06T08:49:37Z">1994-11-06 08:49:37</time></td></tr>
                <tr><td><a href="./caf%C3%A9%20%FF%0A"><bdi>café ��</bdi></a></td><td>7</td><td><time datetime="1994-11-06T08:49:37Z">1994-11-06 08:49:37</time></td></tr>
                <tr><td><a href="./javascript%3Aalert%281%29"><bdi>javascript:alert(1)</bdi></a></td><td>7</td><td><time datetime="1994-11-06T08:49:37Z">1994-11-06 08:49:37</time></td></tr>
                <tr><td><a href="./z.txt"><bdi>z.txt</bdi></a></td><td>7</td><td><time datetime="1994-11-06T08:49:37Z">1994-11-06 08:49:37</time></td></tr>
                </tbody>
                </table>
                </body>
                </html>
            "#]],
        );
        check(
            b".",
            &[],
            &expect![[r#"
            <h1>Index of <bdi>/</bdi></h1>
            <table>
            <thead>
            <tr><th scope="col">Name</th><th scope="col">Bytes</th><th scope="col">Modified (UTC)</th></tr>
            </thead>
            <tbody>
            </tbody>
            </table>
            </body>
            </html>
        "#]],
        );
    }

    #[test]
    fn entries_beyond_the_bounds_are_counted() {
        let mut rows = Rows::default();
        for number in 0..LISTING_ENTRIES_MAX + 3 {
            let name = format!("{number:05}");
            assert!(see(&mut rows, name.as_bytes()).is_continue());
        }
        let all = page(b"", rows, LISTING_BYTES_MAX);
        assert!(all.contains("not shown: 3.</p>"), "{all}");
        assert!(all.contains(&format!("./{:05}\"", LISTING_ENTRIES_MAX - 1)));
        assert!(!all.contains(&format!("./{LISTING_ENTRIES_MAX:05}\"")));
    }

    /// However long names are, the page ends well.
    #[test]
    fn a_page_has_room_for_its_end() {
        for count in [20, 200, LISTING_ENTRIES_MAX] {
            let mut rows = Rows::default();
            for number in 0..count {
                let name = format!("{number:05}{}", "\"".repeat(NAME_BYTES_MAX - 5));
                let _ = see(&mut rows, name.as_bytes());
            }
            let page = page(&[b'<'; 4096], rows, LISTING_BYTES_MAX);
            assert!(page.ends_with("</html>\n") && page.len() <= LISTING_BYTES_MAX);
            let shown = page.matches("<td><a ").count();
            let text = format!("not shown: {}.</p>", count - shown);
            assert_eq!(page.contains(&text), shown < count, "{count} {shown}");
        }
    }

    #[test]
    fn no_more_entries_are_looked_at() {
        let mut rows = Rows::default();
        for _ in 0..LISTING_SEEN_MAX {
            assert!(see(&mut rows, b".").is_continue());
        }
        assert!(see(&mut rows, b"a").is_break());
        let page = page(b"", rows, LISTING_BYTES_MAX);
        assert!(page.contains("not shown: at least 1.</p>"), "{page}");
    }
}
