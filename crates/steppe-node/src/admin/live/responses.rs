//! Responses by route and by upstream: totals, and the error rate of the last minute.
//!
//! A response of the gateway itself counts for its route. Where it is a 5xx, such as 502 after a
//! refused connection, it counts for the route's upstream too, in a column of its own.
//!
//! Invariant: a table has [`ROWS_MAX`] rows. Rows with the most errors of the last minute come
//! first; without errors they keep the order of the configuration.

use std::cmp::Reverse;
use std::time::Instant;

use serde_json::{Value, json};
use steppe_http::metrics::{ByClass, RouteResponses};

use super::window::{Name, Window};
use crate::admin::rate::{per_second, share};

/// Rows of one table in an event: the size of an event is bounded in any configuration.
pub(super) const ROWS_MAX: usize = 50;

/// Responses, and those of two status classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    all: u64,
    client_errors: u64,
    server_errors: u64,
}

/// Responses of one route, by origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Origins {
    /// Responses of the upstream.
    forwarded: Counts,
    /// Responses of the gateway itself.
    local: Counts,
}

/// Kinds of counts that a window keeps for a route.
pub(super) const KINDS: usize = 6;

/// A row of a table: totals, and their growth in the last minute.
#[derive(Debug, Clone)]
struct Row<'a> {
    name: &'a str,
    upstream: Option<&'a str>,
    total: Origins,
    recent: Option<Origins>,
}

/// Totals for [`Window::mark`].
pub(super) fn totals(routes: &[RouteResponses]) -> Vec<(Name, [u64; KINDS])> {
    let total = |route| (name(route), Origins::of(route).to_array());
    routes.iter().map(total).collect()
}

/// Both tables, and the sum of all routes.
pub(super) fn report(routes: &[RouteResponses], window: &Window<KINDS>, now: Instant) -> Value {
    let rows = rows(routes, window);
    let seconds = window.length(now).map(|length| length.as_secs_f64());
    let per_second = |count: u64| per_second(count, seconds);
    let sum = rows.iter().fold(None, |sum: Option<Origins>, row| {
        let recent = row.recent?;
        Some(sum.unwrap_or_default().plus(recent))
    });
    let upstreams = upstreams(&rows);
    // Requests without a route are rare, and their row is noise until there are some.
    let shown = rows.into_iter().enumerate();
    let shown = shown.filter(|(index, row)| *index > 0 || row.total.sum().all > 0);
    let (routes, routes_left_off) = table(shown.map(|(_, row)| row).collect(), |row| {
        let recent = row.recent.map(Origins::sum);
        json!({
            "name": row.name,
            "upstream": row.upstream,
            "requests": row.total.sum().all,
            "4xx": row.total.sum().client_errors,
            "5xx": row.total.sum().server_errors,
            "last_minute": recent.map(|recent| recent.to_json(per_second(recent.all))),
        })
    });
    let (upstreams, upstreams_left_off) = table(upstreams, |row| {
        json!({
            "name": row.name,
            "responses": row.total.forwarded.all,
            "4xx": row.total.forwarded.client_errors,
            "5xx": row.total.forwarded.server_errors,
            "gateway_5xx": row.total.local.server_errors,
            "last_minute": row.recent.map(|recent| recent.of_upstream(per_second)),
        })
    });
    json!({
        "last_minute": sum.map(|sum| sum.sum().to_json(per_second(sum.sum().all))),
        "routes": routes,
        "routes_left_off": routes_left_off,
        "upstreams": upstreams,
        "upstreams_left_off": upstreams_left_off,
    })
}

fn name(route: &RouteResponses) -> Name {
    Name::of((&route.route, &route.upstream))
}

fn rows<'a>(routes: &'a [RouteResponses], window: &Window<KINDS>) -> Vec<Row<'a>> {
    let row = |(index, route): (usize, &'a RouteResponses)| {
        let total = Origins::of(route);
        let growth = window.growth((index, name(route)), total.to_array());
        Row {
            name: &route.route,
            upstream: route.upstream.as_deref(),
            total,
            recent: growth.map(Origins::from_array),
        }
    };
    routes.iter().enumerate().map(row).collect()
}

/// Sums of the routes of each upstream.
fn upstreams<'a>(routes: &[Row<'a>]) -> Vec<Row<'a>> {
    let mut upstreams: Vec<Row<'a>> = Vec::new();
    for route in routes {
        let Some(name) = route.upstream else { continue };
        let known = upstreams.iter_mut().find(|known| known.name == name);
        let Some(known) = known else {
            upstreams.push(Row {
                name,
                ..route.clone()
            });
            continue;
        };
        known.total = known.total.plus(route.total);
        let recent = known.recent.zip(route.recent);
        known.recent = recent.map(|(known, route)| known.plus(route));
    }
    upstreams
}

/// The rows to show, and the number left off.
fn table(mut rows: Vec<Row<'_>>, to_json: impl Fn(&Row<'_>) -> Value) -> (Vec<Value>, usize) {
    rows.sort_by_key(|row| {
        let counts = row.recent.unwrap_or(row.total).sum();
        Reverse((counts.server_errors, counts.client_errors))
    });
    let shown = rows.iter().take(ROWS_MAX).map(to_json).collect();
    (shown, rows.len().saturating_sub(ROWS_MAX))
}

impl Counts {
    fn of(by_class: &ByClass) -> Self {
        Self {
            all: by_class.iter().sum(),
            client_errors: by_class[3],
            server_errors: by_class[4],
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            client_errors: self.client_errors + other.client_errors,
            server_errors: self.server_errors + other.server_errors,
        }
    }

    fn to_json(self, per_second: f64) -> Value {
        json!({
            "requests_per_second": per_second,
            "4xx": self.client_errors,
            "5xx": self.server_errors,
            "error_rate": share(self.server_errors, self.all),
        })
    }
}

