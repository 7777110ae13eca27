//! Configurations of several files: changes of each, and files that cannot be read.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use steppe_testkit::{Load, NodeConfig, RawOrigin, Scratch, Steppe, eventually};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A node that includes the files of a folder, and the configuration that it starts with.
fn node(origin: &RawOrigin) -> (Steppe, String) {
    let config = format!("include = [\"sites/*.toml\"]\n{}", NodeConfig::plain());
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("sites/a.toml", &site("a", "/a"))
        .start(&config);
    (node, config)
}

fn site(name: &str, path: &str) -> String {
    format!(
        "[[http.route]]\nname = \"{name}\"\npath = \"{path}\"\nupstream = \"{name}\"\n[http.upstream.{name}]\nrespond = {{ body = \"{name}\" }}\n"
    )
}

fn body(node: &Steppe, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    node.exchange(request).text().to_owned()
}

fn failed(node: &Steppe) -> u64 {
    let failed = &node.admin_json("/reload")["failed"];
    failed.as_u64().expect("a number")
}

/// All files are watched: no request for a reload is sent here.
#[test]
fn included_files_change_appear_break_and_go_under_load() {
    let origin = RawOrigin::answering(OK);
    let (node, _) = node(&origin);
    let load = Load::start(&node.url("/"), 16);
    let put = |name: &str, text: &str| {
        let folder = node.scratch().join("sites");
        let written = folder.join(format!("{name}.new"));
        fs::write(&written, text).expect("it is ours");
        fs::rename(written, folder.join(name)).expect("it is ours");
    };
    assert_eq!(body(&node, "/a"), "a");
    put("a.toml", &site("b", "/a"));
    eventually("a changed file counts", || body(&node, "/a") == "b");
    put("c.toml", &site("c", "/c"));
    eventually("a new file counts", || body(&node, "/c") == "c");
    // A reload takes all files or none: the first of these two is good.
    put("a.toml", &site("a", "/a"));
    put("d.toml", "[[http.route]]\nnme = 1\n");
    eventually("a broken file is refused", || failed(&node) > 0);
    let error = node.admin_json("/reload")["last_error"].to_string();
    assert!(error.contains("d.toml:2:1"), "{error}");
    eventually("the log names it", || {
        node.said().contains("sites/d.toml line 2")
    });
    assert_eq!(body(&node, "/a"), "b");
    fs::remove_file(node.scratch().join("sites/d.toml")).expect("it is ours");
    eventually("a file that goes counts", || body(&node, "/a") == "a");
    let output = load.stop();
    assert_eq!((output.errors, output.refused), (0, 0), "{output:?}");
    assert!(output.requests > 100, "{output:?}");
}

fn check(scratch: &Scratch, main: &str) -> Output {
    let file = scratch.join("main.toml");
    fs::write(&file, main).expect("it is ours");
    let mut command = Steppe::command();
    let command: &mut Command = command.args(["check", "--offline"]).arg(&file);
    command.output().expect("it runs")
}

fn refusal(scratch: &Scratch, include: &str) -> String {
    let output = check(scratch, &format!("include = [\"{include}\"]\n"));
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{include}: {told}");
    assert!(told.contains("main.toml:1:12"), "{include}: {told}");
    told
}

#[test]
fn files_that_are_none_are_refused_at_once() {
    let scratch = Scratch::new("included");
    fs::create_dir(scratch.join("folder")).expect("it is ours");
    let fifo = scratch.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("it runs");
    assert!(made.success());
    let huge = File::create(scratch.join("huge.toml")).expect("it is ours");
    huge.set_len(1 << 30).expect("it is sparse");
    fs::create_dir(scratch.join("many")).expect("it is ours");
    for number in 0..10_000 {
        File::create(scratch.join("many").join(format!("{number}.toml"))).expect("it is ours");
    }
    for (include, told) in [
        ("/dev/zero", "no regular file"),
        ("folder", "no regular file"),
        ("fifo", "no regular file"),
        ("huge.toml", "longer than 1048576 bytes"),
        ("many/*.toml", "more than 1024 files"),
        ("main.toml", "includes itself"),
        ("none.toml", "No such file"),
    ] {
        let refusal = refusal(&scratch, include);
        assert!(refusal.contains(told), "{include}: {refusal}");
    }
}

/// A mistake names the path by which a file is included, not the one behind the link.
#[test]
fn a_link_out_of_the_folder_is_followed() {
    let (scratch, elsewhere) = (Scratch::new("including"), Scratch::new("elsewhere"));
    let target = elsewhere.join("real.toml");
    fs::write(&target, "[[http.route]]\nnme = 1\n").expect("it is ours");
    symlink(&target, scratch.join("link.toml")).expect("it is ours");
    let output = check(&scratch, "include = [\"*.toml\"]\n");
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(
        told.contains("link.toml:2:1") && !told.contains("real.toml"),
        "{told}"
    );
}

