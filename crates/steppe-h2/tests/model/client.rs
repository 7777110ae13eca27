//! The state machine as a client, against the server of the `h2` crate.

use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, StatusCode};
use proptest::prelude::*;
use steppe_h2::Role;

use super::asker::Asker;
use super::driver::Driver;
use super::messages::{Settings, content, echoed, fields, map, pieces, settings, splits};
use super::run_local;
use super::transport::Split;

/// One request and its response.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub method: &'static str,
    pub fields: Vec<(String, String)>,
    /// Lengths of the pieces of its content.
    pub pieces: Vec<usize>,
    pub has_trailers: bool,
    /// The client resets it after so many pieces.
    pub reset_after: Option<usize>,
    /// The client resets it once content comes.
    pub is_left_at_content: bool,
    pub response: Response,
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub interim_heads: usize,
    pub pieces: Vec<usize>,
    pub has_length: bool,
    pub has_trailers: bool,
    /// The server resets it after so many pieces.
    pub reset_after: Option<usize>,
    pub serving: Serving,
}

/// When the server reads the content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// Before it responds.
    ReadsFirst,
    /// Behind its response.
    ReadsLast,
    /// Not at all.
    Early,
    /// It refuses the request.
    Refused,
}

impl Exchange {
    pub fn has_content(&self) -> bool {
        matches!(self.method, "POST" | "CONNECT")
    }

    /// The response has content.
    pub fn answers_content(&self) -> bool {
        self.method != "HEAD" && !matches!(self.response.status, 204 | 304)
    }
}

#[derive(Debug, Clone)]
struct Case {
    exchanges: Vec<Exchange>,
    splits: Vec<usize>,
    settings: Settings,
    streams_max: u32,
    /// The window of streams grows with each request, by so much. The h2 crate gives back too little when it shrinks: what
    /// a stream has released by then, and has not announced, waits for content that the smaller window forbids.
    windows: Vec<u32>,
    /// The server begins to shut down with this request.
    goaway_at: Option<usize>,
}

fn response() -> impl Strategy<Value = Response> {
    let status = prop_oneof![6 => Just(200_u16), 1 => Just(204), 1 => Just(304), 1 => Just(404)];
    let serving = prop_oneof![
        6 => Just(Serving::ReadsFirst),
        4 => Just(Serving::ReadsLast),
        2 => Just(Serving::Early),
        1 => Just(Serving::Refused),
    ];
    (
        status,
        fields(),
        0..3_usize,
        pieces(),
        any::<bool>(),
        any::<bool>(),
        proptest::option::weighted(0.15, 0..4_usize),
        serving,
    )
        .prop_map(
            |(
                status,
                fields,
                interim_heads,
                pieces,
                has_length,
                has_trailers,
                reset_after,
                serving,
            )| Response {
                status,
                fields,
                interim_heads,
                pieces,
                has_length,
                has_trailers,
                reset_after,
                serving,
            },
        )
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let method = prop_oneof![
        3 => Just("GET"),
        5 => Just("POST"),
        1 => Just("HEAD"),
        1 => Just("CONNECT"),
    ];
    (
        method,
        fields(),
        pieces(),
        any::<bool>(),
        proptest::option::weighted(0.15, 0..4_usize),
        proptest::bool::weighted(0.1),
        response(),
    )
        .prop_map(
            |(
                method,
                fields,
                pieces,
                has_trailers,
                reset_after,
                is_left_at_content,
                mut response,
            )| {
                let is_tunnel = method == "CONNECT";
                if is_tunnel {
                    response.status = 200;
                }
                if method == "HEAD" && response.has_trailers {
                    // Its head ends it.
                    response.reset_after = None;
                }
                Exchange {
                    method,
                    fields,
                    pieces,
                    // A tunnel has none.
                    has_trailers: has_trailers && !is_tunnel,
                    reset_after,
                    is_left_at_content,
                    response,
                }
            },
        )
}

fn case() -> impl Strategy<Value = Case> {
    (
        proptest::collection::vec(exchange(), 1..12),
        splits(),
        settings(),
        1..10_u32,
        proptest::collection::vec(0..30_000_u32, 0..6),
        proptest::option::weighted(0.2, 0..12_usize),
    )
        .prop_map(
            |(exchanges, splits, settings, streams_max, windows, goaway_at)| Case {
                exchanges,
                splits,
                settings,
                streams_max,
                windows,
                goaway_at,
            },
        )
}

/// Answers one request. An error ends it only where the client has left.
async fn answer(request: Request<RecvStream>, respond: SendResponse<Bytes>, exchange: Exchange) {
    let leaves = exchange.reset_after.is_some() || exchange.is_left_at_content;
    let answered = try_answer(request, respond, &exchange).await;
    if !leaves {
        answered.expect("the client goes on");
    }
}

