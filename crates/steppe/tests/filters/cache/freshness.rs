//! Stored responses: which are stored, for which clients, and for how long.

use super::*;

#[test]
fn what_is_fresh_is_served_from_the_store() {
    with_each(
        "",
        |_, count| ok(FRESH, &format!("answer {count}")),
        |site| {
            let first = site.get("/a?q=1");
            assert_eq!(
                (text(&first), status_of(&first)),
                ("answer 0".into(), "steppe; fwd=miss; stored")
            );
            assert_eq!(first.head.field("age"), None);
            let second = site.get("/a?q=1");
            assert_eq!((text(&second), is_hit(&second)), ("answer 0".into(), true));
            assert!(second.head.field("age").is_some(), "{second:?}");
            assert_eq!(second.head.field("content-length"), Some("8"));
            assert_eq!(second.head.field("cache-control"), Some("max-age=3600"));
            assert!(second.head.field("date").is_some());
            assert_eq!(site.asked("/a?q=1"), 1);
            // A HEAD is answered from the stored response.
            let head = site.curl("/a?q=1").args(["-I"]).run();
            assert_eq!(head.head.field("content-length"), Some("8"));
            assert_eq!((head.head.status(), is_hit(&head)), (200, true));
            // Another query makes another resource.
            assert_eq!(text(&site.get("/a?q=2")), "answer 1");
        },
    );
}

#[test]
fn what_says_so_is_not_stored() {
    let answer = |request: &Message, count: usize| {
        let fields = match request.target() {
            "/no-store" => "cache-control: no-store, max-age=60\r\n",
            "/private" => "cache-control: private, max-age=60\r\n",
            "/cookie" => "cache-control: max-age=60\r\nset-cookie: a=b\r\n",
            "/vary" => "cache-control: max-age=60\r\nvary: *\r\n",
            "/old" => "cache-control: max-age=60\r\nage: 60\r\n",
            "/nothing" => "",
            _ => FRESH,
        };
        ok(fields, &format!("answer {count}"))
    };
    with_each("", answer, |site| {
        for target in [
            "/no-store",
            "/private",
            "/cookie",
            "/vary",
            "/old",
            "/nothing",
        ] {
            let (first, second) = (site.get(target), site.get(target));
            assert_ne!(text(&first), text(&second), "{target}");
            assert!(!is_hit(&second), "{target}");
            assert_eq!(site.asked(target), 2, "{target}");
        }
        let (first, second) = (site.get("/other"), site.get("/other"));
        assert_eq!(text(&first), text(&second));
    });
}

/// Fields of a response by its path; true if RFC 9111 §3.5 allows to serve it to other clients than
/// the first.
const CONTROLS: [(&str, &str, bool); 11] = [
    ("/public", "cache-control: public, max-age=60\r\n", true),
    ("/s-maxage", "cache-control: s-maxage=60\r\n", true),
    (
        "/must",
        "cache-control: max-age=60, must-revalidate\r\n",
        true,
    ),
    (
        "/both",
        "cache-control: s-maxage=60, proxy-revalidate\r\n",
        true,
    ),
    ("/plain", "cache-control: max-age=60\r\n", false),
    (
        "/proxy",
        "cache-control: max-age=60, proxy-revalidate\r\n",
        false,
    ),
    (
        "/immutable",
        "cache-control: max-age=60, immutable\r\n",
        false,
    ),
    (
        "/stale",
        "cache-control: max-age=60, stale-while-revalidate=60\r\n",
        false,
    ),
    (
        "/tag",
        "cache-control: max-age=60, no-cache\r\netag: \"a\"\r\n",
        false,
    ),
    (
        "/part",
        "cache-control: max-age=60, private=\"x-a\"\r\n",
        false,
    ),
    (
        "/cdn",
        "cdn-cache-control: max-age=60, proxy-revalidate\r\ncache-control: public\r\n",
        false,
    ),
];

fn control_of(target: &str) -> &'static str {
    let row = CONTROLS.iter().find(|(path, ..)| *path == target);
    row.map_or("cache-control: max-age=60\r\n", |(_, fields, _)| fields)
}

#[test]
fn what_came_with_authorization_is_for_nobody_else() {
    let answer = |request: &Message, _| {
        let who = request.field("authorization").unwrap_or("nobody");
        ok(control_of(request.target()), who)
    };
    with_each("", answer, |site| {
        let secret = "Authorization: Basic c2VjcmV0";
        for (target, _, is_shared) in CONTROLS {
            let own = site.get_with(target, [secret]);
            assert_eq!(text(&own), "Basic c2VjcmV0");
            let anonymous = site.get(target);
            let want = if is_shared {
                "Basic c2VjcmV0"
            } else {
                "nobody"
            };
            let got = (&*text(&anonymous), is_hit(&anonymous));
            assert_eq!(got, (want, is_shared), "{target}");
        }
    });
}

