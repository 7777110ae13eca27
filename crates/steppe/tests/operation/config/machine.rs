//! `steppe check` on a machine, and the advice of commands about addresses and files.

use std::process::{Command, Output};

use steppe_testkit::{NodeConfig, Peer, Port, RawOrigin, Scratch, Steppe, eventually};

fn steppe(args: &[&str]) -> Output {
    Steppe::command().args(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// A configuration whose files do not exist on this machine.
const LACKING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/broken/machine_files.toml"
);

#[test]
fn check_beside_the_running_node_passes() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    let file = node.scratch().join("steppe.toml");
    let output = steppe(&["check", file.to_str().expect("text")]);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(said.contains(": ok: "), "{said}");
    for address in [node.gateway(), node.admin()] {
        assert!(told.contains(&format!("{address} is in use")), "{told}");
    }
    assert!(told.ends_with(": 2 notes\n"), "{told}");
}

#[test]
fn offline_leaves_out_the_machine() {
    let here = steppe(&["check", LACKING]);
    assert_eq!(here.status.code(), Some(1));
    assert!(text(&here.stderr).contains("missing.token"));
    let offline = steppe(&["check", LACKING, "--offline"]);
    assert_eq!(offline.status.code(), Some(0), "{}", text(&offline.stderr));
    assert_eq!(text(&offline.stderr), "");
    let budget = steppe(&["check", LACKING, "--offline", "--memory", "16MiB"]);
    assert_eq!(budget.status.code(), Some(1), "it is told the memory");
}

/// `check` refuses the lines that `run` refuses.
#[test]
fn check_refuses_what_run_refuses() {
    let route = "[http.upstream.a]\nrespond = {}\n[[http.route]]\nname = \"a\"\npath = \"/\"\nupstream = \"a\"\n";
    let port = Port::free().number();
    for (lines, told) in [
        (
            format!("[[http.listener]]\nlisten = \"[::]:{port}\"\n[[http.listener]]\nlisten = \"0.0.0.0:{port}\"\n"),
            "overlaps",
        ),
        (
            format!("[admin]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"none\"\n[[http.listener]]\nlisten = \"127.0.0.1:0\"\n"),
            "cannot read",
        ),
        (
            "[[http.listener]]\nlisten = \"unix:none/socket\"\n".to_owned(),
            "No such file",
        ),
        (
            "[[http.listener]]\nlisten = \"203.0.113.77:80\"\n".to_owned(),
            "no interface of this machine has this address",
        ),
        (
            "[log]\naccess = { file = \"none/log\" }\n[[http.listener]]\nlisten = \"127.0.0.1:0\"\n".to_owned(),
            "No such file",
        ),
    ] {
        let scratch = Scratch::new("refused");
        let file = scratch.write("steppe.toml", format!("{lines}{route}"));
        let file = file.to_str().expect("text");
        let (check, run) = (steppe(&["check", file]), steppe(&["run", "-c", file]));
        let [checked, refused] = [&check, &run].map(|output| text(&output.stderr));
        assert_eq!(check.status.code(), Some(1), "{lines}: {checked}");
        assert!(matches!(run.status.code(), Some(1 | 3)), "{lines}: {refused}");
        for said in [checked, refused] {
            // A report may wrap its lines.
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(told), "{lines}: {said}");
            assert!(!said.contains("stop the process"), "{lines}: {said}");
        }
    }
}

