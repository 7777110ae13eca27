//! A store of a test's own, and what a worker is told when the real one is away.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use steppe_testkit::virtual_time;

use super::*;

/// The store's reply when it is asked about a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::filter::rate_limit) enum Reply {
    Number(u64),
    /// It ends the connection.
    Close,
}

/// Speaks as much of the protocol (RESP) as a limit needs, until the process ends.
pub(in crate::filter::rate_limit) struct FakeStore {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl FakeStore {
    /// One that gives these replies, in order, whichever connection asks.
    pub(in crate::filter::rate_limit) fn start(replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let replies = Arc::new(Mutex::new(VecDeque::from(replies.to_vec())));
        let connections = Arc::<AtomicUsize>::default();
        let accepted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accepted.fetch_add(1, Ordering::Relaxed);
                let replies = Arc::clone(&replies);
                let next = move || replies.lock().expect("no panic").pop_front();
                // Its client may be gone.
                std::thread::spawn(move || stream.and_then(|stream| answer(&stream, next)));
            }
        });
        Self {
            address,
            connections,
        }
    }

    pub(in crate::filter::rate_limit) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    pub(in crate::filter::rate_limit) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn answer(stream: &TcpStream, next: impl Fn() -> Option<Reply>) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Some(words) = command(&mut reader)? {
        match words[0].as_slice() {
            b"EVALSHA" => match next() {
                Some(Reply::Number(number)) => write!(writer, ":{number}\r\n")?,
                Some(Reply::Close) | None => return Ok(()),
            },
            _ => writer.write_all(b"+OK\r\n")?,
        }
    }
    Ok(())
}

/// An array of bulk strings; `None`: the stream has ended.
fn command(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<Vec<u8>>>> {
    let Some(count) = number(reader)? else {
        return Ok(None);
    };
    let mut words = Vec::new();
    for _ in 0..count {
        let bytes = number(reader)?.unwrap_or(0);
        let mut word = vec![0; bytes + 2];
        reader.read_exact(&mut word)?;
        word.truncate(bytes);
        words.push(word);
    }
    Ok(Some(words))
}

/// That of a line, behind the byte that says what it counts.
fn number(reader: &mut impl BufRead) -> std::io::Result<Option<usize>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let digits = line.get(1..).map(str::trim_end);
    Ok(digits.and_then(|digits| digits.parse().ok()))
}

/// Runs `test` within a runtime of its own.
pub(in crate::filter::rate_limit) fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().build().expect("epoll").block_on(test)
}

#[test]
fn a_question_that_fails_ends_its_own_connection_and_no_later_one() {
    let store = FakeStore::start(&[Reply::Close, Reply::Number(0), Reply::Close]);
    let counts = Arc::<Counts>::default();
    let is_there = |counts: &Counts| counts.is_store_there.load(Ordering::Relaxed);
    let rate = Rate {
        requests: 1,
        per: Duration::from_secs(1),
        burst: 1,
    };
    let client = Client::open(store.url()).expect("a URL");
    let line = Line::new(client.clone(), &rate, Arc::clone(&counts));
    let connected = StoreConnection::default();
    run(async {
        let connect = async || {
            let connection = client.get_multiplexed_async_connection().await;
            connection.expect("it is there")
        };
        assert_eq!(line.answer(&connected, "k").await, StoreAnswer::Away);
        connected.begin(connect().await);
        counts.is_store_there.store(true, Ordering::Relaxed);
        let next = connect().await;
        let mut asked = Box::pin(line.answer(&connected, "k"));
        poll_fn(|cx| {
            assert!(asked.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        // Meanwhile there is another connection.
        connected.begin(next);
        assert_eq!(asked.await, StoreAnswer::Away);
        assert!(is_there(&counts));
        assert_eq!(line.answer(&connected, "k").await, StoreAnswer::Pass);
        assert_eq!(line.answer(&connected, "k").await, StoreAnswer::Away);
        assert!(!is_there(&counts) && connected.connection.borrow().is_none());
        // Who connects is told.
        connected.is_lost.notified().await;
    });
}

#[test]
fn a_store_that_is_away_is_looked_for_twice_a_second() {
    virtual_time::run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (counts, asked) = (Arc::<Counts>::default(), Rc::<Cell<u32>>::default());
        let accepted = Rc::clone(&asked);
        spawn_local(async move {
            while let Ok((connection, _)) = listener.accept().await {
                accepted.set(accepted.get() + 1);
                drop(connection);
            }
        });
        let client = Client::open(format!("redis://{address}/")).expect("a URL");
        let rate = Rate {
            requests: 1,
            per: Duration::from_secs(1),
            burst: 1,
        };
        let line = Rc::new(Line::new(client, &rate, Arc::clone(&counts)));
        spawn_local(line.keep_connected(Rc::default()));
        for looks in 1..=20 {
            virtual_time::pass(STORE_PAUSE / 2).await;
            assert_eq!(asked.get(), looks);
            virtual_time::pass(STORE_PAUSE / 2).await;
        }
        assert!(!counts.is_store_there.load(Ordering::Relaxed));
    });
}
