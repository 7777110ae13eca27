//! The state machine as a server, against the client of the `h2` crate.

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use proptest::prelude::*;
use steppe_h2::Role;

use super::driver::Driver;
use super::echo::Echo;
use super::messages::{Settings, content, fields, map, pieces, settings, splits};
use super::run_local;
use super::transport::Split;

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
    splits: Vec<usize>,
    settings: Settings,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    (
        1..300_usize,
        fields(),
        pieces(),
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
    let exchanges = proptest::collection::vec(exchange(), 1..12);
    (exchanges, splits(), settings()).prop_map(|(exchanges, splits, settings)| Case {
        exchanges,
        splits,
        settings,
    })
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
    run_local(|budget, ours, theirs| async move {
        let driver = Driver::new(Role::Server, &budget, Split::new(ours, &case.splits));
        let server = tokio::task::spawn_local(driver.run(Echo::default()));
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(case.settings.window)
            .initial_connection_window_size(case.settings.connection_window)
            .header_table_size(case.settings.table)
            .max_frame_size(case.settings.frame);
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_client_of_another_implementation_gets_what_it_sent(case in case()) {
        run(case);
    }
}
