//! Java: the class histogram of a HotSpot VM (`jcmd PID GC.class_histogram`), which names types.
//!
//! The histogram counts the objects that a full collection left. Leaves out where objects were
//! allocated: the VM doesn't know.

use super::{Amount, Kind, Profile, ProfileError};

/// Adds the instances and bytes of each class.
///
/// # Errors
/// Where the text is no histogram.
pub fn histogram(text: &str, profile: &mut Profile) -> Result<(), ProfileError> {
    let mut is_one = false;
    for line in text.lines() {
        // `NUMBER: INSTANCES BYTES CLASS (MODULE)`
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|word| word.strip_suffix(':'));
        let is_row = number.is_some_and(|number| number.parse::<u32>().is_ok());
        let mut figure = || words.next()?.parse::<u64>().ok();
        let (Some(count), Some(bytes), true) = (figure(), figure(), is_row) else {
            continue;
        };
        let Some(class) = words.next() else {
            continue;
        };
        is_one = true;
        let amount = Amount {
            bytes: Some(bytes),
            count: Some(count),
        };
        profile.add(Kind::Heap, &named(class), amount);
    }
    if is_one {
        Ok(())
    } else {
        Err(ProfileError::Format("a class histogram of Java"))
    }
}

/// The name of a class as the source writes it: `[B` is `byte[]` (JVMS §4.3.2).
fn named(class: &str) -> String {
    let element = class.trim_start_matches('[');
    let depth = class.len() - element.len();
    if depth == 0 {
        return class.to_owned();
    }
    let name = match element {
        "B" => "byte",
        "C" => "char",
        "D" => "double",
        "F" => "float",
        "I" => "int",
        "J" => "long",
        "S" => "short",
        "Z" => "boolean",
        other => other
            .strip_prefix('L')
            .and_then(|name| name.strip_suffix(';'))
            .unwrap_or(other),
    };
    format!("{name}{}", "[]".repeat(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTOGRAM: &str = include_str!("../../testdata/profiles/java-histogram.txt");

    #[test]
    fn classes_are_named_as_the_source_writes_them() {
        let mut profile = Profile::default();
        histogram(HISTOGRAM, &mut profile).unwrap();
        let grown = Profile::default().grown(&profile, 10);
        let told: Vec<_> = grown
            .iter()
            .map(|it| (it.site.as_str(), it.bytes.unwrap(), it.count.unwrap()))
            .collect();
        assert_eq!(told[0], ("byte[]", 1_499_504, 21_677));
        assert!(
            told.contains(&("java.lang.Object[]", 216_208, 2_571)),
            "{told:?}"
        );
        assert_eq!(named("[[J"), "long[][]");
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let mut profile = Profile::default();
        for text in [
            "",
            "4711:\njava.io.IOException: no",
            "Total 1 2",
            "1: a b c",
        ] {
            assert!(histogram(text, &mut profile).is_err(), "{text}");
        }
        assert!(profile.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[0-9: \\n\\[A-Z;a-z]{0,200}") {
            _ = histogram(&text, &mut Profile::default());
        }
    }
}
