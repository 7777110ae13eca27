//! A first look without a scenario.

use super::harness::{Lab, among_others, free_port, program};

#[test]
fn it_finds_the_port_and_judges() {
    let lab = Lab::new("try");
    let address = format!("127.0.0.1:{}", free_port());
    let _among = among_others();
    let said = lab.run(&[
        "try",
        "--for",
        "20s",
        "--save",
        "kept.toml",
        "-q",
        "-o",
        "run",
        "--",
        &program("leaking"),
        &address,
        "4000",
    ]);
    let (_, port) = address.split_once(':').expect("a port");
    let found = format!("listening on port {port}; GET / returned 200");
    assert!(said.out.contains(&found), "{said:?}");
    assert_eq!(lab.verdict("run")["word"], "UNBOUNDED", "{said:?}");
    assert_eq!(said.code, 1);
    let least = "default: the smallest growth that this run could detect is ";
    assert!(said.out.contains(least), "{said:?}");
    // The kept scenario can be run again.
    let checked = lab.run(&["check", "kept.toml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn what_does_not_listen_is_told_with_its_last_words() {
    let lab = Lab::new("try-none");
    let said = lab.run(&["try", "--", "sh", "-c", "echo no such table >&2; exit 7"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("exit status: 7"), "{said:?}");
    assert!(said.err.contains("no such table"), "{said:?}");
}
