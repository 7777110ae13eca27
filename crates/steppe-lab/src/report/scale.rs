//! Scales from values to places on a chart, and their ticks.
//!
//! Ticks stand at 1, 2 or 5 times a power of ten, of bytes in the unit that suits the axis. An axis
//! is never degenerate: a series that does not move gets room above and below.

use super::figure::{self, Zeros};

/// The quantity of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Bytes in binary units; the unit is told once, beside the axis.
    Bytes,
    /// Microseconds; each tick tells its unit.
    Micros,
    /// Seconds since the start.
    Seconds,
    /// Steps of `ms` milliseconds since the start; ticks tell time.
    Steps { ms: u32 },
    /// A count of things.
    Count,
    /// Any number.
    Plain,
}

impl Quantity {
    /// A value with its unit.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Bytes => figure::bytes(value),
            Self::Micros => figure::micros(value),
            _ => figure::number(value),
        }
    }
}

/// The spread of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    Linear,
    Logarithmic,
}

/// An axis: the values at its two ends, and the places of these ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    spread: Spread,
}

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// The ticks of an axis and the unit they share, if they do.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ticks {
    pub(super) ticks: Vec<Tick>,
    pub(super) unit: &'static str,
}

/// The lowest and the highest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Domain {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Domain {
    /// The domain of the finite `values`; `None` where none is finite.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        finite.fold(None, |domain: Option<Self>, value| {
            Some(domain.map_or(
                Self {
                    low: value,
                    high: value,
                },
                |domain| domain.with(value),
            ))
        })
    }

    /// The union of two domains, or the one that there is.
    pub(super) fn union(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(a), Some(b)) => Some(a.with(b.low).with(b.high)),
            (a, b) => a.or(b),
        }
    }

    /// The domain, widened so that it holds `value`.
    pub(super) fn with(self, value: f64) -> Self {
        Self {
            low: self.low.min(value),
            high: self.high.max(value),
        }
    }

    /// The domain, widened to a share of its highest value at least, so that the noise of a steady
    /// series is not blown up to the height of the chart; and some air around it.
    pub(super) fn padded(self, share_min: f64) -> Self {
        let span_min = (self.high.abs().max(self.low.abs()) * share_min).max(1e-9);
        let missing = (span_min - (self.high - self.low)).max(0.0);
        let air = ((self.high - self.low) + missing) * 0.04 + missing / 2.0;
        let low = self.low - air;
        Self {
            // Values that can't be negative get no axis below zero.
            low: if self.low >= 0.0 { low.max(0.0) } else { low },
            high: self.high + air,
        }
    }

    /// The domain, widened to zero, with some air above.
    pub(super) fn with_zero(self) -> Self {
        let high = self.high.max(0.0);
        Self {
            low: self.low.min(0.0),
            high: if high > 0.0 { high * 1.06 } else { 1.0 },
        }
    }

    /// The domain for a logarithmic axis, widened to at least `factor` from end to end.
    pub(super) fn padded_by_factor(self, factor: f64) -> Self {
        let low = self.low.max(f64::MIN_POSITIVE);
        let high = self.high.max(low);
        let missing = (factor / (high / low)).max(1.0).sqrt() * 1.08;
        Self {
            low: low / missing,
            high: high * missing,
        }
    }
}

impl Scale {
    pub(super) fn linear(domain: Domain, from: f64, to: f64) -> Self {
        Self::new(domain, from, to, Spread::Linear)
    }

    pub(super) fn logarithmic(domain: Domain, from: f64, to: f64) -> Self {
        Self::new(domain, from, to, Spread::Logarithmic)
    }

    fn new(domain: Domain, from: f64, to: f64, spread: Spread) -> Self {
        let Domain { low, high } = domain;
        let high = if high > low { high } else { low + 1.0 };
        Self {
            low,
            high,
            from,
            to,
            spread,
        }
    }

    /// The place of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.spread {
            Spread::Linear => (value - self.low) / (self.high - self.low),
            Spread::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    pub(super) fn domain(&self) -> Domain {
        Domain {
            low: self.low,
            high: self.high,
        }
    }

    /// About `wanted` ticks.
    pub(super) fn ticks(&self, quantity: Quantity, wanted: u32) -> Ticks {
        match self.spread {
            Spread::Linear => self.linear_ticks(quantity, wanted),
            Spread::Logarithmic => self.logarithmic_ticks(quantity),
        }
    }

    fn linear_ticks(&self, quantity: Quantity, wanted: u32) -> Ticks {
        let rough = (self.high - self.low) / f64::from(wanted.max(1));
        let (factor, unit) = match quantity {
            Quantity::Bytes => byte_axis(self.high.abs().max(self.low.abs()), rough),
            Quantity::Seconds => second_axis(self.high),
            Quantity::Steps { ms } => {
                let step = f64::from(ms.max(1)) / 1000.0;
                let (factor, unit) = second_axis(self.high * step);
                (factor / step, unit)
            }
            Quantity::Micros | Quantity::Count | Quantity::Plain => (1.0, ""),
        };
        let mut step = round_step(rough / factor);
        if quantity == Quantity::Count {
            step = step.max(1.0);
        }
        let decimals = decimals_of(step);
        let first = (self.low / factor / step - 1e-9).ceil();
        let mut ticks = Vec::new();
        // A step is at least 0.7 of the wanted one, so these are few whatever the domain.
        for index in 0..=wanted.saturating_mul(4) {
            let scaled = (first + f64::from(index)) * step;
            let value = scaled * factor;
            if value > self.high + step * factor * 1e-9 {
                break;
            }
            let label = match quantity {
                Quantity::Micros => figure::micros(value),
                _ => figure::fixed(scaled, decimals, Zeros::Keep),
            };
            ticks.push(Tick { value, label });
        }
        Ticks { ticks, unit }
    }

