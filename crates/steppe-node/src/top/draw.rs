//! The view on a terminal: from the top what matters most, cut from the bottom.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Gauge, Paragraph, Row, Sparkline, Table};

use super::view::{
    AccountRow, SERVER_COLUMNS, View, bytes, connections, events, memory, milliseconds, servers,
    text,
};

const HELP: &str = "\
q  Esc     quit
s          sort accounts: tree, reserved, peak, name
Up Down    scroll accounts; PageUp, PageDown, Home
?          this help";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let servers = servers(&view.node);
    let servers_height = u16::try_from(servers.len()).unwrap_or(u16::MAX).clamp(1, 6) + 3;
    let [head, budget, rates, accounts, upstreams, errors, keys] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(3),
        Constraint::Length(5),
        Constraint::Fill(3),
        Constraint::Length(servers_height),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, view);
    draw_budget(frame, budget, view);
    draw_rates(frame, rates, view);
    draw_accounts(frame, accounts, view);
    draw_servers(frame, upstreams, servers);
    draw_errors(frame, errors, view);
    let help = "q quit  s sort  ↑↓ scroll  ? help";
    frame.render_widget(Line::from(help).dim(), keys);
    if view.shows_help {
        draw_help(frame);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let node = &view.node;
    let state = match &view.lost {
        Some(why) => format!("disconnected, retrying: {why}").red().bold(),
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
        "{} of {}, peak {}",
        bytes(reserved),
        bytes(limit),
        bytes(number("peak_bytes"))
    );
    let gauge = Gauge::default()
        .block(Block::bordered().title("memory budget"))
        .gauge_style(Style::new().fg(Color::Green))
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
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
    let node = &view.node;
    let rate = format!("requests {}/s", text(&node["requests_per_second"]));
    let latency = format!(
        "latency p50 {} p99 {}",
        milliseconds(&node["p50_ms"]),
        milliseconds(&node["p99_ms"])
    );
    draw_sparkline(frame, left, rate, view.rates.iter(), Color::Green);
    draw_sparkline(frame, right, latency, view.p99_us.iter(), Color::Yellow);
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn draw_sparkline<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: String,
    values: impl DoubleEndedIterator<Item = &'a u64> + ExactSizeIterator,
    color: Color,
) {
    let fits = usize::from(area.width.saturating_sub(2));
    let skipped = values.len().saturating_sub(fits);
    let values: Vec<u64> = values.skip(skipped).copied().collect();
    let line = Sparkline::default()
        .block(Block::bordered().title(title))
        .style(Style::new().fg(color))
        .data(values);
    frame.render_widget(line, area);
}

fn draw_accounts(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let rows = view.accounts();
    let indent = view.sort == super::view::Sort::Tree;
    let shown = rows
        .iter()
        .skip(view.offset)
        .map(|row| account_row(row, indent));
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(9),
    ];
    let title = format!("accounts, by {}", view.sort.name());
    let heads = ["account", "reserved", "peak", "limit", "refused"];
    let table = Table::new(shown, widths)
        .header(Row::new(heads).style(Modifier::DIM))
        .block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn account_row(row: &AccountRow, indent: bool) -> Row<'static> {
    let depth = if indent { row.depth * 2 } else { 0 };
    Row::new([
        format!("{:depth$}{}", "", row.name),
        bytes(row.reserved_bytes),
        bytes(row.peak_bytes),
        row.limit_bytes.map_or_else(|| "-".to_owned(), bytes),
        row.refused.to_string(),
    ])
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, rows: Vec<[String; 6]>) {
    let block = Block::bordered().title("upstreams");
    if rows.is_empty() {
        frame.render_widget(Paragraph::new("none").dim().block(block), area);
        return;
    }
    let widths = [
        Constraint::Fill(1),
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(11),
    ];
    let rows = rows.into_iter().map(|row| {
        let style = match row[2].as_str() {
            "healthy" => Style::new().fg(Color::Green),
            state if state.starts_with("draining") => Style::new().fg(Color::Yellow),
            _ => Style::new().fg(Color::Red),
        };
        Row::new(row).style(style)
    });
    let table = Table::new(rows, widths)
        .header(Row::new(SERVER_COLUMNS).style(Modifier::DIM))
        .block(block);
    frame.render_widget(table, area);
}

fn draw_errors(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let block = Block::bordered().title("recent warnings and errors");
    let lines = events(&view.node)
        .into_iter()
        .map(|(level, line)| {
            let color = if level == "error" {
                Color::Red
            } else {
                Color::Yellow
            };
            Line::from(vec![Span::from(level).fg(color), " ".into(), line.into()])
        })
        .collect::<Vec<_>>();
    let text = match lines.is_empty() {
        true => Paragraph::new("none since the node started").dim(),
        false => Paragraph::new(lines),
    };
    frame.render_widget(text.block(block), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let [area] = Layout::horizontal([Constraint::Max(60)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [area] = Layout::vertical([Constraint::Max(6)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(HELP).block(Block::bordered().title("keys")),
        area,
    );
}
