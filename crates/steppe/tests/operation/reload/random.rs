//! Many random configurations in a row, good and broken, under load.
//!
//! Three hundred, or ten thousand with `STEPPE_LONG=1`. `STEPPE_SEED` selects others.

use std::net::{TcpListener, TcpStream};

use steppe_testkit::{Load, NodeConfig, Port, Section, Steppe, is_long, resident_bytes};

/// Ports on which listeners come and go.
const PORTS: usize = 6;

/// The growth of the node's anonymous memory after the first third, at most, in KiB.
///
/// The allocator's share of that varies by some tens of KiB from moment to moment. A snapshot that
/// is never freed takes about 20 KiB. Of 300 configurations, 120 good ones follow: a leak of half
/// of one would be seen. Of 10,000, 4,000 do: a leak of 300 bytes each would be.
const GROWTH_KIB_MAX: u64 = 1024;

/// Random numbers that a seed repeats: `SplitMix64` (Steele, Lea and Flood 2014).
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

/// A configuration, and the expected outcome of its reload.
struct Draft {
    text: String,
    /// For each of the ports, true if the configuration listens on it.
    listeners: [bool; PORTS],
    is_good: bool,
}

/// The generator of configurations: the node's own one, and the parts that it may add.
struct Drafts {
    random: Random,
    plain: NodeConfig,
    ports: [Port; PORTS],
    /// A port with a listener of another process.
    taken: TcpListener,
}

impl Drafts {
    fn next(&mut self) -> Draft {
        let listeners = std::array::from_fn(|_| self.random.below(4) == 0);
        let mut config = self.plain.clone();
        for (port, _) in self.ports.iter().zip(listeners).filter(|(_, is_on)| *is_on) {
            config = config.add_listener(&port.address().to_string(), |l| l);
        }
        for route in 0..self.random.below(6) {
            config = self.add_route(route, config);
        }
        let is_good = self.random.below(5) >= 2;
        let text = match is_good {
            true => config.to_string(),
            false => self.broken(config),
        };
        Draft {
            text,
            listeners,
            is_good,
        }
    }

    fn add_route(&mut self, route: usize, config: NodeConfig) -> NodeConfig {
        let random = &mut self.random;
        // Some names recur, most do not: neither may cost memory.
        let name = format!("u{route}x{}", random.below(50));
        let balance = random.one_of(&["round-robin", "least-request", "random", "p2c-ewma"]);
        let config = config.add_upstream(&name, |u| match random.below(4) {
            0 => u.set("respond.body", &name),
            1 => u.servers(["localhost:9"]).set("retry", Section::new()),
            2 => u
                .servers(["127.0.0.1:9"])
                .set("balance", balance)
                .set("outlier", Section::new()),
            _ => u
                .servers([
                    format!("127.0.0.1:{}", 10 + random.below(10)),
                    "127.0.0.1:9".to_owned(),
                ])
                .set("keepalive", random.below(9))
                .set("health.path", "/")
                .set("health.interval", "100ms"),
        });
        let budget = 8 + random.below(24);
        config.add_route(&name, |r| {
            r.path(&format!("/{name}/{{rest*}}"))
                .upstream(&name)
                .set("budget", format!("{budget}MiB"))
        })
    }

    fn broken(&mut self, config: NodeConfig) -> String {
        let broken = match self.random.below(6) {
            0 => config.route("plain", |r| r.upstream("plane")),
            1 => return format!("{config}\n[[["),
            2 => config.workers(3),
            3 => config.upstream("plain", |u| {
                u.remove("respond").set("respnod.body", "hello")
            }),
            4 => config.set("node.memory_budget", 64),
            _ => {
                let taken = self.taken.local_addr().expect("it is bound");
                config.add_listener(&taken.to_string(), |l| l)
            }
        };
        broken.to_string()
    }
}

fn plain() -> NodeConfig {
    NodeConfig::bare()
        .workers(2)
        .add_upstream("plain", |u| u.set("respond.body", "hello"))
        .add_route("plain", |r| r.path("/{rest*}").upstream("plain"))
}

#[test]
fn measured_random_configurations_leave_memory_flat_and_no_listener_lost() {
    let node = Steppe::builder().start(plain());
    let count = if is_long() { 10_000 } else { 300 };
    let seed = std::env::var("STEPPE_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    let mut drafts = Drafts {
        random: Random(seed),
        plain: plain(),
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

/// The anonymous memory of the process, in KiB.
fn anonymous_kib(node: &Steppe) -> u64 {
    let [_, anonymous] = resident_bytes(node.id());
    anonymous / 1024
}
