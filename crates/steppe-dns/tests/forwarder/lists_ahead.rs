//! Lists of a reload are loaded without blocking the control thread, with the service on its sockets.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steppe_dns::config::{Action, Block, Forwarder, List, Rule};
use steppe_dns::rules::{ListSet, PlainScope};
use steppe_testkit::{Port, Scratch};

use crate::client::{Client, forwarder, rcode};
use crate::node::Node;
use crate::server::{Server, answered};

const NXDOMAIN: u8 = 3;

/// The configuration with a list of this file.
fn with_list(config: &Forwarder, file: &Path) -> Forwarder {
    let mut config = config.clone();
    config.lists = vec![List {
        name: "ads".to_owned(),
        files: vec![file.to_path_buf()],
        fetched: Vec::new(),
        refresh: Duration::MAX,
        plain: PlainScope::Suffix,
        required: false,
        aliases: true,
    }];
    let blocks = Rule {
        lists: ListSet(1),
        ..Rule::new(Action::Block(Block::NameError))
    };
    config.rules.insert(0, blocks);
    config
}

/// A node without lists, its configuration, and a file with one name.
fn started(scratch: &Scratch) -> (Node, Forwarder, Client, PathBuf, Server) {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(1, 60, &[7; 4])])]);
    let listen = Port::free().keep();
    let config = forwarder(listen, &[server.address]);
    let node = Node::start(config.clone(), 1);
    let file = scratch.write("ads.txt", "ads.example\n");
    (node, config, Client::of(listen), file, server)
}

fn is_blocked(client: &Client, name: &str) -> bool {
    rcode(&client.ask_for(name)) == NXDOMAIN
}

#[test]
fn what_was_read_ahead_comes_into_force_and_is_not_read_again() {
    let scratch = Scratch::new("lists-ahead");
    let (mut node, config, client, file, _server) = started(&scratch);
    let changed = node.change_slowly(with_list(&config, &file), || {
        // Another name, with an unchanged modification time and size of the file.
        let modified = file.metadata().and_then(|known| known.modified());
        scratch.write("ads.txt", "bad.example\n");
        let open = File::options().write(true).open(&file).expect("a file");
        open.set_modified(modified.expect("a time"))
            .expect("is set");
    });
    changed.expect("is valid");
    assert!(is_blocked(&client, "x.ads.example"));
    assert!(!is_blocked(&client, "x.bad.example"));
}

#[test]
fn a_file_that_changes_meanwhile_is_read_again() {
    let scratch = Scratch::new("lists-ahead-changed");
    let (mut node, config, client, file, _server) = started(&scratch);
    let changed = node.change_slowly(with_list(&config, &file), || {
        scratch.write("ads.txt", "ads.example\nbad.example\n");
    });
    changed.expect("is valid");
    assert!(is_blocked(&client, "bad.example"));
}

#[test]
fn what_was_read_for_another_configuration_does_not_count() {
    let scratch = Scratch::new("lists-ahead-other");
    let (mut node, config, client, file, _server) = started(&scratch);
    let missing = with_list(&config, &scratch.join("nowhere.txt"));
    let refused = node.change_slowly(missing, || ()).expect_err("not there");
    assert!(refused.starts_with("dns.list: cannot read"), "{refused}");
    assert!(!is_blocked(&client, "ads.example"));
    node.change(with_list(&config, &file));
    assert!(is_blocked(&client, "ads.example"));
    assert!(!is_blocked(&client, "a.example"));
}
