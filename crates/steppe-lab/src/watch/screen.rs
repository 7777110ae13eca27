//! The live view: memory over time, and the figures of the last look.
//!
//! Drawing takes a [`State`] and nothing else, so that it is tested without a terminal or a target.
//! A narrow or low terminal gets less of it, never something that is cut in the middle.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, LegendPosition, Paragraph};

use super::Watch;
use super::history::Look;
use super::units::{as_f64, bytes, count, percent, rate, slope};
use crate::observe::{Slow, TcpState};

/// Everything that is drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) title: String,
    pub(super) at: Duration,
    pub(super) slow: Slow,
    pub(super) pss_bytes: Option<u64>,
    pub(super) cpu_share: Option<f64>,
    pub(super) syscalls_per_s: Option<f64>,
    pub(super) faults_per_s: Option<f64>,
    pub(super) switches_per_s: Option<f64>,
    pub(super) slope_kib_per_min: Option<f64>,
    pub(super) window_looks: usize,
    pub(super) cost_share: f64,
    /// Figures that can't be seen, each with the reason.
    pub(super) missing: Vec<String>,
    pub(super) series: Vec<Series>,
}

/// A line of the chart: seconds and MiB.
#[derive(Debug, Clone)]
pub(super) struct Series {
    name: &'static str,
    color: Color,
    points: Vec<(f64, f64)>,
}

impl State {
    pub(super) fn of(watch: &Watch) -> Self {
        let history = &watch.history;
        let Some(last) = history.last() else {
            return Self::default();
        };
        let per_second = |of: fn(&Slow) -> Option<u64>| history.rate(of);
        Self {
            title: format!("{} {}", watch.pid, watch.command),
            at: last.at,
            slow: last.slow,
            pss_bytes: last.pss_bytes,
            cpu_share: super::lines::cpu_share(watch),
            syscalls_per_s: per_second(|it| it.syscalls),
            faults_per_s: per_second(|it| it.minor_faults),
            switches_per_s: per_second(|it| {
                Some(it.voluntary_switches? + it.involuntary_switches?)
            }),
            slope_kib_per_min: history.slope_kib_per_min(),
            window_looks: history.looks().len(),
            cost_share: watch.cost_share(),
            missing: watch
                .missing()
                .map(|lack| format!("{}: {}", lack.name, lack.detail))
                .collect(),
            series: series_of(history.looks()),
        }
    }
}

pub(super) fn series_of(looks: &[Look]) -> Vec<Series> {
    let line = |name, color, of: fn(&Slow) -> Option<u64>| Series {
        name,
        color,
        points: looks
            .iter()
            .filter_map(|look| {
                let mib = as_f64(of(&look.slow)?) / f64::from(1 << 20);
                Some((look.at.as_secs_f64(), mib))
            })
            .collect(),
    };
    vec![
        line("highest", Color::DarkGray, |it| it.hwm_bytes),
        line("resident", Color::Cyan, |it| it.rss_bytes),
        line("anonymous", Color::Yellow, |it| it.anonymous_bytes),
    ]
}

pub(super) fn draw(frame: &mut Frame, state: &State) {
    let area = frame.area();
    let is_wide = area.width >= WIDE_COLUMNS;
    let figures = figures(state);
    let sockets = sockets(state);
    let missing_rows = missing_rows(state, area);
    let rows = if is_wide {
        figures.len().max(sockets.len())
    } else {
        figures.len()
    };
    // The chart goes before the last figures.
    let chart_rows = CHART_ROWS_MIN + missing_rows + 2;
    let room = area.height.saturating_sub(chart_rows).max(FIGURE_ROWS_MIN);
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).min(room);
    let [title, chart, below, missing, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(rows),
        Constraint::Length(missing_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(heading(state, area.width)), title);
    if chart.height >= CHART_ROWS_MIN {
        draw_chart(frame, state, chart);
    }
    if is_wide {
        let [left, right] =
            Layout::horizontal([Constraint::Min(0), Constraint::Length(SOCKET_COLUMNS)])
                .areas(below);
        frame.render_widget(Paragraph::new(figures), left);
        frame.render_widget(Paragraph::new(sockets), right);
    } else {
        frame.render_widget(Paragraph::new(figures), below);
    }
    draw_missing(frame, state, missing);
    let help = "q quit   r restart the window";
    let dim = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Paragraph::new(Span::styled(help, dim)), keys);
}

fn heading(state: &State, width: u16) -> Line<'static> {
    let seconds = state.at.as_secs();
    let time = format!("  {}:{:02}", seconds / 60, seconds % 60);
    let room = usize::from(width).saturating_sub(time.len());
    let title: String = state.title.chars().take(room).collect();
    Line::from(vec![
        Span::styled(title, Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(time),
    ])
}

