//! Views of the cache: what is kept under one is never an answer under another.
//!
//! Invariant: two upstreams never have one view, and an upstream keeps its own over reloads as long as all
//! that its responses depend on stays as it is.

use crate::config::{Source, Upstream};

/// Which source of responses has had which view: what one said is not another one's answer, however often
/// they change places.
#[derive(Debug, Clone, Default)]
pub(super) struct Views {
    known: Vec<(Source, u16)>,
    next: u16,
}

impl Views {
    /// The views of these upstreams; others are forgotten, and their numbers not used again soon.
    pub(super) fn renew(&mut self, upstreams: &[Upstream]) -> Vec<u16> {
        let known = std::mem::take(&mut self.known);
        for source in upstreams.iter().map(Upstream::source) {
            let before = known.iter().find(|(known, _)| *known == source);
            let view = before.map_or_else(|| self.draw(&known), |(_, view)| *view);
            self.known.push((source, view));
        }
        self.known.iter().map(|(_, view)| *view).collect()
    }

    fn draw(&mut self, known: &[(Source, u16)]) -> u16 {
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
        Addresses, CaseRandomization, ClientSubnet, Policy, Server, Transport, Truncated,
    };

    fn server(port: u16) -> Server {
        Server::at(Transport::Udp, ([192, 0, 2, 1], port).into())
    }

    fn upstream(change: impl FnOnce(&mut Upstream)) -> Upstream {
        let mut upstream = Upstream::of("a", vec![server(53)]);
        change(&mut upstream);
        upstream
    }

    #[test]
    fn an_upstream_keeps_its_view_while_only_how_it_is_asked_changes() {
        let mut views = Views::default();
        let plain = upstream(|_| ());
        let first = views.renew(std::slice::from_ref(&plain));
        for same in [
            upstream(|it| it.policy = Policy::Race),
            upstream(|it| it.concurrent = 3),
            upstream(|it| it.timeout = Duration::from_secs(9)),
            upstream(|it| it.truncated = Truncated::Pass),
            upstream(|it| it.case = CaseRandomization::Off),
            upstream(|it| it.bootstrap = vec![([192, 0, 2, 53], 53).into()]),
        ] {
            assert_eq!(views.renew(&[same]), first);
        }
        for other in [
            upstream(|it| it.name = "b".to_owned()),
            upstream(|it| it.servers = vec![server(54)]),
            upstream(|it| it.addresses = Addresses::Any),
            upstream(|it| it.max_ttl = Some(Duration::from_secs(30))),
            upstream(|it| it.trust.verify = false),
            upstream(|it| it.client_subnet = ClientSubnet::Pass),
        ] {
            let of_plain = views.renew(std::slice::from_ref(&plain));
            assert_ne!(views.renew(&[other]), of_plain);
        }
    }

    #[test]
    fn upstreams_that_change_places_keep_their_views() {
        let mut views = Views::default();
        let [a, b] = ["a", "b"].map(|name| Upstream::of(name, vec![server(53)]));
        let first = views.renew(&[a.clone(), b.clone()]);
        assert_ne!(first[0], first[1]);
        assert_eq!(views.renew(&[b, a]), [first[1], first[0]]);
    }
}