    fn logarithmic_ticks(&self, quantity: Quantity) -> Ticks {
        let is_narrow = self.high / self.low < 3.0;
        if is_narrow {
            return self.linear_ticks(quantity, 4);
        }
        let decades = (self.high / self.low).log10();
        let mantissas: &[f64] = match decades {
            d if d < 1.6 => &[1.0, 2.0, 5.0],
            d if d < 3.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut ticks = Vec::new();
        let mut decade = 10_f64.powf(self.low.log10().floor());
        while decade <= self.high && decade > 0.0 {
            for mantissa in mantissas {
                let value = decade * mantissa;
                if value >= self.low && value <= self.high {
                    ticks.push(Tick {
                        value,
                        label: label_of(quantity, value),
                    });
                }
            }
            decade *= 10.0;
        }
        // Too many decades to read: keep one in `keep`.
        let keep = ticks.len().div_ceil(7).max(1);
        let ticks = ticks.into_iter().step_by(keep).collect();
        Ticks { ticks, unit: "" }
    }
}

fn label_of(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Micros => figure::micros(value),
        Quantity::Bytes => figure::bytes(value),
        _ => figure::number(value),
    }
}

/// The largest unit in which steps need at most two decimals.
fn byte_axis(highest: f64, rough: f64) -> (f64, &'static str) {
    let mut index = figure::byte_unit(highest);
    while index > 0 && rough / figure::byte_factor(index) < 0.01 {
        index -= 1;
    }
    (figure::byte_factor(index), figure::BYTE_UNITS[index])
}

fn second_axis(highest: f64) -> (f64, &'static str) {
    match highest {
        h if h >= 3.0 * 3600.0 => (3600.0, "h"),
        h if h >= 180.0 => (60.0, "min"),
        _ => (1.0, "s"),
    }
}

/// 1, 2 or 5 times a power of ten: the nearest to `rough` as a ratio.
fn round_step(rough: f64) -> f64 {
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(rough.log10().floor());
    let mantissa = match rough / power {
        rest if rest < 2_f64.sqrt() => 1.0,
        rest if rest < 10_f64.sqrt() => 2.0,
        rest if rest < 50_f64.sqrt() => 5.0,
        _ => 10.0,
    };
    mantissa * power
}

fn decimals_of(step: f64) -> usize {
    let mut decimals = 0;
    let mut scaled = step;
    while decimals < 9 && (scaled - scaled.round()).abs() > 1e-6 * scaled.abs().max(1e-3) {
        scaled *= 10.0;
        decimals += 1;
    }
    decimals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, quantity: Quantity) -> String {
        let scale = Scale::linear(Domain { low, high }, 0.0, 100.0);
        let ticks = scale.ticks(quantity, 4);
        let labels: Vec<_> = ticks.ticks.into_iter().map(|tick| tick.label).collect();
        format!("{} {}", labels.join(" "), ticks.unit)
    }

    #[test]
    fn ticks_are_round() {
        let mib = 1024.0 * 1024.0;
        assert_eq!(labels(0.0, 100.0, Quantity::Plain), "0 20 40 60 80 100 ");
        assert_eq!(labels(0.0, 3.0, Quantity::Count), "0 1 2 3 ");
        assert_eq!(labels(0.0, 0.4, Quantity::Plain), "0.0 0.1 0.2 0.3 0.4 ");
        assert_eq!(
            labels(30.0 * mib, 32.0 * mib, Quantity::Bytes),
            "30.0 30.5 31.0 31.5 32.0 MiB"
        );
        assert_eq!(
            labels(30.0 * mib, 30.01 * mib, Quantity::Bytes),
            "30,720 30,722 30,724 30,726 30,728 30,730 KiB"
        );
        assert_eq!(labels(0.0, 600.0, Quantity::Seconds), "0 2 4 6 8 10 min");
    }

    #[test]
    fn an_axis_is_never_degenerate() {
        for value in [0.0, 1.0, 5e9, -3.0] {
            let domain = Domain::of([value, value, f64::NAN]).unwrap().padded(0.02);
            assert!(domain.high > domain.low, "{domain:?}");
            let scale = Scale::linear(domain, 0.0, 100.0);
            let place = scale.place(value);
            assert!((0.0..=100.0).contains(&place), "{value}: {place}");
            assert!(!scale.ticks(Quantity::Bytes, 4).ticks.is_empty());
        }
        assert_eq!(Domain::of([f64::NAN]), None);
    }

    #[test]
    fn logarithmic_ticks_cover_decades() {
        let domain = Domain {
            low: 150.0,
            high: 90_000.0,
        };
        let scale = Scale::logarithmic(domain, 0.0, 100.0);
        let ticks = scale.ticks(Quantity::Micros, 4);
        let labels: Vec<_> = ticks.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["300 µs", "1 ms", "3 ms", "10 ms", "30 ms"]);
        let constant = Domain::of([7.0]).unwrap().padded_by_factor(4.0);
        let scale = Scale::logarithmic(constant, 0.0, 100.0);
        assert!((scale.place(7.0) - 50.0).abs() < 1e-9);
        assert!(!scale.ticks(Quantity::Micros, 4).ticks.is_empty());
    }
}
