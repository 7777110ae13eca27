//! Many random configurations in a row, good and broken, under load.
//!
//! A thousand, ten thousand with `STEPPE_LONG=1`. `STEPPE_SEED` chooses others.

use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};

use steppe_testkit::{Load, Port, Steppe, is_long, resident_bytes};

/// Ports on which listeners come and go.
const PORTS: usize = 6;

/// How much more the node may hold at the end than after the first third.
///
/// Of that, the allocator keeps some tens of KiB more or less from one moment to the next. A
/// snapshot that nobody lets go of takes some 20 KiB, and 400 good ones follow: a leak of an
/// eighth of one would be seen.
const GROWTH_KIB_MAX: u64 = 1024;

/// Numbers that a seed repeats: `SplitMix64` (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("small");
        usize::try_from(self.next() % bound).expect("below a small bound")
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// A configuration, and what it asks for.
struct Draft {
    text: String,
    /// Which of the ports it listens on.
    listeners: [bool; PORTS],
    is_good: bool,
}

/// The node's own configuration, and what is added to it.
struct Drafts {
    random: Random,
    plain: String,
    ports: [Port; PORTS],
    /// Somebody else listens here.
    taken: TcpListener,
}

impl Drafts {
    fn next(&mut self) -> Draft {
        let listeners = std::array::from_fn(|_| self.random.below(4) == 0);
        let mut text = self.plain.clone();
        for (port, _) in self.ports.iter().zip(listeners).filter(|(_, is_on)| *is_on) {
            text.push_str(&listener(port.address()));
        }
        (0..self.random.below(6)).for_each(|route| self.add_route(route, &mut text));
        let is_good = self.random.below(5) >= 2;
        if !is_good {
            text = self.broken(&text);
        }
        Draft {
            text,
            listeners,
            is_good,
        }
    }

    fn add_route(&mut self, route: usize, text: &mut String) {
        let random = &mut self.random;
        // Some names come back, most do not: neither may cost memory.
        let name = format!("u{route}x{}", random.below(50));
        let balance = random.one_of(&["round-robin", "least-request", "random", "p2c-ewma"]);
        let keys = match random.below(4) {
            0 => format!("respond = {{ body = \"{name}\" }}"),
            1 => "servers = [\"localhost:9\"]\nretry = {}".to_owned(),
            2 => format!("servers = [\"127.0.0.1:9\"]\nbalance = \"{balance}\"\noutlier = {{}}"),
            _ => format!(
                "servers = [\"127.0.0.1:{}\", \"127.0.0.1:9\"]\nkeepalive = {}\n\
                 health = {{ path = \"/\", interval = \"100ms\" }}",
                10 + random.below(10),
                random.below(9)
            ),
        };
        let budget = 8 + random.below(24);
        write!(
            text,
            "[http.upstream.{name}]\n{keys}\n[[http.route]]\nname = \"{name}\"\n\
             path = \"/{name}/{{rest*}}\"\nupstream = \"{name}\"\nbudget = \"{budget}MiB\"\n"
        )
        .expect("a string takes it");
    }

    fn broken(&mut self, text: &str) -> String {
        match self.random.below(6) {
            0 => text.replace("upstream = \"plain\"", "upstream = \"plane\""),
            1 => format!("{text}\n[[["),
            2 => text.replace("workers = 2", "workers = 3"),
            3 => text.replace("respond", "respnod"),
            4 => text.replace("\"64MiB\"", "64"),
            _ => {
                let taken = self.taken.local_addr().expect("it is bound");
                format!("{text}{}", listener(taken))
            }
        }
    }
}

fn listener(address: std::net::SocketAddr) -> String {
    format!("[[http.listener]]\nlisten = \"{address}\"\n")
}

const PLAIN: &str = r#"
[node]
workers = 2
memory_budget = "64MiB"
[admin]
listen = "{admin}"
[[http.listener]]
listen = "{gateway}"
[http.upstream.plain]
respond = { body = "hello" }
[[http.route]]
name = "plain"
path = "/{rest*}"
upstream = "plain"
"#;

#[test]
fn measured_random_configurations_leave_memory_flat_and_no_listener_lost() {
    let node = Steppe::builder().start(PLAIN);
    let count = if is_long() { 10_000 } else { 1000 };
    let seed = std::env::var("STEPPE_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    let mut drafts = Drafts {
        random: Random(seed),
        plain: node.config(),
        ports: std::array::from_fn(|_| Port::free()),
        taken: TcpListener::bind("127.0.0.1:0").expect("loopback"),
    };
    let load = Load::start(&node.url("/"), 32);
    let (mut listening, mut refused, mut early) = ([false; PORTS], 0, 0);
    for number in 0..count {
        let draft = drafts.next();
        reload(&node, &draft, number);
        if draft.is_good {
            listening = draft.listeners;
        } else {
            refused += 1;
        }
        for (port, is_on) in drafts.ports.iter().zip(listening) {
            let is_there = TcpStream::connect(port.address()).is_ok();
            assert_eq!(is_there, is_on, "number {number}: {}", draft.text);
        }
        if number == count / 3 {
            early = anonymous_kib(&node);
        }
    }
    let late = anonymous_kib(&node);
    let output = load.stop();
    println!("{count} reloads, {refused} refused: {early} KiB, then {late} KiB; {output:?}");
    assert!((1..count).contains(&refused), "{refused}");
    assert_eq!((output.refused, output.errors), (0, 0), "{output:?}");
    assert!(output.requests > 100, "{output:?}");
    assert!(late <= early + GROWTH_KIB_MAX, "{early} KiB, then {late}");
}

fn reload(node: &Steppe, draft: &Draft, number: usize) {
    node.set_config(&draft.text);
    let answer = node.admin_post("/reload");
    let expected = if draft.is_good { 200 } else { 422 };
    let said = answer.text();
    assert_eq!(answer.status(), expected, "number {number}: {said}");
    let last_error = node.admin_json("/reload")["last_error"].clone();
    assert_eq!(last_error.is_null(), draft.is_good, "{last_error}");
}

/// What the process holds that no file backs.
fn anonymous_kib(node: &Steppe) -> u64 {
    let [_, anonymous] = resident_bytes(node.id());
    anonymous / 1024
}