async fn try_answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    exchange: &Exchange,
) -> Result<(), h2::Error> {
    let Response {
        status,
        fields,
        interim_heads,
        serving,
        ..
    } = &exchange.response;
    assert_eq!(echoed(request.headers()), echoed(&map(&exchange.fields)));
    if *serving == Serving::Refused {
        respond.send_reset(Reason::REFUSED_STREAM);
        return Ok(());
    }
    for _ in 0..*interim_heads {
        let hints = http::Response::builder().status(103).body(());
        respond.send_informational(hints.expect("it is valid"))?;
    }
    let mut body = Some(request.into_body());
    if *serving == Serving::ReadsFirst
        && let Some(body) = body.take()
    {
        read(body, exchange).await?;
    }
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::from_u16(*status).expect("it is one");
    *head.headers_mut() = map(fields);
    if exchange.response.has_length {
        let bytes: usize = exchange.response.pieces.iter().sum();
        head.headers_mut().insert("content-length", bytes.into());
    }
    let is_short = exchange.method == "HEAD" && exchange.response.has_trailers;
    let mut stream = respond.send_response(head, is_short)?;
    if !is_short && !send(&mut stream, exchange).await? {
        stream.send_reset(Reason::INTERNAL_ERROR);
        return Ok(());
    }
    if *serving == Serving::ReadsLast
        && let Some(body) = body.take()
    {
        read(body, exchange).await?;
    }
    Ok(())
}

/// Sends content and trailers. False: the response is to be reset.
async fn send(stream: &mut SendStream<Bytes>, exchange: &Exchange) -> Result<bool, h2::Error> {
    let response = &exchange.response;
    if exchange.answers_content() {
        for (index, &bytes) in response.pieces.iter().enumerate() {
            if response.reset_after == Some(index) {
                return Ok(false);
            }
            let mut piece = content(index, bytes);
            while !piece.is_empty() {
                stream.reserve_capacity(piece.len());
                let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                let Some(capacity) = capacity.transpose()? else {
                    return Ok(true);
                };
                let part = piece.split_to(capacity.min(piece.len()));
                stream.send_data(part, false)?;
            }
        }
    }
    if response.reset_after.is_some() {
        return Ok(false);
    }
    let has_trailers =
        response.has_trailers && exchange.answers_content() && exchange.method != "CONNECT";
    match has_trailers {
        true => stream.send_trailers(map(&[("x-trailer".to_owned(), "1".to_owned())]))?,
        false => stream.send_data(Bytes::new(), true)?,
    }
    Ok(true)
}

/// Reads and compares the content of a request.
async fn read(mut body: RecvStream, exchange: &Exchange) -> Result<(), h2::Error> {
    let mut came = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        came.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
    let trailers = body.trailers().await?;
    let mut sent = Vec::new();
    if exchange.has_content() {
        for (index, &bytes) in exchange.pieces.iter().enumerate() {
            sent.extend_from_slice(&content(index, bytes));
        }
    }
    assert!(
        came == sent,
        "{} bytes came, {} were sent",
        came.len(),
        sent.len()
    );
    let has_trailers = exchange.has_content() && exchange.has_trailers;
    assert_eq!(trailers.is_some(), has_trailers);
    Ok(())
}

/// The index of the exchange that a request is of.
fn index_of(request: &Request<RecvStream>) -> usize {
    let uri = request.uri();
    match uri.port_u16() {
        Some(port) => usize::from(port) - 1,
        None => panic!("{uri}"),
    }
}

async fn serve(io: Split, case: Rc<Case>) {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(case.settings.window)
        .initial_connection_window_size(case.settings.connection_window)
        .header_table_size(case.settings.table)
        .max_frame_size(case.settings.frame)
        .max_concurrent_streams(case.streams_max)
        .data_frame_budget(usize::MAX);
    let mut connection = builder.handshake(io).await.expect("a handshake");
    let mut answers = Vec::new();
    let mut window = case.settings.window;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = match accepted {
            Ok(accepted) => accepted,
            // The client has left.
            Err(error) => {
                assert!(error.is_io(), "{error}");
                break;
            }
        };
        if let Some(&more) = case.windows.get(answers.len()) {
            // Not while the last change is not acknowledged.
            let changed = connection.set_initial_window_size(window + more);
            window += changed.map_or(0, |()| more);
        }
        if case.goaway_at == Some(answers.len()) {
            connection.graceful_shutdown();
        }
        let exchange = case.exchanges[index_of(&request)].clone();
        answers.push(tokio::task::spawn_local(answer(request, respond, exchange)));
    }
    drop(connection);
    for answered in answers {
        answered.await.expect("it holds");
    }
}

fn run(mut case: Case) {
    // The h2 crate counts streams that it has answered early and refuses others meanwhile, forgets those that it refused,
    // and takes trailers on one for a request out of order: PROTOCOL_ERROR where RFC 9113 §5.1 has it ignore them.
    let is_early = |exchange: &Exchange| exchange.response.serving == Serving::Early;
    if case.exchanges.iter().any(is_early) {
        let exchanges = case.exchanges.iter_mut();
        exchanges.for_each(|exchange| exchange.has_trailers = false);
    }
    run_local(|budget, ours, theirs| async move {
        let case = Rc::new(case);
        let io = Split::new(theirs, &case.splits);
        let server = tokio::task::spawn_local(serve(io, Rc::clone(&case)));
        let driver = Driver::new(Role::Client, &budget, Split::new(ours, &case.splits));
        let lease = budget.root().lease();
        driver.run(Asker::new(lease, &case.exchanges)).await;
        server.await.expect("it holds");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_server_of_another_implementation_is_understood(case in case()) {
        run(case);
    }
}
