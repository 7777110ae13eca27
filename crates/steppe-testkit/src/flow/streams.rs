//! The clients' side of a flow by HTTP/2: many transfers on each of a few connections.
//!
//! A stream's window is what a reader takes ahead of its pace, and a connection's window is as much
//! for all of its streams: none waits for another one's reader.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::client::{Outcome, Pace};
use super::{Carrier, FlowPlan, Pattern};
use crate::duplex::Buffers;

/// Initial window of a stream, unless settings change it (RFC 9113 §6.9.2).
const WINDOW_BYTES: u32 = 65_535;

const BUFFERS: Buffers = Buffers {
    receive: 128 << 10,
    send: 128 << 10,
};

/// Sent at once.
const PART_BYTES: usize = 8 << 10;

type Sender = Result<SendRequest<Bytes>, String>;

/// Connections that are made when their first stream is.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    all: Arc<[OnceCell<Sender>]>,
}

impl Connections {
    pub(super) fn new(plan: &FlowPlan) -> Self {
        let all = (0..plan.connections).map(|_| OnceCell::new());
        Self { all: all.collect() }
    }

    /// The connection of this transfer, once it takes one more.
    async fn sender(&self, plan: &FlowPlan, id: u64) -> Sender {
        let count = self.all.len() as u64;
        let place = usize::try_from(id % count).expect("it is among them");
        let sender = self.all[place].get_or_init(|| async {
            let made = connect(plan).await;
            made.map_err(|error| format!("connect: {error}"))
        });
        let sender = sender.await.clone()?;
        sender.ready().await.map_err(|error| error.to_string())
    }
}

