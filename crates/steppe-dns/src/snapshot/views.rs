//! Views of the cache: an entry of one view is never an answer in another.
//!
//! Invariant: two upstreams never share a view. An upstream with a cache policy keeps its view
//! over reloads, as long as everything that its responses depend on stays the same.

use crate::config::{CachePolicy, Source};

/// Everything beside the question that a cached response depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) source: Source,
    /// Cache policy of the rules, as far as it affects stored entries.
    pub(super) kept: CachePolicy,
}

/// Assignment of views to origins. An origin keeps its view while it is configured, in any order
/// of origins.
#[derive(Debug, Clone, Default)]
pub(super) struct Views {
    known: Vec<(Origin, u16)>,
    next: u16,
}

impl Views {
    /// The views of these origins. Other origins are forgotten; their numbers are not reused soon.
    pub(super) fn renew(&mut self, origins: impl Iterator<Item = Origin>) -> Vec<u16> {
        let known = std::mem::take(&mut self.known);
        let mut views = Vec::new();
        for origin in origins {
            let mut drawn = self.known.iter().chain(&known);
            let before = drawn.find(|(known, _)| *known == origin);
            let before = before.map(|(_, view)| *view);
            let view = before.unwrap_or_else(|| self.draw(&known));
            views.push(view);
            self.known.push((origin, view));
        }
        views
    }

    fn draw(&mut self, known: &[(Origin, u16)]) -> u16 {
        loop {
            let drawn = self.next;
            self.next = self.next.wrapping_add(1);
            let mut taken = known.iter().chain(&self.known);
            if !taken.any(|(_, view)| *view == drawn) {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{
        Addresses, CaseRandomization, ClientSubnet, Policy, Server, Transport, Truncated, Upstream,
    };

    fn server(port: u16) -> Server {
        Server::at(Transport::Udp, ([192, 0, 2, 1], port).into())
    }

    fn upstream(change: impl FnOnce(&mut Upstream)) -> Upstream {
        let mut upstream = Upstream::of("a", vec![server(53)]);
        change(&mut upstream);
        upstream
    }

    fn renewed(views: &mut Views, upstreams: &[&Upstream]) -> Vec<u16> {
        let origins = upstreams.iter().map(|upstream| Origin {
            source: upstream.source(),
            kept: CachePolicy::USUAL,
        });
        views.renew(origins)
    }

    #[test]
    fn an_upstream_keeps_its_view_while_only_how_it_is_asked_changes() {
        let mut views = Views::default();
        let plain = upstream(|_| ());
        let first = renewed(&mut views, &[&plain]);
        for same in [
            upstream(|it| it.policy = Policy::Race),
            upstream(|it| it.concurrent = 3),
            upstream(|it| it.timeout = Duration::from_secs(9)),
            upstream(|it| it.truncated = Truncated::Pass),
            upstream(|it| it.case = CaseRandomization::Off),
            upstream(|it| it.bootstrap = vec![([192, 0, 2, 53], 53).into()]),
        ] {
            assert_eq!(renewed(&mut views, &[&same]), first);
        }
        for other in [
            upstream(|it| it.name = "b".to_owned()),
            upstream(|it| it.servers = vec![server(54)]),
            upstream(|it| it.addresses = Addresses::Any),
            upstream(|it| it.max_ttl = Some(Duration::from_secs(30))),
            upstream(|it| it.trust.verify = false),
            upstream(|it| it.client_subnet = ClientSubnet::Pass),
        ] {
            let of_plain = renewed(&mut views, &[&plain]);
            assert_ne!(renewed(&mut views, &[&other]), of_plain);
        }
    }

    #[test]
    fn upstreams_that_change_places_keep_their_views() {
        let mut views = Views::default();
        let [a, b] = ["a", "b"].map(|name| Upstream::of(name, vec![server(53)]));
        let first = renewed(&mut views, &[&a, &b]);
        assert_ne!(first[0], first[1]);
        assert_eq!(renewed(&mut views, &[&b, &a]), [first[1], first[0]]);
    }
}