#[test]
fn ports_that_are_not_admin_s_are_told() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    let gateway = node.gateway().to_string();
    let health = steppe(&["health", "--admin", &gateway]);
    assert_eq!(health.status.code(), Some(1));
    assert!(
        text(&health.stderr).contains("not the admin server"),
        "{health:?}"
    );
    let top = steppe(&["top", "--once", "--admin", &gateway]);
    assert_eq!(top.status.code(), Some(5));
    assert!(
        text(&top.stderr).contains("not the admin server"),
        "{top:?}"
    );
    let admin = format!("http://{}", node.admin());
    for args in [
        &["health", "--admin", &admin][..],
        &["top", "--once", "--admin", &admin],
    ] {
        assert_eq!(steppe(args).status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn explain_takes_no_other_listener_for_an_unknown_port() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first.toml");
    for (url, code) in [
        ("http://a.example/", 0),
        ("http://a.example:8080/", 0),
        ("http://a.example:8081/", 2),
        ("http://a.example:80/", 2),
        ("https://a.example/", 2),
    ] {
        let output = steppe(&["explain", "GET", url, "-c", file]);
        assert_eq!(output.status.code(), Some(code), "{url}");
        let told = text(&output.stderr);
        assert_eq!(told.contains("127.0.0.1:8080"), code == 2, "{url}: {told}");
    }
}

#[test]
fn every_manual_page_that_is_named_is_written() {
    let scratch = Scratch::new("man");
    let folder = scratch.path().to_str().expect("text");
    assert!(steppe(&["man", folder]).status.success());
    let mut named = 0;
    for page in std::fs::read_dir(scratch.path()).expect("it was made") {
        let page = page.expect("it can be listed").path();
        let roff = std::fs::read_to_string(&page).expect("text");
        let roff = roff.replace('\\', "").replace("fB", "").replace("fR", "");
        for (at, _) in roff.match_indices("(1)") {
            let before = &roff[..at];
            let start = before.rfind(|char: char| !(char.is_ascii_alphanumeric() || char == '-'));
            let name = &before[start.map_or(0, |start| start + 1)..];
            if name.starts_with("steppe") {
                let file = scratch.path().join(format!("{name}.1"));
                assert!(file.is_file(), "{} names {name}(1)", page.display());
                named += 1;
            }
        }
    }
    assert!(named > 20, "{named} names");
}

#[test]
fn a_refused_reload_is_one_line_of_the_log() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    // The banner comes from another thread, so it is awaited before the log is compared.
    eventually("it has said what serves", || {
        node.said().contains("Ctrl-C drains and stops.")
    });
    node.set_config(NodeConfig::plain().route("all", |r| r.upstream("orgin")));
    let answer = node.admin_post("/reload");
    assert_eq!(answer.status(), 422);
    assert!(answer.text().lines().count() > 5, "{}", answer.text());
    eventually("it is logged", || {
        node.said().contains("configuration refused")
    });
    let said = node.said();
    let lines: Vec<_> = said
        .lines()
        .skip_while(|line| !line.contains("configuration refused"))
        .collect();
    assert!(
        lines[0].contains("orgin") && lines[0].contains("line "),
        "{said}"
    );
    let are_events = lines.iter().all(|line| line.contains("reload"));
    assert!(are_events, "{lines:?}");
}

#[test]
fn metrics_are_plain_text_where_that_is_preferred() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    let host = node.admin();
    let get = |accept: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
        );
        Peer::connect(node.admin()).send(request).response()
    };
    let plain = get("text/plain;version=0.0.4");
    let media_type = plain.field("content-type").unwrap_or_default();
    assert!(media_type.starts_with("text/plain; version=0.0.4"));
    let plain = plain.text().to_owned();
    assert!(
        plain.contains("\n# TYPE steppe_http_requests_total counter\n"),
        "{plain}"
    );
    assert!(
        !plain.contains("# EOF") && !plain.contains("# UNIT"),
        "{plain}"
    );
    let open = get("application/openmetrics-text;q=0.5,text/plain;q=0.3,*/*;q=0.1");
    let media_type = open.field("content-type").unwrap_or_default();
    assert!(media_type.starts_with("application/openmetrics-text"));
    assert!(open.text().ends_with("# EOF\n"));
}

/// Without the capability, the error of a port below 1024 names it.
#[test]
fn a_port_below_1024_names_the_capability() {
    let scratch = Scratch::new("low-port");
    let file = scratch.write(
        "steppe.toml",
        "[[http.listener]]\nlisten = \"127.0.0.1:443\"\nredirect_https = true\n",
    );
    for command in [&["run", "-c"][..], &["check"]] {
        // A network namespace of its own, whose ports below 1024 need the capability, regardless of the machine's
        // settings.
        let mut unprivileged = Command::new("unshare");
        let script = "ip link set lo up; exec setpriv --bounding-set=-all --inh-caps=-all \
                      --reuid=65534 --regid=65534 --clear-groups \"$0\" \"$@\"";
        unprivileged.args(["-n", "/bin/sh", "-c", script, Steppe::program()]);
        let output = unprivileged
            .args(command)
            .arg(&file)
            .output()
            .expect("it runs");
        let told = text(&output.stderr).replace("\n  │ ", " ");
        assert!(
            told.contains("CAP_NET_BIND_SERVICE"),
            "{command:?}: {output:?}"
        );
        assert!(!told.contains("stop the process"), "{told}");
    }
}
