//! The output on the screen and as plain text.

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
        "responses": responses(),
        "caches": { "filters": [{
            "name": "pages", "bytes": 3 << 20, "bytes_max": 64 << 20, "responses": 120,
            "requests": { "hit": 900, "stale": 0, "revalidated": 5, "miss": 95, "bypass": 7 },
            "hit_ratio": 0.905, "stored": 4000, "evicted": 3880,
            "last_minute": { "requests_per_second": 12.5, "hit_ratio": 0.9123 },
        }], "filters_left_off": 0 },
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

fn responses() -> Value {
    json!({
        "last_minute": {
            "requests_per_second": 1500.0, "4xx": 14, "5xx": 9, "error_rate": 0.0043,
        },
        "routes": [
            {
                "name": "api", "upstream": "api", "requests": 99_000, "4xx": 310, "5xx": 52,
                "last_minute": {
                    "requests_per_second": 30.0, "4xx": 4, "5xx": 9, "error_rate": 0.02,
                },
            },
            {
                "name": "-", "upstream": null, "requests": 10, "4xx": 10, "5xx": 0,
                "last_minute": {
                    "requests_per_second": 0.167, "4xx": 10, "5xx": 0, "error_rate": 0.0,
                },
            },
        ],
        "routes_left_off": 0,
        "upstreams": [{
            "name": "api", "responses": 98_000, "4xx": 300, "5xx": 40, "gateway_5xx": 12,
            "last_minute": {
                "responses_per_second": 29.9, "4xx": 3, "5xx": 0, "gateway_5xx": 9,
                "error_rate": 0.0201,
            },
        }],
        "upstreams_left_off": 3,
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
fn the_screen_shows_rates_then_errors_and_upstreams_then_memory() {
    expect![[r#"
        "steppe 127.0.0.1:9900  ready  1.0.0  up 90 s                                    "
        "clients 16, streams 40  upstream 9 active, 7 idle, streams 12  tunnels 1        "
        "resident 12.0 MiB  allocated 900.0 KiB  retained 600.0 KiB  dirty 64.0 KiB      "
        "████       memory budget: 3.0 MiB of 64.0 MiB reserved, peak 6.0 MiB            "
        "requests 1500.0/s, error rate 0.43 %───  latency p50 0.42 ms, p99 2.50 ms───────"
        "                                      █                            ▁▁▂▃▃▄▄▅▆▆▇█ "
        "                                      █               ▁▁▂▃▃▄▄▅▆▆▇██████████████ "
        "     ▁▁▁▁▁▁▂▂▂▂▂▂▃▃▃▃▃▃▄▄▄▄▄▄▄▅▅▅▅▅▅▆▆█  ▁▁▂▃▃▄▄▅▆▆▇███████████████████████████▁"
        "responses by route, last minute─────────────────────────────────────────────────"
        "route                  requests/s     4xx     5xx error rate 4xx total 5xx total"
        "api                          30.0       4       9     2.00 %       310        52"
        "(no matching route)           0.2      10       0     0.00 %        10         0"
        "responses by upstream, last minute, 3 more in /metrics──────────────────────────"
        "upstream            responses/s     4xx     5xx gateway 5xx error rate 5xx total"
        "api                        29.9       3       0           9     2.01 %        40"
        "servers─────────────────────────────────────────────────────────────────────────"
        "upstream  server             state                  active  failures     latency"
        "api       10.0.0.2:80        ejected (5 errors in…       0         5           -"
        "api       10.0.0.1:80        healthy                     4         0     0.90 ms"
        "caches, hit ratio of the last minute────────────────────────────────────────────"
        "cache     hit ratio    total responses    stored evictions     memory      limit"
        "pages       91.23 %  90.50 %       120      4000      3880    3.0 MiB   64.0 MiB"
        "memory budget by account, sorted by tree────────────────────────────────────────"
        "account                                  reserved       peak      limit  refused"
        "node                                      3.0 MiB    6.0 MiB   64.0 MiB        0"
        "  listener 127.0.0.1:8080                 1.0 MiB    2.0 MiB          -        0"
        "  route all                               2.0 MiB    4.0 MiB          -        0"
        "recent warnings and errors──────────────────────────────────────────────────────"
        "warn steppe_net: evil �[2J (3 times)                                            "
        "q quit  Tab next view  s sort  ↑↓ scroll  ? help                                "
    "#]]
    .assert_eq(&screen(&view(), 80, 30));
}

#[test]
fn plain_text_says_the_same() {
    expect![[r#"
        steppe 1.0.0  ready
        up 90 s
        requests 1500.0/s, error rate 0.43 %
        latency p50 0.42 ms, p99 2.50 ms
        clients 16, streams 40  upstream 9 active, 7 idle, streams 12  tunnels 1
        resident 12.0 MiB  allocated 900.0 KiB  retained 600.0 KiB  dirty 64.0 KiB

        responses by route, last minute
        route                requests/s  4xx  5xx  error rate  4xx total  5xx total
        api                        30.0    4    9      2.00 %        310         52
        (no matching route)         0.2   10    0      0.00 %         10          0

        responses by upstream, last minute, 3 more in /metrics
        upstream  responses/s  4xx  5xx  gateway 5xx  error rate  5xx total
        api              29.9    3    0            9      2.01 %         40

        servers
        upstream  server       state                        active  failures  latency
        api       10.0.0.2:80  ejected (5 errors in a row)       0         5        -
        api       10.0.0.1:80  healthy                           4         0  0.90 ms

        caches, hit ratio of the last minute
        cache  hit ratio    total  responses  stored  evictions   memory     limit
        pages    91.23 %  90.50 %        120    4000       3880  3.0 MiB  64.0 MiB

        memory budget by account, sorted by tree
        account                    reserved     peak     limit  refused
        node                        3.0 MiB  6.0 MiB  64.0 MiB        0
          listener 127.0.0.1:8080   1.0 MiB  2.0 MiB         -        0
          route all                 2.0 MiB  4.0 MiB         -        0

        recent warnings and errors
        warn steppe_net: evil �[2J (3 times)
    "#]]
    .assert_eq(&plain::render(&view()));
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
    assert!(screen(&view, 80, 40).contains("\"node "));
    press(&mut view, KeyCode::Down);
    assert!(!screen(&view, 80, 40).contains("\"node "));
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
fn tab_shows_one_panel_after_the_other_from_its_first_row() {
    let mut view = view();
    press(&mut view, KeyCode::Down);
    let titles = [
        "responses by route",
        "responses by upstream",
        "caches",
        "memory budget by account",
        "recent warnings",
    ];
    for title in titles {
        press(&mut view, KeyCode::Tab);
        assert_eq!(view.offset, 0);
        let screen = screen(&view, 80, 30);
        assert!(screen.contains(title), "{title} in {screen}");
        let others = titles.iter().filter(|other| screen.contains(*other));
        assert_eq!(others.count(), 1, "{screen}");
    }
    press(&mut view, KeyCode::Tab);
    assert!(view.panel == view::Panel::Overview);
    press(&mut view, KeyCode::Tab);
    press(&mut view, KeyCode::PageDown);
    assert_eq!(view.offset, 1, "the last of two routes");
}

/// Rows with errors come first, and a node of many routes leaves room for upstreams and warnings.
#[test]
fn a_small_terminal_shows_errors_upstreams_and_warnings() {
    let mut view = view();
    let many = vec![view.node["responses"]["routes"][0].clone(); 50];
    view.node["responses"]["routes"] = json!(many);
    let screen = screen(&view, 80, 24);
    for shown in ["responses by route", "gateway 5xx", "10.0.0.2:80", "evil"] {
        assert!(screen.contains(shown), "{shown} in {screen}");
    }
}

/// On a narrow screen the host is cut: a port without its last digit is another port.
#[test]
fn a_narrow_terminal_keeps_ports() {
    let mut view = view();
    view.node["upstreams"][0]["servers"][0]["server"] = json!("node-17.eu.example.net:18443");
    for width in 60..100 {
        let screen = screen(&view, width, 30);
        for port in [":18443 ", ":80 "] {
            assert!(screen.contains(port), "{port} in {screen}");
        }
    }
}

#[test]
fn a_node_without_a_minute_of_counts_has_no_rates() {
    let mut view = view();
    let responses = &mut view.node["responses"];
    responses["last_minute"] = Value::Null;
    responses["routes"][0]["last_minute"] = Value::Null;
    let text = plain::render(&view);
    assert!(text.contains("error rate -\n"), "{text}");
    view.node["responses"]["routes"] = json!([]);
    assert!(plain::render(&view).contains("no routes\n"));
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
