//! Routes that are never taken: an earlier one has the same predicates.

use std::collections::HashMap;

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_net::ListenAddress;

use crate::config::{ClientCertMatch, HostPattern};
use crate::path::{PathPattern, PatternSegment};

/// Conditions under which a request takes a route, in a form that can be compared.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct RouteConditions {
    pub(super) listeners: Vec<ListenAddress>,
    pub(super) path: Vec<SegmentShape>,
    pub(super) methods: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) query: Vec<(String, String)>,
    pub(super) client_cert: Option<ClientCertMatch>,
}

/// A segment of a path without the name of its capture.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum SegmentShape {
    Literal(Vec<u8>),
    Capture,
    Rest,
}

/// A route whose predicates an earlier one has too is never taken: at equal specificity, the first
/// in the file is.
pub(super) fn check(
    routes: impl Iterator<Item = (Span, Vec<HostPattern>, RouteConditions)>,
    mistakes: &mut Mistakes,
) {
    let mut seen: HashMap<RouteConditions, Group> = HashMap::new();
    for (at, hosts, predicates) in routes {
        let earlier = seen.entry(predicates).or_default();
        match earlier.covering(&hosts) {
            Some(first) => mistakes.push(
                Mistake::new(at, "this route is never taken")
                    .label("has no condition that the other lacks")
                    .also(first, "already matches all of these"),
            ),
            None => earlier.add(hosts, at),
        }
    }
}

/// Routes that differ in their hosts alone.
#[derive(Default)]
struct Group {
    /// The route of every host.
    any_host: Option<Span>,
    /// Places of the routes with hosts; `by_host` has their indexes by host, in ascending order.
    places: Vec<Span>,
    by_host: HashMap<(bool, String), Vec<usize>>,
}

impl Group {
    /// The first route that has each of these hosts, just so: a wildcard covers no name, because
    /// the more specific host wins.
    fn covering(&self, hosts: &[HostPattern]) -> Option<Span> {
        if hosts.is_empty() {
            return self.any_host;
        }
        let having = |host| self.by_host.get(&host_key(host)).map(Vec::as_slice);
        let mut having: Vec<&[usize]> = hosts.iter().map(having).collect::<Option<_>>()?;
        // The rarest host leaves the fewest to look at.
        having.sort_by_key(|routes| routes.len());
        let (rarest, others) = having.split_first()?;
        let has_others = |route: &&usize| {
            others
                .iter()
                .all(|routes| routes.binary_search(route).is_ok())
        };
        rarest
            .iter()
            .find(has_others)
            .map(|&route| self.places[route])
    }

    fn add(&mut self, hosts: Vec<HostPattern>, at: Span) {
        if hosts.is_empty() {
            self.any_host = Some(at);
            return;
        }
        let route = self.places.len();
        self.places.push(at);
        for host in &hosts {
            self.by_host.entry(host_key(host)).or_default().push(route);
        }
    }
}

/// True for a wildcard; and its text.
fn host_key(host: &HostPattern) -> (bool, String) {
    match host {
        HostPattern::Exact(name) => (false, name.clone()),
        HostPattern::Wildcard(suffix) => (true, suffix.clone()),
    }
}

impl SegmentShape {
    pub(super) fn of_path(path: &PathPattern) -> Vec<Self> {
        let segments = path.segments().iter();
        let shapes = segments.map(|segment| match segment {
            PatternSegment::Literal(literal) => Self::Literal(literal.clone()),
            PatternSegment::Capture(_) => Self::Capture,
            PatternSegment::Rest(_) => Self::Rest,
        });
        shapes.collect()
    }
}
