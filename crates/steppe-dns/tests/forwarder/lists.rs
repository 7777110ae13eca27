//! Lists of domains, hosts and rules of the configuration, with the service on its sockets.

mod aliases;
mod formats;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steppe_dns::config::{Action, Block, FetchedFile, Forwarder, Hosts, List, Rule};
use steppe_dns::fetch::{Fetch, Fetched, Request, Validators};
use steppe_dns::hosts::RecordSet;
use steppe_dns::rules::{ListSet, PlainScope};
use steppe_net::LocalFuture;
use steppe_testkit::{Port, Scratch};

use crate::client::{Client, answers, extended_error, forwarder, query, rcode};
use crate::messages::name;
use crate::node::Node;
use crate::server::{Server, answered};

const A: u16 = 1;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;

/// A server with one address for each name, for an hour.
fn address_for_all() -> Server {
    Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])])
}

fn list(name: &str, files: Vec<PathBuf>) -> List {
    List {
        name: name.to_owned(),
        files,
        fetched: Vec::new(),
        refresh: Duration::from_secs(86_400),
        plain: PlainScope::Suffix,
        required: false,
        aliases: true,
    }
}

/// A rule that blocks the names on these lists.
fn blocks(lists: &[u8], block: Block) -> Rule {
    Rule {
        lists: lists.iter().copied().collect::<ListSet>(),
        ..Rule::new(Action::Block(block))
    }
}

/// The response code, answer count and extended error of a response.
fn got(client: &Client, name: &str) -> (u8, u16, Option<u16>) {
    let response = client.ask_for(name);
    (
        rcode(&response),
        answers(&response),
        extended_error(&response),
    )
}

const FORWARDED: (u8, u16, Option<u16>) = (0, 1, None);
const BLOCKED: (u8, u16, Option<u16>) = (3, 0, Some(15));

/// A forwarder with two lists; the first has two files.
fn with_lists(listen: SocketAddr, server: &Server, scratch: &Scratch) -> Forwarder {
    scratch.write(
        "ads.txt",
        "0.0.0.0 ads.example\n||track.example^\n@@||ok.track.example^\n",
    );
    scratch.write(
        "more.txt",
        "# nothing\nmore.example\nbroken line of text\n/regex/\n",
    );
    scratch.write("adult.txt", "adult.example\ntrack.example\n");
    let mut config = forwarder(listen, &[server.address]);
    config.lists = vec![
        list(
            "ads",
            vec![scratch.join("ads.txt"), scratch.join("more.txt")],
        ),
        list("adult", vec![scratch.join("adult.txt")]),
    ];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    config
}

#[test]
fn names_on_a_list_are_blocked_and_hits_are_counted_by_list() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("lists"),
    );
    let mut config = with_lists(listen, &server, &scratch);
    let mut for_children = blocks(&[0, 1], Block::Refused);
    for_children.clients = vec!["127.0.0.2/32".parse().expect("a network")];
    config.rules.insert(0, for_children);
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    for (name, expected) in [
        ("ads.example", BLOCKED),
        ("x.ads.example", FORWARDED),
        ("x.track.example", BLOCKED),
        ("ok.track.example", FORWARDED),
        ("more.example", BLOCKED),
        ("adult.example", FORWARDED),
    ] {
        assert_eq!(got(&client, name), expected, "{name}");
    }
    let child = Client::from_to([127, 0, 0, 2].into(), listen);
    for (name, expected) in [
        ("adult.example", (5, 0, Some(15))),
        // The name is on two lists of the rule.
        ("track.example", (5, 0, Some(15))),
        // An exception applies only to its own list.
        ("ok.track.example", (5, 0, Some(15))),
        ("www.example", FORWARDED),
    ] {
        assert_eq!(got(&child, name), expected, "{name}");
    }
    let metric = |series: &str| node.metric(series);
    assert_eq!(metric("steppe_dns_list_hits_total{list=\"ads\"}"), 4);
    assert_eq!(metric("steppe_dns_list_hits_total{list=\"adult\"}"), 3);
    assert_eq!(metric("steppe_dns_list_rules{list=\"ads\"}"), 4);
    assert_eq!(metric("steppe_dns_list_rules{list=\"adult\"}"), 2);
    let left_out = |kind| {
        metric(&format!(
            "steppe_dns_list_lines_left_out{{list=\"ads\",kind=\"{kind}\"}}"
        ))
    };
    assert_eq!((left_out("malformed"), left_out("unsupported")), (1, 1));
    assert!(metric("steppe_dns_lists_bytes") > 0);
}

