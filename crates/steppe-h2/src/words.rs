//! Octets of short strings, read eight at a time.
//!
//! Names and values of field lines have a dozen octets: a vectorized loop goes over most of them one by one, and a copy
//! into a padded word is a call.

/// Each octet of a word.
const ONES: u64 = u64::MAX / 0xff;
/// The high bit of each octet.
const HIGHS: u64 = ONES << 7;

/// Folds words that hold every octet, some of them more than once, and no others.
pub fn fold<A>(octets: &[u8], first: A, mut step: impl FnMut(A, u64) -> A) -> A {
    let (words, rest) = octets.as_chunks::<8>();
    let all = words.iter();
    let folded = all.fold(first, |folded, word| {
        step(folded, u64::from_le_bytes(*word))
    });
    match rest.is_empty() {
        true => folded,
        false => step(folded, last(octets)),
    }
}

/// The last eight octets; fewer than eight, repeated.
fn last(octets: &[u8]) -> u64 {
    if let Some(last) = octets.last_chunk::<8>() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (octets.first_chunk::<4>(), octets.last_chunk::<4>()) {
        let [first, last] = [*first, *last].map(|half| u64::from(u32::from_le_bytes(half)));
        return first | last << 32;
    }
    match *octets {
        [] => 0,
        [one] => u64::from_le_bytes([one; 8]),
        [one, two] => u64::from_le_bytes([one, two, one, two, one, two, one, two]),
        [one, two, three, ..] => u64::from_le_bytes([one, two, three, one, two, three, one, two]),
    }
}

/// True if `octets` have `octet`.
#[must_use]
pub fn contains(octets: &[u8], octet: u8) -> bool {
    fold(octets, 0, |found, word| found | has_octet(word, octet)) != 0
}

/// Not 0 if the word has this octet.
#[must_use]
pub const fn has_octet(word: u64, octet: u8) -> u64 {
    let differences = word ^ (ONES * octet as u64);
    differences.wrapping_sub(ONES) & !differences & HIGHS
}

/// Not 0 if the word has an octet below 0x20.
#[must_use]
pub const fn has_below_space(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGHS
}

/// Not 0 if the word has one of `A` to `Z`.
#[must_use]
pub const fn has_capital(word: u64) -> u64 {
    let low_bits = word & !HIGHS;
    let from_a = low_bits + ONES * (0x80 - b'A' as u64);
    let beyond_z = low_bits + ONES * (0x7f - b'Z' as u64);
    from_a & !beyond_z & !word & HIGHS
}

/// The word with `a` to `z` in the place of `A` to `Z`.
#[must_use]
pub const fn lowered(word: u64) -> u64 {
    // The high bit of an octet, moved to the bit in which the cases differ.
    word | has_capital(word) >> 2
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Octets near the bounds that are looked for.
    fn octet() -> impl Strategy<Value = u8> {
        let bounds = [
            0, 1, 9, 10, 13, 0x1f, 0x20, 0x40, 0x41, 0x5a, 0x5b, 0x7f, 0x80, 0xc1, 0xff,
        ];
        prop_oneof![any::<u8>(), prop::sample::select(bounds.to_vec())]
    }

    fn with_word(mut words: Vec<u8>, word: u64) -> Vec<u8> {
        words.extend(word.to_le_bytes());
        words
    }

    proptest! {
        #[test]
        fn words_tell_what_octets_do(octets in vec(octet(), 0..30)) {
            let any = |found: fn(u64) -> u64| fold(&octets, 0, |all, word| all | found(word)) != 0;
            prop_assert_eq!(any(has_capital), octets.iter().any(u8::is_ascii_uppercase));
            let lower = fold(&octets.to_ascii_lowercase(), Vec::new(), with_word);
            let made_lower = |words, word| with_word(words, lowered(word));
            prop_assert_eq!(fold(&octets, Vec::new(), made_lower), lower);
            prop_assert_eq!(any(has_below_space), octets.iter().any(|octet| *octet < 0x20));
            for octet in [0, 10, 0x7f, 0xff] {
                prop_assert_eq!(contains(&octets, octet), octets.contains(&octet));
            }
        }

        #[test]
        fn words_hold_all_octets_and_no_others(octets in vec(any::<u8>(), 0..30)) {
            let words = fold(&octets, Vec::new(), with_word);
            prop_assert!(words.iter().all(|octet| octets.contains(octet)));
            prop_assert!(octets.iter().all(|octet| words.contains(octet)));
            let whole = octets.len() / 8 * 8;
            prop_assert_eq!(&words[..whole], &octets[..whole]);
        }
    }
}