/// A page is stored for other clients even after one visitor has requested it several times.
#[test]
fn what_is_for_one_visitor_keeps_nothing_from_being_stored() {
    let answer = |request: &Message, count: usize| {
        let is_known = ["cookie", "authorization"].map(|name| request.field(name).is_some());
        match is_known.contains(&true) {
            true => ok("cache-control: private\r\n", "yours"),
            false => ok(FRESH, &format!("answer {count}")),
        }
    };
    for (target, credentials) in [
        ("/a", "Cookie: session=1"),
        ("/b", "Authorization: Basic c2VjcmV0"),
    ] {
        with_each("", answer, |site| {
            for _ in 0..3 {
                assert_eq!(text(&site.get_with(target, [credentials])), "yours");
            }
            assert_eq!(text(&site.get(target)), "answer 3", "{credentials}");
            assert!(is_hit(&site.get(target)), "{credentials}");
        });
    }
}

/// Two users whom the filters of `auth` let in by the field that `who` makes of their name: a
/// response that its server does not declare shared is served to neither of them from the store.
fn each_user_has_their_own(auth: &str, filters: &[&str], who: impl Fn(&str) -> String) {
    for protocol in [Protocol::H1, Protocol::H2] {
        let origin = RawOrigin::replying(|request| {
            let user = request.field("x-user").unwrap_or("nobody");
            ok(control_of(request.target()), user).into_bytes()
        });
        let config = config()
            .with_toml(auth)
            .route("all", |r| r.filters(filters));
        let site = Site::start_with(origin, protocol, config);
        assert_eq!(site.get("/a").head.status(), 401);
        for (target, _, is_shared) in CONTROLS {
            for (before, user) in ["ann", "bob", "ann"].into_iter().enumerate() {
                let got = site.get_with(target, [&who(user)]);
                let want = match is_shared {
                    true => ("ann", before > 0, 1),
                    false => (user, false, before + 1),
                };
                let got = (&*text(&got), is_hit(&got), site.asked(target));
                assert_eq!(got, want, "{target} {protocol:?}");
            }
            // The filters before the cache apply to stored responses.
            assert_eq!(site.get(target).head.status(), 401, "{target}");
        }
    }
}

#[test]
fn what_a_token_lets_in_is_for_nobody_else() {
    let jwt = "[http.filter.auth]\nkind = \"jwt\"\nfrom = [\"cookie:session\"]\n\
        forward_claims = { sub = \"x-user\" }\n\
        keys = [{ algorithm = \"HS256\", secret_file = \"{scratch}/hs256.key\" }]\n";
    each_user_has_their_own(jwt, &["auth", "store"], |user| {
        format!("Cookie: session={}", token(user))
    });
}

/// Applies even if a filter removes the credentials before the cache.
#[test]
fn what_a_password_lets_in_is_for_nobody_else() {
    use base64::Engine;
    let basic = "[http.filter.auth]\nkind = \"basic-auth\"\nusers_file = \"{scratch}/users\"\n\
        forward_user = \"x-user\"\n\
        [http.filter.strip]\nkind = \"transform\"\nrequest_headers = { remove = [\"authorization\"] }\n";
    each_user_has_their_own(basic, &["auth", "strip", "store"], |user| {
        let password = format!("{user}:open sesame");
        let credentials = base64::engine::general_purpose::STANDARD.encode(password);
        format!("Authorization: Basic {credentials}")
    });
}

#[test]
fn what_a_service_lets_in_is_for_nobody_else() {
    let decides = RawOrigin::replying(|request| {
        let cookie = request.field("cookie").unwrap_or_default();
        match cookie.strip_prefix("session=") {
            Some(user) => response("200 OK", &format!("x-user: {user}\r\n"), ""),
            None => response("401 Unauthorized", "", ""),
        }
        .into_bytes()
    });
    let asks = format!(
        "[http.upstream.decides]\nservers = [\"{}\"]\n\
         [http.filter.auth]\nkind = \"forward-auth\"\nupstream = \"decides\"\nresponse_headers = [\"x-user\"]\n",
        decides.address()
    );
    each_user_has_their_own(&asks, &["auth", "store"], |user| {
        format!("Cookie: session={user}")
    });
}

fn token(user: &str) -> String {
    use jsonwebtoken::{EncodingKey, Header, encode};
    let key = EncodingKey::from_secret(b"a secret that is long enough for HS256");
    let claims = serde_json::json!({ "sub": user, "exp": 4_000_000_000_u64 });
    encode(&Header::default(), &claims, &key).expect("a token")
}

#[test]
fn variants_are_told_apart_by_what_vary_names() {
    let answer = |request: &Message, count: usize| {
        let language = request
            .field("accept-language")
            .unwrap_or("none")
            .to_owned();
        let fields = format!("{FRESH}vary: Accept-Language\r\n");
        ok(&fields, &format!("{language} {count}"))
    };
    with_each("", answer, |site| {
        let (german, english) = ("Accept-Language: de", "Accept-Language: en");
        assert_eq!(text(&site.get_with("/a", [german])), "de 0");
        assert_eq!(text(&site.get_with("/a", [english])), "en 1");
        assert_eq!(text(&site.get("/a")), "none 2");
        for (fields, want) in [(german, "de 0"), (english, "en 1")] {
            let again = site.get_with("/a", [fields]);
            assert_eq!((text(&again), is_hit(&again)), (want.into(), true));
        }
        assert_eq!(text(&site.get("/a")), "none 2");
    });
}