#[test]
fn a_plain_name_is_for_itself_alone_where_the_list_says_so() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("plain"),
    );
    let mut config = with_lists(listen, &server, &scratch);
    config.lists[0].plain = PlainScope::Exact;
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    assert_eq!(got(&client, "more.example"), BLOCKED);
    assert_eq!(got(&client, "x.more.example"), FORWARDED);
}

#[test]
fn a_list_that_changes_is_read_again_and_one_that_is_gone_stays_in_force() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("reread"),
    );
    let node = Node::start(with_lists(listen, &server, &scratch), 2);
    let client = Client::of(listen);
    assert_eq!(got(&client, "adult.example"), FORWARDED);
    scratch.write("ads.txt", "new.example\n");
    let rules = "steppe_dns_list_rules{list=\"ads\"}";
    node.wait_until(|node| node.metric(rules) == 2);
    node.wait_until(|_| got(&client, "new.example") == BLOCKED);
    node.wait_until(|_| got(&client, "ads.example") == FORWARDED);
    assert_eq!(
        got(&client, "more.example"),
        BLOCKED,
        "of a file that is as it was"
    );
    // A directory in place of the file can't be read.
    std::fs::remove_file(scratch.join("more.txt")).expect("was there");
    std::fs::create_dir(scratch.join("more.txt")).expect("is free");
    node.wait_until(|node| node.metric("steppe_dns_list_reads_total{result=\"failed\"}") == 1);
    assert_eq!(got(&client, "new.example"), BLOCKED);
    assert_eq!(got(&client, "more.example"), BLOCKED);
    // The budget holds the index alone.
    std::fs::remove_dir(scratch.join("more.txt")).expect("was there");
    scratch.write("more.txt", "again.example\n");
    node.wait_until(|_| got(&client, "again.example") == BLOCKED);
    assert_eq!(got(&client, "more.example"), FORWARDED);
}

#[test]
fn a_reload_brings_lists_and_a_list_that_is_not_there_refuses_it() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("reload"),
    );
    let config = with_lists(listen, &server, &scratch);
    let mut without = config.clone();
    without.lists.clear();
    without.rules.remove(0);
    let mut node = Node::start(without, 1);
    let client = Client::of(listen);
    assert_eq!(got(&client, "ads.example"), FORWARDED);
    node.change(config.clone());
    assert_eq!(got(&client, "ads.example"), BLOCKED);
    // The other list gets the number of the first, and keeps its own hit count.
    let mut swapped = config.clone();
    swapped.lists.swap(0, 1);
    node.change(swapped);
    assert_eq!(got(&client, "adult.example"), BLOCKED);
    assert_eq!(got(&client, "ads.example"), FORWARDED);
    assert_eq!(node.metric("steppe_dns_list_hits_total{list=\"ads\"}"), 1);
    assert_eq!(node.metric("steppe_dns_list_hits_total{list=\"adult\"}"), 1);
    let mut missing = config;
    missing.lists[1].files = vec![scratch.join("nowhere.txt")];
    let refused = node.try_change(missing).expect_err("it can't be read");
    assert!(
        refused.starts_with("dns.list: cannot read") && refused.contains("nowhere.txt"),
        "{refused}"
    );
    assert_eq!(got(&client, "adult.example"), BLOCKED);
}

/// Writes a list of `count` names, the last of which is `n{count}.example`.
fn write_names(scratch: &Scratch, count: usize) {
    let names = (1..=count).map(|number| format!("n{number}.example\n"));
    // Replaced as a whole, as tools that fetch lists do.
    let draft = scratch.write("big.new", names.collect::<String>());
    std::fs::rename(draft, scratch.join("big.txt")).expect("it can be replaced");
}

