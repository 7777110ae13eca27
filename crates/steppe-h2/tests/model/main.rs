//! The state machine as a server, against the client of the `h2` crate: any split, delay, reset, window, table size and
//! section. Content is exact, and accounts are at zero at the end.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod echo;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use proptest::prelude::*;
use steppe_mem::Budget;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use echo::Echo;

/// One request.
#[derive(Debug, Clone)]
struct Exchange {
    path_bytes: usize,
    fields: Vec<(String, String)>,
    /// Lengths of the pieces of its content.
    pieces: Vec<usize>,
    has_trailers: bool,
    /// The client resets it after so many pieces.
    reset_after: Option<usize>,
}

#[derive(Debug, Clone)]
struct Case {
    exchanges: Vec<Exchange>,
    /// Bytes that the transport moves at once, one after the other, from the beginning again.
    splits: Vec<usize>,
    window: u32,
    connection_window: u32,
    table: u32,
    frame: u32,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let name = prop_oneof![
        Just("x-a".to_owned()),
        "x-[a-z]{1,12}",
        Just("cookie".to_owned())
    ];
    let value = "[ -~]{0,40}".prop_map(|value| value.trim().to_owned());
    let long = (0..6000_usize).prop_map(|bytes| "v".repeat(bytes));
    let fields = proptest::collection::vec((name, prop_oneof![9 => value, 1 => long]), 0..12);
    let pieces = proptest::collection::vec(prop_oneof![0..20_usize, 0..40_000_usize], 0..5);
    (
        1..300_usize,
        fields,
        pieces,
        any::<bool>(),
        proptest::option::weighted(0.2, 0..4_usize),
    )
        .prop_map(
            |(path_bytes, fields, pieces, has_trailers, reset_after)| Exchange {
                path_bytes,
                fields,
                pieces,
                has_trailers,
                reset_after,
            },
        )
}

fn case() -> impl Strategy<Value = Case> {
    let splits = proptest::collection::vec(prop_oneof![1..10_usize, 1..5000_usize], 1..8);
    (
        proptest::collection::vec(exchange(), 1..12),
        splits,
        prop_oneof![1000..5000_u32, 1000..200_000_u32],
        65_535..300_000_u32,
        prop_oneof![Just(4096_u32), 0..10_000_u32],
        prop_oneof![Just(16_384_u32), 16_384..100_000_u32],
    )
        .prop_map(
            |(exchanges, splits, window, connection_window, table, frame)| Case {
                exchanges,
                splits,
                window,
                connection_window,
                table,
                frame,
            },
        )
}

/// A transport that moves a few bytes at a time.
struct Split {
    inner: DuplexStream,
    splits: Vec<usize>,
    next: usize,
}

impl Split {
    fn new(inner: DuplexStream, splits: &[usize]) -> Self {
        Self {
            inner,
            splits: splits.to_vec(),
            next: 0,
        }
    }

    fn bytes(&mut self) -> usize {
        self.next += 1;
        self.splits[self.next % self.splits.len()]
    }
}

impl AsyncRead for Split {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let bytes = self.bytes().min(room.remaining());
        let mut part = vec![0; bytes];
        let mut read = ReadBuf::new(&mut part);
        let polled = Pin::new(&mut self.inner).poll_read(cx, &mut read);
        room.put_slice(read.filled());
        polled
    }
}

impl AsyncWrite for Split {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let count = self.bytes().min(bytes.len());
        Pin::new(&mut self.inner).poll_write(cx, &bytes[..count])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn map(fields: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("it is a name");
        map.append(name, HeaderValue::from_str(value).expect("it is a value"));
    }
    map
}

/// Content of a piece, told apart from others by its index.
fn content(index: usize, bytes: usize) -> Bytes {
    let byte = |at: usize| u8::try_from((at * 7 + index) % 251).expect("it is small");
    (0..bytes).map(byte).collect::<Vec<_>>().into()
}

/// Sends one request and compares the echo.
async fn ask(client: SendRequest<Bytes>, exchange: Exchange) {
    let mut client = client.ready().await.expect("the connection is there");
    let path = format!("http://model/{}", "p".repeat(exchange.path_bytes));
    let mut request = Request::post(path).body(()).expect("it is valid");
    *request.headers_mut() = map(&exchange.fields);
    let (response, mut stream) = client.send_request(request, false).expect("it is sent");
    let mut sent = Vec::new();
    for (index, &bytes) in exchange.pieces.iter().enumerate() {
        if exchange.reset_after == Some(index) {
            stream.send_reset(h2::Reason::CANCEL);
            return;
        }
        let mut piece = content(index, bytes);
        sent.extend_from_slice(&piece);
        while !piece.is_empty() {
            stream.reserve_capacity(piece.len());
            let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let capacity = capacity
                .expect("the stream goes on")
                .expect("and is not reset");
            let part = piece.split_to(capacity.min(piece.len()));
            stream.send_data(part, false).expect("it is sent");
        }
    }
    if exchange.reset_after.is_some() {
        return stream.send_reset(h2::Reason::CANCEL);
    }
    let trailers = map(&[("x-trailer".to_owned(), "1".to_owned())]);
    match exchange.has_trailers {
        true => stream.send_trailers(trailers.clone()).expect("it is sent"),
        false => stream.send_data(Bytes::new(), true).expect("it is sent"),
    }
    let response = response.await.expect("there is a response");
    for name in response
        .headers()
        .keys()
        .filter(|name| name.as_str().starts_with("x-"))
    {
        let echoed: Vec<_> = response.headers().get_all(name).iter().collect();
        let headers = map(&exchange.fields);
        assert_eq!(
            echoed,
            headers.get_all(name).iter().collect::<Vec<_>>(),
            "{name}"
        );
    }
    let mut echoed = Vec::new();
    let mut incoming = response.into_body();
    while let Some(data) = incoming.data().await {
        let data = data.expect("the content comes whole");
        echoed.extend_from_slice(&data);
        incoming
            .flow_control()
            .release_capacity(data.len())
            .expect("it was taken");
    }
    assert!(
        echoed == sent,
        "{} bytes came, {} were sent",
        echoed.len(),
        sent.len()
    );
    let came = incoming.trailers().await.expect("the end comes");
    assert_eq!(came, exchange.has_trailers.then_some(trailers));
}

fn run(case: Case) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    let budget = Budget::new(64 << 20);
    let (ours, theirs) = tokio::io::duplex(3000);
    let server = Echo::new(&budget, Split::new(ours, &case.splits));
    let ends = tasks.run_until(async move {
        let server = tokio::task::spawn_local(server.run());
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(case.window)
            .initial_connection_window_size(case.connection_window)
            .header_table_size(case.table)
            .max_frame_size(case.frame);
        let io = Split::new(theirs, &case.splits);
        let (client, connection) = builder
            .handshake::<_, Bytes>(io)
            .await
            .expect("a handshake");
        let connection = tokio::task::spawn_local(connection);
        let asking = case
            .exchanges
            .into_iter()
            .map(|exchange| tokio::task::spawn_local(ask(client.clone(), exchange)));
        for asked in asking.collect::<Vec<_>>() {
            asked.await.expect("it holds");
        }
        drop(client);
        connection
            .await
            .expect("it ends")
            .expect("without an error");
        server.await.expect("it ends");
    });
    runtime.block_on(ends);
    drop(tasks);
    drop(runtime);
    assert_eq!(
        budget.root().reserved_bytes(),
        0,
        "everything is given back"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_client_of_another_implementation_gets_what_it_sent(case in case()) {
        run(case);
    }
}
