//! Host tables: from a request's host to the path tries that are tried for it, in order.

use std::collections::HashMap;

use crate::host::HostPattern;
use crate::host::canonical;
use crate::limits::HOST_BYTES_MAX;

/// Roots of path tries by host. The keys are the configuration's, so nobody can make them collide.
#[derive(Debug, Default)]
pub(super) struct HostTable {
    exact: HashMap<Box<[u8]>, usize>,
    /// By suffix, with its dot.
    wildcard: HashMap<Box<[u8]>, usize>,
    any: Option<usize>,
    wildcard_bytes_max: usize,
}

impl HostTable {
    /// The roots for a route with these hosts, made by `add_root` where there are none yet.
    pub(super) fn roots_of(
        &mut self,
        hosts: &[HostPattern],
        mut add_root: impl FnMut() -> usize,
    ) -> Vec<usize> {
        if hosts.is_empty() {
            return vec![*self.any.get_or_insert_with(add_root)];
        }
        let mut roots: Vec<_> = hosts
            .iter()
            .map(|host| self.root_of(host, &mut add_root))
            .collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    fn root_of(&mut self, host: &HostPattern, add_root: &mut impl FnMut() -> usize) -> usize {
        match host {
            HostPattern::Exact(name) => {
                let mut buf = [0; HOST_BYTES_MAX];
                // A name that is too long is kept, but no request names it.
                let key = canonical(name.as_bytes(), &mut buf).unwrap_or(name.as_bytes());
                *self.exact.entry(key.into()).or_insert_with(add_root)
            }
            HostPattern::Wildcard(suffix) => {
                self.wildcard_bytes_max = self.wildcard_bytes_max.max(suffix.len());
                let key = suffix.to_ascii_lowercase().into_bytes();
                *self.wildcard.entry(key.into()).or_insert_with(add_root)
            }
        }
    }

    /// The first result of `find` on the roots for `host`, most specific first.
    pub(super) fn find_map(
        &self,
        host: &[u8],
        mut find: impl FnMut(usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut buf = [0; HOST_BYTES_MAX];
        self.named(host, &mut buf, &mut find)
            .or_else(|| self.any.and_then(find))
    }

    /// As `find_map`, without the routes for any host.
    fn named(
        &self,
        host: &[u8],
        buf: &mut [u8; HOST_BYTES_MAX],
        find: &mut impl FnMut(usize) -> Option<usize>,
    ) -> Option<usize> {
        if self.exact.is_empty() && self.wildcard.is_empty() {
            return None;
        }
        let host = canonical(host, buf)?;
        let exact = self.exact.get(host).and_then(|&root| find(root));
        exact.or_else(|| self.wildcards(host).find_map(find))
    }

    /// Roots of the wildcards that `host` is below, longest first.
    fn wildcards<'a>(&'a self, host: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        // At least one byte stands before the suffix, and no suffix is longer than the longest.
        let start = host
            .len()
            .saturating_sub(self.wildcard_bytes_max)
            .max(1)
            .min(host.len());
        memchr::memchr_iter(b'.', &host[start..])
            .filter_map(move |dot| self.wildcard.get(&host[start + dot..]).copied())
    }
}