/// Sends queries until `stop`, and checks the responses. Returns the number of queries.
fn ask_until(stop: &AtomicBool, listen: SocketAddr) -> usize {
    let client = Client::of(listen);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(got(&client, "n1.example"), BLOCKED);
        assert_eq!(got(&client, "x.n7.example"), BLOCKED);
        assert_eq!(got(&client, "www.example"), FORWARDED);
        count += 3;
    }
    count
}

#[test]
fn a_large_list_is_read_again_under_load_and_no_query_is_lost() {
    const NAMES: usize = 200_000;
    const ROUNDS: usize = 5;
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("large"),
    );
    write_names(&scratch, NAMES);
    let mut config = forwarder(listen, &[server.address]);
    config.lists = vec![list("big", vec![scratch.join("big.txt")])];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    let node = Node::start(config, 2);
    let is_read = |node: &Node, count: usize| {
        let rules = node.metric("steppe_dns_list_rules{list=\"big\"}");
        rules == u64::try_from(count).expect("small")
    };
    let probe = Client::of(listen);
    let stop = AtomicBool::new(false);
    let before = node.reserved_bytes();
    let answered: usize = std::thread::scope(|threads| {
        let clients: Vec<_> = (0..2)
            .map(|_| threads.spawn(|| ask_until(&stop, listen)))
            .collect();
        for round in 1..=ROUNDS {
            let count = NAMES + round % 2;
            write_names(&scratch, count);
            node.wait_until(|node| is_read(node, count));
            // All workers use the new list.
            let last = format!("n{}.example", NAMES + 1);
            let expected = if round % 2 == 1 { BLOCKED } else { FORWARDED };
            node.wait_until(|_| got(&probe, &last) == expected);
        }
        stop.store(true, Ordering::Relaxed);
        let counts = clients
            .into_iter()
            .map(|client| client.join().expect("all were answered"));
        counts.sum()
    });
    write_names(&scratch, NAMES);
    node.wait_until(|node| is_read(node, NAMES));
    let reads = u64::try_from(ROUNDS).expect("few") + 1;
    assert_eq!(
        node.metric("steppe_dns_list_reads_total{result=\"done\"}"),
        reads
    );
    let after = node.reserved_bytes();
    println!(
        "{answered} answers during {ROUNDS} reads of {NAMES} names; {before} bytes before, {after} after"
    );
    assert!(answered > ROUNDS);
    // Queries in flight keep the previous index for a moment. Bytes are reserved in portions.
    node.wait_until(|node| node.reserved_bytes() <= before + (256 << 10));
}

/// A source of a list: its current content, and the number of its fetches.
struct Source {
    has: Mutex<Result<String, String>>,
    asked: AtomicUsize,
}

impl Fetch for Source {
    fn fetch(&self, request: Request) -> LocalFuture<Result<Fetched, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let has = self.has.lock().expect("no test failed there").clone();
        Box::pin(async move {
            let text = has?;
            let etag = Some(format!("\"{}\"", text.len()));
            if etag == request.validators.etag {
                return Ok(Fetched::Unchanged);
            }
            std::fs::write(&request.file, text).expect("writes");
            Ok(Fetched::New(Validators {
                etag,
                last_modified: None,
            }))
        })
    }
}

