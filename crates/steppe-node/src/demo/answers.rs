//! The endpoints besides the page.

use std::convert::Infallible;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::limits::{
    BYTES_MAX, EVENTS_MAX, MESSAGE_BYTES_MAX, SLOW_MAX, WEB_SOCKET_TIME_MAX, WEB_SOCKETS_MAX,
};

/// Sends content back as it comes, with its type.
pub(super) async fn echo(fields: HeaderMap, content: Body) -> Response {
    let mut response = Response::new(content);
    if let Some(kind) = fields.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    response
}

/// Sends `count` bytes.
pub(super) async fn bytes(Path(count): Path<u64>) -> Response {
    if count > BYTES_MAX {
        let why = format!("{count} bytes, at most {BYTES_MAX} are allowed\n");
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    let fields = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, count.to_string()),
        (ACCEPT_RANGES, "none".to_owned()),
    ];
    (fields, Body::from_stream(blocks(count))).into_response()
}

/// A stream of views of one static block: a large answer costs no memory.
fn blocks(count: u64) -> impl Stream<Item = Result<Bytes, Infallible>> {
    static BLOCK: [u8; 16 << 10] = [b'.'; 16 << 10];
    stream::unfold(count, |left| async move {
        let block_bytes = left.min(BLOCK.len() as u64);
        let length = usize::try_from(block_bytes).expect("at most a block");
        let block = Bytes::from_static(&BLOCK[..length]);
        (length > 0).then_some((Ok(block), left - block_bytes))
    })
}

/// The query of `/slow`: `ms`, the time to wait.
pub(super) type SlowQuery = Query<std::collections::HashMap<String, String>>;

/// Waits before it answers.
pub(super) async fn slow(Query(query): SlowQuery) -> Response {
    let wanted = query
        .get("ms")
        .map_or(Ok(1_000), |ms| ms.parse().map(|ms: u64| ms));
    let Ok(ms) = wanted else {
        return (
            StatusCode::BAD_REQUEST,
            "`ms` must be a number of milliseconds\n",
        )
            .into_response();
    };
    let wait = Duration::from_millis(ms).min(SLOW_MAX);
    sleep(wait).await;
    format!("waited {} ms\n", wait.as_millis()).into_response()
}

/// Sends an event a second.
#[expect(
    clippy::disallowed_methods,
    reason = "the demo origin sends an event a second"
)]
pub(super) async fn events() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let started = Instant::now();
    Sse::new(stream::unfold(0, move |tick: u64| async move {
        if tick == EVENTS_MAX {
            return None;
        }
        sleep_until(started + Duration::from_secs(tick)).await;
        let event = Event::default().event("tick").id(tick.to_string());
        Some((Ok(event.data(format!("{tick} s"))), tick + 1))
    }))
}

static WEB_SOCKETS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(WEB_SOCKETS_MAX));

/// Sends every message back.
pub(super) async fn web_socket(upgrade: WebSocketUpgrade) -> Response {
    let Ok(place) = WEB_SOCKETS.try_acquire() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many WebSockets\n").into_response();
    };
    let upgrade = upgrade
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .max_write_buffer_size(2 * MESSAGE_BYTES_MAX)
        .write_buffer_size(0);
    upgrade.on_upgrade(move |socket| async move {
        // A peer that stalls loses its place in the end.
        let _ = timeout(WEB_SOCKET_TIME_MAX, echo_messages(socket)).await;
        drop(place);
    })
}

async fn echo_messages(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let echoed = match message {
            Message::Text(_) | Message::Binary(_) => socket.send(message).await,
            // The library answers these.
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Close(_) => return,
        };
        if echoed.is_err() {
            return;
        }
    }
}

/// Answers with `code`.
pub(super) async fn status(Path(code): Path<u16>) -> Response {
    match StatusCode::from_u16(code) {
        // 1xx is no final answer, and from 600 on there is no class that clients know.
        Ok(status) if (200..600).contains(&code) => {
            let reason = status.canonical_reason().unwrap_or("unknown");
            let content = match status {
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => String::new(),
                _ => format!("{code} {reason}\n"),
            };
            (status, content).into_response()
        }
        _ => (StatusCode::BAD_REQUEST, "the status must be 200 to 599\n").into_response(),
    }
}
