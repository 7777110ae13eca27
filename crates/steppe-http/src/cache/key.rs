//! What a stored response is for: the primary key, a resource of a route, and the secondary one, what its
//! `Vary` names of the request. Spec: RFC 9111 §2, §4.1.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use steppe_mem::alloc::block_bytes;
use steppe_mem::{Lease, Reservation};

use super::credentials::Credentials;
use super::told;
use crate::field::{FieldBlock, elements, is_token};
use crate::head::RequestHead;
use crate::host;
use crate::path;

thread_local! {
    static URI: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static TOLD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Names in `Vary` that are looked at; a response that names more is not stored.
pub(super) const VARY_NAMES_MAX: usize = 16;

/// What a request is for: its URI in one form, and the route that answers it.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Of the URI alone, so that all routes of one are found together.
    pub(super) hash: u64,
    pub(super) uri: Box<[u8]>,
    /// The host that a filter has set for servers, in place of the URI's; empty: none.
    pub(super) host: Box<[u8]>,
    /// Fields of trusted proxies that say more than the URI; see [`told`].
    pub(super) told: Box<[u8]>,
    pub(super) route: Box<str>,
    /// Its memory: requests have one in flight, too, and choose how long it is.
    _charge: Reservation,
}

/// A resource that was not copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(super) hash: u64,
    pub(super) uri: &'a [u8],
    pub(super) host: &'a [u8],
    pub(super) told: &'a [u8],
    pub(super) route: &'a str,
}

impl Wanted<'_> {
    /// Calls `with` with what `head` asks of `route`. `None`: the client named no host.
    pub(crate) fn with<T>(
        (hasher, route): (&RandomState, &str),
        (scheme, head): (&str, &RequestHead),
        with: impl FnOnce(Wanted<'_>) -> T,
    ) -> Option<T> {
        if head.authority().is_empty() {
            return None;
        }
        URI.with_borrow_mut(|uri| {
            uri.clear();
            write_uri(uri, scheme, head.authority(), head.path());
            if let Some(query) = head.query() {
                uri.push(b'?');
                uri.extend_from_slice(query);
            }
            let hash = hasher.hash_one(&uri[..]);
            // The client's own is that of the URI.
            let set = head.host_set().unwrap_or_default();
            let host = if set.eq_ignore_ascii_case(head.authority()) {
                b""
            } else {
                set
            };
            Some(TOLD.with_borrow_mut(|told| {
                told.clear();
                told::write(told, scheme, head);
                with(Wanted {
                    hash,
                    uri,
                    host,
                    told,
                    route,
                })
            }))
        })
    }

    /// A copy; `None` where there is no room for it.
    pub(crate) fn to_resource(self, lease: &Lease) -> Option<Resource> {
        let bytes = block_bytes(size_of::<Resource>() + 2 * size_of::<usize>())
            + block_bytes(self.uri.len())
            + block_bytes(self.host.len())
            + block_bytes(self.told.len())
            + block_bytes(self.route.len());
        Some(Resource {
            _charge: lease.try_reserve(bytes).ok()?,
            hash: self.hash,
            uri: self.uri.into(),
            host: self.host.into(),
            told: self.told.into(),
            route: self.route.into(),
        })
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        (self.hash, &self.uri, &self.host, &self.told, &self.route)
            == (
                other.hash,
                &other.uri,
                &other.host,
                &other.told,
                &other.route,
            )
    }
}

impl Eq for Resource {}

impl Resource {
    #[cfg(test)]
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            hash: self.hash,
            uri: &self.uri,
            host: &self.host,
            told: &self.told,
            route: &self.route,
        }
    }

    pub(super) fn is(&self, wanted: &Wanted<'_>) -> bool {
        self.hash == wanted.hash
            && *self.uri == *wanted.uri
            && *self.host == *wanted.host
            && *self.told == *wanted.told
            && *self.route == *wanted.route
    }

    /// A hash of all of it, for requests with such credentials.
    pub(super) fn hash_with(&self, hasher: &RandomState, credentials: Credentials) -> u64 {
        let parts = (&self.host, &self.told, &self.route);
        hasher.hash_one((self.hash, parts, credentials as u8))
    }

    /// Scheme and authority, as far as the path.
    pub(super) fn origin(&self) -> &[u8] {
        origin(&self.uri)
    }
}