fn draw_chart(frame: &mut Frame, state: &State, area: Rect) {
    let points = || state.series.iter().flat_map(|series| &series.points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let lowest = points().map(of).fold(f64::INFINITY, f64::min);
        let highest = points().map(of).fold(f64::NEG_INFINITY, f64::max);
        (lowest.is_finite()).then_some([lowest, highest])
    };
    let (Some([start, end]), Some([low, high])) = (ends(|it| it.0), ends(|it| it.1)) else {
        return;
    };
    // A steady target is a steady line: noise of a few pages does not fill the chart.
    let margin = ((high - low) * 0.1).max(MARGIN_MIB);
    let (low, high) = ((low - margin).max(0.0), high + margin);
    let datasets: Vec<Dataset> = state
        .series
        .iter()
        .filter(|series| !series.points.is_empty())
        .map(|series| {
            Dataset::default()
                .name(series.name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(series.color))
                .data(&series.points)
        })
        .collect();
    let seconds = |at: f64| Line::from(format!("{at:.0} s"));
    let mib = |at: f64| Line::from(format!("{at:.1}"));
    let chart = Chart::new(datasets)
        .block(Block::new().title("MiB"))
        .legend_position(Some(LegendPosition::TopLeft))
        .hidden_legend_constraints((Constraint::Percentage(60), Constraint::Percentage(60)))
        .x_axis(
            Axis::default()
                .bounds([start, end.max(start + 1.0)])
                .labels([seconds(start), seconds(end)]),
        )
        .y_axis(Axis::default().bounds([low, high]).labels([
            mib(low),
            mib((low + high) / 2.0),
            mib(high),
        ]));
    frame.render_widget(chart, area);
}

/// Figures, the most important first: a low terminal cuts the end.
fn figures(state: &State) -> Vec<Line<'static>> {
    let slow = &state.slow;
    let mut lines = vec![
        pair(
            "resident",
            &bytes(slow.rss_bytes),
            "anonymous",
            &bytes(slow.anonymous_bytes),
        ),
        pair(
            "highest",
            &bytes(slow.hwm_bytes),
            "swap",
            &bytes(slow.swap_bytes),
        ),
        Line::from(format!(
            "slope {} in {} looks",
            slope(state.slope_kib_per_min),
            state.window_looks
        )),
        pair(
            "cpu",
            &percent(state.cpu_share),
            "calls/s",
            &rate(state.syscalls_per_s),
        ),
        pair(
            "threads",
            &count(slow.threads),
            "files",
            &count(slow.open_files),
        ),
        close_wait(slow),
        pair(
            "processes",
            &slow.processes.to_string(),
            "looking",
            &percent(Some(state.cost_share)),
        ),
        pair(
            "faults/s",
            &rate(state.faults_per_s),
            "switches/s",
            &rate(state.switches_per_s),
        ),
    ];
    let proportional = bytes(state.pss_bytes);
    match slow.cgroup {
        Some(charge) => {
            lines.push(pair("pss", &proportional, "cgroup", &bytes(charge.bytes)));
            lines.push(pair(
                "group limit",
                &charge
                    .limit_bytes
                    .map_or("none".to_owned(), |it| bytes(Some(it))),
                "sockets",
                &bytes(charge.sock_bytes),
            ));
        }
        None => lines.push(Line::from(format!("pss {proportional}"))),
    }
    lines
}

fn pair(left: &str, left_value: &str, right: &str, right_value: &str) -> Line<'static> {
    let left = format!("{left} {left_value}");
    Line::from(format!("{left:<LEFT_COLUMNS$} {right} {right_value}"))
}

/// The CLOSE-WAIT count, highlighted above zero: sockets that their owner does not close are the
/// sign of a connection leak.
fn close_wait(slow: &Slow) -> Line<'static> {
    let stuck = slow.sockets.map(|it| it.count(TcpState::CloseWait));
    let text = format!("CLOSE-WAIT {}", count(stuck));
    let style = if stuck.is_some_and(|it| it > 0) {
        Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    let open = slow.sockets.map(|it| it.count(TcpState::Established));
    let padding = LEFT_COLUMNS.saturating_sub(text.len()) + 1;
    Line::from(vec![
        Span::styled(text, style),
        Span::raw(" ".repeat(padding)),
        Span::raw(format!("established {}", count(open))),
    ])
}

/// Counts of the other states that have sockets.
fn sockets(state: &State) -> Vec<Line<'static>> {
    let Some(sockets) = state.slow.sockets else {
        return vec![Line::from("sockets -")];
    };
    let in_states = TcpState::ALL
        .into_iter()
        .filter(|it| *it != TcpState::CloseWait)
        .filter(|it| sockets.count(*it) > 0)
        .map(|it| Line::from(format!("{:<13}{}", it.name(), sockets.count(it))));
    std::iter::once(Line::from("sockets by state"))
        .chain(in_states)
        .take(SOCKET_ROWS_MAX)
        .collect()
}

