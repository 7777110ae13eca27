//! The view on a terminal: a head, then panels by importance.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{self, Block, Borders, Clear, Gauge, Paragraph, Sparkline};

use super::panels::{self, Lines};
use super::tables::{self, Column, Look, Table};
use super::text::{bytes, fit, text};
use super::view::{Panel, View, connections, events, latency, memory, requests};

const HELP: &str = "\
q  Esc     quit
Tab        next view: overview, routes, upstreams, caches, accounts, warnings
s          sort accounts: tree, reserved, peak, name
Up Down    scroll the table; PageUp, PageDown, Home
?          this help";

/// Title and heads of a table.
const TABLE_HEADS: u16 = 2;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let [head, budget, rates, panels, keys] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, view);
    draw_budget(frame, budget, view);
    draw_rates(frame, rates, view);
    match view.panel {
        Panel::Overview => draw_overview(frame, panels, view),
        panel => draw_panel(frame, panels, (panel, view)),
    }
    let help = "q quit  Tab next view  s sort  ↑↓ scroll  ? help";
    frame.render_widget(Line::from(help).dim(), keys);
    if view.shows_help {
        draw_help(frame);
    }
}

/// Draws an overview: errors and upstreams before caches and memory.
fn draw_overview(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let node = &view.node;
    let shown = [
        tables::routes(node),
        tables::upstreams(node),
        tables::servers(node),
        tables::caches(node),
        tables::accounts(view),
    ];
    let lines = |table: &Table| Lines::of(table.rows.len(), TABLE_HEADS);
    let [routes, upstreams, servers, caches, accounts] = shown.each_ref().map(lines);
    let caches = if shown[3].rows.is_empty() {
        Lines::NONE
    } else {
        caches
    };
    let warnings = Lines::of(events(node).len(), 1);
    let by_importance = [routes, upstreams, servers, warnings, caches, accounts];
    let [routes, upstreams, servers, warnings, caches, accounts] =
        panels::divide(area.height, by_importance);
    let heights = [routes, upstreams, servers, caches, accounts, warnings];
    let areas = Layout::vertical(heights.map(Constraint::Length)).split(area);
    for (index, table) in shown.iter().enumerate() {
        let offset = if index == 4 { view.offset } else { 0 };
        draw_table(frame, areas[index], (table, offset));
    }
    draw_warnings(frame, areas[5], (view, 0));
}

/// Draws one panel in full.
fn draw_panel(frame: &mut Frame<'_>, area: Rect, (panel, view): (Panel, &View)) {
    let node = &view.node;
    let table = match panel {
        Panel::Overview | Panel::Accounts => tables::accounts(view),
        Panel::Routes => tables::routes(node),
        Panel::Caches => tables::caches(node),
        Panel::Upstreams => {
            let upstreams = tables::upstreams(node);
            let rows = Lines::of(upstreams.rows.len(), TABLE_HEADS);
            let servers = tables::servers(node);
            let all = Lines::of(servers.rows.len(), TABLE_HEADS);
            let heights = panels::divide(area.height, [rows, all]);
            let areas = Layout::vertical(heights.map(Constraint::Length)).split(area);
            draw_table(frame, areas[0], (&upstreams, 0));
            return draw_table(frame, areas[1], (&servers, view.offset));
        }
        Panel::Warnings => return draw_warnings(frame, area, (view, view.offset)),
    };
    draw_table(frame, area, (&table, view.offset));
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let node = &view.node;
    let state = match &view.lost {
        Some(error) => format!("disconnected, retrying: {error}").red().bold(),
        None => match text(&node["state"]) {
            ready if ready == "ready" => ready.green().bold(),
            other => other.yellow().bold(),
        },
    };
    let title = Line::from(vec![
        "steppe ".bold(),
        format!("{}  ", view.admin).into(),
        state,
        format!(
            "  {}  up {} s",
            text(&node["version"]),
            text(&node["uptime_s"])
        )
        .dim(),
    ]);
    let lines = vec![
        title,
        Line::from(connections(node)),
        Line::from(memory(node)),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_budget(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let budget = &view.node["budget"];
    let number = |key: &str| budget[key].as_u64().unwrap_or(0);
    let (reserved, limit) = (number("reserved_bytes"), number("limit_bytes"));
    let label = format!(
        "memory budget: {} of {} reserved, peak {}",
        bytes(reserved),
        bytes(limit),
        bytes(number("peak_bytes"))
    );
    let gauge = Gauge::default()
        .gauge_style(Style::new().fg(Color::Green).bg(Color::DarkGray))
        .ratio(ratio(reserved, limit))
        .label(label);
    frame.render_widget(gauge, area);
}

#[expect(clippy::cast_precision_loss, reason = "a bar has a hundred cells")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (part as f64 / whole as f64).min(1.0)
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2])
        .spacing(2)
        .areas(area);
    let rates = Trend {
        title: requests(&view.node),
        color: Color::Green,
        values: &view.rates,
    };
    let latencies = Trend {
        title: latency(&view.node),
        color: Color::Yellow,
        values: &view.p99_us,
    };
    draw_trend(frame, left, &rates);
    draw_trend(frame, right, &latencies);
}

