//! Properties of path normalization, on paths made of the pieces that attacks are made of.

use proptest::prelude::*;
use steppe_http::path::{
    Normalized, PathError, PathPattern, SegmentNames, normalize, normalize_in_place,
};

/// The normal form of `path`.
fn normalized(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut out = vec![0; path.len()];
    Ok(match normalize(path, &mut out)? {
        Normalized::Clean => path.to_vec(),
        Normalized::Rewritten { len } => out[..len].to_vec(),
    })
}

/// Normalization as the text of the RFC has it, on lists of segments.
fn oracle(path: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(path).ok()?.strip_prefix('/')?;
    let mut kept: Vec<String> = Vec::new();
    let segments: Vec<String> = text.split('/').map(oracle_decode).collect::<Option<_>>()?;
    let last = segments.len() - 1;
    for (index, segment) in segments.iter().enumerate() {
        let delimited = segment.replace("%3B", ";");
        let name = delimited.split(';').next().unwrap_or_default();
        let has_parameters = name.len() != delimited.len();
        match name {
            "." | ".." if has_parameters => return None,
            "" if delimited.starts_with(';') && index != last => return None,
            ".." => drop(kept.pop()),
            "." => {}
            _ if segment.is_empty() => {}
            _ => kept.push(segment.clone()),
        }
    }
    let ends_with_slash = matches!(&*segments[last], "" | "." | "..") && !kept.is_empty();
    let slash = if ends_with_slash { "/" } else { "" };
    Some(format!("/{}{slash}", kept.join("/")).into_bytes())
}

fn oracle_decode(segment: &str) -> Option<String> {
    let mut rest = segment;
    let mut decoded = String::new();
    while let Some(char) = rest.chars().next() {
        if char != '%' {
            let is_allowed =
                char.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@[]^{|}".contains(char);
            if !is_allowed {
                return None;
            }
            decoded.push(char);
            rest = &rest[char.len_utf8()..];
            continue;
        }
        let digits = rest
            .get(1..3)
            .filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))?;
        match u8::from_str_radix(digits, 16).ok()? {
            b'/' | b'\\' | 0 => return None,
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                decoded.push(char::from(byte));
            }
            byte => decoded.push_str(&format!("%{byte:02X}")),
        }
        rest = &rest[3..];
    }
    Some(decoded)
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just("/"),
        3 => Just("."),
        2 => Just(";"),
        1 => prop::sample::select(vec!["%2e", "%2E", "%61", "%7e", "%2D", "%3b", "%3B", "%3a", "%c3%A9", "%25"]),
        1 => prop::sample::select(vec!["a", "admin", "x=1", "b", "..", "//", "/../", "|", "[", "="]),
    ];
    prop::collection::vec(piece, 0..24)
        .prop_map(|pieces| ["/", &pieces.concat()].concat().into_bytes())
}

fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(b"/.;%2eE5cCfF0aA".to_vec()),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..32).prop_map(|mut bytes| {
        bytes.insert(0, b'/');
        bytes
    })
}

fn assert_safe(path: &[u8]) -> Result<(), TestCaseError> {
    prop_assert!(path.starts_with(b"/"));
    prop_assert!(!path.windows(2).any(|pair| pair == b"//"));
    for name in SegmentNames::new(path) {
        prop_assert!(
            name != b"." && name != b"..",
            "dot segment in {}",
            path.escape_ascii()
        );
    }
    for refused in ["%2F", "%5C", "%00", "\\", "%2E", "%2e"] {
        let found = path
            .windows(refused.len())
            .any(|window| window == refused.as_bytes());
        prop_assert!(!found, "{refused} in {}", path.escape_ascii());
    }
    Ok(())
}

