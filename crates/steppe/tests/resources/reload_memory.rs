//! The memory that open connections keep alive over changes of the configuration.
//!
//! A snapshot is freed once its last exchange has become a tunnel or ended. Each reload here
//! changes every route of a thousand, so that no part of a snapshot can be shared with the next; a
//! tunnel that kept one alive would cost about a megabyte.
//!
//! `STEPPE_LONG=1` runs the sizes that the documentation promises.

use std::time::{Duration, Instant};

use steppe_testkit::{
    NodeConfig, Peer, RawOrigin, Steppe, WebSocket, eventually, heavy, is_long, raise_file_limit,
    resident_bytes, skip, websocket_connect, websocket_echo,
};

const ROUTES: usize = 1_000;
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// More than the allocator's `decay_ms`.
const DECAY: Duration = Duration::from_millis(1500);
/// Resident memory has settled if it falls by less than this in that time.
const SETTLED_BYTES: u64 = 128 << 10;

/// The number of WebSockets, and of reloads: 30 snapshots that were kept would take 30 MB.
fn count() -> usize {
    if is_long() { 1_000 } else { 30 }
}

/// A node with a thousand routes, and two files that differ in each of them.
struct Site {
    node: Steppe,
    files: [String; 2],
    reloads: usize,
}

impl Site {
    /// Starts the site; `None`, and a skipped `test`, if too few files can be opened.
    fn start(test: &str, origin: &RawOrigin) -> Option<Self> {
        let files = raise_file_limit();
        if files < 6 * count() as u64 {
            skip(test, &format!("{files} open files are too few"));
            return None;
        }
        let plain = NodeConfig::plain().upstream("origin", |u| u.set("timeouts.idle", "600s"));
        let node = Steppe::builder()
            .with("origin", origin.address())
            .start(&plain);
        let file = |word: &str| {
            let add = |config: NodeConfig, number| {
                config.add_route(&format!("route-{number}"), |r| {
                    r.path(&format!("/{word}/{number}/{{rest*}}"))
                        .set("headers.x-tenant", format!("{word}-{number}"))
                        .upstream("origin")
                })
            };
            (0..ROUTES).fold(plain.clone(), add).to_string()
        };
        let files = [file("even"), file("odd")];
        let mut site = Self {
            node,
            files,
            reloads: 0,
        };
        site.reload();
        site.reload();
        Some(site)
    }

    #[track_caller]
    fn reload(&mut self) {
        self.node.set_config(&self.files[self.reloads % 2]);
        let answer = self.node.admin_post("/reload");
        assert_eq!(answer.status(), 200, "{}", answer.text());
        self.reloads += 1;
    }

    fn open(&self) -> WebSocket<Peer> {
        let (mut socket, _) = websocket_connect(self.node.gateway(), "/chat");
        echoes(&mut socket);
        socket
    }

    /// The resident bytes, once the allocator has returned its free memory.
    fn settled_bytes(&self) -> u64 {
        let mut last = resident_bytes(self.node.id())[1];
        loop {
            std::thread::sleep(DECAY);
            let now = resident_bytes(self.node.id())[1];
            if now + SETTLED_BYTES >= last {
                let memory = self.node.admin_json("/memory");
                println!(
                    "{now} bytes, of which live {}",
                    memory["allocator"]["live_bytes"]
                );
                return now;
            }
            last = now;
        }
    }

    fn tunnels(&self) -> f64 {
        self.node.metrics().sum("steppe_http_tunnels", &[])
    }
}

#[track_caller]
fn echoes(socket: &mut WebSocket<Peer>) {
    socket.send("hello".into()).expect("the tunnel is open");
    let echo = socket.read().expect("the tunnel is open");
    assert_eq!(echo.into_text().expect("text").as_str(), "hello");
}

#[test]
fn websockets_that_are_open_keep_no_snapshot() {
    let _alone = heavy();
    let origin = websocket_echo();
    let Some(mut site) = Site::start("websockets_that_are_open_keep_no_snapshot", &origin) else {
        return;
    };
    let mut sockets: Vec<_> = (0..count()).map(|_| site.open()).collect();
    let before = site.settled_bytes();
    let began_at = Instant::now();
    (0..count()).for_each(|_| site.reload());
    let took = began_at.elapsed();
    let after = site.settled_bytes();
    println!("{} reloads in {took:?}: {before} → {after} bytes", count());
    assert!(after < before + GROWTH_BYTES_MAX, "{before} → {after}");
    assert!(site.tunnels() >= count() as f64);
    sockets.iter_mut().for_each(echoes);
}

#[test]
fn websockets_of_a_snapshot_each_cost_what_those_of_one_do() {
    const TEST: &str = "websockets_of_a_snapshot_each_cost_what_those_of_one_do";
    let _alone = heavy();
    let origin = websocket_echo();
    let opened = |reloads: bool| {
        let mut site = Site::start(TEST, &origin)?;
        let before = site.settled_bytes();
        let mut sockets = Vec::new();
        for _ in 0..count() {
            sockets.push(site.open());
            if reloads {
                site.reload();
            }
        }
        let grown = site.settled_bytes().saturating_sub(before);
        sockets.iter_mut().for_each(echoes);
        Some(grown)
    };
    let (Some(of_one), Some(of_each)) = (opened(false), opened(true)) else {
        return;
    };
    println!(
        "{} WebSockets: {of_one} bytes, with a reload each {of_each}",
        count()
    );
    assert!(of_each < of_one + GROWTH_BYTES_MAX, "{of_one} → {of_each}");
}

/// Idle connections, each after a request under the first snapshot and one under a later one.
#[test]
fn idle_connections_keep_no_snapshot() {
    let _alone = heavy();
    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let Some(mut site) = Site::start("idle_connections_keep_no_snapshot", &origin) else {
        return;
    };
    let ask = |peer: &mut Peer| assert_eq!(peer.send(GET).response().status(), 200);
    let mut idle: Vec<Peer> = (0..count()).map(|_| site.node.connect()).collect();
    idle.iter_mut().for_each(ask);
    let before = site.settled_bytes();
    for peer in &mut idle {
        site.reload();
        ask(peer);
    }
    let after = site.settled_bytes();
    println!("{before} → {after} bytes");
    assert!(after < before + GROWTH_BYTES_MAX, "{before} → {after}");
    eventually("they are all there", || {
        site.node.metrics().sum("steppe_http_connections", &[]) >= count() as f64
    });
}
