//! The configurations of docs/dns.md, run as they stand there: only addresses and the folder of their
//! files are a test's own.

use std::net::{Ipv4Addr, SocketAddr};

use steppe_testkit::{
    Authority, DnsServer, Leaf, Port, Steppe, SteppeBuilder, ask_dns, dns_query, page_example,
    page_examples,
};

const NO_ERROR: u8 = 0;
const NAME_ERROR: u8 = 3;

/// A node with every file that the page names beside its configuration, where it answers, and the text.
fn node(toml: &str) -> (SteppeBuilder<'static>, SocketAddr, String) {
    let issued = Authority::new("ca").issue(&Leaf::named(&["dns.example.com"]));
    let (listen, over_tls) = (Port::free().keep(), Port::free().keep());
    let toml = toml
        .replace("0.0.0.0:5300", &listen.to_string())
        .replace("127.0.0.1:5300", &listen.to_string())
        .replace("0.0.0.0:8853", &over_tls.to_string())
        .replace("127.0.0.1:9900", "{admin}");
    let toml = match toml.contains("[admin]") {
        true => toml,
        false => format!("[admin]\nlisten = \"{{admin}}\"\n{toml}"),
    };
    let builder = Steppe::builder()
        .with_file("dns.pem", &issued.cert)
        .with_file("dns.key", &issued.key)
        .with_file("ads.txt", "tracker.example\n")
        .with_file("malware.txt", "0.0.0.0 malware.example\n");
    (builder, listen, toml)
}

/// Response code, and addresses of a name.
fn ask(server: SocketAddr, name: &str) -> (u8, Vec<Ipv4Addr>) {
    let response = ask_dns(server, name);
    let answers = &response[dns_query(0, name, 1).len()..];
    // Each is a pointer, type, class, TTL and length before its four bytes.
    let records = answers.chunks_exact(16).take(usize::from(response[7]));
    let address = |record: &[u8]| Ipv4Addr::new(record[12], record[13], record[14], record[15]);
    (response[3] & 0x0f, records.map(address).collect())
}

#[test]
fn every_configuration_of_the_page_is_valid() {
    let examples = page_examples("dns");
    assert!(examples.len() >= 3, "{examples:?}");
    for (heading, toml) in examples {
        let (builder, _, toml) = node(&toml);
        let (status, said) = builder.run(&["check"], &toml);
        assert!(status.success(), "{heading}: {said}");
    }
}

#[test]
fn a_home_has_names_and_blocks_what_its_list_has() {
    let (builder, listen, toml) = node(&page_example("dns", "A home"));
    let _node = builder.start(&toml);
    let printer = Ipv4Addr::new(192, 168, 7, 9);
    assert_eq!(ask(listen, "printer.home.arpa"), (NO_ERROR, vec![printer]));
    assert_eq!(ask(listen, "other.home.arpa"), (NAME_ERROR, vec![]));
    let nowhere = (NO_ERROR, vec![Ipv4Addr::UNSPECIFIED]);
    assert_eq!(ask(listen, "tracker.example"), nowhere);
    assert_eq!(ask(listen, "pixel.tracker.example"), nowhere);
}

#[test]
fn an_office_blocks_what_its_list_has() {
    let (builder, listen, toml) = node(&page_example("dns", "An office"));
    let _node = builder.start(&toml);
    assert_eq!(ask(listen, "malware.example"), (NAME_ERROR, vec![]));
}

#[test]
fn a_node_of_kubernetes_asks_both_of_its_upstreams() {
    let heading = "A cache on every node of Kubernetes";
    let (builder, listen, toml) = node(&page_example("dns", heading));
    let [cluster, public] = [1, 2].map(|last| {
        let address = Ipv4Addr::new(10, 96, 0, last);
        DnsServer::start(move |_| Some((address, 60)))
    });
    let toml = toml.replace("tcp://10.96.0.10", &format!("udp://{}", cluster.address()));
    let toml = toml.replace("10.0.0.2", &public.address().to_string());
    let _node = builder.start(&toml);
    let of_cluster = Ipv4Addr::new(10, 96, 0, 1);
    assert_eq!(
        ask(listen, "api.default.svc.cluster.local"),
        (NO_ERROR, vec![of_cluster])
    );
    // A public name has no private address.
    let (_, public) = ask(listen, "www.example.org");
    assert_eq!(public, [Ipv4Addr::UNSPECIFIED; 0]);
}