fn check(path: &[u8]) -> Result<(), TestCaseError> {
    let result = normalized(path);
    prop_assert_eq!(
        result.as_ref().ok().cloned(),
        oracle(path),
        "{}",
        path.escape_ascii()
    );
    let mut in_place = path.to_vec();
    let in_place = normalize_in_place(&mut in_place).map(|len| in_place[..len].to_vec());
    prop_assert_eq!(&in_place, &result);
    let Ok(once) = result else { return Ok(()) };
    prop_assert!(once.len() <= path.len());
    prop_assert_eq!(
        normalize(&once, &mut vec![0; once.len()]),
        Ok(Normalized::Clean)
    );
    assert_safe(&once)?;
    // What a router matched is what an origin that drops parameters gets.
    let text = String::from_utf8_lossy(&once).into_owned();
    let sent: Vec<&str> = text
        .split('/')
        .skip(1)
        .filter_map(|s| s.split(';').next())
        .collect();
    let matched: Vec<_> = SegmentNames::new(&once)
        .map(String::from_utf8_lossy)
        .collect();
    prop_assert_eq!(sent, matched);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn normal_forms_are_safe_stable_and_as_the_rfc_has_them(path in pieces()) {
        check(&path)?;
    }

    #[test]
    fn hostile_bytes_are_normalized_or_refused(path in hostile_bytes()) {
        check(&path)?;
    }

    #[test]
    fn a_pattern_of_a_path_matches_that_path(path in pieces()) {
        let Ok(once) = normalized(&path) else { return Ok(()) };
        let names: Vec<_> = SegmentNames::new(&once).map(String::from_utf8_lossy).collect();
        let text = format!("/{}", names.join("/"));
        let pattern = PathPattern::parse(&text).expect("segments of a normalized path are literals");
        prop_assert_eq!(pattern.to_string(), text);
        prop_assert!(pattern.matches(&once));
    }

    #[test]
    fn patterns_survive_being_written_and_read(text in "(/(\\{[ab]\\*?\\}|[ab.%2e]{0,4})){1,4}") {
        if let Ok(pattern) = PathPattern::parse(&text) {
            let again = PathPattern::parse(&pattern.to_string());
            prop_assert_eq!(again.as_ref().ok().map(PathPattern::segments), Some(pattern.segments()));
            prop_assert_eq!(again.map(|again| again.to_string()), Ok(pattern.to_string()));
        }
    }
}

#[test]
fn attacks_get_the_verdict_of_admin_or_400() {
    let admin = PathPattern::parse("/admin").expect("a valid pattern");
    for (path, verdict) in [
        ("/admin", "admin"),
        ("//admin", "admin"),
        ("/admin;x", "admin"),
        ("/%61dmin", "admin"),
        ("/%61%64%6D%69%6e;a=b;c", "admin"),
        ("/public/../admin", "admin"),
        ("/public/%2e%2e/admin", "admin"),
        ("/public/%2e./admin", "admin"),
        ("/./admin", "admin"),
        ("/../../admin", "admin"),
        ("/public/..//admin", "admin"),
        ("/public//../admin", "admin"),
        ("/public;x/../admin", "admin"),
        ("/public/..%2fadmin", "400"),
        ("/public/..%2Fadmin", "400"),
        ("/public/..%5cadmin", "400"),
        ("/public/..\\admin", "400"),
        ("/public/..;/admin", "400"),
        ("/public/..;x/admin", "400"),
        ("/public/%2e%2e;/admin", "400"),
        ("/public/..%3b/admin", "400"),
        ("/.;/admin", "400"),
        ("/;/admin", "400"),
        ("/%3B/admin", "400"),
        ("/%3bx/admin", "400"),
        ("/admin%00", "400"),
        ("/admin%00.css", "400"),
        ("/admin%", "400"),
        ("/admin%6", "400"),
        ("/admin#", "400"),
        ("/public/../%2561dmin", "other"),
        ("/administrator", "other"),
        ("/admin/", "other"),
        ("/Admin", "other"),
    ] {
        let got = match normalized(path.as_bytes()) {
            Err(_) => "400",
            Ok(path) if admin.matches(&path) => "admin",
            Ok(_) => "other",
        };
        assert_eq!(got, verdict, "{path}");
    }
}