fn origin(uri: &[u8]) -> &[u8] {
    let authority = memchr::memmem::find(uri, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &uri[authority..]);
    path.map_or(uri, |path| &uri[..authority + path])
}

/// Writes a URI without its query: the host in the form that routes compare, without the port that its scheme
/// has.
fn write_uri(uri: &mut Vec<u8>, scheme: &str, authority: &[u8], path: &[u8]) {
    uri.extend_from_slice(scheme.as_bytes());
    uri.extend_from_slice(b"://");
    host::write_normal(uri, authority, if scheme == "https" { 443 } else { 80 });
    uri.extend_from_slice(path);
}

/// A URI that somebody names, in the form that keys have. `None`: it is no `http` or `https` URI.
pub(super) fn uri(text: &str) -> Option<Vec<u8>> {
    let mut uri = as_named(text)?;
    normalize_path(&mut uri);
    Some(uri)
}

/// What URIs begin with, in the form that keys have; `None` as for [`uri`]. Dots at its end may begin a name: as a
/// whole segment they would lead to another prefix.
pub(super) fn prefix(text: &str) -> Option<Vec<u8>> {
    let mut prefix = as_named(text)?;
    if !prefix.ends_with(b"/.") && !prefix.ends_with(b"/..") {
        normalize_path(&mut prefix);
    }
    Some(prefix)
}

/// With scheme and authority in the form that keys have, and the path as it is named.
fn as_named(text: &str) -> Option<Vec<u8>> {
    let (scheme, rest) = text.split_once("://")?;
    let scheme = ["http", "https"]
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known))?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let path = path.split('#').next().unwrap_or_default();
    let mut uri = Vec::with_capacity(text.len() + 1);
    write_uri(&mut uri, scheme, authority.as_bytes(), b"");
    if !path.starts_with('/') {
        uri.push(b'/');
    }
    uri.extend_from_slice(path.as_bytes());
    (!authority.is_empty()).then_some(uri)
}

/// Brings the path of `uri` into the form that paths of requests have, unless no request has it.
fn normalize_path(uri: &mut Vec<u8>) {
    let start = origin(uri).len();
    let query = memchr::memchr(b'?', &uri[start..]);
    let end = query.map_or(uri.len(), |query| start + query);
    let mut path = uri[start..end].to_vec();
    if let Ok(bytes) = path::normalize_in_place(&mut path) {
        uri.splice(start..end, path.drain(..bytes));
    }
}

/// What a field of a response refers to, where that is of the same origin as `base` (RFC 9111 §4.4).
pub(super) fn same_origin(base: &Resource, reference: &[u8]) -> Option<Vec<u8>> {
    let reference = std::str::from_utf8(reference).ok()?;
    if reference.starts_with('/') && !reference.starts_with("//") {
        let path = reference.split('#').next().unwrap_or_default();
        let mut uri = [base.origin(), path.as_bytes()].concat();
        normalize_path(&mut uri);
        return Some(uri);
    }
    let uri = uri(reference)?;
    (origin(&uri) == base.origin()).then_some(uri)
}

/// What selects one of a resource's responses: fields of the request, as the response's `Vary` names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selecting(Vec<Nominated>);

/// A field that `Vary` names, in lower case, and its value in one form. `None`: it is not there.
type Nominated = (Box<[u8]>, Option<Box<[u8]>>);

impl Selecting {
    /// That of a response with `fields` to a request with `asked`. `None`: no other request selects it.
    pub(crate) fn of(fields: &FieldBlock, asked: &FieldBlock) -> Option<Self> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for name in fields.values_named(b"vary").flat_map(elements) {
            if !is_token(name) || name == b"*" {
                return None;
            }
            let name = name.to_ascii_lowercase().into_boxed_slice();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() > VARY_NAMES_MAX {
            return None;
        }
        let with_value = |name: Box<[u8]>| {
            let mut value = Vec::new();
            let is_there = normalize(asked, &name, &mut value);
            (name, is_there.then(|| value.into_boxed_slice()))
        };
        Some(Self(names.into_iter().map(with_value).collect()))
    }

