//! What messages say of caching: `Cache-Control`, and `CDN-Cache-Control` in its place.
//!
//! Directives that can't be read make a response stale rather than fresh, and of several that differ the
//! first counts (RFC 9111 §4.2.1). Spec: RFC 9111 §5.2, RFC 5861, RFC 9213.

use crate::field::{FieldBlock, is_token};

/// Seconds that no directive goes beyond (RFC 9111 §1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// Directives of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// It is not stored.
    pub no_store: bool,
    /// It is not used before its server was asked.
    pub no_cache: bool,
    /// It is for one client.
    pub private: bool,
    /// It may be stored even where it would not be.
    pub public: bool,
    /// It is not used once it is stale.
    pub must_revalidate: bool,
    /// The same for shared caches alone. It lets none of them store what they would not (RFC 9111 §3.5).
    pub proxy_revalidate: bool,
    /// Who knows what its status asks for need not mind `no-store`.
    pub must_understand: bool,
    /// Seconds that it is fresh; 0 where they can't be read.
    pub max_age: Option<u64>,
    /// The same for shared caches.
    pub s_maxage: Option<u64>,
    /// Seconds that it may be used beyond while another is fetched.
    pub stale_while_revalidate: Option<u64>,
    /// Seconds that it may be used beyond where another can't be had.
    pub stale_if_error: Option<u64>,
    /// Names of fields that `private` or `no-cache` keep from others.
    pub withheld: Vec<Box<[u8]>>,
}

/// Directives of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// Its response is not stored.
    pub no_store: bool,
    /// Its server is asked.
    pub no_cache: bool,
    /// Nobody is asked.
    pub only_if_cached: bool,
    /// The largest age in seconds.
    pub max_age: Option<u64>,
    /// Seconds for which it is still to be fresh.
    pub min_fresh: Option<u64>,
    /// Seconds that it may be stale.
    pub max_stale: Option<u64>,
    /// Seconds that it may be stale where its server fails.
    pub stale_if_error: Option<u64>,
}

impl ResponseControl {
    /// What the fields of a response say to this cache: `CDN-Cache-Control` where there is one that can be
    /// read (RFC 9213 §2.1), else `Cache-Control`.
    #[must_use]
    pub fn of(fields: &FieldBlock) -> Self {
        Self::targeted(fields).unwrap_or_else(|| {
            let mut control = Self::default();
            for value in fields.values_named(b"cache-control") {
                directives(value).for_each(|(name, argument)| control.add(name, argument));
                // What stands behind it may be `no-store`.
                control.no_store |= has_open_quote(value);
            }
            control
        })
    }

    /// Whether a field that is meant for caches such as this one says what to do, in the place of
    /// `Cache-Control` and `Expires`.
    #[must_use]
    pub fn is_targeted(fields: &FieldBlock) -> bool {
        Self::targeted(fields).is_some()
    }

    fn targeted(fields: &FieldBlock) -> Option<Self> {
        let mut control = Self::default();
        let mut has_any = false;
        for value in fields.values_named(b"cdn-cache-control") {
            for (name, argument) in directives(value) {
                // A dictionary of structured fields: keys are in lower case, and numbers bare.
                let is_key = name.iter().all(|byte| !byte.is_ascii_uppercase());
                if !is_key || !is_token(name) || argument.is_malformed() {
                    return None;
                }
                has_any = true;
                control.add(name, argument);
            }
        }
        has_any.then_some(control)
    }

    /// Seconds that the directives let it be fresh.
    #[must_use]
    pub fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }

    /// Whether it is used once it is stale where nobody says that it is not (RFC 9111 §4.2.4).
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        let must_revalidate = self.must_revalidate || self.proxy_revalidate;
        !must_revalidate && !self.no_cache && self.s_maxage.is_none()
    }

    /// True if a shared cache may store the response to a request with credentials: `public`, `s-maxage` and
    /// `must-revalidate` allow it, and nothing else does (RFC 9111 §3.5).
    #[must_use]
    pub fn allows_shared_use(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }

    fn add(&mut self, name: &[u8], argument: Argument<'_>) {
        let mut room = [0; NAME_BYTES_MAX];
        match lower(name, &mut room) {
            b"no-store" => self.no_store = true,
            b"no-cache" => match argument.names() {
                Some(names) => self.withheld.extend(names),
                None => self.no_cache = true,
            },
            b"private" => match argument.names() {
                Some(names) => self.withheld.extend(names),
                None => self.private = true,
            },
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"max-age" => {
                self.max_age.get_or_insert(argument.seconds().unwrap_or(0));
            }
            b"s-maxage" => {
                self.s_maxage.get_or_insert(argument.seconds().unwrap_or(0));
            }
            b"stale-while-revalidate" => {
                let seconds = argument.seconds().unwrap_or(0);
                self.stale_while_revalidate.get_or_insert(seconds);
            }
            b"stale-if-error" => {
                let seconds = argument.seconds().unwrap_or(0);
                self.stale_if_error.get_or_insert(seconds);
            }
            _ => {}
        }
    }
}

