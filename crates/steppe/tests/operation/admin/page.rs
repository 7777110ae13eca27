//! The admin page in a real browser, its events, and `steppe top`.

use std::process::Output;

use serde_json::{Value, json};
use steppe_testkit::{
    Chromium, NodeConfig, Port, RawOrigin, Steppe, eventually, observe_until, skip,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const TOKEN: &str = "s3cret-t0ken-of-some-length";

fn with_token(origin: &RawOrigin) -> Steppe {
    let config = NodeConfig::plain()
        .set("admin.listen", "unix:{scratch}/admin.sock")
        .set("admin.probes", "{admin}")
        .set("admin.token_file", "{scratch}/token");
    Steppe::builder()
        .with("origin", origin.address())
        .with_file("token", TOKEN)
        .start(&config)
}

#[test]
fn the_page_shows_the_node_live_and_complains_of_nothing() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("the_page_shows_the_node_live", &reason),
    };
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    // A connection with half a head: reserved memory is constant, and not zero.
    let mut peer = node.connect();
    peer.send("GET / HTTP/1.1\r\n");
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("Boolean(document.body?.dataset.live)");
    let first = browser.evaluate("document.body.dataset.live");
    let first = first.as_str().expect("a time");
    browser.await_true(&format!("document.body.dataset.live !== '{first}'"));

    let budget = node.admin_json("/memory")["budget"].take();
    let shown = |key: &str| format!("Number(byId('budget').dataset.{key})");
    assert_eq!(browser.evaluate(&shown("limit")), budget["limit_bytes"]);
    // Uncharged memory is measured again and again.
    eventually("page and report agree", || {
        let reserved = &node.admin_json("/memory")["budget"]["reserved_bytes"];
        browser.evaluate(&shown("reserved")) == *reserved
    });
    browser.await_true("byId('holders').rows.length > 5");
    browser.await_true("byId('accounts').innerText.includes('route all')");
    allocator_is_shown(&mut browser, &node);
    let server = json!(origin.address().to_string());
    browser.await_true(&format!("byId('upstreams').innerText.includes({server})"));
    let today = "new Date().toLocaleDateString('en-GB')";
    browser.await_true(&format!("byId('reload').textContent.includes({today})"));
    browser.evaluate("byId('config').open = true");
    browser.await_true("byId('config-text').textContent.includes('memory_budget')");

    for width in [1280, 390, 320] {
        browser.resize(width, 800);
        assert_eq!(browser.evaluate(OVERHANG), json!(0), "at {width} px");
        assert_eq!(browser.evaluate(BROKEN_PORTS), json!([]), "at {width} px");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Routes `fine` and `broken`, whose server refuses connections, and a cache.
fn with_errors() -> NodeConfig {
    NodeConfig::bare()
        .add_upstream("hello", |u| u.set("respond.body", "hello"))
        .add_upstream("pages", |u| u.servers(["{origin}"]))
        .add_upstream("down", |u| u.servers(["{nobody}"]))
        .add_filter("store", |f| f.set("kind", "cache").set("bytes", "4MiB"))
        .add_route("fine", |r| r.path("/fine").upstream("hello"))
        .add_route("cached", |r| {
            let route = r.path("/cached").upstream("pages");
            route.filters(["store"])
        })
        .add_route("broken", |r| r.path("/broken").upstream("down"))
}

#[test]
fn errors_by_route_and_upstream_and_caches_are_shown_before_memory() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("errors_by_route_and_upstream", &reason),
    };
    let fresh = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok";
    let origin = RawOrigin::answering(fresh);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with("nobody", Port::free().keep())
        .start(with_errors());
    let get = |path: &str, count: usize| {
        for _ in 0..count {
            node.exchange(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        }
    };
    get("/fine", 3);
    get("/cached", 4);
    get("/broken", 2);
    get("/missing", 1);
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("byId('routes')?.querySelectorAll('tbody tr').length === 4");
    let cells = |id: &str| {
        format!(
            "[...byId('{id}').querySelectorAll('tbody tr')]\
             .map((row) => [...row.cells].map((cell) => cell.innerText))"
        )
    };
    let routes = browser.evaluate(&cells("routes"));
    let name_and_errors = |rows: &Value, columns: &[usize]| -> Vec<Value> {
        let rows = rows.as_array().expect("rows").iter();
        rows.map(|row| columns.iter().map(|&column| row[column].clone()).collect())
            .collect()
    };
    assert_eq!(
        name_and_errors(&routes, &[0, 2, 3, 4, 6]),
        [
            json!(["broken → down", "0", "2", "100 %", "2"]),
            json!(["no matching route", "1", "0", "0 %", "0"]),
            json!(["fine → hello", "0", "0", "0 %", "0"]),
            json!(["cached → pages", "0", "0", "0 %", "0"]),
        ]
    );
    let upstreams = browser.evaluate(&cells("upstream-responses"));
    assert_eq!(
        name_and_errors(&upstreams, &[0, 3, 4, 5, 8])[0],
        json!(["down", "0", "2", "100 %", "2"])
    );
    let caches = browser.evaluate(&cells("cache-rows"));
    assert_eq!(
        name_and_errors(&caches, &[0, 1, 2, 3, 6, 8]),
        [json!(["store", "75 %", "75 %", "3", "1", "1"])]
    );
    assert_eq!(
        browser.evaluate("byId('error-rate').innerText"),
        json!("20 %")
    );
    let tops = "['routes', 'upstreams', 'caches', 'accounts', 'holders'].map((id) => \
        byId(id).getBoundingClientRect().top)";
    let tops = browser.evaluate(tops);
    let tops: Vec<_> = tops.as_array().expect("numbers").iter().collect();
    assert!(tops.is_sorted_by_key(|top| top.as_f64()), "{tops:?}");
    for width in [1280, 800, 390, 320] {
        browser.resize(width, 800);
        assert_eq!(browser.evaluate(OVERHANG), json!(0), "at {width} px");
        assert_eq!(browser.evaluate(BROKEN_PORTS), json!([]), "at {width} px");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The width by which the page exceeds the window.
const OVERHANG: &str =
    "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// Texts whose port number wraps to another line.
const BROKEN_PORTS: &str = r"(() => {
    const walker = document.createTreeWalker(byId('node'), NodeFilter.SHOW_TEXT);
    const broken = [];
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
        for (const { 0: port, index } of text.data.matchAll(/:\d{1,5}/g)) {
            const range = document.createRange();
            range.setStart(text, index);
            range.setEnd(text, index + port.length);
            const lines = [...range.getClientRects()].map((box) => Math.round(box.top));
            if (new Set(lines).size > 1) broken.push(text.data);
        }
    }
    return broken;
})()";