    /// Whether a request with `asked` selects what this selects.
    pub(crate) fn matches(&self, asked: &FieldBlock) -> bool {
        self.0.is_empty()
            || VALUE.with_borrow_mut(|value| {
                self.0.iter().all(|(name, wanted)| {
                    value.clear();
                    let is_there = normalize(asked, name, value);
                    is_there.then_some(&value[..]) == wanted.as_deref()
                })
            })
    }

    /// That of a request with `asked`, by the same names.
    pub(super) fn again(&self, asked: &FieldBlock) -> Self {
        let again = |(name, _): &Nominated| {
            let mut value = Vec::new();
            let is_there = normalize(asked, name, &mut value);
            (name.clone(), is_there.then(|| value.into_boxed_slice()))
        };
        Self(self.0.iter().map(again).collect())
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let of = |(name, value): &Nominated| {
            name.len() + value.as_ref().map_or(0, |value| value.len()) + 64
        };
        self.0.iter().map(of).sum()
    }
}

/// Writes all values of a field as one that differs only where its meaning does; says whether there is one.
fn normalize(fields: &FieldBlock, name: &[u8], value: &mut Vec<u8>) -> bool {
    let is_coding = name == b"accept-encoding";
    let mut has_any = false;
    for line in fields.values_named(name) {
        has_any = true;
        if line.contains(&b'"') {
            // Commas may be quoted: as it is.
            separate(value);
            value.extend_from_slice(line);
            continue;
        }
        for element in elements(line) {
            separate(value);
            match is_coding {
                true => {
                    let is_kept = |byte: &&u8| !byte.is_ascii_whitespace();
                    value.extend(element.iter().filter(is_kept).map(u8::to_ascii_lowercase));
                }
                false => value.extend_from_slice(element),
            }
        }
    }
    if is_coding {
        sort(value);
    }
    has_any
}

fn separate(value: &mut Vec<u8>) {
    if !value.is_empty() {
        value.push(b',');
    }
}

