//! Shares of draws, and bounds on them.
//!
//! A bound is stated for as many draws as are judged when the statistics changed. For fewer draws it
//! allows the deviation that chance causes in statistics that keep the bound, by a binomial distribution.

/// A share of the draws.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub hits: u64,
    pub draws: u64,
}

impl Share {
    pub fn of<T>(all: &[T], is_so: impl Fn(&T) -> bool) -> Self {
        Self {
            hits: all.iter().filter(|one| is_so(one)).count() as u64,
            draws: all.len() as u64,
        }
    }

    pub fn percent(self) -> f64 {
        100.0 * self.hits as f64 / self.draws as f64
    }

    fn others(self) -> Self {
        Self {
            hits: self.draws - self.hits,
            ..self
        }
    }

    /// True if at most `percent` of `all` draws are hits, or as few of fewer draws as chance allows.
    ///
    /// The chance of a hit is taken to be the greatest one that breaks the bound in `all` draws with the
    /// probability [`RARE`] at most. The probability of at least this many hits must be above [`RARE`].
    pub fn is_at_most(self, percent: f64, all: u64) -> bool {
        let is_within = |hits: &u64| *hits as f64 * 100.0 <= percent * all as f64 + 1e-9;
        let most = (0..=all).take_while(is_within).last().unwrap_or(0);
        self.hits == 0 || tail(self.hits, self.draws, greatest_chance(most, all)) > RARE
    }

    pub fn is_at_least(self, percent: f64, all: u64) -> bool {
        self.others().is_at_most(100.0 - percent, all)
    }
}

const RARE: f64 = 0.001;

/// The greatest chance with which more than `most` hits in `draws` draws are rare.
fn greatest_chance(most: u64, draws: u64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if tail(most + 1, draws, middle) <= RARE {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The probability of at least `hits` hits, of the binomial distribution.
fn tail(hits: u64, draws: u64, chance: f64) -> f64 {
    let log_factorial = |of: u64| (1..=of).map(|factor| (factor as f64).ln()).sum::<f64>();
    let Some(others) = draws.checked_sub(hits) else {
        return 0.0;
    };
    let log_odds = (chance / (1.0 - chance)).ln();
    let log_choices = log_factorial(draws) - log_factorial(hits) - log_factorial(others);
    let mut log = log_choices + hits as f64 * log_odds + draws as f64 * (1.0 - chance).ln();
    let mut sum = 0.0;
    for count in hits..=draws {
        sum += log.exp();
        log += ((draws - count) as f64 / (count + 1) as f64).ln() + log_odds;
    }
    sum
}

#[test]
fn a_bound_is_exact_for_all_draws_and_allows_fewer_what_chance_does() {
    const MANY: u64 = 1_000;
    const FEW: u64 = 50;
    let is_within = |hits, draws| Share { hits, draws }.is_at_most(4.0, MANY);
    assert!(is_within(40, MANY) && !is_within(41, MANY));
    // A chance of 2.5 %: seven of 50 are as rare as 41 of 1,000.
    assert!(is_within(6, FEW) && !is_within(7, FEW));
    let half = Share { hits: 5, draws: 10 };
    assert!((tail(5, 10, 0.5) - 638.0 / 1024.0).abs() < 1e-12);
    assert!(half.is_at_least(50.0, 10) && !half.is_at_least(60.0, 10));
}