impl RequestControl {
    /// What the fields of a request say; `Pragma` counts where there is no `Cache-Control` (RFC 9111 §5.4).
    #[must_use]
    pub fn of(fields: &FieldBlock) -> Self {
        let mut control = Self::default();
        let mut has_any = false;
        let mut has_pragma = false;
        for (_, name, value) in fields.iter() {
            match name.len() {
                13 if name.eq_ignore_ascii_case(b"cache-control") => {
                    has_any = true;
                    directives(value).for_each(|(name, argument)| control.add(name, argument));
                }
                6 if name.eq_ignore_ascii_case(b"pragma") => {
                    has_pragma |=
                        directives(value).any(|(name, _)| name.eq_ignore_ascii_case(b"no-cache"));
                }
                _ => {}
            }
        }
        control.no_cache |= has_pragma && !has_any;
        control
    }

    fn add(&mut self, name: &[u8], argument: Argument<'_>) {
        let mut room = [0; NAME_BYTES_MAX];
        match lower(name, &mut room) {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => self.max_age = Some(argument.seconds().unwrap_or(0)),
            b"min-fresh" => self.min_fresh = argument.seconds(),
            b"max-stale" => {
                let seconds = match argument {
                    Argument::Absent => Some(SECONDS_MAX),
                    _ => argument.seconds(),
                };
                self.max_stale = seconds;
            }
            b"stale-if-error" => self.stale_if_error = argument.seconds(),
            _ => {}
        }
    }
}

/// The longest name that means something.
const NAME_BYTES_MAX: usize = 22;

/// `name` in lower case; nothing where it is longer than any that means something.
fn lower<'a>(name: &[u8], room: &'a mut [u8; NAME_BYTES_MAX]) -> &'a [u8] {
    let Some(room) = room.get_mut(..name.len()) else {
        return b"";
    };
    room.copy_from_slice(name);
    room.make_ascii_lowercase();
    room
}

/// What follows a directive's `=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument<'a> {
    Absent,
    Token(&'a [u8]),
    /// Between its quotes.
    Quoted(&'a [u8]),
    /// Neither.
    Malformed,
}

impl Argument<'_> {
    fn is_malformed(self) -> bool {
        match self {
            Self::Malformed => true,
            Self::Token(text) => text.is_empty(),
            Self::Absent | Self::Quoted(_) => false,
        }
    }

    /// `delta-seconds`; `None` where it is no such number.
    fn seconds(self) -> Option<u64> {
        let (Self::Token(digits) | Self::Quoted(digits)) = self else {
            return None;
        };
        number(digits)
    }

    /// Names of fields, where there are any.
    fn names(self) -> Option<Vec<Box<[u8]>>> {
        let (Self::Token(list) | Self::Quoted(list)) = self else {
            return None;
        };
        let names: Vec<Box<[u8]>> = list
            .split(|&byte| byte == b',')
            .map(<[u8]>::trim_ascii)
            .filter(|name| is_token(name))
            .map(Box::from)
            .collect();
        (!names.is_empty()).then_some(names)
    }
}

/// Digits as a number of seconds, [`SECONDS_MAX`] at most.
#[must_use]
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.iter().fold(0, add).min(SECONDS_MAX))
}

/// The directives of one line: names with their arguments (RFC 9111 §5.2). Every byte of the line is looked
/// at once.
fn directives(line: &[u8]) -> impl Iterator<Item = (&[u8], Argument<'_>)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let (element, after) = element(rest);
            rest = after;
            let element = element.trim_ascii();
            if !element.is_empty() {
                return Some(directive(element));
            }
        }
    })
}

