//! An exchange for tests of filters.

use std::time::Instant;

use steppe_mem::{Budget, Lease};
use steppe_net::ListenAddress;

use super::{About, Filter, Identity, Step};
use crate::explain::Nobody;
use crate::head::RequestHead;
use crate::respond::Respond;

/// An exchange of the route `r` that a filter sees the beginning of.
pub(super) struct Exchange {
    pub(super) client: &'static str,
    pub(super) identity: Identity,
    pub(super) now: Instant,
    lease: Lease,
}

impl Exchange {
    pub(super) fn new() -> Self {
        Self {
            client: "192.0.2.1",
            identity: Identity::default(),
            now: Instant::now(),
            lease: Budget::new(16 << 20).root().lease(),
        }
    }

    /// Of a request with these field lines.
    pub(super) fn head(&self, target: &str, lines: &[(&str, &str)]) -> RequestHead {
        let head = RequestHead::new(b"GET", b"a.test", target.as_bytes(), &self.lease);
        let mut head = head.expect("a head");
        for (name, value) in lines {
            let added = head.fields.append(name.as_bytes(), value.as_bytes());
            added.expect("room");
        }
        head
    }

    pub(super) fn begin(&self, filter: &dyn Filter, head: &mut RequestHead) -> Step {
        let about = About {
            client: self.client.parse().expect("an address"),
            listener: &ListenAddress::Tcp(([127, 0, 0, 1], 80).into()),
            route: "r",
            lease: &self.lease,
            identity: &self.identity,
            pool: None,
            scheme: "http",
            behind: &Nobody,
            now: self.now,
        };
        filter.begin(&about, head).expect("no failure")
    }
}

/// The response that a filter gives by itself.
#[track_caller]
pub(super) fn responded(step: Step) -> Respond {
    match step {
        Step::Respond(respond) => respond,
        step => panic!("{step:?}"),
    }
}

/// The value of a field of a response.
pub(super) fn field<'a>(respond: &'a Respond, wanted: &str) -> Option<&'a str> {
    let mut fields = respond.fields.iter();
    let found = fields.find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_str())
}
