//! Tables of upstreams, with the keys of a file.

use serde_json::{Value, json};
use steppe_http::config::{Balance, Health, Outlier, Retry, Server, Sticky};

use super::percent_text;
use crate::config::grammar::duration_text;

pub(super) fn server(server: &Server) -> Value {
    let address = server.address.to_string();
    match server.weight {
        1 => json!(address),
        weight => json!({ "address": address, "weight": weight }),
    }
}

pub(super) fn hash_on(balance: &Balance) -> Option<String> {
    match balance {
        Balance::RingHash(on) => Some(on.to_string()),
        _ => None,
    }
}

pub(super) fn sticky(sticky: &Sticky) -> Value {
    json!({ "cookie": sticky.cookie, "ttl": duration_text(sticky.ttl) })
}

pub(super) fn health(health: &Health) -> Value {
    json!({
        "path": health.path,
        "interval": duration_text(health.interval),
        "timeout": duration_text(health.timeout),
        "healthy_after": health.healthy_after,
        "unhealthy_after": health.unhealthy_after,
        "expect": health.expect.to_string(),
    })
}

pub(super) fn outlier(outlier: &Outlier) -> Value {
    json!({
        "consecutive_failures": outlier.consecutive_failures,
        "ejection": duration_text(outlier.ejection),
        "max_ejected": percent_text(outlier.max_ejected),
    })
}

pub(super) fn retry(retry: &Retry) -> Value {
    json!({
        "attempts": retry.attempts,
        "on": retry.on.names().collect::<Vec<_>>(),
        "budget": percent_text(retry.budget),
    })
}