/// Asserts that the page shows size classes and threads of steppe-malloc, or nothing for an
/// allocator without details.
fn allocator_is_shown(browser: &mut Chromium, node: &Steppe) {
    let allocator = node.admin_json("/memory")["allocator"].take();
    if allocator["details"].is_null() {
        browser.await_true("byId('allocator').hidden");
        return;
    }
    browser.await_true("!byId('allocator').hidden && byId('classes').rows.length > 3");
    browser.await_true("byId('heaps').innerText.includes('worker-0')");
    browser.await_true("byId('allocator-key').innerText.includes('MiB in use') || byId('allocator-key').innerText.includes('KiB in use')");
    let widths =
        "[...byId('allocator-bar').children].map((part) => part.getBoundingClientRect().width)";
    let whole = format!(
        "{widths}.reduce((sum, width) => sum + width, 0) / byId('allocator-bar').clientWidth"
    );
    browser.await_true(&format!("Math.abs(1 - {whole}) < 0.02"));
}

#[test]
fn a_complaint_of_a_page_is_heard() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("a_complaint_of_a_page_is_heard", &reason),
    };
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("Boolean(document.body?.dataset.live)");
    // The Content-Security-Policy forbids styles other than the page's own file.
    browser.evaluate("document.body.setAttribute('style', 'color: red')");
    let complaints = browser.complaints();
    assert!(
        complaints
            .iter()
            .any(|each| each.contains("Content Security Policy")),
        "{complaints:#?}"
    );
}

