//! The rules for storing responses, for their freshness, and for the use of stale ones. Spec: RFC 9111 §3, §4.2,
//! RFC 5861.
//!
//! Times are whole seconds, as the fields have them; ages grow by the monotonic clock.

use std::time::{Duration, Instant};

use super::control::{RequestControl, ResponseControl, number};
use crate::config;
use crate::date;
use crate::field::{FieldBlock, FieldId, elements};

/// Longest heuristic lifetime.
const HEURISTIC_SECONDS_MAX: u64 = 86_400;

/// The heuristic lifetime is one part in so many of the time since the last modification (RFC 9111 §4.2.2).
const HEURISTIC_PART: u64 = 10;

/// A response that was just received, and facts of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) status: u16,
    pub(crate) fields: &'a FieldBlock,
    pub(crate) control: &'a ResponseControl,
    /// The request was authenticated (RFC 9111 §3.5).
    pub(crate) is_authorized: bool,
    /// The time since the request was sent.
    pub(crate) delay: Duration,
    /// Unix time in seconds.
    pub(crate) time: u64,
}

/// The terms on which a stored response may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lifetime: u64,
    /// Its age when it was received.
    pub(crate) initial_age: u64,
    pub(crate) received_at: Instant,
    /// It must be validated before each use.
    pub(crate) no_cache: bool,
    /// It may be used when it is stale.
    pub(crate) may_be_stale: bool,
    pub(crate) stale_while_revalidate: u64,
    pub(crate) stale_if_error: u64,
}

/// The freshness of a stored response for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It answers the request.
    Fresh,
    /// It is stale, and the request accepts that.
    Stale,
    /// It is stale, and may be used while it is revalidated (RFC 5861 §3).
    StaleWhileRevalidate,
    /// It must be validated before this use.
    Validate,
}

impl Terms {
    /// The terms of a response that may be stored and would be of use; `None` for any other.
    pub(crate) fn of(
        received: &Received<'_>,
        settings: &config::Cache,
        now: Instant,
    ) -> Option<Self> {
        let control = received.control;
        if !may_be_stored(received, settings) {
            return None;
        }
        let lifetime = lifetime(received)?;
        let terms = Self {
            lifetime,
            initial_age: initial_age(received),
            received_at: now,
            no_cache: control.no_cache,
            may_be_stale: control.may_be_stale(),
            stale_while_revalidate: (control.stale_while_revalidate)
                .unwrap_or(settings.stale_while_revalidate.as_secs()),
            stale_if_error: (control.stale_if_error).unwrap_or(settings.stale_if_error.as_secs()),
        };
        let is_fresh = terms.lifetime > terms.initial_age && !terms.no_cache;
        let says_so = control.stale_while_revalidate.is_some() || control.stale_if_error.is_some();
        // The settings count for a response that was fresh once, and has aged on its way.
        let is_set = terms.stale_while_revalidate > 0 || terms.stale_if_error > 0;
        let asked_for_stale = terms.may_be_stale && (says_so || (lifetime > 0 && is_set));
        let is_of_use = is_fresh || asked_for_stale || has_validator(received.fields);
        is_of_use.then_some(terms)
    }

    /// The terms of a response with these fields that is not stored.
    pub(crate) fn none(fields: &FieldBlock, now: Instant) -> Self {
        Self {
            lifetime: 0,
            initial_age: age_field(fields),
            received_at: now,
            no_cache: true,
            may_be_stale: false,
            stale_while_revalidate: 0,
            stale_if_error: 0,
        }
    }

    /// Its age at `now`, in whole seconds (RFC 9111 §4.2.3).
    pub(crate) fn age(&self, now: Instant) -> u64 {
        let resident = now.saturating_duration_since(self.received_at).as_secs();
        self.initial_age.saturating_add(resident)
    }
}

/// The freshness of a response on `terms` for a request with `request` directives (RFC 9111 §4.2, §5.2.1).
pub(crate) fn freshness(terms: &Terms, request: &RequestControl, now: Instant) -> Freshness {
    let age = terms.age(now);
    if terms.no_cache || request.no_cache || request.max_age.is_some_and(|most| age > most) {
        return Freshness::Validate;
    }
    if age < terms.lifetime {
        let left = terms.lifetime - age;
        return match request.min_fresh {
            Some(least) if left < least => Freshness::Validate,
            _ => Freshness::Fresh,
        };
    }
    // A request for remaining freshness, or for an age, accepts no stale response.
    let wants_fresh =
        request.min_fresh.is_some() || (request.max_age.is_some() && request.max_stale.is_none());
    if !terms.may_be_stale || wants_fresh {
        return Freshness::Validate;
    }
    let staleness = age - terms.lifetime;
    if staleness < terms.stale_while_revalidate {
        return Freshness::StaleWhileRevalidate;
    }
    match request.max_stale {
        Some(most) if staleness <= most => Freshness::Stale,
        _ => Freshness::Validate,
    }
}