async fn connect(plan: &FlowPlan) -> std::io::Result<SendRequest<Bytes>> {
    let stream = plan.connect(BUFFERS, "h2").await?;
    let streams = match plan.carrier {
        Carrier::Http1 => 1,
        Carrier::Http2 { streams } => streams,
    };
    let window = u32::try_from(streams).expect("it is small") * WINDOW_BYTES;
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(window)
        .enable_push(false)
        .handshake(stream)
        .await
        .map_err(std::io::Error::other)?;
    // Why it ended is said by its streams.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// PUTs the pattern and judges the answer.
pub(super) async fn upload(connections: Connections, plan: FlowPlan, id: u64) -> Outcome {
    let request = Request::put(format!("http://flow/upload/{id}"))
        .header("content-length", plan.bytes_each)
        .body(())
        .expect("it is a request");
    let opened = open(&connections, &plan, id, request, false).await;
    let (answer, mut stream) = match opened {
        Ok(both) => both,
        Err(why) => return Outcome::Cut(format!("upload {id}: {why}")),
    };
    let mut sent = 0;
    let answer = {
        let mut write = std::pin::pin!(send_pattern(&mut stream, &plan, id, &mut sent));
        let mut read = std::pin::pin!(whole(answer));
        tokio::select! {
            answer = &mut read => answer,
            written = &mut write => match (timeout(plan.patience, read).await, written) {
                (Ok(answer), _) => answer,
                (Err(_), Ok(())) => Err(Failure::Said("no answer".to_owned())),
                (Err(_), Err(why)) => Err(Failure::Said(why)),
            }
        }
    };
    let expected = format!("{} right", plan.bytes_each);
    match answer {
        Ok((head, body)) if head.status() == 200 && body == expected.as_bytes() => Outcome::Served,
        Ok((head, body)) => other_answer(&format!("upload {id} after {sent}"), &head, &body),
        Err(failure) => failure.outcome(&format!("upload {id} after {sent} bytes")),
    }
}

/// GETs the pattern at the plan's pace and verifies it.
pub(super) async fn download(
    connections: Connections,
    plan: FlowPlan,
    id: u64,
    moved: Arc<AtomicU64>,
) -> Outcome {
    let request = Request::get(format!("http://flow/download/{id}/{}", plan.bytes_each))
        .body(())
        .expect("it is a request");
    let answer = match open(&connections, &plan, id, request, true).await {
        Ok((answer, _)) => answer,
        Err(why) => return Outcome::Cut(format!("download {id}: {why}")),
    };
    let (head, mut content) = match timeout(plan.patience, answer).await {
        Ok(Ok(response)) => into_head(response),
        Ok(Err(error)) => return Failure::H2(error).outcome(&format!("download {id}")),
        Err(_) => return Outcome::Wrong(format!("download {id}: no head in time")),
    };
    if head.status() != 200 {
        return other_answer(&format!("download {id}"), &head, b"");
    }
    let mut pace = Pace::new(plan.reader_bytes_per_second);
    let mut got = 0;
    loop {
        let part = match timeout(plan.patience, content.data()).await {
            Ok(Some(Ok(part))) => part,
            Ok(Some(Err(error))) => {
                return Failure::H2(error).outcome(&format!("download {id} after {got}"));
            }
            Ok(None) => break,
            Err(_) => return Outcome::Wrong(format!("download {id} hangs after {got}")),
        };
        if !Pattern::new(id).matches(got, &part) {
            return Outcome::Wrong(format!("download {id}: wrong bytes near {got}"));
        }
        got += part.len() as u64;
        moved.fetch_add(part.len() as u64, Ordering::Relaxed);
        if got < plan.bytes_each {
            pace.room(got).await;
        }
        let released = content.flow_control().release_capacity(part.len());
        released.expect("it was received");
    }
    match got == plan.bytes_each {
        true => Outcome::Served,
        false => Outcome::Wrong(format!("download {id} ends after {got} bytes")),
    }
}

/// A request on its way.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
async fn open(
    connections: &Connections,
    plan: &FlowPlan,
    id: u64,
    request: Request<()>,
    is_whole: bool,
) -> Result<(ResponseFuture, SendStream<Bytes>), String> {
    let mut sender = connections.sender(plan, id).await?;
    let sent = sender.send_request(request, is_whole);
    sent.map_err(|error| error.to_string())
}

async fn send_pattern(
    stream: &mut SendStream<Bytes>,
    plan: &FlowPlan,
    id: u64,
    sent: &mut u64,
) -> Result<(), String> {
    while *sent < plan.bytes_each {
        stream.reserve_capacity(PART_BYTES);
        if stream.capacity() == 0 {
            let granted = poll_fn(|context| stream.poll_capacity(context));
            let granted = timeout(plan.patience, granted).await;
            let granted = granted.map_err(|_| "no window in time".to_owned())?;
            let granted = granted.ok_or_else(|| "the stream is closed".to_owned())?;
            granted.map_err(|error| error.to_string())?;
        }
        let room = stream.capacity().min(PART_BYTES) as u64;
        let count = room.min(plan.bytes_each - *sent);
        let mut part = vec![0; usize::try_from(count).expect("a part")];
        Pattern::new(id).fill(*sent, &mut part);
        *sent += count;
        let is_last = *sent == plan.bytes_each;
        let taken = stream.send_data(part.into(), is_last);
        taken.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Why there is no answer.
enum Failure {
    H2(h2::Error),
    Said(String),
}

impl Failure {
    fn outcome(self, what: &str) -> Outcome {
        match self {
            // RFC 9113 §8.7: it may be sent again.
            Self::H2(error) if error.reason() == Some(Reason::REFUSED_STREAM) => Outcome::Refused,
            Self::H2(error) => Outcome::Cut(format!("{what}: {error}")),
            Self::Said(why) => Outcome::Cut(format!("{what}: {why}")),
        }
    }
}

async fn whole(answer: ResponseFuture) -> Result<(Response<()>, Vec<u8>), Failure> {
    let (head, mut content) = into_head(answer.await.map_err(Failure::H2)?);
    let mut body = Vec::new();
    while let Some(part) = content.data().await {
        let part = part.map_err(Failure::H2)?;
        body.extend_from_slice(&part);
        let released = content.flow_control().release_capacity(part.len());
        released.map_err(Failure::H2)?;
    }
    Ok((head, body))
}

fn into_head(response: Response<RecvStream>) -> (Response<()>, RecvStream) {
    let (head, content) = response.into_parts();
    (Response::from_parts(head, ()), content)
}

fn other_answer(what: &str, head: &Response<()>, body: &[u8]) -> Outcome {
    let status = head.status();
    let said = format!("{what}: {status}: {}", String::from_utf8_lossy(body));
    match status.as_u16() {
        503 if head.headers().contains_key("retry-after") => Outcome::Refused,
        408 => Outcome::Cut(said),
        _ => Outcome::Wrong(said),
    }
}