#[test]
fn codings_are_one_whatever_their_order() {
    let answer = |request: &Message, count: usize| {
        let codings = request
            .field("accept-encoding")
            .unwrap_or("none")
            .to_owned();
        let fields = format!("{FRESH}vary: Accept-Encoding\r\ncontent-encoding: x\r\n");
        ok(&fields, &format!("{codings} {count}"))
    };
    with_each("", answer, |site| {
        let first = site.get_with("/a", ["Accept-Encoding: gzip, br"]);
        assert_eq!(text(&first), "gzip, br 0");
        for same in ["Accept-Encoding: br,gzip", "Accept-Encoding: br , GZIP"] {
            assert!(is_hit(&site.get_with("/a", [same])), "{same}");
        }
        assert!(!is_hit(&site.get_with("/a", ["Accept-Encoding: gzip"])));
        assert!(!is_hit(&site.get("/a")));
    });
}

#[test]
fn requests_may_ask_for_what_is_newer() {
    let answer = |_: &Message, count: usize| ok(FRESH, &format!("answer {count}"));
    with_each("", answer, |site| {
        assert_eq!(
            site.get_with("/a", ["Cache-Control: only-if-cached"])
                .head
                .status(),
            504
        );
        site.get("/a");
        assert!(is_hit(
            &site.get_with("/a", ["Cache-Control: only-if-cached"])
        ));
        assert!(is_hit(&site.get_with("/a", ["Cache-Control: max-age=600"])));
        for (at, anew) in ["no-cache", "min-fresh=7200"].into_iter().enumerate() {
            let got = site.get_with("/a", [&format!("Cache-Control: {anew}")]);
            assert_eq!(text(&got), format!("answer {}", at + 1), "{anew}");
        }
        let old = site.get_with("/a", ["Pragma: no-cache"]);
        assert_eq!(text(&old), "answer 3");
        // The new response replaces the stored one.
        assert_eq!(text(&site.get("/a")), "answer 3");
        site.get_with("/b", ["Cache-Control: no-store"]);
        assert!(!is_hit(&site.get("/b")));
    });
    with_each("request_directives = false", answer, |site| {
        site.get("/a");
        assert!(is_hit(&site.get_with("/a", ["Cache-Control: no-cache"])));
        assert!(is_hit(&site.get_with("/a", ["Pragma: no-cache"])));
    });
}

#[test]
fn directives_for_such_caches_go_before_those_for_all() {
    let answer = |_: &Message, count: usize| {
        let fields = "cdn-cache-control: max-age=60\r\ncache-control: no-store\r\n";
        ok(fields, &format!("answer {count}"))
    };
    with_each("", answer, |site| {
        site.get("/a");
        let again = site.get("/a");
        assert_eq!((text(&again), is_hit(&again)), ("answer 0".into(), true));
        assert_eq!(again.head.field("cache-control"), Some("no-store"));
    });
}

#[test]
fn cookies_are_stored_where_everybody_says_so() {
    let answer = |_: &Message, _| {
        ok(
            "cache-control: public, max-age=60\r\nset-cookie: a=b\r\n",
            "x",
        )
    };
    with_each("store_set_cookie = true", answer, |site| {
        site.get("/a");
        let again = site.get("/a");
        assert_eq!(
            (again.head.field("set-cookie"), is_hit(&again)),
            (Some("a=b"), true)
        );
    });
    with_each("", answer, |site| {
        site.get("/a");
        assert!(!is_hit(&site.get("/a")));
    });
    // Without the cookie, it is served to all clients.
    let withheld = |_: &Message, _| {
        let control = "cache-control: max-age=60, private=\"set-cookie\"\r\n";
        ok(&format!("{control}set-cookie: a=b\r\n"), "x")
    };
    with_each("", withheld, |site| {
        let first = site.get("/a");
        assert_eq!(first.head.field("set-cookie"), Some("a=b"), "it is theirs");
        let again = site.get("/a");
        assert_eq!(
            (again.head.field("set-cookie"), is_hit(&again)),
            (None, true)
        );
    });
}

#[test]
fn what_changes_a_resource_has_it_forgotten() {
    let answer = |request: &Message, count: usize| match request.target() {
        "/refused" if request.method() == "POST" => response("403 Forbidden", "", ""),
        _ if request.method() == "POST" => response("201 Created", "location: /other\r\n", ""),
        _ => ok(FRESH, &format!("answer {count}")),
    };
    with_each("", answer, |site| {
        for target in ["/a", "/other", "/refused"] {
            site.get(target);
            assert!(is_hit(&site.get(target)), "{target}");
        }
        for target in ["/a", "/refused"] {
            site.curl(target).args(["-X", "POST", "-d", "x"]).run();
        }
        assert!(!is_hit(&site.get("/a")));
        assert!(!is_hit(&site.get("/other")), "its location");
        assert!(is_hit(&site.get("/refused")), "nothing was changed");
    });
}
