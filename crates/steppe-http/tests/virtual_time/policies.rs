//! Policies that count by time: rates, and the budget of retries.

use steppe_http::config::{Filter, FilterKind, Rate, RateKey, RateLimit, Retry, RetryOn};
use steppe_testkit::virtual_time::{pass, run};

use super::site::{GET, OK, Origin, Plan, SORRY, Site, saying};
use super::{millis, seconds};

#[test]
fn a_bucket_fills_with_time_and_no_further_than_its_burst() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.filters = vec![Filter {
            name: "limit".to_owned(),
            kind: FilterKind::RateLimit(RateLimit {
                name: "limit".to_owned(),
                rate: Some(Rate {
                    requests: 6,
                    per: seconds(60),
                    burst: 3,
                }),
                concurrent: None,
                key: RateKey::Route,
                prefix: (32, 64),
                entries: 64,
                store: None,
            }),
        }];
        let mut site = Site::start(plan, [(origin, saying(OK))]);
        assert_eq!(site.statuses(4).await, [200, 200, 200, 429]);
        let refused = site.ask(GET).await;
        assert!(refused.contains("\r\nretry-after: 10\r\n"), "{refused}");
        pass(seconds(10) - millis(20)).await;
        assert_eq!(site.status().await, 429);
        pass(millis(20)).await;
        assert_eq!(site.statuses(2).await, [200, 429]);
        pass(seconds(20)).await;
        assert_eq!(site.statuses(3).await, [200, 200, 429]);
        pass(seconds(120)).await;
        assert_eq!(site.statuses(4).await, [200, 200, 200, 429]);
    });
}

/// Three for each second of a window of ten, however few requests there are.
const RETRIES: u64 = 30;

#[test]
fn the_budget_of_retries_comes_back_after_its_window() {
    run(async {
        let origins = [(); 2].map(|()| Origin::bind());
        let mut plan = Plan::new(&origins.each_ref());
        plan.servers.retry = Some(Retry {
            attempts: 1,
            on: RetryOn::UNAVAILABLE,
            budget: 0.0,
        });
        let mut site = Site::start(plan, origins.map(|origin| (origin, saying(SORRY))));
        for allowed in [RETRIES, 2 * RETRIES] {
            for _ in 0..RETRIES + 10 {
                assert_eq!(site.status().await, 503);
            }
            let report = site.report();
            let denied = allowed / 3;
            assert_eq!(
                (report.retries_tried, report.retries_denied),
                (allowed, denied)
            );
            pass(seconds(11)).await;
        }
    });
}
