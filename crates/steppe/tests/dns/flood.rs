//! A flood of random subdomains beside clients whose names are cached, with the limits of `[dns.limits]`.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use steppe_testkit::{
    DnsServer, Forwarder, Steppe, dns_query, eventually, is_long, resident_bytes, skip,
};

/// Queries of the flood in each step, and of clients.
const FLOOD_PER_STEP: usize = 30;
const KNOWN_PER_STEP: usize = 3;
/// Steps of a millisecond each, or more on a busy machine.
const STEPS: usize = 3000;

const NAMES: usize = 400;
const BUDGET_MIB: u64 = 128;

/// A server that answers 192.0.2.7 to every query, and the names of the flood that it was queried for: a late answer
/// causes a second query.
fn server() -> (DnsServer, Arc<Mutex<HashSet<String>>>) {
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let noted = Arc::clone(&asked);
    let server = DnsServer::start(move |name| {
        if name.ends_with(".flood.example") {
            noted
                .lock()
                .expect("nobody panicked")
                .insert(name.to_owned());
        }
        Some((Ipv4Addr::new(192, 0, 2, 7), 3600))
    });
    (server, asked)
}

fn query(name: &str) -> Vec<u8> {
    dns_query(0x1234, name, 1)
}

fn known(number: usize) -> Vec<u8> {
    query(&format!("known{}.example.org", number % NAMES))
}

/// Sockets on as many networks: none of them exceeds `client_qps`.
fn clients(second_byte: u8, count: u8, server: SocketAddr) -> Vec<UdpSocket> {
    let socket = |third_byte| {
        let address = Ipv4Addr::new(127, second_byte, third_byte, 1);
        let socket = UdpSocket::bind((address, 0)).expect("loopback");
        socket.connect(server).expect("is set");
        socket.set_nonblocking(true).expect("is set");
        socket
    };
    (0..count).map(socket).collect()
}

/// Received responses that have an answer.
fn answered(sockets: &[UdpSocket]) -> usize {
    let mut room = [0; 1500];
    let mut count = 0;
    for socket in sockets {
        while let Ok(len) = socket.recv(&mut room) {
            count += usize::from(len > 12 && room[3] & 0x0f == 0 && room[7] == 1);
        }
    }
    count
}

#[test]
fn measured_cached_names_are_answered_beside_ten_times_as_many_random_subdomains() {
    if !is_long() {
        return skip(
            "measured_cached_names_are_answered_beside_ten_times_as_many_random_subdomains",
            "needs a core of its own: STEPPE_LONG=1 runs it",
        );
    }
    let (server, asked) = server();
    let forwarder = Steppe::builder()
        .with("budget", format!("{BUDGET_MIB}MiB"))
        .with("server", server.address())
        .start_forwarder(CONFIG);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    let (others, flooding) = (clients(1, 40, listen), clients(2, 250, listen));
    // One after the other, and below the zone's own limit: all of them are in the cache then.
    for number in 0..NAMES {
        let client = &others[number % others.len()..][..1];
        client[0].send(&known(number)).expect("is sent");
        eventually("it is answered", || answered(client) == 1);
    }
    let start = Instant::now();
    let (mut next, mut got, mut sent) = (0, 0, 0);
    for step in 0..STEPS {
        for number in 0..FLOOD_PER_STEP {
            let name = format!("x{step:x}-{number:x}.y{number}.flood.example");
            // A query that finds no room in the socket is dropped: the next one follows.
            let _ = flooding[next % flooding.len()].send(&query(&name));
            next += 1;
        }
        for number in 0..KNOWN_PER_STEP {
            let number = step * KNOWN_PER_STEP + number;
            others[number % others.len()]
                .send(&known(number))
                .expect("is sent");
            sent += 1;
        }
        got += answered(&others);
        answered(&flooding);
        let due = start + Duration::from_millis(step as u64);
        // The pace of clients that do not wait for answers.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let seconds = start.elapsed().as_secs() + 2;
    eventually("nearly all are answered", || {
        got += answered(&others);
        got * 1000 >= sent * 999
    });
    println!(
        "{got} of {sent} answered beside {next} of the flood, in {:?}",
        start.elapsed()
    );
    let asked = asked.lock().expect("nobody panicked").len() as u64;
    assert!(
        (500..500 * seconds + 500).contains(&asked),
        "{asked} went to the server"
    );
    let [resident, _] = resident_bytes(node.id());
    println!(
        "{asked} went to the server; {} KiB resident",
        resident >> 10
    );
    assert!(
        resident < (BUDGET_MIB + 24) << 20,
        "{resident} bytes resident"
    );
}

const CONFIG: &str = r#"
[dns.upstream.real]
servers = ["udp://{server}"]
[dns.limits]
client_qps = 200
unproven_bytes_per_s = "64KiB"
zone_misses_per_s = 500
[[dns.rule]]
forward = "real"
"#;
