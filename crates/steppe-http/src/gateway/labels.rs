//! The names of a configuration, for its series.

use crate::config::{Filter, FilterKind, Gateway, Route};
use crate::metrics::{Labels, RouteLabels};

impl From<&Gateway> for Labels {
    /// The names in a configuration.
    fn from(gateway: &Gateway) -> Self {
        let route = |route: &Route| RouteLabels {
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
