//! The primary key of a stored response: the target URI in one form, the route, and the fields by which filters and
//! trusted proxies name another target. Spec: RFC 9111 §2.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use steppe_mem::alloc::block_bytes;
use steppe_mem::{Lease, Reservation};

use super::credentials::Credentials;
use super::forwarded;
use crate::head::RequestHead;
use crate::host;
use crate::path;

thread_local! {
    static URI: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static FORWARDED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The primary key of stored responses, with memory of its own.
#[derive(Debug)]
pub(crate) struct CacheKey {
    /// A hash of the URI alone: the keys of all its routes are found together.
    pub(super) hash: u64,
    pub(super) uri: Box<[u8]>,
    host: Box<[u8]>,
    forwarded: Box<[u8]>,
    route: Box<str>,
    /// Requests in flight have a key, too, and choose how long it is.
    _charge: Reservation,
}

/// A key that borrows its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRef<'a> {
    pub(super) hash: u64,
    uri: &'a [u8],
    /// The host that a filter has set for servers, in place of the URI's; empty where there is none.
    host: &'a [u8],
    /// Fields of trusted proxies that say more than the URI; see [`forwarded`].
    forwarded: &'a [u8],
    route: &'a str,
}

/// The parts of a request that its key is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyInput<'a> {
    /// The name of the route.
    pub(crate) route: &'a str,
    /// The scheme that the client asked by: `http` or `https`.
    pub(crate) scheme: &'a str,
    pub(crate) head: &'a RequestHead,
}

impl KeyInput<'_> {
    /// Calls `with` with the key of the request, in memory of the thread. `None` where the client named no host.
    pub(super) fn with_key<T>(
        self,
        hasher: &RandomState,
        with: impl FnOnce(KeyRef<'_>) -> T,
    ) -> Option<T> {
        let Self {
            route,
            scheme,
            head,
        } = self;
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
            let host = match set.eq_ignore_ascii_case(head.authority()) {
                true => b"",
                false => set,
            };
            Some(FORWARDED.with_borrow_mut(|forwarded| {
                forwarded.clear();
                forwarded::write(forwarded, scheme, head);
                with(KeyRef {
                    hash,
                    uri,
                    host,
                    forwarded,
                    route,
                })
            }))
        })
    }
}

impl KeyRef<'_> {
    /// A copy; `None` where the budget has no room for it.
    pub(super) fn to_key(self, lease: &Lease) -> Option<CacheKey> {
        let parts = [self.uri, self.host, self.forwarded, self.route.as_bytes()];
        let parts = parts.map(|part| block_bytes(part.len()));
        let handle = block_bytes(size_of::<CacheKey>() + 2 * size_of::<usize>());
        let bytes = handle + parts.into_iter().sum::<usize>();
        Some(CacheKey {
            _charge: lease.try_reserve(bytes).ok()?,
            hash: self.hash,
            uri: self.uri.into(),
            host: self.host.into(),
            forwarded: self.forwarded.into(),
            route: self.route.into(),
        })
    }
}

impl PartialEq for CacheKey {
    fn eq(&self, other: &Self) -> bool {
        self.borrowed() == other.borrowed()
    }
}

impl Eq for CacheKey {}

impl CacheKey {
    pub(super) fn borrowed(&self) -> KeyRef<'_> {
        KeyRef {
            hash: self.hash,
            uri: &self.uri,
            host: &self.host,
            forwarded: &self.forwarded,
            route: &self.route,
        }
    }

    /// A hash of the whole key, for requests with such credentials.
    pub(super) fn hash_with(&self, hasher: &RandomState, credentials: Credentials) -> u64 {
        let parts = (&self.host, &self.forwarded, &self.route);
        hasher.hash_one((self.hash, parts, credentials as u8))
    }

    /// The URI that a field of a response refers to, in the form of keys, where it has the origin of this one (RFC 9111
    /// §4.4).
    pub(crate) fn reference(&self, reference: &[u8]) -> Option<Vec<u8>> {
        let reference = std::str::from_utf8(reference).ok()?;
        if reference.starts_with('/') && !reference.starts_with("//") {
            let path = reference.split('#').next().unwrap_or_default();
            let mut uri = [self.origin(), path.as_bytes()].concat();
            normalize_path(&mut uri);
            return Some(uri);
        }
        uri(reference).filter(|uri| origin(uri) == self.origin())
    }

    /// Scheme and authority of the URI.
    fn origin(&self) -> &[u8] {
        origin(&self.uri)
    }
}

fn origin(uri: &[u8]) -> &[u8] {
    let authority = memchr::memmem::find(uri, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &uri[authority..]);
    path.map_or(uri, |path| &uri[..authority + path])
}

/// Writes a URI without its query: the host in the form that routes compare, without the default port of its scheme.
fn write_uri(uri: &mut Vec<u8>, scheme: &str, authority: &[u8], path: &[u8]) {
    uri.extend_from_slice(scheme.as_bytes());
    uri.extend_from_slice(b"://");
    host::write_normal(uri, authority, if scheme == "https" { 443 } else { 80 });
    uri.extend_from_slice(path);
}

/// `text` as the URI of a key; `None` where it is no `http` or `https` URI.
pub(super) fn uri(text: &str) -> Option<Vec<u8>> {
    let mut uri = as_named(text)?;
    normalize_path(&mut uri);
    Some(uri)
}

/// `text` as a prefix of URIs of keys; `None` as for [`uri`]. Dots at its end may begin a name: as a whole segment
/// they would lead to another prefix.
pub(super) fn prefix(text: &str) -> Option<Vec<u8>> {
    let mut prefix = as_named(text)?;
    if !prefix.ends_with(b"/.") && !prefix.ends_with(b"/..") {
        normalize_path(&mut prefix);
    }
    Some(prefix)
}

/// `text` with scheme and authority in the form of keys, and the path as it stands.
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

/// Normalizes the path of `uri` as those of requests are; leaves one that no request can have.
fn normalize_path(uri: &mut Vec<u8>) {
    let start = origin(uri).len();
    let query = memchr::memchr(b'?', &uri[start..]);
    let end = query.map_or(uri.len(), |query| start + query);
    let mut path = uri[start..end].to_vec();
    if let Ok(bytes) = path::normalize_in_place(&mut path) {
        uri.splice(start..end, path.drain(..bytes));
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    fn key(scheme: &str, authority: &str, target: &str, route: &str) -> Option<CacheKey> {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let head = RequestHead::new(b"GET", authority.as_bytes(), target.as_bytes(), &lease);
        let input = KeyInput {
            route,
            scheme,
            head: &head.expect("it is valid"),
        };
        let key = input.with_key(&hasher(), |key| key.to_key(&lease));
        key.flatten()
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
            key(scheme, authority, target, route).expect("it names a host")
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
            assert_ne!(one, other);
        }
        assert_eq!(one, one);
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
        let input = KeyInput {
            route: "r",
            scheme: "http",
            head: &head,
        };
        assert!(input.with_key(&hasher(), |_| ()).is_none());
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
        let base = key("http", "a.test", "/x/y", "r").expect("a host");
        let of = |text: &str| base.reference(text.as_bytes());
        assert_eq!(of("/z?q#f"), Some(b"http://a.test/z?q".to_vec()));
        assert_eq!(of("/%7ez"), Some(b"http://a.test/~z".to_vec()));
        assert_eq!(of("http://A.test:80/z"), Some(b"http://a.test/z".to_vec()));
        for other in ["//b.test/z", "http://b.test/z", "https://a.test/z", "z", ""] {
            assert_eq!(of(other), None, "{other}");
        }
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
}
