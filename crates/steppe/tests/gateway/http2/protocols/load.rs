//! h2load: many streams at once, and a node that reloads or drains meanwhile.

use steppe_testkit::{H2load, eventually, heavy};

use super::*;

/// Both protocols whose clients have streams, to servers with and without streams; all four pairs in the long tier.
fn pairs() -> Vec<(Downstream, Upstream)> {
    let mut pairs = vec![
        (Downstream::H2c, Upstream::H2c),
        (Downstream::H2, Upstream::H1),
    ];
    if is_long() {
        pairs.push((Downstream::H2c, Upstream::H1));
        pairs.push((Downstream::H2, Upstream::H2c));
    }
    pairs
}

fn site(test: &str) -> Option<Site> {
    let is_there = is_there(test, "h2load");
    is_there.then(|| Site::start(test)).flatten()
}

fn load(site: &Site, (down, up): (Downstream, Upstream), requests: u32) -> H2load {
    let url = site.url(down, &up.host(), "/");
    H2load::start(&url, site.address(down), requests)
}

#[test]
fn many_streams_are_served() {
    let Some(site) = site("many_streams_are_served") else {
        return;
    };
    let _alone = heavy();
    for pair in pairs() {
        let output = load(&site, pair, 2_000).finish();
        println!("{pair:?}: {}", output.text);
        let counts = (output.ok, output.failed);
        assert_eq!(counts, (2_000, 0), "{}", output.text);
    }
}

#[test]
fn reloads_fail_no_stream() {
    let Some(site) = site("reloads_fail_no_stream") else {
        return;
    };
    let _alone = heavy();
    let one = site.config.clone();
    let other = Upstream::ALL.iter().fold(one.clone(), |config, up| {
        config.upstream(up.protocol(), |u| u.set("keepalive", 50))
    });
    for pair in pairs() {
        let requests = if is_long() { 5_000 } else { 2_000 };
        let mut load = load(&site, pair, requests);
        let mut reloads = 0;
        while load.is_running() {
            let config = if reloads % 2 == 0 { &other } else { &one };
            site.node.set_config(config);
            let answer = site.node.admin_post("/reload");
            assert_eq!(answer.status(), 200, "{}", answer.text());
            reloads += 1;
            // Not so often that the node does little else.
            let next = site.echoed() + 100;
            eventually("requests go on", || {
                site.echoed() >= next || !load.is_running()
            });
        }
        let output = load.finish();
        println!("{pair:?}, {reloads} reloads: {}", output.text);
        let counts = (output.ok, output.failed);
        assert_eq!(counts, (u64::from(requests), 0), "{}", output.text);
        assert!(reloads > 2, "{reloads} of them: it took too little time");
    }
}

/// Each request that reached a server is answered; streams that are opened too late are not processed.
#[test]
fn a_node_that_leaves_ends_what_it_began() {
    const TEST: &str = "a_node_that_leaves_ends_what_it_began";
    let _alone = heavy();
    for pair in pairs() {
        let Some(mut site) = site(TEST) else {
            return;
        };
        // More requests than are sent before the node stops.
        let load = load(&site, pair, 1_000_000);
        eventually("it is under way", || site.echoed() > 500);
        site.node.terminate();
        assert!(site.node.wait().success(), "{}", site.node.said());
        let output = load.finish();
        println!("{pair:?}: {}", output.text);
        assert_eq!(output.refused, 0, "{}", output.text);
        assert_eq!(output.ok, site.echoed(), "{}", output.text);
    }
}