#[test]
fn a_list_is_fetched_kept_and_the_last_good_one_used() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("fetched"),
    );
    let source = Arc::new(Source {
        has: Mutex::new(Err("it is away".to_owned())),
        asked: AtomicUsize::new(0),
    });
    let now_has = |text: Result<&str, &str>| {
        let text = text.map(str::to_owned).map_err(str::to_owned);
        *source.has.lock().expect("no test failed there") = text;
    };
    let mut of_urls = list("ads", Vec::new());
    of_urls.fetched = vec![FetchedFile {
        url: "https://lists.example/ads.txt".to_owned(),
        file: scratch.join("kept/ads.txt"),
    }];
    of_urls.refresh = Duration::from_millis(20);
    let mut config = forwarder(listen, &[server.address]);
    config.lists = vec![of_urls];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    let start = |config: &Forwarder| {
        let fetch: Arc<dyn Fetch> = Arc::clone(&source) as Arc<dyn Fetch>;
        Node::start_with(config.clone(), 1, || (), Some(fetch))
    };
    let result = |node: &Node, result: &str| {
        node.metric(&format!(
            "steppe_dns_list_fetches_total{{result=\"{result}\"}}"
        ))
    };
    let client = Client::of(listen);
    let mut node = start(&config);
    node.wait_until(|node| result(node, "failed") == 1);
    assert_eq!(got(&client, "ads.example"), FORWARDED);
    now_has(Ok("ads.example\n"));
    config.limits.cname_depth = 7;
    node.change(config.clone());
    node.wait_until(|_| got(&client, "ads.example") == BLOCKED);
    node.wait_until(|node| result(node, "unchanged") >= 1);
    assert_eq!(result(&node, "new"), 1);
    let long: String = (0..40)
        .map(|number| format!("n{number}.example\n"))
        .collect();
    now_has(Ok(&format!("ads.example\n{long}")));
    node.wait_until(|node| result(node, "new") == 2);
    // Refused: a text without rules, a page that seems to have rules, and a list that has lost most of its rules.
    for wrong in [
        "Not today\n",
        &format!("<!DOCTYPE html>\n<html>\n{long}</html>\n"),
        "n1.example\nn2.example\nn3.example\nn4.example\n",
    ] {
        let before = result(&node, "refused");
        now_has(Ok(wrong));
        node.wait_until(|node| result(node, "refused") > before);
        assert_eq!(got(&client, "ads.example"), BLOCKED, "{wrong}");
        assert_eq!(result(&node, "new"), 2, "{wrong}");
    }
    // A list that has lost fewer of its rules is accepted.
    let rest: String = long
        .lines()
        .take(4)
        .map(|line| format!("{line}\n"))
        .collect();
    now_has(Ok(&format!("ads.example\n{rest}")));
    node.wait_until(|_| got(&client, "n39.example") == FORWARDED);
    drop(node);
    // The list survives a restart while its source is unreachable.
    now_has(Err("it is away"));
    let node = start(&config);
    assert_eq!(got(&client, "ads.example"), BLOCKED);
    node.wait_until(|node| result(node, "failed") == 1);
    assert_eq!(got(&client, "ads.example"), BLOCKED);
}

#[test]
fn a_stored_file_that_cannot_be_used_is_left_out_and_fetched_again() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("useless"),
    );
    let source = Arc::new(Source {
        has: Mutex::new(Err("it is away".to_owned())),
        asked: AtomicUsize::new(0),
    });
    let text = "good.example\n";
    // Files of an earlier version: a page instead of a list, with validators that match the next good list.
    scratch.write("ads.txt", "<html>Not today</html>\n");
    scratch.write("ads.txt.fetched", format!("\"{}\"\n\n", text.len()));
    scratch.write("own.txt", "own.example\n");
    let mut of_urls = list("ads", vec![scratch.join("own.txt")]);
    of_urls.fetched = vec![FetchedFile {
        url: "https://lists.example/ads.txt?secret".to_owned(),
        file: scratch.join("ads.txt"),
    }];
    let mut config = forwarder(listen, &[server.address]);
    config.lists = vec![of_urls];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    let fetch: Arc<dyn Fetch> = Arc::clone(&source) as Arc<dyn Fetch>;
    let mut node = Node::start_with(config.clone(), 1, || (), Some(fetch));
    let left_out = "steppe_dns_list_files_left_out{list=\"ads\"}";
    assert_eq!(node.metric(left_out), 1);
    let client = Client::of(listen);
    assert_eq!(got(&client, "own.example"), BLOCKED);
    assert_eq!(got(&client, "good.example"), FORWARDED);
    *source.has.lock().expect("no test failed there") = Ok(text.to_owned());
    config.limits.cname_depth = 7;
    node.change(config);
    node.wait_until(|_| got(&client, "good.example") == BLOCKED);
    assert_eq!(node.metric(left_out), 0);
    assert_eq!(got(&client, "own.example"), BLOCKED);
}