/// True if a stale response on `terms` may stand in for an error (RFC 5861 §4).
pub(crate) fn may_stand_in(terms: &Terms, request: &RequestControl, now: Instant) -> bool {
    let age = terms.age(now);
    let most = request.stale_if_error.unwrap_or(terms.stale_if_error);
    let is_wanted = !request.no_cache && request.max_age.is_none_or(|most| age <= most);
    terms.may_be_stale && is_wanted && age.saturating_sub(terms.lifetime) < most
}

/// True if a shared cache may store the response (RFC 9111 §3).
fn may_be_stored(received: &Received<'_>, settings: &config::Cache) -> bool {
    let control = received.control;
    // Partial content, and responses about another one.
    if matches!(received.status, 0..200 | 206 | 304) {
        return false;
    }
    let is_kept_from_all = match control.must_understand {
        true => !is_understood(received.status),
        false => control.no_store,
    };
    let is_of_one_client = received.is_authorized && !control.allows_shared_use();
    let mut withheld = control.withheld.iter();
    let withholds_cookies = withheld.any(|name| name.eq_ignore_ascii_case(b"set-cookie"));
    let mut cookies = received.fields.values_named(b"set-cookie");
    let sets_cookies = !withholds_cookies && cookies.next().is_some();
    let may_set_cookies = settings.store_set_cookie && control.public;
    !is_kept_from_all && !control.private && !is_of_one_client && (!sets_cookies || may_set_cookies)
}

/// True for statuses whose caching requirements this cache meets (RFC 9111 §5.2.2.3).
fn is_understood(status: u16) -> bool {
    is_heuristic(status) || matches!(status, 302 | 303 | 307 | 400 | 401 | 403 | 500 | 502..=504)
}

