//! Thins many points to a few: lowest and highest of each bin.
//!
//! Peaks survive: averages would hide them. Bins double in width when there are too many, so that
//! one pass over any number of samples takes bounded memory.

/// A series of points over time, thinned while it is read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thinned {
    bins: Vec<Bin>,
    width: f64,
    bins_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bin {
    index: f64,
    lowest: (f64, f64),
    highest: (f64, f64),
}

impl Bin {
    fn add(&mut self, other: Self) {
        if other.lowest.1 < self.lowest.1 {
            self.lowest = other.lowest;
        }
        if other.highest.1 > self.highest.1 {
            self.highest = other.highest;
        }
    }
}

impl Thinned {
    /// A series of at most `points_max` points, with bins at least `width` wide.
    pub(super) fn new(points_max: usize, width: f64) -> Self {
        Self {
            bins: Vec::new(),
            width,
            bins_max: (points_max / 2).max(1),
        }
    }

    /// Adds a point; `x` does not go back by more than a bin.
    pub(super) fn push(&mut self, x: f64, y: f64) {
        if !x.is_finite() || !y.is_finite() {
            return;
        }
        let bin = Bin {
            index: (x / self.width).floor(),
            lowest: (x, y),
            highest: (x, y),
        };
        match self.bins.last_mut() {
            Some(last) if last.index >= bin.index => last.add(bin),
            _ => self.bins.push(bin),
        }
        while self.bins.len() > self.bins_max {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.width *= 2.0;
        let mut merged: Vec<Bin> = Vec::with_capacity(self.bins.len() / 2 + 1);
        for bin in self.bins.drain(..) {
            let index = (bin.index / 2.0).floor();
            match merged.last_mut() {
                Some(last) if last.index >= index => last.add(bin),
                _ => merged.push(Bin { index, ..bin }),
            }
        }
        self.bins = merged;
    }

    /// The points, in the order of `x`.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::with_capacity(self.bins.len() * 2);
        for bin in &self.bins {
            let (first, second) = if bin.lowest.0 <= bin.highest.0 {
                (bin.lowest, bin.highest)
            } else {
                (bin.highest, bin.lowest)
            };
            points.push(first);
            if second.0 > first.0 {
                points.push(second);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive_and_memory_is_bounded() {
        let mut thinned = Thinned::new(100, 1.0);
        for index in 0..100_000 {
            let peak = if index == 31_337 { 9.0 } else { 0.0 };
            thinned.push(f64::from(index), f64::from(index % 7) + peak * 10.0);
            assert!(thinned.bins.len() <= 50);
        }
        let points = thinned.points();
        assert!(
            points.len() <= 100 && points.len() >= 50,
            "{}",
            points.len()
        );
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(points.iter().any(|point| point.1 > 90.0));
        assert!(points.iter().any(|point| point.1 == 0.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let mut thinned = Thinned::new(100, 1.0);
        for (x, y) in [(0.0, 5.0), (1.0, f64::NAN), (2.0, 7.0)] {
            thinned.push(x, y);
        }
        assert_eq!(thinned.points(), [(0.0, 5.0), (2.0, 7.0)]);
    }
}
