//! Plans: the cache settings of each upstream, without a rule and with each cache policy of the
//! rules.

use std::time::Duration;

use super::views::{Origin, Views};
use crate::cache::ServePolicy;
use crate::cache::snapshot::View;
use crate::config::{CachePolicy, Forwarder, Rule, Stale, StalePolicy, Upstream};
use crate::wire::TtlPolicy;

/// Settings for caching and serving an upstream's responses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// View of the cache: separates upstreams, and responses of an upstream that are cached in different ways.
    pub(crate) view: u16,
    pub(crate) serve: ServePolicy,
    pub(crate) ttl: TtlPolicy,
    /// Wait for servers before a stale response is served.
    pub(crate) stale_after: Duration,
    pub(crate) keeps: Keeps,
}

/// Kind of an upstream's responses that are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// All cacheable responses.
    Responses,
    /// Failures of servers only.
    Failures,
}

/// The plans of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct Plans {
    /// Plans of all upstreams without a rule's policy, then with the first policy, and so on.
    plans: Vec<Plan>,
    upstreams: usize,
    /// Number of the policy from 1, by rule; 0 for none.
    policies: Vec<usize>,
}

impl Plans {
    pub(super) fn new(config: &Forwarder, views: &mut Views) -> Self {
        let distinct = CachePolicy::distinct(&config.rules);
        let policies = config.rules.iter().map(|rule| {
            let found = distinct.iter().position(|it| Some(*it) == rule.cache);
            found.map_or(0, |index| index + 1)
        });
        let of_all = std::iter::once(&CachePolicy::USUAL).chain(&distinct);
        let pairs: Vec<(&Upstream, CachePolicy)> = of_all
            .flat_map(|policy| config.upstreams.iter().map(move |it| (it, *policy)))
            .collect();
        let origins = pairs.iter().map(|(upstream, policy)| Origin {
            source: upstream.source(),
            kept: policy.of_what_is_kept(),
        });
        let views = views.renew(origins);
        let plan = |(pair, view): (&(&Upstream, CachePolicy), u16)| Plan::new(config, *pair, view);
        Self {
            plans: pairs.iter().zip(views).map(plan).collect(),
            upstreams: config.upstreams.len(),
            policies: policies.collect(),
        }
    }

    /// The plan of an upstream for a query under the cache policy of this rule.
    pub(crate) fn of(&self, upstream: usize, rule: Option<usize>) -> Option<Plan> {
        let policy = rule.and_then(|rule| self.policies.get(rule).copied());
        let at = policy.unwrap_or_default() * self.upstreams + upstream;
        self.plans.get(at).copied()
    }

    /// The plans of all upstreams without a rule's policy.
    pub(crate) fn usual(&self) -> impl Iterator<Item = Plan> {
        self.plans.iter().take(self.upstreams).copied()
    }

    /// The views of all plans, in their order.
    pub(super) fn views(&self) -> Vec<View> {
        let view = |plan: &Plan| View {
            number: plan.view,
            ttl: plan.ttl,
            serve: plan.serve,
        };
        self.plans.iter().map(view).collect()
    }
}

impl CachePolicy {
    /// The distinct policies of rules, in the order of the rules.
    pub(crate) fn distinct(rules: &[Rule]) -> Vec<Self> {
        let mut distinct = Vec::new();
        for policy in rules.iter().filter_map(|rule| rule.cache) {
            if !distinct.contains(&policy) {
                distinct.push(policy);
            }
        }
        distinct
    }
}