/// Number of lines for missing figures: one where more would take the chart's place.
fn missing_rows(state: &State, area: Rect) -> u16 {
    let has_room = area.height >= TALL_ROWS && area.width >= WIDE_COLUMNS;
    match (state.missing.len(), has_room) {
        (0, _) => 0,
        (_, false) => 1,
        (count, true) => u16::try_from(count)
            .unwrap_or(u16::MAX)
            .min(MISSING_ROWS_MAX),
    }
}

fn draw_missing(frame: &mut Frame, state: &State, area: Rect) {
    let lines: Vec<String> = if state.missing.len() <= usize::from(area.height) {
        state.missing.clone()
    } else {
        let names = state.missing.iter().filter_map(|it| it.split(':').next());
        vec![names.collect::<Vec<_>>().join(", ")]
    };
    let lines = lines.into_iter().map(|it| {
        let text = format!("not seen: {it}");
        let width = usize::from(area.width);
        if text.chars().count() <= width {
            return Line::from(text);
        }
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        Line::from(kept + "…")
    });
    let text = Paragraph::new(lines.collect::<Vec<_>>());
    frame.render_widget(text.style(Style::new().fg(Color::Magenta)), area);
}

/// Least width with room for figures and sockets beside each other.
const WIDE_COLUMNS: u16 = 70;
const TALL_ROWS: u16 = 22;
const CHART_ROWS_MIN: u16 = 5;
/// Memory, slope, CPU, threads, CLOSE-WAIT.
const FIGURE_ROWS_MIN: u16 = 6;
const SOCKET_COLUMNS: u16 = 22;
const SOCKET_ROWS_MAX: usize = 10;
const MISSING_ROWS_MAX: u16 = 2;
const LEFT_COLUMNS: usize = 20;
const MARGIN_MIB: f64 = 0.5;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content.chunks(usize::from(width));
        let text = |row: &[ratatui::buffer::Cell]| {
            let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.trim_end().to_owned() + "\n"
        };
        rows.map(text).collect()
    }

    /// True if the text has Braille dots, of which charts are made.
    fn has_chart(text: &str) -> bool {
        let dots = text
            .chars()
            .filter(|c| ('\u{2801}'..='\u{28ff}').contains(c));
        dots.count() > 20
    }

    fn state() -> State {
        let look = |second: u64| Look {
            at: Duration::from_secs(second),
            slow: Slow {
                rss_bytes: Some((10 << 20) + (second << 17)),
                anonymous_bytes: Some((4 << 20) + (second << 17)),
                hwm_bytes: Some(20 << 20),
                processes: 3,
                threads: Some(8),
                ..Slow::default()
            },
            pss_bytes: None,
        };
        let looks: Vec<Look> = (0..60).map(look).collect();
        State {
            title: "4711 gateway --config a-rather-long-name-of-a-file.toml".to_owned(),
            at: Duration::from_secs(59),
            slow: looks[59].slow,
            cpu_share: Some(0.25),
            slope_kib_per_min: Some(7680.0),
            window_looks: looks.len(),
            missing: vec!["syscalls: perf is refused".to_owned()],
            series: series_of(&looks),
            ..State::default()
        }
    }

    #[test]
    fn a_usual_terminal_has_everything() {
        let text = drawn(&state(), 80, 24);
        for needle in [
            "4711 gateway",
            "0:59",
            "highest 20.0 MiB",
            "slope +7680.0 KiB/min in 60 looks",
            "cpu 25.0 %",
            "calls/s -",
            "CLOSE-WAIT -",
            "not seen: syscalls: perf is refused",
            "q quit",
        ] {
            assert!(text.contains(needle), "{needle} in\n{text}");
        }
        assert!(has_chart(&text), "{text}");
        assert!(text.contains("anonymous"), "{text}");
    }

    #[test]
    fn a_small_terminal_has_what_matters() {
        let text = drawn(&state(), 40, 15);
        for needle in [
            "0:59",
            "resident 17.4 MiB",
            "slope +7680.0",
            "CLOSE-WAIT",
            "q quit",
        ] {
            assert!(text.contains(needle), "{needle} in\n{text}");
        }
        assert!(text.contains("not seen: syscalls"), "{text}");
    }

    #[test]
    fn no_size_is_too_small_to_draw() {
        for (width, height) in [(1, 1), (10, 3), (200, 5), (30, 60)] {
            drawn(&state(), width, height);
            drawn(&State::default(), width, height);
        }
    }

    #[test]
    fn sockets_in_close_wait_are_marked() {
        let mut state = state();
        let style = |state: &State| close_wait(&state.slow).spans[0].style;
        assert_eq!(style(&state), Style::new());
        state.slow.sockets = Some(crate::observe::Sockets::of(TcpState::CloseWait, 7));
        assert_eq!(style(&state).fg, Some(Color::Red));
        let text = drawn(&state, 80, 24);
        assert!(text.contains("CLOSE-WAIT 7"), "{text}");
    }
}
