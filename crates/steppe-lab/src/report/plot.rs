//! One chart as SVG: a frame with axes, and marks within it.
//!
//! Places are in a view box that is [`WIDTH`] wide; the page scales it. Classes name the kind of a
//! mark and the page's style gives it a color, so that dark mode needs no second drawing. All marks
//! stay within the plot: lines that lead out of it are cut at its edge.

use std::fmt::Write;

use super::escape;
use super::scale::{Domain, Quantity, Scale, Spread, Ticks};

/// Width of every chart's view box: narrow, so that text stays readable on a phone.
pub(super) const WIDTH: f64 = 480.0;

/// A place, in units of the view box.
pub(super) type Place = (f64, f64);

/// The size of a chart and the margins around its marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// A chart with labels at the right end of its lines.
    pub(super) const LABELED: Self = Self {
        width: WIDTH,
        height: 280.0,
        left: 62.0,
        right: 96.0,
        top: 38.0,
        bottom: 40.0,
    };
    /// A chart without labels at the end of its lines.
    pub(super) const PLAIN: Self = Self {
        right: 14.0,
        ..Self::LABELED
    };
    /// One of several small charts in a row.
    pub(super) const SMALL: Self = Self {
        width: 320.0,
        height: 160.0,
        left: 58.0,
        right: 24.0,
        top: 14.0,
        ..Self::PLAIN
    };

    pub(super) fn right_edge(&self) -> f64 {
        self.width - self.right
    }

    pub(super) fn bottom_edge(&self) -> f64 {
        self.height - self.bottom
    }
}

/// The range, quantity and title of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) domain: Domain,
    pub(super) quantity: Quantity,
    pub(super) spread: Spread,
    /// Title beside the axis, before the unit; may be empty.
    pub(super) title: &'static str,
}

impl Axis {
    pub(super) fn linear(domain: Domain, quantity: Quantity, title: &'static str) -> Self {
        Self {
            domain,
            quantity,
            spread: Spread::Linear,
            title,
        }
    }

    fn scale(&self, from: f64, to: f64) -> Scale {
        match self.spread {
            Spread::Linear => Scale::linear(self.domain, from, to),
            Spread::Logarithmic => Scale::logarithmic(self.domain, from, to),
        }
    }

    fn caption(&self, ticks: &Ticks) -> String {
        match (self.title, ticks.unit) {
            (title, "") => title.to_owned(),
            ("", unit) => unit.to_owned(),
            (title, unit) => format!("{title}, {unit}"),
        }
    }
}

/// A chart that is being drawn.
pub(super) struct Plot {
    frame: Frame,
    x: Scale,
    y: Scale,
    body: String,
    labels: Vec<EndLabel>,
}

struct EndLabel {
    class: &'static str,
    y: f64,
    text: String,
}

impl Plot {
    /// A frame with its axes.
    pub(super) fn new(frame: Frame, x: &Axis, y: &Axis) -> Self {
        let mut plot = Self::without_x_axis(frame, x.domain, y);
        plot.x = x.scale(frame.left, frame.right_edge());
        let columns = if frame.width < 400.0 { 4 } else { 6 };
        let ticks = plot.x.ticks(x.quantity, columns);
        plot.draw_x_axis(&ticks, &x.caption(&ticks));
        plot
    }

    /// A frame with a y axis; the caller labels the columns.
    pub(super) fn without_x_axis(frame: Frame, x: Domain, y: &Axis) -> Self {
        let mut plot = Self {
            frame,
            x: Scale::linear(x, frame.left, frame.right_edge()),
            y: y.scale(frame.bottom_edge(), frame.top),
            body: String::new(),
            labels: Vec::new(),
        };
        let rows = if frame.height < 220.0 { 3 } else { 4 };
        let ticks = plot.y.ticks(y.quantity, rows);
        plot.draw_y_axis(&ticks, &y.caption(&ticks));
        plot
    }

    /// A frame with an x axis; the caller labels the rows, which count from 0 at the top.
    pub(super) fn without_y_axis(frame: Frame, x: &Axis, rows: Domain) -> Self {
        let mut plot = Self {
            frame,
            x: x.scale(frame.left, frame.right_edge()),
            y: Scale::linear(rows, frame.top, frame.bottom_edge()),
            body: String::new(),
            labels: Vec::new(),
        };
        let ticks = plot.x.ticks(x.quantity, 6);
        for tick in &ticks.ticks {
            let at = plot.x.place(tick.value);
            plot.push(&format!(
                r#"<line class="gridline" x1="{at:.1}" y1="{:.1}" x2="{at:.1}" y2="{:.1}"/>"#,
                frame.top,
                frame.bottom_edge()
            ));
        }
        plot.draw_x_axis(&ticks, &x.caption(&ticks));
        plot
    }

