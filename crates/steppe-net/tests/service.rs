//! Two services beside each other, through the trait that the gateway implements: one over TCP that
//! greets, one over UDP that echoes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc as threads};
use std::time::Duration;

use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    BoundListener, BoundSockets, Change, Changes, Drain, Drained, Inherited, ListenAddress,
    LocalFuture, Phase, PrepareError, Prepared, PreparedServices, ReadAhead, Service, ServiceSet,
    SocketBinder, SocketKey, Worker, WorkerPlan, WorkerThread, spawn_worker,
};
use steppe_testkit::Port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};

const WORKERS: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Configuration of the toy node.
#[derive(Debug, Clone, Default)]
struct Config {
    /// Addresses at which clients are greeted, with the word for each.
    greet: Vec<(SocketAddr, &'static str)>,
    /// The address from which datagrams come back, and the word before them.
    echo: Option<(SocketAddr, &'static str)>,
    /// Stands for a file that can't be read.
    is_file_missing: bool,
}

/// One toy, its configurations, and the sockets that it was given.
struct Toy<S> {
    changes: Arc<Changes<Config>>,
    new_sockets: Arc<AtomicUsize>,
    _kind: PhantomData<S>,
}

/// A kind of toy: its sockets, and the way that it serves.
trait Kind: Send + Sync + 'static {
    fn keys(config: &Config) -> Vec<SocketKey>;
    fn serve(worker: Rc<Worker>, changes: mpsc::Receiver<Change<Config>>) -> LocalFuture<Drained>;
}

struct Greet;
struct Echo;

struct PreparedToy {
    changes: Arc<Changes<Config>>,
    new_sockets: Arc<AtomicUsize>,
    config: Config,
}

impl<S: Kind> Toy<S> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            changes: Arc::new(Changes::new(WORKERS)),
            new_sockets: Arc::default(),
            _kind: PhantomData,
        })
    }

    /// Number of sockets that it was given since the last call.
    fn new_sockets(&self) -> usize {
        self.new_sockets.swap(0, Ordering::Relaxed)
    }
}

impl<S: Kind> Service<Config> for Toy<S> {
    fn prepare(
        self: Arc<Self>,
        config: &Config,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        for key in S::keys(config) {
            let key_of = |cause| PrepareError::Bind {
                key: "toy.listen",
                cause,
            };
            sockets.bind(&key).map_err(key_of)?;
        }
        if config.is_file_missing {
            let cause = "it is missing".into();
            return Err(PrepareError::Other {
                key: "toy.file",
                cause,
            });
        }
        Ok(Box::new(PreparedToy {
            changes: Arc::clone(&self.changes),
            new_sockets: Arc::clone(&self.new_sockets),
            config: config.clone(),
        }))
    }

    fn serve(self: Arc<Self>, worker: Rc<Worker>) -> LocalFuture<Drained> {
        S::serve(Rc::clone(&worker), self.changes.take_receiver(worker.index))
    }
}

impl Prepared for PreparedToy {
    fn change(self: Box<Self>, sockets: Vec<BoundSockets>) -> LocalFuture<()> {
        let count: usize = sockets.iter().map(|worker| worker.keys().count()).sum();
        self.new_sockets.fetch_add(count, Ordering::Relaxed);
        Box::pin(async move { self.changes.send(&Arc::new(self.config), sockets).await })
    }
}

impl Kind for Greet {
    fn keys(config: &Config) -> Vec<SocketKey> {
        let addresses = config.greet.iter();
        let keys = addresses.map(|&(address, _)| SocketKey::stream(ListenAddress::Tcp(address)));
        keys.collect()
    }

