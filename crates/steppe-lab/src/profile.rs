//! Profiles by a language runtime: the share of its heap of each place in the program, or of each type.
//!
//! One parser a runtime, from bytes to a [`Profile`]; `run` asks the target for them.
//!
//! Invariant: a target's output is bounded in bytes before it gets here, and in sites, names and nesting
//! here; a profile that can't be parsed is an error, and never an empty one. Leaves out stacks: a site is
//! the innermost frame of the program's own code, which its developers can change.

pub mod go;
pub mod java;
pub mod node;
pub mod python;

use std::collections::BTreeMap;

use crate::limits::{PROFILE_GROWTH_SHARE, PROFILE_SITE_LEN_MAX, PROFILE_SITES_MAX};
use crate::record::GrowingSite;

/// The quantity that a profile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Live objects of the heap.
    Heap,
    /// Goroutines that have not ended.
    Goroutines,
}

/// The amount at a site. `None`: the runtime doesn't tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Bytes of memory.
    pub bytes: Option<u64>,
    /// Number of objects, or of goroutines.
    pub count: Option<u64>,
}

/// The amount at each site. Beyond [`PROFILE_SITES_MAX`] of them, the rest is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    sites: BTreeMap<(Kind, String), Amount>,
}

/// Why a target's output is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The text does not begin like a profile, or has no line that can be parsed.
    #[error("the answer is not {0}")]
    Format(&'static str),
    /// The text is nested deeper than any stack.
    #[error("the answer is nested deeper than {0} levels")]
    Depth(usize),
}

impl Kind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Goroutines => "goroutines",
        }
    }
}

impl Profile {
    /// Adds to the amount at a site: several stacks, or processes, may have it in common.
    pub fn add(&mut self, kind: Kind, site: &str, amount: Amount) {
        let site: String = site.chars().take(PROFILE_SITE_LEN_MAX).collect();
        let key = (kind, site);
        if self.sites.len() < PROFILE_SITES_MAX || self.sites.contains_key(&key) {
            let sum = self.sites.entry(key).or_default();
            sum.bytes = both(sum.bytes, amount.bytes, u64::saturating_add);
            sum.count = both(sum.count, amount.count, u64::saturating_add);
        }
    }

    /// True if the profile has no sites.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Growth from this profile to a later one: the `most` sites of each kind that grew most, by bytes
    /// where the runtime tells them, else by count.
    pub fn grown(&self, late: &Self, most: usize) -> Vec<GrowingSite> {
        let kinds = [Kind::Heap, Kind::Goroutines];
        let of_kind = |kind| {
            let mut grown: Vec<GrowingSite> = late
                .sites
                .iter()
                .filter(|((of, _), _)| *of == kind)
                .filter_map(|(key, now)| self.growth(key, *now))
                .collect();
            grown.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.site.cmp(&b.site)));
            grown.truncate(most);
            // Growth that a single sample more or less can cause is no finding.
            let most_of = |of: fn(&GrowingSite) -> Option<u64>| grown.iter().filter_map(of).max();
            let (bytes, count) = (most_of(|site| site.bytes), most_of(|site| site.count));
            let is_part = |part: Option<u64>, most: Option<u64>| {
                part.is_some_and(|part| part >= most.unwrap_or_default() / PROFILE_GROWTH_SHARE)
            };
            grown.retain(|site| is_part(site.bytes, bytes) || is_part(site.count, count));
            grown
        };
        kinds.into_iter().flat_map(of_kind).collect()
    }

    fn growth(&self, key: &(Kind, String), now: Amount) -> Option<GrowingSite> {
        let before = self.sites.get(key).copied().unwrap_or_default();
        let more = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or_default()))
        };
        let site = GrowingSite {
            kind: key.0.name().to_owned(),
            site: key.1.clone(),
            bytes: more(now.bytes, before.bytes),
            count: more(now.count, before.count),
        };
        (size(&site) > 0).then_some(site)
    }
}

fn size(site: &GrowingSite) -> u64 {
    site.bytes.or(site.count).unwrap_or_default()
}

fn both(a: Option<u64>, b: Option<u64>, join: fn(u64, u64) -> u64) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(bytes: u64, count: u64) -> Amount {
        Amount {
            bytes: Some(bytes),
            count: Some(count),
        }
    }

    #[test]
    fn what_grew_is_told_by_kind_most_first() {
        let (mut early, mut late) = (Profile::default(), Profile::default());
        early.add(Kind::Heap, "cache.py:7", amount(1_000, 10));
        early.add(Kind::Heap, "main.py:1", amount(500, 5));
        late.add(Kind::Heap, "cache.py:7", amount(2_000, 20));
        // The same site in another process.
        late.add(Kind::Heap, "cache.py:7", amount(7_000, 5));
        late.add(Kind::Heap, "main.py:1", amount(400, 5));
        late.add(Kind::Heap, "new.py:2", amount(9_000, 1));
        let waiting = Amount {
            bytes: None,
            count: Some(300),
        };
        late.add(Kind::Goroutines, "main.wait (main.go:9)", waiting);
        let told: Vec<_> = early
            .grown(&late, 2)
            .into_iter()
            .map(|it| (it.kind, it.site, it.bytes, it.count))
            .collect();
        let row =
            |kind: &str, site: &str, bytes, count| (kind.to_owned(), site.to_owned(), bytes, count);
        assert_eq!(
            told,
            [
                row("heap", "new.py:2", Some(9_000), Some(1)),
                row("heap", "cache.py:7", Some(8_000), Some(15)),
                row("goroutines", "main.wait (main.go:9)", None, Some(300)),
            ]
        );
        assert!(late.grown(&late, 2).is_empty());
    }

    #[test]
    fn little_beside_the_rest_is_told_only_where_it_is_many() {
        let mut late = Profile::default();
        late.add(Kind::Heap, "byte[]", amount(2_000_000, 1_000));
        late.add(Kind::Heap, "Session", amount(16_000, 990));
        late.add(Kind::Heap, "noise", amount(16_000, 9));
        let grown = Profile::default().grown(&late, 10);
        let told: Vec<_> = grown.iter().map(|it| it.site.as_str()).collect();
        assert_eq!(told, ["byte[]", "Session"]);
    }

    #[test]
    fn names_and_sites_are_bounded() {
        let mut profile = Profile::default();
        profile.add(
            Kind::Heap,
            &"x".repeat(PROFILE_SITE_LEN_MAX * 2),
            amount(1, 1),
        );
        for site in 0..PROFILE_SITES_MAX * 2 {
            profile.add(Kind::Heap, &site.to_string(), amount(1, 1));
        }
        assert_eq!(profile.sites.len(), PROFILE_SITES_MAX);
        let longest = profile.sites.keys().map(|(_, site)| site.len()).max();
        assert_eq!(longest, Some(PROFILE_SITE_LEN_MAX));
    }
}
