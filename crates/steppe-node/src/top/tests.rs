//! The screen and the plain text, as they come out.

use expect_test::expect;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::*;

fn account(name: &str, reserved: u64, children: Vec<Value>) -> Value {
    json!({
        "name": name, "limit_bytes": null, "reserved_bytes": reserved,
        "peak_bytes": reserved * 2, "refused": 0, "children": children,
    })
}

fn node() -> Value {
    let mut budget = account(
        "node",
        3 << 20,
        vec![
            account("listener 127.0.0.1:8080", 1 << 20, vec![]),
            account("route all", 2 << 20, vec![]),
        ],
    );
    budget["limit_bytes"] = json!(64 << 20);
    json!({
        "version": "1.0.0", "state": "ready", "uptime_s": 90, "budget": budget,
        "rss_bytes": 12 << 20, "allocator_live_bytes": 900 << 10,
        "allocator": { "live_bytes": 1 << 20, "retained_bytes": 600 << 10, "dirty_bytes": 64 << 10 },
        "requests_per_second": 1500.0, "p50_ms": 0.42, "p99_ms": 2.5,
        "connections": {
            "downstream": 16, "downstream_streams": 40,
            "upstream_active": 9, "upstream_idle": 7, "upstream_streams": 12, "tunnels": 1,
        },
        "upstreams": [{ "name": "api", "servers": [
            { "server": "10.0.0.1:80", "state": "healthy", "reason": null, "active": 4,
              "failures": 0, "latency_ms": 0.9 },
            { "server": "10.0.0.2:80", "state": "ejected", "reason": "5 errors in a row",
              "active": 0, "failures": 5, "latency_ms": null },
        ]}],
        "events": [
            { "level": "warn", "target": "steppe_net", "text": "evil \u{1b}[2J", "count": 3 },
        ],
    })
}

fn view() -> View {
    let mut view = View::new("127.0.0.1:9900".to_owned());
    let rows: Vec<Value> = (0..40).map(|n| json!([n, 0, 0, n * 10, 0.1, n])).collect();
    view.update(Update::History(json!({ "samples": rows })));
    view.update(Update::Snapshot(node()));
    view
}

fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("memory is a terminal");
    terminal
        .draw(|frame| draw::draw(frame, view))
        .expect("memory takes everything");
    terminal.backend().to_string()
}

fn press(view: &mut View, code: KeyCode) -> bool {
    is_end_key(KeyEvent::new(code, KeyModifiers::NONE), view)
}

#[test]
fn the_screen_shows_budget_rates_accounts_upstreams_and_errors() {
    expect![[r#"
        "steppe 127.0.0.1:9900  ready  1.0.0  up 90 s                                    "
        "clients 16, streams 40  upstream 9 active, 7 idle, streams 12  tunnels 1        "
        "resident 12.0 MiB  allocated 900.0 KiB  retained 600.0 KiB  dirty 64.0 KiB      "
        "┌memory budget─────────────────────────────────────────────────────────────────┐"
        "│████                  3.0 MiB of 64.0 MiB, peak 6.0 MiB                       │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌requests 1500.0/s─────────────────────┐┌latency p50 0.42 ms p99 2.50 ms───────┐"
        "│                                     █││                         ▁▁▂▃▃▄▄▅▆▆▇█ │"
        "│                                     █││            ▁▁▂▃▃▄▄▅▆▆▇██████████████ │"
        "│    ▁▁▁▁▁▁▂▂▂▂▂▂▃▃▃▃▃▃▄▄▄▄▄▄▄▅▅▅▅▅▅▆▆█││▁▂▃▃▄▄▅▆▆▇███████████████████████████▁│"
        "└──────────────────────────────────────┘└──────────────────────────────────────┘"
        "┌accounts, by tree─────────────────────────────────────────────────────────────┐"
        "│account                          reserved    peak        limit       refused  │"
        "│node                             3.0 MiB     6.0 MiB     64.0 MiB    0        │"
        "│  listener 127.0.0.1:8080        1.0 MiB     2.0 MiB     -           0        │"
        "│  route all                      2.0 MiB     4.0 MiB     -           0        │"
        "│                                                                              │"
        "│                                                                              │"
        "│                                                                              │"
        "│                                                                              │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌upstreams─────────────────────────────────────────────────────────────────────┐"
        "│upstream  server              state              active  failures  latency    │"
        "│api       10.0.0.1:80         healthy            4       0         0.90 ms    │"
        "│api       10.0.0.2:80         ejected (5 errors  0       5         -          │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌recent warnings and errors────────────────────────────────────────────────────┐"
        "│warn steppe_net: evil �[2J (3 times)                                          │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "q quit  s sort  ↑↓ scroll  ? help                                               "
    "#]]
    .assert_eq(&screen(&view(), 80, 30));
}

#[test]
fn plain_text_says_the_same() {
    expect![[r#"
        steppe 1.0.0  ready
        up 90 s
        requests 1500.0/s  p50 0.42 ms  p99 2.50 ms
        clients 16, streams 40  upstream 9 active, 7 idle, streams 12  tunnels 1
        resident 12.0 MiB  allocated 900.0 KiB  retained 600.0 KiB  dirty 64.0 KiB

        account                                      reserved         peak        limit  refused
        node                                          3.0 MiB      6.0 MiB     64.0 MiB        0
          listener 127.0.0.1:8080                     1.0 MiB      2.0 MiB            -        0
          route all                                   2.0 MiB      4.0 MiB            -        0

        upstream         server                   state                      active failures      latency
        api              10.0.0.1:80              healthy                         4        0      0.90 ms
        api              10.0.0.2:80              ejected (5 errors in a row)        0        5            -
        warn steppe_net: evil �[2J (3 times)
    "#]].assert_eq(&plain::render(&view()));
}

#[test]
fn keys_sort_scroll_help_and_quit() {
    let mut view = view();
    press(&mut view, KeyCode::Char('s'));
    let names = |view: &View| {
        let rows = view.accounts().into_iter();
        rows.map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&view),
        ["node", "route all", "listener 127.0.0.1:8080"]
    );
    press(&mut view, KeyCode::Down);
    assert!(!screen(&view, 80, 30).contains("│node"));
    press(&mut view, KeyCode::PageDown);
    assert_eq!(view.offset, 2);
    press(&mut view, KeyCode::Home);
    assert_eq!(view.offset, 0);
    press(&mut view, KeyCode::Char('?'));
    assert!(screen(&view, 80, 30).contains("this help"));
    assert!(!press(&mut view, KeyCode::Esc) && !view.shows_help);
    assert!(press(&mut view, KeyCode::Char('q')));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(is_end_key(interrupt, &mut view));
}

#[test]
fn a_lost_connection_shows_until_the_next_snapshot() {
    let mut view = view();
    view.update(Update::Lost("connection refused".to_owned()));
    assert!(screen(&view, 80, 30).contains("retrying: connection refused"));
    view.update(Update::Snapshot(node()));
    assert!(!screen(&view, 80, 30).contains("retrying"));
}

#[test]
fn a_terminal_of_any_size_is_drawn_on() {
    for (width, height) in [(1, 1), (20, 5), (300, 100)] {
        screen(&view(), width, height);
    }
}
