//! Responses by route and status class, read from the cells that `steppe_http_requests` has.

use steppe_telemetry::Counter;

use super::HttpMetrics;
use super::cells::{CLASSES, RouteCells};

/// Counts by status class, 1xx first.
pub type ByClass = [u64; CLASSES.len()];

/// Responses of one route since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteResponses {
    /// The route's name; [`NONE`](super::NONE): requests that matched no route.
    pub route: String,
    /// The name of its upstream, if it has one.
    pub upstream: Option<String>,
    /// Responses from the upstream.
    pub forwarded: ByClass,
    /// Responses that the gateway generated itself.
    pub local: ByClass,
}

impl HttpMetrics {
    /// Responses of each route: first those of requests without a route, then the routes in the
    /// order of the configuration.
    #[must_use]
    pub fn responses(&self) -> Vec<RouteResponses> {
        let generation = self.generation();
        let sum = |index: usize, counters: fn(&RouteCells) -> &[Counter; CLASSES.len()]| {
            std::array::from_fn(|class| {
                generation.route_sum(index, |cells| counters(cells)[class].value())
            })
        };
        let routes = generation.route_names();
        routes
            .map(|(index, route, upstream)| RouteResponses {
                route: route.to_owned(),
                upstream: upstream.map(str::to_owned),
                forwarded: sum(index, |cells| &cells.forwarded),
                local: sum(index, |cells| &cells.answered),
            })
            .collect()
    }

    /// Responses of all routes.
    #[must_use]
    pub fn responses_by_class(&self) -> ByClass {
        let generation = self.generation();
        let mut sums = ByClass::default();
        for cells in generation.workers.cells().flat_map(|cells| &cells.routes) {
            for (class, sum) in sums.iter_mut().enumerate() {
                *sum += cells.forwarded[class].value() + cells.answered[class].value();
            }
        }
        sums
    }
}