#[test]
fn a_required_list_is_fetched_before_the_change_or_refuses_it() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("required"),
    );
    let source = Arc::new(Source {
        has: Mutex::new(Err("it is away".to_owned())),
        asked: AtomicUsize::new(0),
    });
    let without = forwarder(listen, &[server.address]);
    let mut config = without.clone();
    let mut required = list("ads", Vec::new());
    required.required = true;
    required.fetched = vec![FetchedFile {
        url: "https://lists.example/ads.txt?secret".to_owned(),
        file: scratch.join("ads.txt"),
    }];
    config.lists = vec![required];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    let fetch: Arc<dyn Fetch> = Arc::clone(&source) as Arc<dyn Fetch>;
    let mut node = Node::start_with(without, 1, || (), Some(fetch));
    let client = Client::of(listen);
    let refused = node.try_change(config.clone());
    let refused = refused.expect_err("it can't be fetched");
    assert!(
        refused.contains("list ads is required") && refused.contains("it is away"),
        "{refused}"
    );
    assert!(!refused.contains("secret"), "{refused}");
    assert_eq!(got(&client, "ads.example"), FORWARDED);
    let has = |text: &str| *source.has.lock().expect("no test failed there") = Ok(text.to_owned());
    for (text, why) in [
        ("<html>\nportal.example\n</html>\n", "an HTML page"),
        ("Not today\n", "no rule"),
    ] {
        has(text);
        let refused = node.try_change(config.clone());
        let refused = refused.expect_err("it is no list");
        assert!(refused.contains(why), "{refused}");
    }
    has("ads.example\n");
    let changed = node.try_change(config);
    changed.expect("it is fetched");
    assert_eq!(got(&client, "ads.example"), BLOCKED);
}

/// True if the response contains these bytes.
fn has_data(response: &[u8], data: &[u8]) -> bool {
    response.windows(data.len()).any(|bytes| bytes == data)
}

#[test]
fn hosts_are_answered_here_and_have_nothing_of_other_types() {
    let (server, listen, scratch) = (
        address_for_all(),
        Port::free().keep(),
        Scratch::new("hosts"),
    );
    scratch.write("hosts", "192.168.7.9 printer.home.arpa printer\nnonsense\n");
    let mut config = forwarder(listen, &[server.address]);
    let record = |owner: &str, text: &str| {
        let owner = owner.parse().expect("a name");
        (owner, text.parse().expect("a record"))
    };
    config.hosts = Hosts {
        files: vec![scratch.join("hosts")],
        records: vec![
            record("printer.home.arpa", "fd00::9"),
            record("example.org", "MX 10 mail.example.org"),
            record("localhost", "127.0.0.9"),
        ],
    };
    // Local records take precedence over rules.
    config.rules.insert(
        0,
        Rule {
            suffixes: vec!["home.arpa".parse().expect("a name")],
            ..Rule::new(Action::Block(Block::Refused))
        },
    );
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    let ask = |name: &str, rtype| client.ask(&query(name, rtype));
    let codes = |response: &[u8]| (rcode(response), answers(response));
    let address = ask("PRINTER.home.arpa", A);
    assert!(codes(&address) == (0, 1) && has_data(&address, &[192, 168, 7, 9]));
    assert_eq!(codes(&ask("printer.home.arpa", AAAA)), (0, 1));
    assert_eq!(codes(&ask("printer.home.arpa", 255)), (0, 2));
    assert_eq!(codes(&ask("printer.home.arpa", TXT)), (0, 0));
    assert_eq!(codes(&ask("printer", A)), (0, 1));
    assert_eq!(codes(&ask("scanner.home.arpa", A)), (5, 0));
    let pointer = ask("9.7.168.192.in-addr.arpa", PTR);
    assert!(codes(&pointer) == (0, 1) && has_data(&pointer, &name("printer.home.arpa")));
    // Another address of the network has no name.
    assert_eq!(codes(&ask("8.7.168.192.in-addr.arpa", PTR)), (3, 0));
    let exchange = ask("example.org", MX);
    assert!(codes(&exchange) == (0, 1) && has_data(&exchange, &name("mail.example.org")));
    assert!(has_data(&ask("localhost", A), &[127, 0, 0, 9]));
    assert_eq!(server.asked().len(), 0);
    assert_eq!(node.metric("steppe_dns_events_total{event=\"hosts\"}"), 8);
    scratch.write("hosts", "192.168.7.10 scanner.home.arpa\n");
    node.wait_until(|_| codes(&ask("scanner.home.arpa", A)) == (0, 1));
    // A name that was removed from the file is left to the rules.
    assert_eq!(codes(&ask("printer", A)), (0, 1));
    assert_eq!(server.asked().len(), 1);
}