impl Origins {
    fn of(route: &RouteResponses) -> Self {
        Self {
            forwarded: Counts::of(&route.forwarded),
            local: Counts::of(&route.local),
        }
    }

    fn sum(self) -> Counts {
        self.forwarded.plus(self.local)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            forwarded: self.forwarded.plus(other.forwarded),
            local: self.local.plus(other.local),
        }
    }

    /// The row of an upstream. The error rate has the gateway's 5xx in numerator and denominator:
    /// an upstream that accepts no connection has no responses of its own.
    fn of_upstream(self, per_second: impl Fn(u64) -> f64) -> Value {
        let failures = self.local.server_errors;
        let errors = self.forwarded.server_errors + failures;
        json!({
            "responses_per_second": per_second(self.forwarded.all),
            "4xx": self.forwarded.client_errors,
            "5xx": self.forwarded.server_errors,
            "gateway_5xx": failures,
            "error_rate": share(errors, self.forwarded.all + failures),
        })
    }

    fn to_array(self) -> [u64; KINDS] {
        let Self { forwarded, local } = self;
        [
            forwarded.all,
            forwarded.client_errors,
            forwarded.server_errors,
            local.all,
            local.client_errors,
            local.server_errors,
        ]
    }

    fn from_array(counts: [u64; KINDS]) -> Self {
        let of = |at: usize| Counts {
            all: counts[at],
            client_errors: counts[at + 1],
            server_errors: counts[at + 2],
        };
        Self {
            forwarded: of(0),
            local: of(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steppe_mem::Budget;

    use super::*;

    fn route(
        name: &str,
        upstream: Option<&str>,
        forwarded: ByClass,
        local: ByClass,
    ) -> RouteResponses {
        RouteResponses {
            route: name.to_owned(),
            upstream: upstream.map(str::to_owned),
            forwarded,
            local,
        }
    }

    fn window() -> Window<KINDS> {
        Window::new(Budget::new(1 << 20).root().lease())
    }

    const NONE: [u64; 5] = [0; 5];

    #[test]
    fn errors_are_counted_by_route_and_by_upstream() {
        let before = [
            route("-", None, NONE, [0, 0, 0, 5, 0]),
            route("site", Some("files"), [0, 1000, 0, 0, 0], NONE),
            route("api", Some("api"), [0, 900, 0, 50, 50], [0, 0, 0, 7, 1]),
            route("api-v2", Some("api"), NONE, NONE),
        ];
        let mut window = window();
        let start = Instant::now();
        window.mark(start, &totals(&before));
        let mut now = before.clone();
        now[1].forwarded[1] += 500;
        now[2].forwarded[1] += 89;
        now[2].forwarded[4] += 1;
        now[2].local[3] += 8;
        now[2].local[4] += 2;
        now[3].forwarded[1] += 100;
        let report = report(&now, &window, start + Duration::from_secs(50));
        let names = |table: &str| {
            let rows = report[table].as_array().expect("rows").iter();
            rows.map(|row| row["name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("routes"), ["api", "-", "site", "api-v2"]);
        assert_eq!(
            report["routes"][0],
            json!({
                "name": "api", "upstream": "api", "requests": 1108, "4xx": 65, "5xx": 54,
                "last_minute": {
                    "requests_per_second": 2.0, "4xx": 8, "5xx": 3, "error_rate": 0.03,
                },
            })
        );
        assert_eq!(names("upstreams"), ["api", "files"]);
        assert_eq!(
            report["upstreams"][0],
            json!({
                "name": "api", "responses": 1190, "4xx": 50, "5xx": 51, "gateway_5xx": 3,
                "last_minute": {
                    "responses_per_second": 3.8, "4xx": 0, "5xx": 1, "gateway_5xx": 2,
                    "error_rate": 0.0156,
                },
            })
        );
        assert_eq!(
            report["last_minute"],
            json!({
                "requests_per_second": 14.0, "4xx": 8, "5xx": 3, "error_rate": 0.0043,
            })
        );
    }

    #[test]
    fn without_traffic_there_is_no_error_rate_and_no_row_of_requests_without_a_route() {
        let routes = [
            route("-", None, NONE, NONE),
            route("site", Some("files"), NONE, NONE),
        ];
        let mut window = window();
        let now = Instant::now();
        let unmarked = report(&routes, &window, now);
        assert_eq!(unmarked["last_minute"], Value::Null);
        assert_eq!(unmarked["routes"][0]["last_minute"], Value::Null);
        window.mark(now, &totals(&routes));
        let report = report(&routes, &window, now);
        assert_eq!(report["routes"].as_array().map(Vec::len), Some(1));
        for table in ["routes", "upstreams"] {
            let recent = &report[table][0]["last_minute"];
            assert_eq!(recent["error_rate"], Value::Null, "{report}");
        }
    }

    #[test]
    fn a_table_has_a_bound_and_keeps_the_rows_with_errors() {
        let mut routes: Vec<_> = (0..ROWS_MAX + 10)
            .map(|number| route(&format!("route {number}"), Some("api"), NONE, NONE))
            .collect();
        routes.insert(0, route("-", None, NONE, NONE));
        routes[ROWS_MAX + 5].local[4] = 1;
        let report = report(&routes, &window(), Instant::now());
        let rows = report["routes"].as_array().expect("rows");
        assert_eq!(
            (rows.len(), &report["routes_left_off"]),
            (ROWS_MAX, &json!(10))
        );
        assert_eq!(rows[0]["name"], format!("route {}", ROWS_MAX + 4));
        assert_eq!(rows[1]["name"], "route 0");
        assert_eq!(report["upstreams_left_off"], 0);
    }
}