    fn draw_y_axis(&mut self, ticks: &Ticks, caption: &str) {
        let (left, right) = (self.frame.left, self.frame.right_edge());
        for tick in &ticks.ticks {
            let y = self.y.place(tick.value);
            let class = if tick.value == 0.0 {
                "gridline base"
            } else {
                "gridline"
            };
            self.push(&format!(
                r#"<line class="{class}" x1="{left:.1}" y1="{y:.1}" x2="{right:.1}" y2="{y:.1}"/>"#
            ));
            self.text("tick end", (left - 6.0, y + 4.5), &tick.label);
        }
        self.text("tick", (2.0, 16.0), caption);
    }

    fn draw_x_axis(&mut self, ticks: &Ticks, caption: &str) {
        let bottom = self.frame.bottom_edge();
        for tick in &ticks.ticks {
            let x = self.x.place(tick.value);
            self.push(&format!(
                r#"<line class="gridline" x1="{x:.1}" y1="{bottom:.1}" x2="{x:.1}" y2="{:.1}"/>"#,
                bottom + 4.0
            ));
            self.text("tick middle", (x, bottom + 18.0), &tick.label);
        }
        let middle = (self.frame.left + self.frame.right_edge()) / 2.0;
        self.text("tick middle", (middle, self.frame.height - 5.0), caption);
    }

    pub(super) fn frame(&self) -> Frame {
        self.frame
    }

    pub(super) fn x(&self) -> Scale {
        self.x
    }

    pub(super) fn y(&self) -> Scale {
        self.y
    }

    fn place(&self, point: Place) -> Place {
        (self.x.place(point.0), self.y.place(point.1))
    }

    /// Adds SVG as it is; texts in it are escaped already.
    pub(super) fn push(&mut self, svg: &str) {
        self.body.push_str(svg);
        self.body.push('\n');
    }

    /// Text at a place of the view box.
    pub(super) fn text(&mut self, class: &str, at: Place, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = escape::markup(text);
        self.push(&format!(
            r#"<text class="{class}" x="{:.1}" y="{:.1}">{text}</text>"#,
            at.0, at.1
        ));
    }

    /// A shaded stretch of the x axis, from the left edge to `end`.
    pub(super) fn shade_until(&mut self, end: f64, text: &str) {
        let (left, top) = (self.frame.left, self.frame.top);
        let right = self.x.place(end).clamp(left, self.frame.right_edge());
        let width = right - left;
        if width <= 0.0 {
            return;
        }
        let height = self.frame.bottom_edge() - top;
        self.push(&format!(
            r#"<rect class="shade" x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}"/>"#
        ));
        // Above the plot, where there are no marks.
        self.text("tick", (left, top - 5.0), text);
    }

