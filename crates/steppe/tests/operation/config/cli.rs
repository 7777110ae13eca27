//! The command line, run as from a shell.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use expect_test::expect;
use steppe_testkit::{Scratch, Steppe};

fn steppe(args: &[&str]) -> Output {
    Steppe::command()
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("the binary starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn a_certificate_that_is_not_there_is_a_mistake() {
    let scratch = Scratch::new("check-tls");
    let file = scratch.path().join("steppe.toml");
    let config = r#"
        [[http.listener]]
        listen = "127.0.0.1:8443"
        tls = { certificates = [{ cert = "none.crt", key = "none.key" }] }
        [http.upstream.a]
        respond = {}
        [[http.route]]
        name = "a"
        path = "/{rest*}"
        upstream = "a"
    "#;
    std::fs::write(&file, config).expect("writes");
    let output = steppe(&["check", file.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stderr);
    assert!(report.contains("in `http.listener.tls`"), "{report}");
    assert!(report.contains("none.crt: No such file"), "{report}");
}

#[test]
fn check_sums_up_a_valid_file() {
    let output = steppe(&["check", "examples/first.toml", "--offline"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    expect![[r#"
        examples/first.toml: ok: 1 listener (127.0.0.1:8080), 2 routes, 2 upstreams, memory budget 64MiB
    "#]]
    .assert_eq(text(&output.stdout));
}

#[test]
fn check_counts_mistakes_and_fails() {
    // The files that the configuration names do not exist.
    let output = steppe(&["check", "examples/gateway.toml", "--offline"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let reports = text(&output.stderr);
    assert!(
        reports.ends_with("examples/gateway.toml: 1 error\n"),
        "{reports}"
    );
    assert!(!reports.contains('\u{1b}'), "no color in a pipe");
}

/// The first lines of the example are commands of a shell that make the files of the configuration.
#[test]
fn the_example_of_everything_says_how_its_files_are_made() {
    let scratch = Scratch::new("example-files");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let content =
        std::fs::read_to_string(folder.join("examples/gateway.toml")).expect("an example");
    let commands: String = content
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .map(|command| format!("{command}\n"))
        .collect();
    let made = Command::new("sh")
        .args(["-e", "-c", &commands])
        .current_dir(scratch.path())
        .output();
    let made = made.expect("a shell");
    assert!(made.status.success(), "{made:?}");
    let file = scratch.path().join("gateway.toml");
    let path = file.to_str().expect("text");
    std::fs::write(&file, &content).expect("writes");
    let refused = steppe(&["check", path]);
    let reports = text(&refused.stderr);
    assert!(reports.contains("\"h3\" in `protocols`"), "{reports}");
    assert!(reports.ends_with("gateway.toml: 1 error\n"), "{reports}");
    std::fs::write(&file, content.replace(", \"h3\"]", "]")).expect("writes");
    let checked = steppe(&["check", path]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    for args in [["check", "nowhere.toml"], ["run", "-cnowhere.toml"]] {
        let output = steppe(&args);
        assert_eq!(output.status.code(), Some(1));
        let expected = "steppe: can't read nowhere.toml: No such file or directory (os error 2)\n";
        assert_eq!(text(&output.stderr), expected);
    }
}

#[test]
fn run_refuses_an_invalid_file() {
    let output = steppe(&["run", "-c", "examples/gateway.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("2 errors"));
}

/// `check` and `run` use the same check.
#[test]
fn check_and_run_refuse_a_budget_that_the_machine_does_not_have() {
    let file = std::env::temp_dir().join(format!("steppe-budget-{}.toml", std::process::id()));
    let content =
        "[node]\nmemory_budget = \"16TiB\"\n[[http.listener]]\nlisten = \"127.0.0.1:0\"\n";
    std::fs::write(&file, content).expect("a temporary file");
    let path = file.to_str().expect("text");
    let outputs = [steppe(&["check", path]), steppe(&["run", "-c", path])];
    std::fs::remove_file(&file).expect("it is there");
    for output in &outputs {
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("`memory_budget`: 16TiB is more than "),
            "{told}"
        );
        assert!(told.contains(":2:17]"), "{told}");
    }
}

#[test]
fn a_wrong_command_line_is_code_2() {
    for args in [
        &[][..],
        &["walk"],
        &["check"],
        &["run", "extra"],
        &["completions", "cmd"],
    ] {
        let output = steppe(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("--help"), "{args:?}");
    }
}

#[test]
fn schema_is_json() {
    let output = steppe(&["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = steppe(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("check"), "{shell}");
    }
}

#[test]
fn version_names_target_and_allocator() {
    let long = steppe(&["version"]);
    let flag = steppe(&["--version"]);
    assert_eq!(text(&long.stdout), text(&flag.stdout));
    let version = text(&long.stdout);
    assert!(
        version.starts_with(concat!("steppe ", env!("CARGO_PKG_VERSION"), " (")),
        "{version}"
    );
    let is_named = version.contains(std::env::consts::ARCH) && version.contains("alloc-");
    assert!(is_named, "{version}");
}

#[test]
fn help_has_examples_and_exit_codes() {
    let output = steppe(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    expect![[r#"
        An edge node whose memory stays flat

        Usage: steppe <COMMAND>

        Commands:
          run          Starts the node
          check        Checks a configuration, and reports every error
          init         Writes a first configuration for a job
          fmt          Formats configuration files
          health       Checks whether a running node is ready
          cert         Shows the certificates of a file or a server, and their problems
          dns          Queries DNS servers, explains decisions about names, and flushes a node's cache
          explain      Explains which route matches a request, and which filters and rules decide about it
          key          Makes keys for the clients of an `api-keys` filter
          expand       Prints a configuration with its sites as listeners, upstreams, filters and routes
          plane        Calls, serves and measures services of the request plane
          schema       Prints the JSON Schema of the configuration, for editors
          top          Shows a running node, live
          completions  Prints completions for a shell
          man          Writes the manual pages
          version      Prints version, target and allocator

        Options:
          -h, --help     Print help
          -V, --version  Print version

        Examples:
          steppe run                      the embedded default: gateway on 127.0.0.1:8080 and :8443,
                                          DNS on :5300, admin on :9900
          steppe init --proxy             a first configuration of your own
          steppe run -c steppe.toml       start with it
          steppe check steppe.toml        all errors of a configuration, at once
          steppe fmt steppe.toml          one layout for configuration files
          steppe expand steppe.toml       the long form of its sites
          steppe top                      a running node, live
          steppe cert example.com         the certificates of a server, and their problems
          steppe explain GET http://a.example/x
                                          the route of a request, and the rule that decides about it
          steppe dns explain example.com  the decision of the DNS forwarder about a name, and its reason
          steppe dns query example.com    the response of a DNS server, over UDP, TCP, TLS or HTTPS
          steppe plane call 127.0.0.1:7700 echo --text hello
                                          the response of a service of the request plane
          steppe schema > schema.json     the JSON Schema, for completion and hints in an editor

        Exit codes:
          0  done
          1  the configuration is invalid or can't be read; for `health`, the node is not ready;
             for `cert`, clients refuse the certificate
          2  the command line is wrong; for `cert`, there is no certificate to show
          3  the node could not start
          4  the node stopped, and connections that did not end in time were dropped
          5  no node responds
         11  and above, for `plane call`: the call ended with another status than ok (see its help)
    "#]].assert_eq(text(&output.stdout));
}

#[test]
fn fmt_changes_the_layout_of_a_file_and_nothing_that_it_says() {
    let scratch = Scratch::new("fmt");
    let file = scratch.write(
        "steppe.toml",
        "[node]\n\n\n  watch=false # why\n[[http.listener]]\nlisten='127.0.0.1:0'\n",
    );
    let link = scratch.join("link.toml");
    std::os::unix::fs::symlink(&file, &link).expect("it is ours");
    let run = |args: &[&str]| {
        let mut command = Steppe::command();
        let output = command.arg("fmt").args(args).output().expect("it runs");
        (output.status.code(), output.stdout, output.stderr)
    };
    let link = link.to_str().expect("text");
    let (code, said, _) = run(&["--check", link]);
    assert_eq!((code, said), (Some(1), format!("{link}\n").into_bytes()));
    assert_eq!(run(&[link]).0, Some(0));
    let expected = "[node]\n\nwatch = false # why\n\n[[http.listener]]\nlisten = '127.0.0.1:0'\n";
    let formatted = std::fs::read_to_string(&file).expect("a text");
    assert_eq!(formatted, expected);
    assert_eq!(run(&["--check", link]).0, Some(0));
    let piped = |args: &[&str], text: &str, to: Stdio| {
        let input = scratch.write("input.toml", text);
        let mut command = Steppe::command();
        let command = command.arg("fmt").args(args).stdout(to);
        let input = std::fs::File::open(input).expect("it is there");
        let output = command.stdin(input).output().expect("it runs");
        (output.status.code(), output.stdout)
    };
    let plain = "[node]\nwatch=false\n";
    let formatted = b"[node]\nwatch = false\n".to_vec();
    assert_eq!(piped(&["-"], plain, Stdio::piped()), (Some(0), formatted));
    let unformatted = (Some(1), b"-\n".to_vec());
    assert_eq!(piped(&["--check", "-"], plain, Stdio::piped()), unformatted);
    let full = std::fs::File::create("/dev/full").expect("a device");
    assert_eq!(piped(&["-"], plain, full.into()).0, Some(1));
    scratch.write("steppe.toml", "[node\n");
    let (code, _, told) = run(&[link]);
    let told = String::from_utf8(told).expect("text");
    assert!(code == Some(1) && told.contains("link.toml:1:6"), "{told}");
}

#[test]
fn init_writes_a_file_that_check_accepts_and_overwrites_none() {
    let scratch = Scratch::new("init");
    let file = scratch.join("first.toml");
    let run = |args: &[&str]| {
        let mut command = Steppe::command();
        let output = command.args(args).arg(&file).output().expect("it runs");
        (output.status.code(), text(&output.stderr).to_owned())
    };
    assert_eq!(run(&["init", "--proxy"]), (Some(0), String::new()));
    assert_eq!(run(&["check", "--offline"]), (Some(0), String::new()));
    let written = std::fs::read_to_string(&file).expect("a text");
    let (code, told) = run(&["init", "--site"]);
    assert!(
        code == Some(1) && told.contains("is there already"),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("a text"), written);
    assert_eq!(run(&["init"]).0, Some(2), "the job is missing");
}