    fn serve(
        worker: Rc<Worker>,
        mut changes: mpsc::Receiver<Change<Config>>,
    ) -> LocalFuture<Drained> {
        Box::pin(async move {
            let (open, words) = (Rc::new(()), Words::default());
            let mut listeners: HashMap<SocketAddr, JoinHandle<()>> = HashMap::new();
            loop {
                let mut change = tokio::select! {
                    () = worker.drain.reached(Phase::Draining) => break,
                    Some(change) = changes.recv() => change,
                };
                *words.borrow_mut() = change.next.greet.iter().copied().collect();
                listeners.retain(|address, task| {
                    let stays = words.borrow().contains_key(address);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for &(address, _) in &change.next.greet {
                    if let Some(bound) = change.sockets.take_listener(&ListenAddress::Tcp(address))
                    {
                        let greet = greet(bound, address, Rc::clone(&words), Rc::clone(&open));
                        listeners.insert(address, spawn_local(greet));
                    }
                }
                assert!(change.sockets.is_empty(), "it asked for no other");
                // Aborted tasks drop their sockets when they are next looked at.
                tokio::task::yield_now().await;
                let _ = change.done.send(());
            }
            for (_, task) in listeners.drain() {
                task.abort();
                let _ = task.await;
            }
            let connections = || Rc::strong_count(&open) - 1;
            let at_drain = connections();
            worker.drain.reached(Phase::Stopped).await;
            Drained {
                open: at_drain,
                dropped: connections(),
            }
        })
    }
}

type Words = Rc<RefCell<HashMap<SocketAddr, &'static str>>>;

async fn greet(bound: BoundListener, address: SocketAddr, words: Words, open: Rc<()>) {
    let listener = bound.into_listener().expect("within a runtime");
    loop {
        let accepted = std::future::poll_fn(|cx| listener.poll_accept(cx)).await;
        let Ok((steppe_net::Stream::Tcp(mut stream), _)) = accepted else {
            panic!("TCP");
        };
        let word = words.borrow()[&address];
        let open = Rc::clone(&open);
        spawn_local(async move {
            let _ = stream.write_all(word.as_bytes()).await;
            // Stays open until the client leaves.
            let _ = stream.read(&mut [0]).await;
            drop(open);
        });
    }
}

impl Kind for Echo {
    fn keys(config: &Config) -> Vec<SocketKey> {
        let address = config.echo.map(|(address, _)| SocketKey::datagram(address));
        address.into_iter().collect()
    }

    fn serve(
        worker: Rc<Worker>,
        mut changes: mpsc::Receiver<Change<Config>>,
    ) -> LocalFuture<Drained> {
        Box::pin(async move {
            let mut socket = None;
            let mut word = "";
            let mut buffer = [0; 64];
            loop {
                let received = async {
                    match &socket {
                        Some(socket) => tokio::net::UdpSocket::recv_from(socket, &mut buffer).await,
                        None => std::future::pending().await,
                    }
                };
                let (length, client) = tokio::select! {
                    () = worker.drain.reached(Phase::Draining) => {
                        let open = usize::from(socket.is_some());
                        return Drained { open, dropped: 0 };
                    }
                    received = received => received.expect("a datagram"),
                    Some(mut change) = changes.recv() => {
                        let echo = change.next.echo;
                        word = echo.map_or("", |(_, word)| word);
                        let bound = echo.and_then(|(at, _)| change.sockets.take_datagram(at));
                        if let Some(bound) = bound {
                            socket = Some(bound.into_socket().expect("within a runtime"));
                        }
                        if echo.is_none() {
                            socket = None;
                        }
                        let _ = change.done.send(());
                        continue;
                    }
                };
                let answer = [word.as_bytes(), &buffer[..length]].concat();
                if let Some(socket) = &socket {
                    socket.send_to(&answer, client).await.expect("is sent");
                }
            }
        })
    }
}

/// A node of toys: workers, and the thread of a test as the control thread.
struct Node {
    set: ServiceSet<Config>,
    greet: Arc<Toy<Greet>>,
    echo: Arc<Toy<Echo>>,
    drain: Drain,
    workers: Vec<WorkerThread>,
    drained: threads::Receiver<Drained>,
}

impl Node {
    async fn start(config: &Config) -> Self {
        let (greet, echo) = (Toy::new(), Toy::new());
        let services: [Arc<dyn Service<Config>>; 2] = [greet.clone(), echo.clone()];
        let mut set = ServiceSet::new(services, Inherited::default(), WORKERS);
        let prepared = set.prepare(config).expect("the ports are free");
        let drain = Drain::default();
        let pool = Budget::new(64 << 20).root().child("pool", None);
        let (tell, drained) = threads::sync_channel(WORKERS);
        let workers = (0..WORKERS).map(|index| {
            let plan = WorkerPlan {
                index,
                drain: drain.clone(),
                stock: Stock {
                    lease: pool.lease(),
                    idle_bytes_max: 1 << 20,
                },
                housekeeping: || (),
                io: Worker::default_io,
            };
            let (services, tell) = (set.on_worker(), tell.clone());
            let serve = |worker| async move {
                tell.send(services.serve(worker).await).expect("is awaited");
            };
            spawn_worker(plan, serve).expect("a thread")
        });
        let workers = workers.collect();
        set.change(prepared).await;
        Self {
            set,
            greet,
            echo,
            drain,
            workers,
            drained,
        }
    }

    async fn change(&mut self, config: &Config) {
        let prepared = self.set.prepare(config).expect("nothing is missing");
        self.set.change(prepared).await;
    }

    fn refusal(&self, config: &Config) -> String {
        let refused = self.set.prepare(config).err();
        refused.expect("it is refused").to_string()
    }

    fn stop(self) -> Drained {
        self.drain.enter(Phase::Draining);
        self.drain.enter(Phase::Stopped);
        self.workers.into_iter().for_each(WorkerThread::join);
        self.drained.try_iter().sum()
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(test);
}

/// The word that a client is greeted with, and its connection.
fn greeting(address: SocketAddr) -> (String, TcpStream) {
    let mut client = TcpStream::connect(address).expect("listens");
    client.set_read_timeout(Some(TIMEOUT)).expect("is set");
    let mut word = [0; 5];
    client.read_exact(&mut word).expect("is greeted");
    (String::from_utf8_lossy(&word).into_owned(), client)
}

fn echo(address: SocketAddr) -> String {
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    client.set_read_timeout(Some(TIMEOUT)).expect("is set");
    client.send_to(b"ping", address).expect("is sent");
    let mut answer = [0; 16];
    let length = client.recv(&mut answer).expect("is answered");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[test]
fn two_services_start_change_and_drain_together() {
    run(async {
        let (first, second, udp) = (
            Port::free().keep(),
            Port::free().keep(),
            Port::free().keep(),
        );
        let mut config = Config {
            greet: vec![(first, "hello")],
            echo: Some((udp, "one ")),
            is_file_missing: false,
        };
        let mut node = Node::start(&config).await;
        let sockets = (node.greet.new_sockets(), node.echo.new_sockets());
        assert_eq!(sockets, (WORKERS, WORKERS), "one for each worker");
        let (word, stays) = greeting(first);
        assert_eq!((word.as_str(), echo(udp).as_str()), ("hello", "one ping"));
        config.greet = vec![(second, "hallo")];
        config.echo = Some((udp, "two "));
        node.change(&config).await;
        let sockets = (node.greet.new_sockets(), node.echo.new_sockets());
        assert_eq!(sockets, (WORKERS, 0), "those that stay are not bound again");
        assert!(TcpStream::connect(first).is_err(), "its listener went");
        let (word, comes) = greeting(second);
        assert_eq!((word.as_str(), echo(udp).as_str()), ("hallo", "two ping"));
        // Two clients, and the UDP socket of each worker.
        let drained = Drained {
            open: 2 + WORKERS,
            dropped: 2,
        };
        assert_eq!(node.stop(), drained);
        drop((stays, comes));
    });
}

#[test]
fn what_one_service_refuses_changes_none() {
    run(async {
        let (first, second, udp) = (
            Port::free().keep(),
            Port::free().keep(),
            Port::free().keep(),
        );
        let config = Config {
            greet: vec![(first, "hello")],
            ..Config::default()
        };
        let mut node = Node::start(&config).await;
        node.greet.new_sockets();
        let taken = UdpSocket::bind(udp).expect("it is free");
        let next = Config {
            greet: vec![(second, "hallo")],
            echo: Some((udp, "two ")),
            is_file_missing: false,
        };
        // The first service has bound its port by then.
        let refused = format!("toy.listen: {udp} is in use by another process");
        assert_eq!(node.refusal(&next), refused);
        drop(taken);
        let missing = Config {
            is_file_missing: true,
            ..next.clone()
        };
        assert_eq!(node.refusal(&missing), "toy.file: it is missing");
        assert!(TcpStream::connect(second).is_err(), "it is let go of");
        assert_eq!(greeting(first).0, "hello");
        assert_eq!(node.greet.new_sockets(), 0);
        node.change(&next).await;
        assert_eq!(greeting(second).0, "hallo");
        node.stop();
    });
}

#[test]
fn listeners_that_change_places_keep_their_sockets() {
    run(async {
        let (first, second, third) = (
            Port::free().keep(),
            Port::free().keep(),
            Port::free().keep(),
        );
        let mut config = Config {
            greet: vec![(first, "hello"), (second, "hallo")],
            ..Config::default()
        };
        let mut node = Node::start(&config).await;
        assert_eq!(node.greet.new_sockets(), 2 * WORKERS);
        for new_sockets in [0, WORKERS, 0] {
            assert_eq!(greeting(first).0, "hello");
            assert_eq!(greeting(second).0, "hallo");
            config.greet.reverse();
            if new_sockets > 0 {
                config.greet.push((third, "salut"));
            }
            node.change(&config).await;
            assert_eq!(
                node.greet.new_sockets(),
                new_sockets,
                "only the third is new"
            );
        }
        assert_eq!(greeting(third).0, "salut");
        node.stop();
    });
}

#[test]
fn one_address_serves_one_service_for_each_transport() {
    run(async {
        let address = Port::free().keep();
        let mut config = Config {
            greet: vec![(address, "hello")],
            echo: Some((address, "one ")),
            ..Config::default()
        };
        let node = Node::start(&config).await;
        assert_eq!(greeting(address).0, "hello");
        assert_eq!(echo(address), "one ping");
        config.greet.push((address, "hallo"));
        let twice = node.refusal(&config);
        assert!(twice.contains("listened on twice"), "{twice}");
        node.stop();
    });
}

/// A service that reads ahead, and refuses every configuration by whether that is there.
#[derive(Default)]
struct Reader(Mutex<Weak<()>>);

impl Service<Config> for Reader {
    fn read_ahead(self: Arc<Self>, _config: &Config) -> LocalFuture<ReadAhead> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let read = Arc::new(());
            *self.0.lock().expect("no test failed there") = Arc::downgrade(&read);
            Box::new(read) as ReadAhead
        })
    }

    fn prepare(
        self: Arc<Self>,
        _config: &Config,
        _sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let read = self.0.lock().expect("no test failed there").upgrade();
        let cause = match read {
            Some(_) => "it was read",
            None => "it was not read",
        };
        Err(PrepareError::Other {
            key: "reader.file",
            cause: cause.into(),
        })
    }

    fn serve(self: Arc<Self>, _worker: Rc<Worker>) -> LocalFuture<Drained> {
        Box::pin(async { Drained::default() })
    }
}

#[test]
fn what_was_read_ahead_is_there_until_a_configuration_is_prepared() {
    run(async {
        let services: [Arc<dyn Service<Config>>; 1] = [Arc::new(Reader::default())];
        let set = ServiceSet::new(services, Inherited::default(), WORKERS);
        let why = |prepared: Result<PreparedServices, PrepareError>| {
            let refused = prepared.err().expect("it refuses all");
            refused.to_string()
        };
        let config = Config::default();
        assert_eq!(
            why(set.prepare_beside(&config).await),
            "reader.file: it was read"
        );
        assert_eq!(why(set.prepare(&config)), "reader.file: it was not read");
    });
}
