//! Peers that violate the protocol, over real sockets: each is dismissed with the right code, and leaves nothing.

use std::io::{BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use steppe_mem::Budget;
use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES, Head, Hello, Payment, flag};
use steppe_plane::limits::STREAM_BYTES;
use steppe_plane::{Memory, Worker, WorkerServer};

use crate::frames::{frame, request};

const PATIENCE: Duration = Duration::from_secs(60);

/// The HELLO of a connection.
pub fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        oldest: 1,
        newest: 1,
        streams_max: 10,
        stream_credit: 128 << 10,
        connection_credit: 128 << 10,
    };
    hello.write(&mut bytes);
    bytes
}

fn control(frame_type: FrameType, stream: u32, aux: u64) -> Vec<u8> {
    let mut header = FrameHeader::new(frame_type, stream);
    header.aux = aux;
    frame(header, b"")
}

fn data(stream: u32, flags: u8, offset: u64, len: usize) -> Vec<u8> {
    let mut header = FrameHeader::new(FrameType::DATA, stream);
    (header.flags, header.aux) = (flags, offset);
    frame(header, &vec![7; len])
}

/// The code of the GOAWAY that a peer receives before the connection closes.
fn dismissal(address: SocketAddr, sent: &[u8]) -> Option<u32> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket.write_all(sent).expect("it reads");
    let (mut said, mut room) = (Vec::new(), [0; 4096]);
    // A close with unread bytes resets the connection; earlier output arrives nevertheless.
    loop {
        match socket.read(&mut room) {
            Ok(0) => break,
            Ok(count) => said.extend(&room[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("it does not close in time: {error}"),
        }
    }
    let mut rest = &said[..];
    let mut code = None;
    while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
        let header = FrameHeader::read(header);
        if header.frame_type == FrameType::GOAWAY {
            code = Some(header.code);
        }
        rest = &rest[HEADER_BYTES + header.len as usize..];
    }
    code
}

async fn worker(memory: &Arc<Memory>) -> WorkerServer {
    let worker = Worker::builder(memory)
        .stream("sink", 1000, |mut request| async move {
            while request.body.next().await?.is_some() {}
            std::future::pending().await
        })
        .stream(
            "early",
            1000,
            |request| async move { request.response.end() },
        )
        .build();
    worker.listen("127.0.0.1:0").await.expect("a port")
}

#[tokio::test]
async fn whoever_lies_is_dismissed_by_its_code_and_leaves_nothing() {
    let budget = Budget::new(16 << 20);
    let memory = Arc::new(Memory::new(budget.root()));
    let server = worker(&memory).await;
    let (eager, announced) = (
        Head::request("sink"),
        Head {
            payment: Payment::Granted,
            length: Some(100),
            ..Head::request("sink")
        },
    );
    let open = request(1, &eager);
    let lies: [(&str, u32, Vec<Vec<u8>>); 15] = [
        ("type that is none", 1, vec![control(FrameType(100), 0, 0)]),
        ("stream of PING", 1, vec![control(FrameType::PING, 3, 0)]),
        (
            "text for fields",
            2,
            vec![frame(FrameHeader::new(FrameType::HEADERS, 1), b"text")],
        ),
        ("HELLO again", 3, vec![hello()]),
        ("stream of ours", 5, vec![request(2, &eager)]),
        ("stream again", 5, vec![open.clone(), open.clone()]),
        (
            "stream that is older",
            5,
            vec![request(3, &eager), open.clone()],
        ),
        ("DATA of nothing", 5, vec![data(9, 0, 0, 10)]),
        (
            "END twice",
            6,
            vec![
                open.clone(),
                control(FrameType::END, 1, 0),
                control(FrameType::END, 1, 0),
            ],
        ),
        (
            "announced without",
            6,
            vec![open.clone(), data(1, flag::ANNOUNCED, 0, 10)],
        ),
        (
            "nothing was granted",
            7,
            vec![request(1, &announced), data(1, flag::ANNOUNCED, 0, 100)],
        ),
        (
            "credit that falls",
            8,
            vec![
                control(FrameType::CREDIT, 0, 9),
                control(FrameType::CREDIT, 0, 8),
            ],
        ),
        (
            "credit without end",
            8,
            vec![control(FrameType::CREDIT, 0, u64::MAX)],
        ),
        (
            "offset of elsewhere",
            9,
            vec![open.clone(), data(1, 0, 5, 10)],
        ),
        (
            "GOAWAY on and on",
            10,
            vec![control(FrameType::GOAWAY, 0, 0).repeat(5)],
        ),
    ];
    for (what, code, frames) in lies {
        let (address, sent) = (server.address(), [vec![hello()], frames].concat().concat());
        let told = tokio::task::spawn_blocking(move || dismissal(address, &sent));
        assert_eq!(told.await.expect("no panic"), Some(code), "{what}");
        nothing_is_held(&budget).await;
    }
    let address = server.address();
    let told =
        tokio::task::spawn_blocking(move || dismissal(address, &control(FrameType::PING, 0, 0)));
    assert_eq!(told.await.expect("no panic"), Some(3), "no HELLO");
    nothing_is_held(&budget).await;
}

/// The worker has dropped the handlers of such streams; the entries in the connection are still charged.
#[tokio::test]
async fn streams_that_are_answered_and_not_ended_stay_charged() {
    const STREAMS: u32 = 1_000;
    let budget = Budget::new(16 << 20);
    let memory = Arc::new(Memory::new(budget.root()));
    let server = worker(&memory).await;
    let address = server.address();
    let opened = tokio::task::spawn_blocking(move || {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("is set");
        let requests = (0..STREAMS).flat_map(|at| request(2 * at + 1, &Head::request("early")));
        let sent: Vec<u8> = hello().into_iter().chain(requests).collect();
        socket.write_all(&sent).expect("it reads");
        let (mut ended, mut reader) = (0, BufReader::new(&socket));
        while ended < STREAMS {
            let mut header = [0; HEADER_BYTES];
            reader.read_exact(&mut header).expect("it answers");
            let header = FrameHeader::read(&header);
            let mut payload = vec![0; header.len as usize];
            reader.read_exact(&mut payload).expect("it is whole");
            ended += u32::from(header.frame_type == FrameType::END);
        }
        socket
    });
    let socket = opened.await.expect("no panic");
    let held = budget.root().reserved_bytes();
    assert!(held >= u64::from(STREAMS) * STREAM_BYTES as u64, "{held}");
    drop(socket);
    nothing_is_held(&budget).await;
}

async fn nothing_is_held(budget: &Budget) {
    let wait = async {
        while budget.root().reserved_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    let held = budget.root().reserved_bytes();
    assert!(waited.is_ok(), "{held} bytes are held");
}
