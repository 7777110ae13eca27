//! Parses cache directives: `Cache-Control`, and `CDN-Cache-Control` in its place.
//!
//! Malformed directives make a response stale rather than fresh, and of several that differ the first counts (RFC 9111
//! §4.2.1). Spec: RFC 9111 §5.2, RFC 5861, RFC 9213.

use crate::field::{FieldBlock, is_token};

/// The largest number of seconds (RFC 9111 §1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// Directives of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// It must not be stored.
    pub no_store: bool,
    /// It must be validated before each use.
    pub no_cache: bool,
    /// It is for one client.
    pub private: bool,
    /// It may be stored even where it is not heuristically cacheable, or its request had credentials.
    pub public: bool,
    /// It must be validated once it is stale.
    pub must_revalidate: bool,
    /// `must-revalidate` for shared caches. It does not allow them to store more (RFC 9111 §3.5).
    pub proxy_revalidate: bool,
    /// It may be stored in spite of `no-store` where the cache meets the requirements of its status (RFC 9111 §5.2.2.3).
    pub must_understand: bool,
    /// Seconds for which it is fresh; 0 where the value is malformed.
    pub max_age: Option<u64>,
    /// `max-age` for shared caches.
    pub s_maxage: Option<u64>,
    /// Seconds for which it may be used stale while it is revalidated (RFC 5861 §3).
    pub stale_while_revalidate: Option<u64>,
    /// Seconds for which it may be used stale in place of an error (RFC 5861 §4).
    pub stale_if_error: Option<u64>,
    /// Names of fields that `private` or `no-cache` withhold from other requests.
    pub withheld: Vec<Box<[u8]>>,
}

/// Directives of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// Its response must not be stored.
    pub no_store: bool,
    /// A stored response must be validated first.
    pub no_cache: bool,
    /// Only a stored response is wanted.
    pub only_if_cached: bool,
    /// The largest age of the response in seconds.
    pub max_age: Option<u64>,
    /// Seconds for which the response must still be fresh.
    pub min_fresh: Option<u64>,
    /// Seconds for which the response may have been stale.
    pub max_stale: Option<u64>,
    /// Seconds for which a stale response may be used in place of an error (RFC 5861 §4).
    pub stale_if_error: Option<u64>,
}

impl ResponseControl {
    /// The directives of a response: those of a valid `CDN-Cache-Control` (RFC 9213 §2.1), else of `Cache-Control`.
    #[must_use]
    pub fn of(fields: &FieldBlock) -> Self {
        Self::targeted(fields).unwrap_or_else(|| {
            let mut control = Self::default();
            for value in fields.values_named(b"cache-control") {
                directives(value).for_each(|(name, argument)| control.add(name, argument));
                // The rest of the line may be `no-store`.
                control.no_store |= has_open_quote(value);
            }
            control
        })
    }

    /// True if a valid `CDN-Cache-Control` takes the place of `Cache-Control` and `Expires`.
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

    /// The freshness lifetime of the directives in seconds.
    #[must_use]
    pub fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }

    /// True unless a directive forbids the use of the stale response (RFC 9111 §4.2.4).
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
            b"max-age" => argument.set_first(&mut self.max_age),
            b"s-maxage" => argument.set_first(&mut self.s_maxage),
            b"stale-while-revalidate" => argument.set_first(&mut self.stale_while_revalidate),
            b"stale-if-error" => argument.set_first(&mut self.stale_if_error),
            _ => {}
        }
    }
}

impl RequestControl {
    /// The directives of a request; `Pragma` counts where there is no `Cache-Control` (RFC 9111 §5.4).
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

/// Bytes of the longest known name.
const NAME_BYTES_MAX: usize = 22;

/// `name` in lower case; empty where it is longer than any known name.
fn lower<'a>(name: &[u8], room: &'a mut [u8; NAME_BYTES_MAX]) -> &'a [u8] {
    let Some(room) = room.get_mut(..name.len()) else {
        return b"";
    };
    room.copy_from_slice(name);
    room.make_ascii_lowercase();
    room
}

/// The argument of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument<'a> {
    Absent,
    Token(&'a [u8]),
    /// Between its quotes.
    Quoted(&'a [u8]),
    /// Neither a token nor a quoted string.
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

    /// The argument as `delta-seconds`; `None` where it is not a number.
    fn seconds(self) -> Option<u64> {
        let (Self::Token(digits) | Self::Quoted(digits)) = self else {
            return None;
        };
        number(digits)
    }

    /// Sets the seconds of a directive, 0 where they are malformed, unless an earlier one has.
    fn set_first(self, seconds: &mut Option<u64>) {
        seconds.get_or_insert(self.seconds().unwrap_or(0));
    }

    /// The argument as names of fields; `None` where it has no valid one.
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

/// The directives of one line: names with their arguments (RFC 9111 §5.2). Looks at every byte of the line once.
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

/// The element before the next comma outside of quotes, and the rest of the line.
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

/// True if a quoted string of the line does not end.
fn has_open_quote(line: &[u8]) -> bool {
    let mut quotes = Quotes::default();
    line.iter().for_each(|&byte| {
        quotes.are_closed_at(byte);
    });
    quotes.is_open
}

/// State of a scan over quoted strings (RFC 9110 §5.6.4).
#[derive(Debug, Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Takes the next byte; true if it is outside of quotes.
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
