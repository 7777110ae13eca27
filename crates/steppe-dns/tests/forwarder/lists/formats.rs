//! Lines of list formats with more information than a name.

use steppe_dns::config::Block;
use steppe_testkit::{Port, Scratch};

use super::{BLOCKED, FORWARDED, address_for_all, blocks, got, list};
use crate::client::{Client, forwarder};
use crate::node::Node;

/// NODATA by a blocking rule.
const NO_DATA: (u8, u16, Option<u16>) = (0, 0, Some(15));

const LINES: &str = "\
0.0.0.0 first.example wrong..example behind.example
*.wild.example
||important.example^$important
@@||important.example^
||ok.example^$important
@@||ok.example^$important
nodata.example CNAME *.
*.nodata.example CNAME *.
both.example CNAME *.
both.example CNAME .
wall.example CNAME garden.example.
local.example A 192.0.2.1
bücher.example
";

#[test]
fn each_line_does_what_its_format_says() {
    let (server, scratch) = (address_for_all(), Scratch::new("formats"));
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    let other = scratch.write("other.txt", "nodata.example\n");
    config.lists = vec![
        list("lines", vec![scratch.write("lines.txt", LINES)]),
        list("other", vec![other]),
    ];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    let mut node = Node::start(config.clone(), 1);
    let client = Client::of(listen);
    for (name, expected) in [
        ("first.example", BLOCKED),
        ("behind.example", BLOCKED),
        ("wild.example", BLOCKED),
        ("a.wild.example", BLOCKED),
        ("important.example", BLOCKED),
        ("ok.example", FORWARDED),
        ("nodata.example", NO_DATA),
        ("a.nodata.example", NO_DATA),
        ("both.example", BLOCKED),
        ("wall.example", FORWARDED),
        ("local.example", FORWARDED),
        ("xn--bcher-kva.example", BLOCKED),
    ] {
        assert_eq!(got(&client, name), expected, "{name}");
    }
    let left_out = |kind: &str| {
        node.metric(&format!(
            "steppe_dns_list_lines_left_out{{list=\"lines\",kind=\"{kind}\"}}"
        ))
    };
    assert_eq!((left_out("unsupported"), left_out("malformed")), (2, 1));
    // Another list of the rule has the name without this modifier.
    config.rules[0].lists = [0, 1].into_iter().collect();
    node.change(config);
    assert_eq!(got(&client, "nodata.example"), BLOCKED);
}