impl Plan {
    fn new(config: &Forwarder, (upstream, policy): (&Upstream, CachePolicy), view: u16) -> Self {
        let (cache, bounds) = (&config.cache, policy.bounds());
        let serve_stale = match bounds.serve_stale {
            None => cache.serve_stale,
            Some(StalePolicy::Off) => None,
            Some(StalePolicy::Served(stale)) => Some(stale),
        };
        let stale = serve_stale.map_or(0, |stale| seconds(stale.up_to));
        let negatives_too = serve_stale.is_some_and(|stale| stale.only == Stale::All);
        let max = bounds.max_ttl.or(upstream.max_ttl).unwrap_or(cache.max_ttl);
        let negative_max = bounds.negative_ttl_max.unwrap_or(cache.negative_ttl_max);
        Self {
            view,
            serve: ServePolicy {
                stale_positive: stale,
                stale_negative: if negatives_too { stale } else { 0 },
                prefetch_percent: cache.prefetch_percent,
            },
            ttl: TtlPolicy {
                min: seconds(bounds.min_ttl.unwrap_or(cache.min_ttl).min(max)),
                max: seconds(max),
                negative_max: seconds(negative_max),
            },
            stale_after: serve_stale.map(|stale| stale.after).unwrap_or_default(),
            keeps: match policy {
                CachePolicy::Off => Keeps::Failures,
                CachePolicy::Kept(_) => Keeps::Responses,
            },
        }
    }
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Action, CacheBounds, ServeStale, Server, Transport};

    fn kept(change: impl FnOnce(&mut CacheBounds)) -> CachePolicy {
        let mut bounds = CacheBounds::default();
        change(&mut bounds);
        CachePolicy::Kept(bounds)
    }

    fn config(policies: &[CachePolicy]) -> Forwarder {
        let server = Server::at(Transport::Udp, ([192, 0, 2, 1], 53).into());
        let upstream = |name| Upstream::of(name, vec![server.clone()]);
        let rules = policies.iter().map(|policy| Rule {
            cache: Some(*policy),
            ..Rule::new(Action::Forward(0))
        });
        Forwarder {
            upstreams: vec![upstream("a"), upstream("b")],
            rules: rules.chain([Rule::new(Action::Forward(1))]).collect(),
            ..Forwarder::default()
        }
    }

    fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn a_policy_takes_the_place_of_what_upstream_and_cache_say() {
        let stale = ServeStale {
            up_to: Duration::from_secs(60),
            after: Duration::from_secs(1),
            only: Stale::All,
        };
        let mut config = config(&[
            kept(|it| it.max_ttl = secs(10)),
            kept(|it| (it.min_ttl, it.negative_ttl_max) = (secs(5), secs(6))),
            kept(|it| it.serve_stale = Some(StalePolicy::Served(stale))),
            kept(|it| it.serve_stale = Some(StalePolicy::Off)),
            CachePolicy::Off,
        ]);
        config.upstreams[1].max_ttl = secs(30);
        config.cache.serve_stale = Some(ServeStale {
            only: Stale::Positive,
            ..stale
        });
        let plans = Plans::new(&config, &mut Views::default());
        let of = |upstream, rule| plans.of(upstream, rule).expect("there is one");
        let ttl = |plan: Plan| (plan.ttl.min, plan.ttl.max, plan.ttl.negative_max);
        assert_eq!(ttl(of(0, None)), (0, 86_400, 3600));
        assert_eq!(ttl(of(1, Some(5))), (0, 30, 3600), "a rule without one");
        assert_eq!(ttl(of(0, Some(0))), (0, 10, 3600));
        assert_eq!(ttl(of(1, Some(0))), (0, 10, 3600));
        assert_eq!(ttl(of(1, Some(1))), (5, 30, 6));
        let stale = |rule| {
            let plan = of(0, Some(rule));
            (plan.serve.stale_positive, plan.serve.stale_negative)
        };
        assert_eq!([stale(0), stale(2), stale(3)], [(60, 0), (60, 60), (0, 0)]);
        assert_eq!(of(0, Some(3)).stale_after, Duration::ZERO);
        assert_eq!(of(0, Some(4)).keeps, Keeps::Failures);
        assert_eq!(of(0, Some(3)).keeps, Keeps::Responses);
    }

    #[test]
    fn what_is_kept_in_another_way_has_another_view_and_keeps_it() {
        let short = kept(|it| it.max_ttl = secs(10));
        let unstale = kept(|it| it.serve_stale = Some(StalePolicy::Off));
        let mut views = Views::default();
        let first = config(&[short, CachePolicy::Off, unstale]);
        let plans = Plans::new(&first, &mut views);
        let view = |plans: &Plans, rule| plans.of(0, rule).expect("there is one").view;
        let [usual, of_short] = [None, Some(0)].map(|rule| view(&plans, rule));
        assert_ne!(usual, of_short);
        assert_ne!(view(&plans, Some(1)), usual);
        assert_eq!(view(&plans, Some(2)), usual, "it is served in another way");
        assert_ne!(plans.of(1, Some(0)).expect("there is one").view, of_short);
        let second = config(&[CachePolicy::Off, short]);
        let plans = Plans::new(&second, &mut views);
        assert_eq!(view(&plans, Some(1)), of_short);
        assert_eq!(view(&plans, None), usual);
    }
}
