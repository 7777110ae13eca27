//! The names that the gateway's series carry: listeners, routes, upstreams and filters.

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
}