/// Codings are preferred by their weight alone: their order says nothing (RFC 9110 §12.5.3).
fn sort(list: &mut Vec<u8>) {
    const SORTED_MAX: usize = 16;
    let mut parts: [&[u8]; SORTED_MAX] = [&[]; SORTED_MAX];
    let mut count = 0;
    for part in list.split(|&byte| byte == b',') {
        let Some(place) = parts.get_mut(count) else {
            return;
        };
        *place = part;
        count += 1;
    }
    let parts = &mut parts[..count];
    if parts.is_sorted() {
        return;
    }
    parts.sort_unstable();
    let sorted = parts.join(&b',');
    list.clear();
    list.extend_from_slice(&sorted);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steppe_mem::Budget;

    use super::*;
    use crate::field::testing::fields;

    fn resource(scheme: &str, authority: &str, target: &str, route: &str) -> Option<Resource> {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let head = RequestHead::new(b"GET", authority.as_bytes(), target.as_bytes(), &lease);
        let hasher = hasher();
        Wanted::with(
            (&hasher, route),
            (scheme, &head.expect("it is valid")),
            |wanted| wanted.to_resource(&lease),
        )
        .flatten()
    }

    /// One for all tests of a thread: a key is only equal under the same.
    fn hasher() -> RandomState {
        thread_local! {
            static HASHER: RandomState = RandomState::new();
        }
        HASHER.with(RandomState::clone)
    }

    #[test]
    fn keys_tell_scheme_authority_path_query_and_route_apart() {
        let of = |scheme, authority, target, route| {
            resource(scheme, authority, target, route).expect("it names a host")
        };
        let one = of("http", "a.test", "/x?y=1", "r");
        assert_eq!(&*one.uri, b"http://a.test/x?y=1");
        assert_eq!(one.origin(), b"http://a.test");
        for same in ["A.test:80", "a.test.", "a.test:", "A.TEST.:0080"] {
            assert_eq!(one, of("http", same, "/x?y=1", "r"), "{same}");
        }
        let address = of("http", "[0:0::1]", "/", "r");
        assert_eq!(&*address.uri, b"http://[::1]/");
        for other in [
            of("https", "a.test", "/x?y=1", "r"),
            of("http", "b.test", "/x?y=1", "r"),
            of("http", "a.test:81", "/x?y=1", "r"),
            of("http", "a.test", "/X?y=1", "r"),
            of("http", "a.test", "/x?y=2", "r"),
            of("http", "a.test", "/x", "r"),
            of("http", "a.test", "/x?y=1", "q"),
        ] {
            assert!(!one.is(&other.wanted()), "{other:?}");
        }
        assert!(one.is(&one.wanted()));
        assert_eq!(
            &*of("https", "a.test:443", "/", "r").uri,
            b"https://a.test/"
        );
        assert_eq!(
            &*of("https", "a.test:80", "/", "r").uri,
            b"https://a.test:80/"
        );
    }

    #[test]
    fn a_request_that_names_no_host_has_no_key() {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let head = RequestHead::new(b"GET", b"a.test", b"/", &lease);
        let mut head = head.expect("it is valid");
        head.parts.authority = crate::field::Span::default();
        let of = |head: &RequestHead| {
            Wanted::with((&hasher(), "r"), ("http", head), |wanted| {
                wanted.to_resource(&lease)
            })
        };
        assert!(of(&head).is_none());
    }

    #[test]
    fn uris_that_people_write_have_the_form_of_keys() {
        for (text, key) in [
            ("http://a.test/x?y", "http://a.test/x?y"),
            ("HTTPS://A.test:443/X#frag", "https://a.test/X"),
            ("https://a.test./X", "https://a.test/X"),
            ("http://a.test", "http://a.test/"),
            ("http://a.test?q", "http://a.test/?q"),
            (
                "http://a.test/%7eb/../c%c3%a9?%7e",
                "http://a.test/c%C3%A9?%7e",
            ),
        ] {
            assert_eq!(uri(text).as_deref(), Some(key.as_bytes()), "{text}");
        }
        for text in ["ftp://a.test/", "/x", "http:///x", ""] {
            assert_eq!(uri(text), None, "{text}");
        }
    }

    #[test]
    fn a_prefix_may_end_within_a_name() {
        for (text, key) in [
            ("http://a.test", "http://a.test/"),
            ("http://a.test/%7eb", "http://a.test/~b"),
            ("http://a.test/.", "http://a.test/."),
            ("http://a.test/b/..", "http://a.test/b/.."),
            ("http://a.test/b/../c", "http://a.test/c"),
        ] {
            assert_eq!(prefix(text).as_deref(), Some(key.as_bytes()), "{text}");
        }
        assert_eq!(prefix("/x"), None);
    }

    #[test]
    fn references_count_within_their_origin() {
        let base = resource("http", "a.test", "/x/y", "r").expect("a host");
        let of = |text: &str| same_origin(&base, text.as_bytes());
        assert_eq!(of("/z?q#f"), Some(b"http://a.test/z?q".to_vec()));
        assert_eq!(of("/%7ez"), Some(b"http://a.test/~z".to_vec()));
        assert_eq!(of("http://A.test:80/z"), Some(b"http://a.test/z".to_vec()));
        for other in ["//b.test/z", "http://b.test/z", "https://a.test/z", "z", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    fn selecting(vary: &str, asked: &[(&str, &str)]) -> Option<Selecting> {
        Selecting::of(&fields(&[("vary", vary)]), &fields(asked))
    }

    #[test]
    fn whatever_vary_names_selects() {
        let one = selecting(
            "Accept-Language, x-a",
            &[("accept-language", "de"), ("X-A", "1")],
        );
        let one = one.expect("it is selected");
        let matches = |asked: &[(&str, &str)]| one.matches(&fields(asked));
        assert!(matches(&[
            ("Accept-Language", "de"),
            ("x-a", "1"),
            ("x-b", "2")
        ]));
        assert!(!matches(&[("accept-language", "en"), ("x-a", "1")]));
        assert!(!matches(&[("accept-language", "de")]));
        assert!(!matches(&[("accept-language", "de"), ("x-a", "")]));
        let none = selecting("x-a", &[]).expect("it is selected");
        assert!(none.matches(&fields(&[])) && !none.matches(&fields(&[("x-a", "")])));
        assert!(
            selecting("", &[])
                .expect("all")
                .matches(&fields(&[("x-a", "1")]))
        );
    }

    #[test]
    fn another_request_is_looked_at_by_the_same_names() {
        let one = selecting("x-a, x-b", &[("x-a", "1")]).expect("it is selected");
        let asked = fields(&[("x-a", "2"), ("x-b", "3"), ("x-c", "4")]);
        let again = one.again(&asked);
        assert!(again.matches(&asked) && !one.matches(&asked));
        assert_eq!(
            Some(again),
            selecting("x-a, x-b", &[("x-a", "2"), ("x-b", "3")])
        );
    }

    #[test]
    fn names_and_values_take_memory() {
        let bytes = |vary, asked: &[_]| selecting(vary, asked).expect("it is selected").bytes();
        assert_eq!(bytes("", &[]), 0);
        let one = bytes("x-a", &[]);
        assert!(one > "x-a".len());
        assert_eq!(bytes("x-a", &[("x-a", "12345")]), one + 5);
        assert_eq!(bytes("x-a, x-b", &[("x-b", "12345")]), 2 * one + 5);
        assert_eq!(bytes("x-abcd", &[]), one + 3);
    }

    #[test]
    fn an_origin_ends_where_its_path_begins() {
        for (uri, of) in [
            ("http://a/x/y", "http://a"),
            ("https://a/", "https://a"),
            ("http://a.test", "http://a.test"),
        ] {
            assert_eq!(origin(uri.as_bytes()), of.as_bytes(), "{uri}");
        }
    }

    #[test]
    fn nothing_selects_what_varies_by_everything() {
        assert_eq!(selecting("*", &[]), None);
        assert_eq!(selecting("x-a, *", &[]), None);
        assert_eq!(selecting("x a", &[]), None);
        let names = |count| {
            let names: Vec<_> = (0..count).map(|at| format!("x-{at}")).collect();
            selecting(&names.join(","), &[])
        };
        assert!(names(VARY_NAMES_MAX).is_some());
        assert_eq!(names(VARY_NAMES_MAX + 1), None);
    }

    #[test]
    fn values_are_the_same_where_they_mean_the_same() {
        let same = |name, one: &[&str], other: &[&str]| {
            let block = |values: &[&str]| {
                let lines: Vec<_> = values.iter().map(|value| (name, *value)).collect();
                fields(&lines)
            };
            let vary = fields(&[("vary", name)]);
            let selecting = Selecting::of(&vary, &block(one)).expect("it is selected");
            selecting.matches(&block(other))
        };
        assert!(same("x-a", &["1 ,2"], &["1", "2"]));
        assert!(!same("x-a", &["1,2"], &["2,1"]));
        assert!(!same("x-a", &["a"], &["A"]));
        assert!(!same("x-a", &["\"1 ,2\""], &["\"1,2\""]));
        assert!(!same("x-a", &["1", "2"], &["12"]));
        assert!(!same("x-a", &["\"1\"", "\"2\""], &["\"1\"\"2\""]));
        assert!(same("accept-encoding", &["gzip, br"], &["BR,gzip"]));
        assert!(!same("accept-encoding", &["gzip, br"], &["zstd, br"]));
        assert!(same("accept-encoding", &["gzip;q=0.5"], &["gzip; q=0.5"]));
        assert!(!same("accept-encoding", &["gzip;q=0"], &["gzip"]));
        assert!(!same("accept-encoding", &["gzip"], &["gzip, br"]));
    }

    proptest! {
        #[test]
        fn a_request_selects_what_it_was_answered_with(
            vary in "[a-c, -]{0,12}",
            values in proptest::collection::vec("[ -~]{0,12}", 3),
        ) {
            let trimmed: Vec<&str> = values.iter().map(|value| value.trim()).collect();
            let asked = fields(&[("a", trimmed[0]), ("b", trimmed[1]), ("accept-encoding", trimmed[2])]);
            let vary = format!("{vary},accept-encoding");
            if let Some(selecting) = Selecting::of(&fields(&[("vary", &vary)]), &asked) {
                prop_assert!(selecting.matches(&asked));
            }
        }
    }
}