#[test]
fn bytes_of_the_node_never_become_markup() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("bytes_of_the_node_never_become_markup", &reason),
    };
    let origin = RawOrigin::answering(OK);
    let name = "<img src=x onerror=alert(1)>";
    let config = NodeConfig::plain().route("all", |r| r.set("name", name));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    browser.go(&format!("http://{}/", node.admin()));
    let shown = format!("byId('accounts')?.innerText.includes({})", json!(name));
    browser.await_true(&format!("Boolean({shown})"));
    assert_eq!(browser.evaluate("document.images.length"), json!(0));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_asks_for_the_token_and_keeps_it_for_the_tab() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("the_page_asks_for_the_token", &reason),
    };
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .set("admin.listen", "127.0.0.1:{page}")
        .set("admin.probes", "{admin}")
        .set("admin.token_file", "{scratch}/token");
    let (builder, page) = Steppe::builder()
        .with("origin", origin.address())
        .with_file("token", TOKEN)
        .with_port("page");
    let _node = builder.start(&config);
    browser.go(&format!("http://127.0.0.1:{page}/"));
    let enter = |token: &str| {
        format!("byId('token').value = '{token}'; byId('token-form').requestSubmit()")
    };
    browser.await_true("byId('locked')?.hidden === false");
    browser.evaluate(&enter("wrong"));
    browser.await_true("byId('token-hint').textContent.includes('refused this token')");
    browser.evaluate(&enter(TOKEN));
    browser.await_true("byId('locked').hidden && !byId('node').hidden");
    browser.go(&format!("http://127.0.0.1:{page}/?again"));
    browser.await_true("Boolean(document.body?.dataset.live)");
}

/// Runs `steppe top` with these arguments.
fn top(args: &[&str]) -> Output {
    let output = Steppe::command().arg("top").args(args).output();
    output.expect("the binary runs")
}

#[test]
fn top_prints_a_snapshot_where_there_is_no_terminal() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let admin = format!("http://{}", node.admin());
    let output = top(&["--admin", &admin]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let server = origin.address().to_string();
    let parts = [
        "ready",
        "64.0 MiB",
        "route all",
        &server,
        "healthy",
        "p99",
        "error rate",
        "responses by route",
        "no caches",
    ];
    for part in parts {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn top_reads_a_unix_socket_and_shows_the_token() {
    let origin = RawOrigin::answering(OK);
    let node = with_token(&origin);
    let admin = format!("unix:{}", node.scratch().join("admin.sock").display());
    let token_file = node.scratch().join("token");
    let token_file = token_file.to_str().expect("the path is text");
    let without = top(&["--admin", &admin, "--once"]);
    assert_eq!(without.status.code(), Some(5), "{without:?}");
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(
        said.contains("401") && said.contains("--token-file"),
        "{said}"
    );
    let with = top(&["--admin", &admin, "--once", "--token-file", token_file]);
    assert!(with.status.success(), "{with:?}");
    let printed = [with.stdout, with.stderr].concat();
    assert!(!String::from_utf8_lossy(&printed).contains(TOKEN));
}

#[test]
fn top_says_that_nothing_answers() {
    let port = steppe_testkit::Port::free();
    let output = top(&["--admin", &port.address().to_string()]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&format!("no response from {}", port.address())),
        "{said}"
    );
}

#[test]
fn a_warning_of_the_log_is_among_the_events() {
    let node = Steppe::in_front_of("no-such-host.invalid:80");
    node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let admin = node.admin().to_string();
    observe_until(
        "the warning is among the events",
        || {
            let output = top(&["--admin", &admin]);
            String::from_utf8_lossy(&output.stdout).into_owned()
        },
        |text| text.contains("warn steppe_net") && text.contains("no-such-host.invalid"),
    );
}

#[test]
fn memory_tells_what_the_page_takes() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let report: Value = node.admin_json("/memory");
    let children = report["budget"]["children"].as_array().expect("accounts");
    let admin = children.iter().find(|each| each["name"] == "admin");
    let reserved = admin.and_then(|admin| admin["reserved_bytes"].as_u64());
    assert!(reserved >= Some(24_000), "{report}");
}