/// A server with an alias, NXDOMAIN for names below `no.`, and an address for every other name.
fn with_aliases() -> Server {
    Server::start(|asked| {
        let target = name("b.example.net");
        let is = |text: &str| {
            asked.bytes[12..]
                .to_ascii_lowercase()
                .starts_with(&name(text)[..])
        };
        let response = if is("no.example.net") {
            answered(&asked.bytes, 3, &[])
        } else if is("a.example.net") {
            answered(&asked.bytes, 0, &[(CNAME, 3600, &target)])
        } else {
            answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])
        };
        vec![response]
    })
}

#[test]
fn a_name_is_rewritten_to_another_and_answered_with_both() {
    let (server, listen) = (with_aliases(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    let rewrite = |from: &str, to: &str| Rule {
        names: vec![from.parse().expect("a name")],
        ..Rule::new(Action::Rewrite(Box::new(to.parse().expect("a name"))))
    };
    config.hosts.records = vec![(
        "host.example.net".parse().expect("a name"),
        "192.0.2.99".parse().expect("a record"),
    )];
    config.rules.splice(
        0..0,
        [
            rewrite("old.example.org", "new.example.net"),
            rewrite("alias.example.org", "a.example.net"),
            rewrite("none.example.org", "no.example.net"),
            rewrite("host.example.org", "host.example.net"),
            rewrite("here.example.org", "localhost"),
            rewrite("ads.example.org", "ads.example.net"),
            // Applies once: a repeated rewrite would loop.
            rewrite("round.example.org", "round.example.org"),
            Rule {
                names: vec!["ads.example.net".parse().expect("a name")],
                ..Rule::new(Action::Block(Block::NameError))
            },
        ],
    );
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    let target = name("new.example.net");
    for round in 0..2 {
        // First from the server, then from the cache.
        let response = client.ask_for("OLD.example.org");
        assert_eq!((rcode(&response), answers(&response)), (0, 2), "{round}");
        let question = query("OLD.example.org", A);
        assert_eq!(
            response[12..question.len() - 11],
            question[12..question.len() - 11]
        );
        assert!(has_data(&response, &target) && has_data(&response, &[192, 0, 2, 7]));
    }
    assert_eq!(server.asked().len(), 1);
    assert_eq!(
        server.asked()[0].bytes[12..].to_ascii_lowercase()[..target.len()],
        target[..]
    );
    assert_eq!(
        node.metric("steppe_dns_cache_lookups_total{result=\"hit\"}"),
        1
    );
    let codes = |name: &str, rtype| {
        let response = client.ask(&query(name, rtype));
        (rcode(&response), answers(&response))
    };
    assert_eq!(codes("old.example.org", CNAME), (0, 1));
    assert_eq!(server.asked().len(), 1, "an alias needs no server");
    assert_eq!(codes("alias.example.org", A), (0, 2));
    let host = client.ask_for("host.example.org");
    assert!(answers(&host) == 2 && has_data(&host, &[192, 0, 2, 99]));
    assert_eq!(
        codes("host.example.org", TXT),
        (0, 1),
        "the alias, and no data"
    );
    assert_eq!(codes("here.example.org", A), (0, 2));
    assert_eq!(codes("ads.example.org", A), (3, 0));
    assert_eq!(codes("round.example.org", A), (0, 2));
    assert_eq!(codes("none.example.org", A).0, 3);
}

#[test]
fn a_rule_answers_with_records() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    let records =
        ["192.0.2.80", "192.0.2.81", "TXT \"here\""].map(|text| text.parse().expect("a record"));
    config.rules.insert(
        0,
        Rule {
            suffixes: vec!["here.example".parse().expect("a name")],
            ..Rule::new(Action::Records(RecordSet::new(&records)))
        },
    );
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    let found = client.ask_for("any.name.here.example");
    assert!(answers(&found) == 2 && has_data(&found, &[192, 0, 2, 81]));
    let found = client.ask(&query("here.example", TXT));
    assert!(answers(&found) == 1 && has_data(&found, b"\x04here"));
    let found = client.ask(&query("here.example", AAAA));
    assert_eq!((rcode(&found), answers(&found)), (0, 0));
    assert_eq!(server.asked().len(), 0);
}