/// Up to the next comma outside of quotes, and what follows it.
fn element(line: &[u8]) -> (&[u8], &[u8]) {
    let mut quotes = Quotes::default();
    match line
        .iter()
        .position(|&byte| quotes.are_closed_at(byte) && byte == b',')
    {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[]),
    }
}

/// Whether a quote that begins in the line does not end there.
fn has_open_quote(line: &[u8]) -> bool {
    let mut quotes = Quotes::default();
    line.iter().for_each(|&byte| {
        quotes.are_closed_at(byte);
    });
    quotes.is_open
}

/// Where quoted strings begin and end (RFC 9110 §5.6.4).
#[derive(Debug, Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Takes the next byte; says whether it is outside of quotes.
    fn are_closed_at(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_open => self.is_escaped = true,
            b'"' => self.is_open = !self.is_open,
            _ => {}
        }
        !self.is_open
    }
}

fn directive(element: &[u8]) -> (&[u8], Argument<'_>) {
    let Some(at) = memchr::memchr(b'=', element) else {
        return (element, Argument::Absent);
    };
    let (name, value) = (&element[..at], &element[at + 1..]);
    let argument = match value {
        [b'"', quoted @ .., b'"'] => Argument::Quoted(quoted),
        _ if is_token(value) => Argument::Token(value),
        _ => Argument::Malformed,
    };
    (name, argument)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field::testing::fields;

    fn response(value: &str) -> ResponseControl {
        ResponseControl::of(&fields(&[("cache-control", value)]))
    }

    fn request(lines: &[(&str, &str)]) -> RequestControl {
        RequestControl::of(&fields(lines))
    }

    #[test]
    fn every_directive_of_a_response_is_read_in_any_case() {
        assert_eq!(response(""), ResponseControl::default());
        assert!(response("No-Store").no_store);
        assert!(response("no-cache").no_cache);
        assert!(response("PRIVATE").private);
        assert!(response("public").public);
        assert!(response("must-revalidate").must_revalidate);
        assert!(response("proxy-revalidate").proxy_revalidate);
        assert!(!response("proxy-revalidate").must_revalidate);
        assert!(response("must-understand").must_understand);
        assert_eq!(response("Max-Age=3").max_age, Some(3));
        // Nobody knows what is within a quote that does not end.
        assert!(response("max-age=60, foo=\"bar, no-store").no_store);
        assert!(!response("max-age=60, foo=\"ba\\\"r, no-store\"").no_store);
        assert_eq!(response("s-maxage=4").s_maxage, Some(4));
        let stale = response("stale-while-revalidate=5, stale-if-error=6");
        assert_eq!(stale.stale_while_revalidate, Some(5));
        assert_eq!(stale.stale_if_error, Some(6));
    }

    #[test]
    fn numbers_that_are_none_make_it_stale() {
        for (text, seconds) in [
            ("max-age=3600", 3600),
            ("max-age=\"3600\"", 3600),
            ("max-age=003600", 3600),
            ("max-age=0", 0),
            ("max-age=99999999999999999999999", SECONDS_MAX),
            ("max-age", 0),
            ("max-age=", 0),
            ("max-age=-1", 0),
            ("max-age=1.5", 0),
            ("max-age=a1", 0),
            ("max-age=1a", 0),
            ("max-age= 1", 0),
            ("max-age='1'", 0),
        ] {
            assert_eq!(response(text).max_age, Some(seconds), "{text}");
        }
        assert_eq!(response("max-age =1").max_age, None);
        assert_eq!(response("max-age=1, max-age=3600").max_age, Some(1));
        assert_eq!(response("s-maxage=2, s-maxage=1").s_maxage, Some(2));
    }

    #[test]
    fn what_is_quoted_is_no_directive() {
        let control = response(r#"ext="max-age=3600, no-store, \", private", max-age=1"#);
        let want = ResponseControl {
            max_age: Some(1),
            ..ResponseControl::default()
        };
        assert_eq!(control, want);
        assert_eq!(response(r#"ext="never closed, max-age=1"#).max_age, None);
    }

    #[test]
    fn names_of_fields_are_withheld_alone() {
        let control = response(r#"private="set-cookie, X-A", no-cache=x-b"#);
        assert!(!control.private && !control.no_cache);
        let names: Vec<&[u8]> = control.withheld.iter().map(|name| &**name).collect();
        assert_eq!(names, [&b"set-cookie"[..], b"X-A", b"x-b"]);
        // Without names that can be read, it is about all of it.
        assert!(response(r#"private="""#).private);
        assert!(response("no-cache=").no_cache);
    }

    #[test]
    fn shared_caches_have_a_lifetime_of_their_own() {
        assert_eq!(response("max-age=1, s-maxage=2").lifetime(), Some(2));
        assert_eq!(response("max-age=1").lifetime(), Some(1));
        assert_eq!(response("public").lifetime(), None);
        assert!(response("max-age=1").may_be_stale());
        for never in [
            "must-revalidate",
            "proxy-revalidate",
            "no-cache",
            "s-maxage=1",
        ] {
            assert!(!response(never).may_be_stale(), "{never}");
        }
    }

    #[test]
    fn what_is_meant_for_such_caches_goes_first() {
        let both = |targeted| {
            let fields = fields(&[
                ("cdn-cache-control", targeted),
                ("cache-control", "no-store"),
            ]);
            (
                ResponseControl::of(&fields),
                ResponseControl::is_targeted(&fields),
            )
        };
        let (control, is_targeted) = both("max-age=9, must-revalidate");
        assert!(is_targeted && !control.no_store && control.must_revalidate);
        assert_eq!(control.max_age, Some(9));
        for broken in ["", "Max-Age=9", "max-age= 9", "max-age=", "a b"] {
            let (control, is_targeted) = both(broken);
            assert!(!is_targeted && control.no_store, "{broken}");
        }
    }

    #[test]
    fn every_directive_of_a_request_is_read() {
        let all = "no-store, no-cache, only-if-cached, max-age=1, min-fresh=2, max-stale=3, stale-if-error=4";
        let want = RequestControl {
            no_store: true,
            no_cache: true,
            only_if_cached: true,
            max_age: Some(1),
            min_fresh: Some(2),
            max_stale: Some(3),
            stale_if_error: Some(4),
        };
        assert_eq!(request(&[("Cache-Control", all)]), want);
        let any = request(&[("cache-control", "max-stale")]);
        assert_eq!(any.max_stale, Some(SECONDS_MAX));
        assert_eq!(request(&[("cache-control", "max-age=x")]).max_age, Some(0));
        assert_eq!(request(&[("cache-control", "max-stale=x")]).max_stale, None);
        assert!(request(&[("pragma", "No-Cache")]).no_cache);
        assert!(!request(&[("pragma", "other")]).no_cache);
        let both = [("pragma", "no-cache"), ("cache-control", "max-age=1")];
        assert!(!request(&both).no_cache);
    }

    proptest! {
        #[test]
        fn any_line_is_read_and_elements_join_to_it(line in "[ -~\\x80-\\xff]{0,80}") {
            let line = line.as_bytes();
            let mut rest = line;
            let mut joined = Vec::new();
            while !rest.is_empty() {
                let (first, after) = element(rest);
                joined.extend(first);
                let has_comma = first.len() + after.len() < rest.len();
                joined.extend(has_comma.then_some(b','));
                rest = after;
            }
            prop_assert_eq!(joined, line);
            for (name, argument) in directives(line) {
                prop_assert!(!name.contains(&b'='));
                let _ = (argument.seconds(), argument.names());
            }
        }

        #[test]
        fn what_is_written_is_read(
            max_age in 0..SECONDS_MAX,
            s_maxage in proptest::option::of(0..SECONDS_MAX),
            has_public in any::<bool>(),
            junk in "[a-z]{1,8}",
        ) {
            let mut text = format!("x-{junk}=\"{junk}, s-maxage=7\",max-age={max_age}");
            if let Some(seconds) = s_maxage {
                text = format!("s-maxage={seconds} , {text}");
            }
            if has_public {
                text += ", public";
            }
            let control = response(&text);
            prop_assert_eq!(control.max_age, Some(max_age));
            prop_assert_eq!(control.s_maxage, s_maxage);
            prop_assert_eq!(control.public, has_public);
        }
    }
}