/// Each output about a configuration shows the placeholder.
#[test]
fn a_value_of_a_file_is_shown_nowhere() {
    const SECRET: &str = "hunter22-hunter22";
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .set("log.level", "debug")
        .add_filter("key", |f| {
            f.set("kind", "transform").with_toml(
                "request_headers = { set = { x-key = '${file:secret}', x-env = '${env:STEPPE_TEST:-plain}' } }",
            )
        })
        .route("all", |r| r.filters(["key"]));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("secret", &format!("{SECRET}\n"))
        .start(&config);
    assert_eq!(body(&node, "/"), "ok");
    let received = origin.received();
    assert!(
        received.contains(&format!("x-key: {SECRET}\r\n")),
        "{received}"
    );
    assert!(received.contains("x-env: plain\r\n"), "{received}");
    let shown = node.admin_json("/config")["http"]["filter"]["key"].to_string();
    assert!(
        shown.contains("${file:secret}") && shown.contains("${env:STEPPE_TEST:-plain}"),
        "{shown}"
    );
    let file = node.scratch().join("steppe.toml");
    let tell = |args: &[&str]| {
        let output = Steppe::command()
            .args(args)
            .arg(&file)
            .output()
            .expect("it runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    let url = node.url("/");
    let mut told = vec![
        node.said(),
        node.admin_json("/config").to_string(),
        tell(&["check", "--effective"]),
        tell(&["explain", "GET", &url, "-c"]),
        tell(&["explain", "GET", &url, "--json", "-c"]),
    ];
    // A mistake about the value: of a key's own form, of a choice, and of keys that belong together.
    for line in [
        "[log]\nlevel = \"${file:secret}\"",
        "[http]\ntrusted_proxies = [\"${file:secret}\"]",
        "[[http.route]]\nname = \"x\"\nupstream = \"${file:secret}\"",
        "[[http.route]]\nname = \"${file:secret}\"\nhost = \"x\"\nfilters = [\"${file:secret}\"]\nupstream = \"y\"",
    ] {
        fs::write(&file, line).expect("it is ours");
        let said = tell(&["check", "--offline"]);
        assert!(
            said.contains("${file:secret}") && said.contains("error"),
            "{said}"
        );
        told.push(said);
    }
    for told in told {
        assert!(!told.contains("hunter22"), "{told}");
    }
}

/// The loss of a file that is included by its name is an error; the running configuration stays.
#[test]
fn a_named_file_that_goes_is_told() {
    let origin = RawOrigin::answering(OK);
    let config = format!("include = [\"one.toml\"]\n{}", NodeConfig::plain());
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("one.toml", &site("a", "/a"))
        .start(&config);
    fs::remove_file(node.scratch().join("one.toml")).expect("it is ours");
    eventually("its loss is told", || failed(&node) > 0);
    let error = node.admin_json("/reload")["last_error"].to_string();
    assert!(error.contains("one.toml"), "{error}");
    assert_eq!(body(&node, "/a"), "a");
}

/// Relative paths in sites are relative to the folder of their own file.
#[test]
fn sites_of_several_folders_keep_their_own_files() {
    let scratch = Scratch::new("folders");
    for (folder, host) in [("a", "a.example"), ("b", "b.example")] {
        scratch.write(
            &format!("{folder}/site.toml"),
            format!(
                "[[site]]\nhosts = [\"{host}\"]\nfiles = \"www\"\nlisten = \"127.0.0.1:8443\"\n\
                 https = {{ cert = \"c.pem\", key = \"${{env:STEPPE_KEY:-k}}.pem\" }}\n\
                 [[site]]\nhosts = [\"local.{host}\"]\nproxy = \"unix:server.sock\"\nlisten = \"unix:s.sock\"\n"
            ),
        );
    }
    let main = scratch.write("main.toml", "include = [\"*/site.toml\"]\n");
    let run = |command: &str| {
        let output = Steppe::command().arg(command).arg(&main).output();
        let output = output.expect("it runs");
        let told = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(0), "{command}: {told}");
        String::from_utf8(output.stdout).expect("text")
    };
    let expanded = run("expand");
    for folder in ["a", "b"] {
        let folder = scratch.join(folder);
        let folder = folder.display();
        for value in [
            format!("{folder}/c.pem"),
            format!("{folder}/${{env:STEPPE_KEY:-k}}.pem"),
            format!("{folder}/www"),
            format!("unix:{folder}/s.sock"),
            format!("unix:{folder}/server.sock"),
        ] {
            assert!(
                expanded.contains(&format!("\"{value}\"")),
                "{value}: {expanded}"
            );
        }
    }
}
