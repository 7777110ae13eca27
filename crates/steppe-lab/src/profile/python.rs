//! Python: the blocks that `tracemalloc` traces, as the lab's own `sitecustomize.py` writes them.
//!
//! One JSON document a process: `stdlib`, the folder of Python's own library, and `groups` of blocks that
//! one stack allocated, with its frames, innermost first.

use serde::Deserialize;

use super::{Amount, Kind, Profile, ProfileError};

#[derive(Deserialize)]
struct Traced {
    stdlib: String,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    bytes: u64,
    count: u64,
    /// File and line.
    frames: Vec<(String, u64)>,
}

/// Adds the blocks that a process has allocated and not freed.
///
/// # Errors
/// Where the text is not what the script writes.
pub fn traced(json: &[u8], profile: &mut Profile) -> Result<(), ProfileError> {
    let traced: Traced = serde_json::from_slice(json)
        .map_err(|_| ProfileError::Format("the output of the lab's sitecustomize.py"))?;
    for group in &traced.groups {
        let own = group
            .frames
            .iter()
            .find(|(file, _)| is_own(file, &traced.stdlib));
        let Some((file, line)) = own.or(group.frames.first()) else {
            continue;
        };
        let amount = Amount {
            bytes: Some(group.bytes),
            count: Some(group.count),
        };
        profile.add(Kind::Heap, &format!("{file}:{line}"), amount);
    }
    Ok(())
}

/// True for files outside Python's own library. Installed packages lie within its folder, and are
/// outside.
fn is_own(file: &str, stdlib: &str) -> bool {
    let inside = file.strip_prefix(stdlib);
    let is_installed = ["/site-packages/", "/dist-packages/"];
    let is_library = inside.is_some_and(|inside| {
        inside.starts_with('/') && !is_installed.iter().any(|folder| inside.starts_with(folder))
    });
    // `<frozen importlib._bootstrap>`, `<unknown>`
    !is_library && !file.starts_with('<')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACED: &[u8] = include_bytes!("../../testdata/profiles/python-traced.json");

    #[test]
    fn what_is_held_is_told_by_the_line_of_the_program() {
        let mut profile = Profile::default();
        traced(TRACED, &mut profile).unwrap();
        let grown = Profile::default().grown(&profile, 2);
        let told: Vec<_> = grown
            .iter()
            .map(|it| format!("{:?} {:?} {}", it.bytes, it.count, it.site))
            .collect();
        assert_eq!(
            told,
            [
                "Some(516500) Some(500) /srv/shop/app.py:5",
                "Some(204536) Some(3164) /srv/shop/app.py:4"
            ]
        );
    }

    #[test]
    fn packages_that_were_installed_are_not_the_library() {
        let stdlib = "/usr/lib/python3.11";
        assert!(!is_own("/usr/lib/python3.11/json/decoder.py", stdlib));
        assert!(!is_own("<frozen importlib._bootstrap>", stdlib));
        assert!(is_own(
            "/usr/lib/python3.11/site-packages/flask/app.py",
            stdlib
        ));
        assert!(is_own("/usr/lib/python3.11x/app.py", stdlib));
        assert!(is_own("app.py", stdlib));
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let mut profile = Profile::default();
        for text in [
            "",
            "[]",
            r#"{"stdlib":"/","groups":[{"bytes":-1,"count":1,"frames":[]}]}"#,
        ] {
            assert!(traced(text.as_bytes(), &mut profile).is_err(), "{text}");
        }
    }
}
