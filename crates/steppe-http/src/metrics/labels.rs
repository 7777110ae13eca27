//! The names that the gateway's series carry: listeners, routes, upstreams and filters.

use crate::config::{Filter, FilterKind, Gateway};

/// The label of a request that matched no route or reached no upstream.
pub const NONE: &str = "-";

/// Names that series carry, by index as in the configuration.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Addresses of listeners.
    pub listeners: Vec<String>,
    /// Routes.
    pub routes: Vec<RouteLabels>,
    /// Names of upstreams.
    pub upstreams: Vec<String>,
    /// Names of filters.
    pub filters: Vec<String>,
    /// Indexes of those that compress.
    pub compressing: Vec<usize>,
}

/// Names of one route.
#[derive(Debug, Clone)]
pub struct RouteLabels {
    /// The route's name.
    pub name: String,
    /// Index of its upstream, if it has one.
    pub upstream: Option<usize>,
}

impl Labels {
    /// The identity of each route's series: the names of the route and of its upstream.
    pub(super) fn route_keys(&self) -> Vec<(&str, Option<&str>)> {
        let upstream = |index: usize| self.upstreams.get(index).map(String::as_str);
        let routes = self.routes.iter();
        routes
            .map(|route| (route.name.as_str(), route.upstream.and_then(upstream)))
            .collect()
    }

    /// The names in a configuration.
    #[must_use]
    pub fn of(gateway: &Gateway) -> Self {
        let route = |route: &crate::config::Route| RouteLabels {
            name: route.name.clone(),
            upstream: route.target.upstream(),
        };
        Self {
            listeners: gateway
                .listeners
                .iter()
                .map(|listener| listener.address.to_string())
                .collect(),
            routes: gateway.routes.iter().map(route).collect(),
            upstreams: gateway
                .upstreams
                .iter()
                .map(|upstream| upstream.name.clone())
                .collect(),
            filters: gateway
                .filters
                .iter()
                .map(|filter| filter.name.clone())
                .collect(),
            compressing: {
                let filters = gateway.filters.iter().enumerate();
                let is_one = |filter: &Filter| matches!(filter.kind, FilterKind::Compress(_));
                filters
                    .filter_map(|(index, filter)| is_one(filter).then_some(index))
                    .collect()
            },
        }
    }
}