    /// A line through each segment; segments are not joined.
    pub(super) fn line(&mut self, class: &str, segments: &[Vec<Place>]) {
        let mut path = String::new();
        for segment in segments {
            let placed: Vec<Place> = segment.iter().map(|point| self.place(*point)).collect();
            match placed.as_slice() {
                // A point alone is a line of no length, which round caps make visible.
                [(x, y)] if self.is_within(*y) => {
                    // Writing to a string can't fail.
                    let _ = write!(path, "M{x:.1} {y:.1}h0");
                }
                _ => self.push_lines(&mut path, &placed),
            }
        }
        if !path.is_empty() {
            self.push(&format!(r#"<path class="mark {class}" d="{path}"/>"#));
        }
    }

    fn push_lines(&self, path: &mut String, places: &[Place]) {
        let (top, bottom) = (self.frame.top, self.frame.bottom_edge());
        let mut pen = None;
        for pair in places.windows(2) {
            let cut = cut_at(pair, |place| place.1 - top);
            let cut = cut_at(&cut, |place| bottom - place.1);
            let [from, to] = cut.as_slice() else {
                continue;
            };
            if pen != Some(*from) {
                let _ = write!(path, "M{:.1} {:.1}", from.0, from.1);
            }
            let _ = write!(path, "L{:.1} {:.1}", to.0, to.1);
            pen = Some(*to);
        }
    }

    fn is_within(&self, y: f64) -> bool {
        (self.frame.top..=self.frame.bottom_edge()).contains(&y)
    }

    /// A dot at each point, of a radius in units of the view box.
    pub(super) fn dots(&mut self, class: &str, radius: f64, points: impl Iterator<Item = Place>) {
        // One path of lines without length: a fifth of the bytes of as many circles.
        let mut path = String::new();
        for point in points {
            let (x, y) = self.place(point);
            if self.is_within(y) {
                let _ = write!(path, "M{x:.1} {y:.1}h0");
            }
        }
        if !path.is_empty() {
            let width = radius * 2.0;
            self.push(&format!(
                r#"<path class="mark dots {class}" stroke-width="{width:.1}" d="{path}"/>"#
            ));
        }
    }

    /// An upright line from zero to each point: events, which are not joined.
    pub(super) fn stems(&mut self, class: &str, points: impl Iterator<Item = Place>) {
        let zero = self.y.place(0.0);
        let mut path = String::new();
        for point in points.filter(|point| point.1 > 0.0) {
            let (x, y) = self.place(point);
            let _ = write!(path, "M{x:.1} {zero:.1}V{y:.1}");
        }
        if !path.is_empty() {
            self.push(&format!(r#"<path class="mark {class}" d="{path}"/>"#));
        }
    }

    /// A straight line between two points, cut at the edges of the plot.
    pub(super) fn straight(&mut self, class: &str, from: Place, to: Place) {
        self.area(class, &[from, to]);
    }

    /// A polygon (or a line, of two points), cut at the upper and the lower edge of the plot.
    pub(super) fn area(&mut self, class: &str, corners: &[Place]) {
        let placed: Vec<Place> = corners.iter().map(|corner| self.place(*corner)).collect();
        if placed.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return;
        }
        let (top, bottom) = (self.frame.top, self.frame.bottom_edge());
        let cut = cut_at(&placed, |place| place.1 - top);
        let cut = cut_at(&cut, |place| bottom - place.1);
        if cut.len() < 2 {
            return;
        }
        let mut points = String::new();
        for (x, y) in cut {
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let shape = if corners.len() == 2 {
            "polyline"
        } else {
            "polygon"
        };
        let points = points.trim_end();
        self.push(&format!(
            r#"<{shape} class="mark {class}" points="{points}"/>"#
        ));
    }

    /// A horizontal line from edge to edge.
    pub(super) fn level(&mut self, class: &str, y: f64) {
        let Domain { low, high } = self.x.domain();
        self.straight(class, (low, y), (high, y));
    }

    /// Names a line at its right end; labels that would overlap move apart.
    pub(super) fn end_label(&mut self, class: &'static str, value: f64, text: impl Into<String>) {
        let edges = (self.frame.top, self.frame.bottom_edge());
        let y = self.y.place(value);
        if y.is_finite() {
            self.labels.push(EndLabel {
                class,
                y: y.clamp(edges.0, edges.1),
                text: text.into(),
            });
        }
    }

    /// The whole chart. `description` is for screen readers.
    pub(super) fn finish(mut self, title: &str, description: &str) -> String {
        let x = self.frame.right_edge() + 6.0;
        let mut labels = std::mem::take(&mut self.labels);
        spread_apart(&mut labels, self.frame.top, self.frame.bottom_edge());
        for label in labels {
            let class = format!("label {}", label.class);
            self.text(&class, (x, label.y + 4.5), &label.text);
        }
        wrap(self.frame, &self.body, title, description)
    }
}

/// An `svg` element around marks.
pub(super) fn wrap(frame: Frame, body: &str, title: &str, description: &str) -> String {
    let Frame { width, height, .. } = frame;
    let label = escape::markup(&format!("{title}. {description}"));
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n{body}</svg>"
    )
}

/// Sutherland and Hodgman's cut at one edge: keeps the part where `inside` is zero or above.
fn cut_at(corners: &[Place], inside: impl Fn(&Place) -> f64) -> Vec<Place> {
    let mut kept = Vec::with_capacity(corners.len() + 2);
    let is_line = corners.len() == 2;
    for (index, corner) in corners.iter().enumerate() {
        let is_first_of_line = is_line && index == 0;
        let before = corners[(index + corners.len() - 1) % corners.len()];
        let (depth, depth_before) = (inside(corner), inside(&before));
        if !is_first_of_line && (depth < 0.0) != (depth_before < 0.0) {
            let share = depth_before / (depth_before - depth);
            kept.push((
                before.0 + share * (corner.0 - before.0),
                before.1 + share * (corner.1 - before.1),
            ));
        }
        if depth >= 0.0 {
            kept.push(*corner);
        }
    }
    kept
}

/// Moves labels down until they are a line apart, and up again from the lower edge.
fn spread_apart(labels: &mut [EndLabel], top: f64, bottom: f64) {
    const LINE: f64 = 17.0;
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut free_from = top;
    for label in labels.iter_mut() {
        label.y = label.y.max(free_from);
        free_from = label.y + LINE;
    }
    let mut free_until = bottom;
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(free_until);
        free_until = label.y - LINE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_areas_end_at_the_edge() {
        let line = cut_at(&[(0.0, -10.0), (10.0, 10.0)], |place| place.1);
        assert_eq!(line, [(5.0, 0.0), (10.0, 10.0)]);
        let triangle = cut_at(&[(0.0, 1.0), (10.0, -1.0), (10.0, 3.0)], |place| place.1);
        assert_eq!(triangle, [(0.0, 1.0), (5.0, 0.0), (10.0, 0.0), (10.0, 3.0)]);
        assert!(cut_at(&[(0.0, -1.0), (1.0, -2.0)], |place| place.1).is_empty());
    }

    #[test]
    fn labels_do_not_overlap() {
        let label = |y| EndLabel {
            class: "one",
            y,
            text: String::new(),
        };
        let mut labels = [label(95.0), label(99.0), label(98.0), label(10.0)];
        spread_apart(&mut labels, 0.0, 100.0);
        let places: Vec<_> = labels.iter().map(|label| label.y).collect();
        assert_eq!(places, [10.0, 66.0, 83.0, 100.0]);
    }
}
