//! Routing: which of the configured routes a request takes.
//!
//! Routes are tried in this order, and the first whose predicates all hold is taken:
//! 1. most specific host: exact, then the longest wildcard, then any; a route with several hosts
//!    counts by the one that matched;
//! 2. most specific path, compared segment by segment: literal, then `{name}`, then `{rest*}`;
//! 3. more predicates: a list of listeners or methods counts as one, each field and query parameter as one;
//! 4. order in the file.
//!
//! So a route that fails on a predicate leaves the request to less specific ones.
//!
//! Invariant: a lookup allocates nothing and takes no lock; it visits each host table and each
//! node of a host's path trie at most once.
//!
//! Non-goals: `GET` does not imply `HEAD`, since a route's methods are an exact list; the values
//! of captures are not exposed. Spec: RFC 9110 §7.4 (rejecting misdirected requests is the caller's),
//! §15.5.6 (405 and `Allow`).

mod hosts;
mod predicates;
mod query;
mod trie;

use std::cmp::Reverse;

use crate::config::{Filter, Route};
use hosts::HostTable;
use predicates::{PredicateMatch, Predicates};
use trie::PathTrie;

pub use predicates::Unmet;
pub use query::{FieldLookup, RouteQuery};

/// Why a request has no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// No route has this host, path, fields and query: 404.
    NotFound,
    /// At least one route would take the request if its method were another: 405 with an `Allow`
    /// field of [`Router::allowed_methods`].
    MethodNotAllowed,
}

/// Routes, arranged for lookup. Immutable: a reload builds another one.
#[derive(Debug)]
pub struct Router {
    hosts: HostTable,
    trie: PathTrie,
    /// By index in the file.
    predicates: Vec<Predicates>,
    /// Every method that some route names, sorted, once.
    methods: Vec<String>,
}

impl Router {
    /// Arranges `routes`, which refer to `filters`; what [`Router::route`] gives is an index into them.
    pub fn new(routes: &[Route], filters: &[Filter]) -> Self {
        let predicates = routes.iter();
        let predicates: Vec<_> = predicates
            .map(|route| Predicates::new(route, filters))
            .collect();
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_key(|&index| (Reverse(predicates[index].count()), index));
        let (mut hosts, mut trie) = (HostTable::default(), PathTrie::default());
        // A trie node keeps its routes in the order in which they come.
        for index in order {
            let route = &routes[index];
            for root in hosts.roots_of(&route.hosts, || trie.add_root()) {
                trie.insert(root, route.path.segments(), index);
            }
        }
        let mut methods: Vec<_> = routes
            .iter()
            .flat_map(|route| route.methods.clone())
            .collect();
        methods.sort();
        methods.dedup();
        Self {
            hosts,
            trie,
            predicates,
            methods,
        }
    }

    /// The index of the route that `request` takes.
    ///
    /// # Errors
    /// [`NoRoute`] says whether only the method stands in the way.
    pub fn route(&self, request: &RouteQuery<'_>) -> Result<usize, NoRoute> {
        self.route_noting(request, |_, _| {})
    }

    /// As [`Router::route`]; `note` is called with each route that has the request's host and path and comes
    /// before the one that takes it, and the first of its conditions that the request does not meet.
    ///
    /// # Errors
    /// Those of [`Router::route`].
    pub fn route_noting(
        &self,
        request: &RouteQuery<'_>,
        mut note: impl FnMut(usize, Unmet),
    ) -> Result<usize, NoRoute> {
        let mut is_method_refused = false;
        let mut accept = |index: usize| match self.predicates[index].check(request) {
            PredicateMatch::Holds => true,
            PredicateMatch::OtherMethod => {
                is_method_refused = true;
                note(index, Unmet::Method);
                false
            }
            PredicateMatch::Fails(unmet) => {
                note(index, unmet);
                false
            }
        };
        let found = self.hosts.find_map(request.host, |root| {
            self.trie.find(root, request.path, &mut accept)
        });
        match found {
            Some(index) => Ok(index),
            None if is_method_refused => Err(NoRoute::MethodNotAllowed),
            None => Err(NoRoute::NotFound),
        }
    }

    /// The methods with which `request` would have a route, in alphabetical order.
    ///
    /// Each is tried in turn, so that `Allow` can't disagree with [`Router::route`]. When the
    /// result was [`NoRoute::MethodNotAllowed`], there is at least one.
    pub fn allowed_methods<'a>(&'a self, request: RouteQuery<'a>) -> impl Iterator<Item = &'a str> {
        let is_allowed = move |method: &&str| {
            self.route(&RouteQuery {
                method: method.as_bytes(),
                preflight: None,
                ..request
            })
            .is_ok()
        };
        self.methods.iter().map(String::as_str).filter(is_allowed)
    }
}