/// A figure over time, the newest value last.
#[derive(Debug)]
struct Trend<'a> {
    title: String,
    color: Color,
    values: &'a VecDeque<u64>,
}

fn draw_trend(frame: &mut Frame<'_>, area: Rect, trend: &Trend<'_>) {
    let skipped = trend.values.len().saturating_sub(usize::from(area.width));
    let values: Vec<u64> = trend.values.iter().skip(skipped).copied().collect();
    let line = Sparkline::default()
        .block(titled(trend.title.clone()))
        .style(Style::new().fg(trend.color))
        .data(values);
    frame.render_widget(line, area);
}

/// A line with a title: borders around would take lines from the rows.
fn titled(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(title)
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, (table, offset): (&Table, usize)) {
    let block = titled(table.title.clone());
    if table.rows.is_empty() {
        let text = Paragraph::new(table.empty).dim();
        return frame.render_widget(text.block(block), area);
    }
    let widths = widths(table.columns, area.width);
    let layout = (table.columns, widths.as_slice());
    let heads = cells(table.columns.iter().map(|column| column.head()), layout);
    let rows = table.rows.iter().skip(offset).map(|row| {
        let cells = cells(row.cells.iter().map(String::as_str), layout);
        widgets::Row::new(cells).style(style(row.look))
    });
    let drawn = widgets::Table::new(rows, widths.iter().map(|&width| Constraint::Length(width)))
        .header(widgets::Row::new(heads).style(Modifier::DIM))
        .block(block);
    frame.render_widget(drawn, area);
}

fn cells<'a>(
    texts: impl Iterator<Item = &'a str>,
    (columns, widths): (&[Column], &[u16]),
) -> Vec<Line<'static>> {
    let cells = texts.zip(columns).zip(widths);
    cells
        .map(|((text, column), &width)| match column {
            Column::Name(..) => Line::from(fit(text, usize::from(width))),
            Column::Number(..) => Line::from(text.to_owned()).right_aligned(),
        })
        .collect()
}

fn style(look: Look) -> Style {
    match look {
        Look::Plain => Style::new(),
        Look::Good => Style::new().fg(Color::Green),
        Look::Warning => Style::new().fg(Color::Yellow),
        Look::Bad => Style::new().fg(Color::Red),
    }
}

/// The width of each column. Names share the width that numbers and the spaces between columns
/// leave.
fn widths(columns: &[Column], width: u16) -> Vec<u16> {
    let spaces = u16::try_from(columns.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let (mut left, mut weights) = (width.saturating_sub(spaces), 0);
    for column in columns {
        match *column {
            Column::Name(_, weight) => weights += weight,
            Column::Number(_, width) => left = left.saturating_sub(width),
        }
    }
    let mut given = Vec::with_capacity(columns.len());
    for column in columns {
        given.push(match *column {
            Column::Name(_, weight) => {
                let width = match weight == weights {
                    true => left,
                    false => left / weights * weight,
                };
                left -= width;
                weights -= weight;
                width
            }
            Column::Number(_, width) => width,
        });
    }
    given
}

fn draw_warnings(frame: &mut Frame<'_>, area: Rect, (view, offset): (&View, usize)) {
    let block = titled("recent warnings and errors".to_owned());
    let events = events(&view.node).into_iter().skip(offset);
    let lines = events
        .map(|(level, line)| {
            let color = match level.as_str() {
                "error" => Color::Red,
                _ => Color::Yellow,
            };
            Line::from(vec![Span::from(level).fg(color), " ".into(), line.into()])
        })
        .collect::<Vec<_>>();
    let text = match lines.is_empty() {
        true => Paragraph::new("no warnings or errors since the node started").dim(),
        false => Paragraph::new(lines),
    };
    frame.render_widget(text.block(block), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let [area] = Layout::horizontal([Constraint::Max(82)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [area] = Layout::vertical([Constraint::Max(7)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(HELP).block(Block::bordered().title("keys")),
        area,
    );
}
