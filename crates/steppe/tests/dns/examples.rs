//! The configurations of docs/dns and of the guides to it, run as they stand there: only addresses and the
//! folder of their files are a test's own.

use std::net::{Ipv4Addr, SocketAddr};

use steppe_testkit::{
    Authority, DnsServer, Leaf, NodeConfig, Port, Steppe, SteppeBuilder, ask_dns, dns_query,
    page_example, page_examples,
};

const NO_ERROR: u8 = 0;
const NAME_ERROR: u8 = 3;

/// Pages with configurations.
const PAGES: [&str; 12] = [
    "dns/README",
    "dns/home",
    "dns/office",
    "dns/kubernetes",
    "dns/lists",
    "dns/rules",
    "dns/encrypted",
    "dns/upstreams",
    "dns/cache",
    "dns/limits",
    "guides/dnsmasq",
    "guides/adguard",
];

/// A node with every file that the pages name beside their configurations.
fn builder() -> SteppeBuilder<'static> {
    let issued = Authority::new("ca").issue(&Leaf::named(&["dns.example.com"]));
    Steppe::builder()
        .with_file("dns.pem", &issued.cert)
        .with_file("dns.key", &issued.key)
        .with_file("ads.txt", "tracker.example\n")
        .with_file("malware.txt", "0.0.0.0 malware.example\n")
        .with_file("allowed.txt", "cdn.tracker.example\n")
        .with_file("user-rules.txt", "||ads.example^\n")
        .with_file("hosts.txt", "192.168.7.10 nas.home.arpa\n")
}

/// The configuration of a page below `heading` with addresses of the test's own, and the forwarder's address.
fn example(page: &str, heading: &str) -> (NodeConfig, SocketAddr) {
    let (plain, over_tls) = (Port::free().keep(), Port::free().keep());
    let config = NodeConfig::parse(&page_example(page, heading))
        .set("admin.listen", "{admin}")
        .each("dns.listener", |l| {
            let address = match l.text("listen") {
                "0.0.0.0:5300" | "127.0.0.1:5300" => plain,
                "0.0.0.0:8853" => over_tls,
                other => panic!("{page} listens at {other}"),
            };
            l.set("listen", address)
        });
    (config, plain)
}

/// Queries a name. Returns the response code, and the addresses.
fn ask(server: SocketAddr, name: &str) -> (u8, Vec<Ipv4Addr>) {
    let response = ask_dns(server, name);
    let answers = &response[dns_query(0, name, 1).len()..];
    // Each record is a pointer, type, class, TTL and length before its four bytes.
    let records = answers.chunks_exact(16).take(usize::from(response[7]));
    let address = |record: &[u8]| Ipv4Addr::new(record[12], record[13], record[14], record[15]);
    (response[3] & 0x0f, records.map(address).collect())
}

#[test]
fn every_configuration_of_the_pages_is_valid() {
    for page in PAGES {
        for (heading, toml) in page_examples(page) {
            let (status, said) = builder().run(&["check"], &toml);
            assert!(status.success(), "{page}, {heading}: {said}");
        }
    }
}

#[test]
fn the_first_configuration_forwards_every_name() {
    let (config, listen) = example("dns/README", "Your own configuration");
    let address = Ipv4Addr::new(203, 0, 113, 7);
    let public = DnsServer::start(move |_| Some((address, 60)));
    let servers = [format!("udp://{}", public.address())];
    let config = config.set("dns.upstream.public.servers", servers);
    let _node = builder().start(&config);
    assert_eq!(ask(listen, "example.com"), (NO_ERROR, vec![address]));
}

#[test]
fn a_home_has_names_and_blocks_what_its_list_has() {
    let (config, listen) = example("dns/home", "Configuration");
    let _node = builder().start(&config);
    let printer = Ipv4Addr::new(192, 168, 7, 9);
    assert_eq!(ask(listen, "printer.home.arpa"), (NO_ERROR, vec![printer]));
    assert_eq!(ask(listen, "other.home.arpa"), (NAME_ERROR, vec![]));
    let nowhere = (NO_ERROR, vec![Ipv4Addr::UNSPECIFIED]);
    assert_eq!(ask(listen, "tracker.example"), nowhere);
    assert_eq!(ask(listen, "pixel.tracker.example"), nowhere);
}

#[test]
fn an_office_blocks_what_its_list_has() {
    let (config, listen) = example("dns/office", "Configuration");
    let _node = builder().start(&config);
    assert_eq!(ask(listen, "malware.example"), (NAME_ERROR, vec![]));
}

#[test]
fn a_node_of_kubernetes_asks_both_of_its_upstreams() {
    let (config, listen) = example("dns/kubernetes", "Configuration");
    let [cluster, public] = [1, 2].map(|last| {
        let address = Ipv4Addr::new(10, 96, 0, last);
        DnsServer::start(move |_| Some((address, 60)))
    });
    let at = |server: &DnsServer| [format!("udp://{}", server.address())];
    let config = config
        .set("dns.upstream.cluster.servers", at(&cluster))
        .set("dns.upstream.public.servers", at(&public));
    let _node = builder().start(&config);
    let of_cluster = Ipv4Addr::new(10, 96, 0, 1);
    assert_eq!(
        ask(listen, "api.default.svc.cluster.local"),
        (NO_ERROR, vec![of_cluster])
    );
    // A public name must not have a private address.
    let (_, public) = ask(listen, "www.example.org");
    assert_eq!(public, [Ipv4Addr::UNSPECIFIED; 0]);
}