/// True for statuses that are heuristically cacheable (RFC 9110 §15.1).
fn is_heuristic(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

fn has_validator(fields: &FieldBlock) -> bool {
    let has = |name: &[u8]| fields.values_named(name).next().is_some();
    has(b"etag") || has(b"last-modified")
}

/// The freshness lifetime in seconds (RFC 9111 §4.2.1). `None` where the response is not cacheable.
fn lifetime(received: &Received<'_>) -> Option<u64> {
    let Received {
        fields, control, ..
    } = received;
    if let Some(seconds) = control.lifetime() {
        return Some(seconds);
    }
    let date_value = date_value(received);
    let is_targeted = ResponseControl::is_targeted(fields);
    let mut expires = fields.values_named(b"expires");
    if let Some(expires_at) = expires.next().filter(|_| !is_targeted) {
        // RFC 9111 §5.3: an invalid date is in the past.
        let expires_at = date::parse(expires_at).unwrap_or(0);
        return Some(expires_at.saturating_sub(date_value));
    }
    if !control.public && !is_heuristic(received.status) {
        return None;
    }
    let modified = fields.values_named(b"last-modified").next();
    let modified_at = modified.and_then(date::parse);
    let unchanged = modified_at.map_or(0, |at| date_value.saturating_sub(at));
    Some((unchanged / HEURISTIC_PART).min(HEURISTIC_SECONDS_MAX))
}

fn date_value(received: &Received<'_>) -> u64 {
    let date = received.fields.values(FieldId::Date).next();
    date.and_then(date::parse).unwrap_or(received.time)
}

/// `corrected_initial_age` (RFC 9111 §4.2.3).
fn initial_age(received: &Received<'_>) -> u64 {
    let apparent = received.time.saturating_sub(date_value(received));
    let age = age_field(received.fields);
    apparent.max(age.saturating_add(received.delay.as_secs()))
}

/// The value of `Age`, the first of several; 0 where it is invalid (RFC 9111 §5.1).
fn age_field(fields: &FieldBlock) -> u64 {
    let mut ages = fields.values_named(b"age").flat_map(elements);
    ages.next().and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::credentials::Credentials;
    use crate::field::testing::fields;

    /// 1994-11-06 08:49:37.
    const TIME: u64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn settings() -> config::Cache {
        config::Cache {
            stale_while_revalidate: Duration::from_secs(30),
            stale_if_error: Duration::from_secs(600),
            ..config::Cache::default()
        }
    }

    /// The terms of a response to a request without credentials.
    fn terms_of(status: u16, lines: &[(&str, &str)]) -> Option<Terms> {
        terms_with(status, lines, Credentials::None, &settings())
    }

    fn terms_with(
        status: u16,
        lines: &[(&str, &str)],
        credentials: Credentials,
        settings: &config::Cache,
    ) -> Option<Terms> {
        let fields = fields(lines);
        let received = Received {
            status,
            fields: &fields,
            control: &ResponseControl::of(&fields),
            is_authorized: credentials.is_authenticated(),
            delay: Duration::from_millis(1900),
            time: TIME,
        };
        Terms::of(&received, settings, Instant::now())
    }

    #[track_caller]
    fn fresh_for(status: u16, lines: &[(&str, &str)], seconds: u64) {
        let terms = terms_of(status, lines).expect("it is stored");
        assert_eq!(terms.lifetime, seconds, "{lines:?}");
    }

    #[track_caller]
    fn not_stored(status: u16, lines: &[(&str, &str)]) {
        assert_eq!(terms_of(status, lines), None, "{status} {lines:?}");
    }

    const FRESH: (&str, &str) = ("cache-control", "max-age=60");

    #[test]
    fn lifetimes_go_by_the_first_that_says_something() {
        let expires = ("expires", "Sun, 06 Nov 1994 08:50:37 GMT");
        let shared = ("cache-control", "max-age=7, s-maxage=8");
        fresh_for(200, &[("date", DATE), expires, shared], 8);
        fresh_for(
            200,
            &[("date", DATE), expires, ("cache-control", "max-age=7")],
            7,
        );
        fresh_for(200, &[("date", DATE), expires], 60);
        fresh_for(200, &[expires], 60);
        // Ten days ago: a tenth of that.
        let modified = ("last-modified", "Thu, 27 Oct 1994 08:49:37 GMT");
        fresh_for(200, &[("date", DATE), modified], 86_400);
        let modified = ("last-modified", "Sun, 06 Nov 1994 08:32:57 GMT");
        fresh_for(200, &[("date", DATE), modified], 100);
        let long_ago = ("last-modified", "Sun, 06 Nov 1983 08:32:57 GMT");
        fresh_for(200, &[("date", DATE), long_ago], 86_400);
        let later = ("last-modified", "Mon, 07 Nov 1994 08:32:57 GMT");
        fresh_for(200, &[("date", DATE), later], 0);
        fresh_for(200, &[("etag", "\"a\"")], 0);
    }

    #[test]
    fn an_expiry_that_can_not_be_read_has_passed() {
        let tag = ("etag", "\"a\"");
        for expired in ["0", "-1", "soon", "Sun, 06 Nov 1994 08:49:36 GMT", DATE] {
            fresh_for(200, &[("date", DATE), ("expires", expired), tag], 0);
            not_stored(200, &[("date", DATE), ("expires", expired)]);
        }
    }

    #[test]
    fn targeted_control_takes_the_place_of_expiry() {
        let expires = ("expires", "Sun, 06 Nov 1994 08:50:37 GMT");
        let tag = ("etag", "\"a\"");
        fresh_for(200, &[("cdn-cache-control", "public"), expires, tag], 0);
        fresh_for(200, &[("cdn-cache-control", "max-age=5"), expires, tag], 5);
    }

    #[test]
    fn statuses_are_stored_where_something_says_so() {
        let modified = ("last-modified", "Sun, 06 Nov 1994 08:32:57 GMT");
        for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
            fresh_for(status, &[modified], 100);
        }
        for status in [201, 302, 307, 400, 403, 429, 500, 502, 503, 599] {
            not_stored(status, &[modified]);
            fresh_for(status, &[FRESH], 60);
            fresh_for(status, &[("cache-control", "public"), modified], 100);
        }
        for status in [100, 199, 206, 304] {
            not_stored(status, &[FRESH, modified]);
        }
        not_stored(200, &[]);
    }

    #[test]
    fn what_forbids_storing_does() {
        for control in [
            "no-store",
            "private",
            "private, public",
            "max-age=60, no-store",
        ] {
            not_stored(200, &[("cache-control", control), ("etag", "\"a\"")]);
        }
        not_stored(200, &[("cache-control", "max-age=0")]);
        not_stored(200, &[("cache-control", "max-age=60, no-cache")]);
        // The second that it took to come counts, too; what comes stale is of use where it may be used so.
        for age in ["60", "59"] {
            not_stored(200, &[("cache-control", "s-maxage=60"), ("age", age)]);
            fresh_for(200, &[("cache-control", "max-age=60"), ("age", age)], 60);
        }
        fresh_for(200, &[("cache-control", "max-age=60"), ("age", "58")], 60);
        let understood = ("cache-control", "max-age=60, no-store, must-understand");
        fresh_for(200, &[understood], 60);
        fresh_for(503, &[understood], 60);
        not_stored(599, &[understood]);
        not_stored(599, &[("cache-control", "max-age=60, must-understand")]);
        let terms = terms_of(200, &[("cache-control", "no-cache"), ("etag", "\"a\"")]);
        assert!(terms.expect("it is stored").no_cache);
        let stale = ("cache-control", "max-age=0, stale-while-revalidate=5");
        fresh_for(200, &[stale], 0);
        fresh_for(200, &[("cache-control", "max-age=0, stale-if-error=5")], 0);
        let never = (
            "cache-control",
            "max-age=0, stale-if-error=5, must-revalidate",
        );
        not_stored(200, &[never]);
    }

    #[test]
    fn what_one_client_is_told_is_stored_where_its_server_says_so() {
        let stored = |name, control: &str| {
            let lines = [(name, control), ("etag", "\"a\"")];
            terms_with(200, &lines, Credentials::Authenticated, &settings()).is_some()
        };
        // Those that RFC 9111 §3.5 names, and every other that there is.
        for (control, is_stored) in [
            ("public", true),
            ("must-revalidate", true),
            ("s-maxage=60", true),
            ("s-maxage=0", true),
            ("proxy-revalidate, public", true),
            ("proxy-revalidate, must-revalidate", true),
            ("proxy-revalidate, s-maxage=60", true),
            ("Must-Revalidate, no-cache", true),
            ("x-other", false),
            ("proxy-revalidate", false),
            ("no-cache", false),
            ("no-transform", false),
            ("must-understand", false),
            ("must-understand, no-store", false),
            ("immutable", false),
            ("stale-while-revalidate=60", false),
            ("stale-if-error=60", false),
            ("private=\"x-a\"", false),
            ("no-cache=\"x-a\"", false),
            ("public, no-store", false),
            ("public, private", false),
        ] {
            let control = format!("max-age=60, {control}");
            for name in ["cache-control", "cdn-cache-control"] {
                // That is a dictionary with keys in lower case.
                if control == control.to_lowercase() {
                    assert_eq!(stored(name, &control), is_stored, "{name}: {control}");
                }
            }
            assert_eq!(stored("cache-control", &control), is_stored, "{control}");
        }
        assert!(!stored("expires", "Sun, 06 Nov 1994 08:50:37 GMT"));
    }

    #[test]
    fn cookies_are_stored_where_everybody_says_so() {
        let stored = |control: &str, store_set_cookie| {
            let settings = config::Cache {
                store_set_cookie,
                ..settings()
            };
            let lines = [("set-cookie", "a=b"), ("cache-control", control)];
            terms_with(200, &lines, Credentials::None, &settings).is_some()
        };
        assert!(!stored("max-age=60", false) && !stored("max-age=60", true));
        assert!(!stored("max-age=60, public", false));
        assert!(stored("max-age=60, public", true));
        assert!(stored("max-age=60, no-cache=\"set-cookie\"", false));
        assert!(!stored("max-age=60, no-cache=\"x-other\"", false));
    }

    #[test]
    fn ages_are_the_larger_of_what_is_told_and_what_shows() {
        let age = |lines: &[(&str, &str)]| {
            let mut all = vec![FRESH];
            all.extend(lines);
            terms_of(200, &all).expect("it is stored").initial_age
        };
        // It took more than a second to come.
        assert_eq!(age(&[]), 1);
        assert_eq!(age(&[("age", "30")]), 31);
        assert_eq!(age(&[("age", "30, 40")]), 31);
        assert_eq!(age(&[("age", "x")]), 1);
        assert_eq!(age(&[("date", "Sun, 06 Nov 1994 08:49:27 GMT")]), 10);
        let both = [("date", "Sun, 06 Nov 1994 08:49:27 GMT"), ("age", "30")];
        assert_eq!(age(&both), 31);
        assert_eq!(age(&[("date", "Sun, 06 Nov 1994 09:49:27 GMT")]), 1);
    }

    fn terms(lifetime: u64, initial_age: u64) -> Terms {
        Terms {
            lifetime,
            initial_age,
            received_at: Instant::now(),
            no_cache: false,
            may_be_stale: true,
            stale_while_revalidate: 10,
            stale_if_error: 20,
        }
    }

    const ANY: RequestControl = RequestControl {
        no_store: false,
        no_cache: false,
        only_if_cached: false,
        max_age: None,
        min_fresh: None,
        max_stale: None,
        stale_if_error: None,
    };

    fn freshness_of(terms: &Terms, request: RequestControl) -> Freshness {
        freshness(terms, &request, terms.received_at)
    }

    #[test]
    fn ages_grow() {
        let terms = terms(60, 7);
        let at = |seconds| terms.age(terms.received_at + Duration::from_secs(seconds));
        assert_eq!((at(0), at(5)), (7, 12));
    }

    #[test]
    fn what_is_as_old_as_its_lifetime_is_stale() {
        assert_eq!(freshness_of(&terms(60, 59), ANY), Freshness::Fresh);
        assert_eq!(
            freshness_of(&terms(60, 60), ANY),
            Freshness::StaleWhileRevalidate
        );
        assert_eq!(
            freshness_of(&terms(60, 69), ANY),
            Freshness::StaleWhileRevalidate
        );
        assert_eq!(freshness_of(&terms(60, 70), ANY), Freshness::Validate);
        let never = Terms {
            may_be_stale: false,
            ..terms(60, 60)
        };
        assert_eq!(freshness_of(&never, ANY), Freshness::Validate);
        let no_cache = Terms {
            no_cache: true,
            ..terms(60, 0)
        };
        assert_eq!(freshness_of(&no_cache, ANY), Freshness::Validate);
    }

    #[test]
    fn requests_say_what_is_good_enough() {
        let asks = |change: fn(&mut RequestControl), age| {
            let mut request = ANY;
            change(&mut request);
            freshness_of(&terms(60, age), request)
        };
        assert_eq!(asks(|asked| asked.no_cache = true, 0), Freshness::Validate);
        assert_eq!(asks(|asked| asked.max_age = Some(5), 5), Freshness::Fresh);
        assert_eq!(
            asks(|asked| asked.max_age = Some(5), 6),
            Freshness::Validate
        );
        assert_eq!(
            asks(|asked| asked.max_age = Some(90), 61),
            Freshness::Validate
        );
        assert_eq!(
            asks(|asked| asked.min_fresh = Some(10), 50),
            Freshness::Fresh
        );
        assert_eq!(
            asks(|asked| asked.min_fresh = Some(11), 50),
            Freshness::Validate
        );
        assert_eq!(
            asks(|asked| asked.min_fresh = Some(0), 60),
            Freshness::Validate
        );
        assert_eq!(
            asks(|asked| asked.max_stale = Some(15), 75),
            Freshness::Stale
        );
        assert_eq!(
            asks(|asked| asked.max_stale = Some(15), 76),
            Freshness::Validate
        );
        let both = |asked: &mut RequestControl| {
            asked.max_age = Some(90);
            asked.max_stale = Some(15);
        };
        assert_eq!(asks(both, 75), Freshness::Stale);
        assert_eq!(asks(both, 65), Freshness::StaleWhileRevalidate);
    }

    #[test]
    fn what_is_stale_stands_in_for_a_while() {
        let may = |terms: &Terms, request| may_stand_in(terms, &request, terms.received_at);
        assert!(may(&terms(60, 79), ANY));
        assert!(!may(&terms(60, 80), ANY));
        let longer = RequestControl {
            stale_if_error: Some(30),
            ..ANY
        };
        assert!(may(&terms(60, 89), longer) && !may(&terms(60, 90), longer));
        let never = Terms {
            may_be_stale: false,
            ..terms(60, 61)
        };
        assert!(!may(&never, ANY));
        let no_cache = RequestControl {
            no_cache: true,
            ..ANY
        };
        assert!(!may(&terms(60, 61), no_cache));
        let young = RequestControl {
            max_age: Some(61),
            ..ANY
        };
        assert!(may(&terms(60, 61), young) && !may(&terms(60, 62), young));
    }
}
