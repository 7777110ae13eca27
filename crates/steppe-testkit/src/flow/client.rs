//! The clients' side of a flow.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::{FlowPlan, Pattern};
use crate::duplex::{Buffers, Duplex};
use crate::framing::{BodyDecoder, Head};
use crate::peer::find;

/// The outcome of one transfer.
#[derive(Debug)]
pub(super) enum Outcome {
    Served,
    Refused,
    Cut(String),
    Wrong(String),
}

/// Socket buffers: small for a reader, so that they hold little unread content; large enough for an
/// uploader that the gateway always finds more to read.
const BUFFERS: Buffers = Buffers {
    receive: 32 << 10,
    send: 128 << 10,
};

type Stream = Box<dyn Duplex>;

/// Interval between the reads of a paced reader.
const TICK: Duration = Duration::from_millis(200);

/// PUTs the pattern and judges the answer.
pub(super) async fn upload(plan: FlowPlan, id: u64) -> Outcome {
    let stream = match plan.connect(BUFFERS, "http/1.1").await {
        Ok(stream) => stream,
        Err(error) => return Outcome::Cut(format!("upload {id}: connect: {error}")),
    };
    let (reader, writer) = tokio::io::split(stream);
    let mut sent = 0;
    let answer = {
        let mut write = std::pin::pin!(send_pattern(writer, &plan, id, &mut sent));
        let mut read = std::pin::pin!(small_response(reader));
        tokio::select! {
            answer = &mut read => answer,
            // The answer may have been sent before the connection was closed to the rest.
            written = &mut write => match (timeout(plan.patience, read).await, written) {
                (Ok(answer), _) => answer,
                (Err(_), Ok(_kept_open)) => Err("no answer".to_owned()),
                (Err(_), Err(error)) => Err(error.to_string()),
            }
        }
    };
    let whole = format!("{} right", plan.bytes_each);
    match answer {
        Ok((head, body)) if head.status() == 200 && body == whole.as_bytes() => Outcome::Served,
        Ok((head, body)) => other_answer(&format!("upload {id} after {sent} bytes"), &head, &body),
        Err(error) => Outcome::Cut(format!("upload {id} after {sent} bytes: {error}")),
    }
}

async fn send_pattern(
    mut writer: WriteHalf<Stream>,
    plan: &FlowPlan,
    id: u64,
    sent: &mut u64,
) -> std::io::Result<WriteHalf<Stream>> {
    let length = plan.bytes_each;
    let head =
        format!("PUT /upload/{id} HTTP/1.1\r\nhost: flow\r\ncontent-length: {length}\r\n\r\n");
    writer.write_all(head.as_bytes()).await?;
    let mut buffer = vec![0; 8 << 10];
    while *sent < length {
        let count = (buffer.len() as u64).min(length - *sent);
        let part = &mut buffer[..usize::try_from(count).unwrap_or(0)];
        Pattern::new(id).fill(*sent, part);
        let written = timeout(plan.patience, writer.write_all(part)).await;
        written.map_err(|_| std::io::Error::from(ErrorKind::TimedOut))??;
        *sent += count;
    }
    writer.flush().await?;
    Ok(writer)
}

async fn small_response(mut reader: ReadHalf<Stream>) -> Result<(Head, Vec<u8>), String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            let head = Head::parse(&bytes[..at + 4]);
            let mut body = Vec::new();
            let mut decoder = BodyDecoder::new(head.response_framing("PUT"));
            decoder.feed(&bytes[at + 4..], &mut |part| body.extend_from_slice(part));
            if head.status() < 200 {
                bytes.drain(..at + 4);
                continue;
            }
            if decoder.is_done() {
                return Ok((head, body));
            }
        }
        match reader.read_buf(&mut bytes).await {
            Ok(0) => return Err(format!("closed, {} bytes of an answer", bytes.len())),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// GETs the pattern at the plan's pace and verifies it.
pub(super) async fn download(plan: FlowPlan, id: u64, moved: Arc<AtomicU64>) -> Outcome {
    let mut stream = match plan.connect(BUFFERS, "http/1.1").await {
        Ok(stream) => stream,
        Err(error) => return Outcome::Cut(format!("download {id}: connect: {error}")),
    };
    let request = format!(
        "GET /download/{id}/{} HTTP/1.1\r\nhost: flow\r\n\r\n",
        plan.bytes_each
    );
    let asked = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await
    };
    if let Err(error) = asked.await {
        return Outcome::Cut(format!("download {id}: request: {error}"));
    }
    let mut buffer = Vec::with_capacity(4 << 10);
    let head = loop {
        if let Some(at) = find(&buffer, b"\r\n\r\n") {
            break Head::parse(&buffer.drain(..at + 4).collect::<Vec<u8>>());
        }
        match timeout(plan.patience, stream.read_buf(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(ended) => return Outcome::Cut(format!("download {id}: no head: {ended:?}")),
            Err(_) => return Outcome::Wrong(format!("download {id}: no head in time")),
        }
    };
    if head.status() != 200 {
        return other_answer(&format!("download {id}"), &head, &buffer);
    }
    read_paced(stream, &plan, id, &head, buffer, &moved).await
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
async fn read_paced(
    mut stream: Stream,
    plan: &FlowPlan,
    id: u64,
    head: &Head,
    mut buffer: Vec<u8>,
    moved: &AtomicU64,
) -> Outcome {
    let mut decoder = BodyDecoder::new(head.response_framing("GET"));
    let mut pace = Pace::new(plan.reader_bytes_per_second);
    let (mut got, mut right) = (0_u64, true);
    loop {
        decoder.feed(&buffer, &mut |part| {
            right &= Pattern::new(id).matches(got, part);
            got += part.len() as u64;
            moved.fetch_add(part.len() as u64, Ordering::Relaxed);
        });
        if !right || decoder.is_broken() {
            return Outcome::Wrong(format!("download {id}: wrong bytes near {got}"));
        }
        if decoder.is_done() {
            break;
        }
        let room = pace.room(got).await;
        buffer.resize(room, 0);
        match timeout(plan.patience, stream.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => buffer.truncate(count),
            Ok(ended) => return Outcome::Cut(format!("download {id} after {got}: {ended:?}")),
            Err(_) => return Outcome::Wrong(format!("download {id} hangs after {got}")),
        }
    }
    match got == plan.bytes_each {
        true => Outcome::Served,
        false => Outcome::Wrong(format!("download {id} ends after {got} bytes")),
    }
}

/// A reader's pace, with two seconds to catch up when this side's timers were late.
pub(super) struct Pace {
    bytes_per_second: u64,
    credited: Instant,
    credit: f64,
    seen: u64,
}

impl Pace {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            credited: Instant::now(),
            credit: 0.0,
            seen: 0,
        }
    }

    /// Waits until the pace allows a read after `got` bytes, and returns the bytes that it allows.
    pub(super) async fn room(&mut self, got: u64) -> usize {
        let rate = self.bytes_per_second as f64;
        let tick = rate * TICK.as_secs_f64();
        self.credit -= (got - self.seen) as f64;
        self.seen = got;
        loop {
            self.credit += rate * self.credited.elapsed().as_secs_f64();
            self.credited = Instant::now();
            self.credit = self.credit.min(2.0 * rate);
            if self.credit >= tick {
                return whole(self.credit.min(4.0 * tick));
            }
            let wait = ((tick - self.credit) / rate).max(0.01);
            tokio::time::sleep(Duration::from_secs_f64(wait)).await;
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of bytes between 0 and a few seconds' worth"
)]
fn whole(bytes: f64) -> usize {
    bytes.max(1.0) as usize
}

fn other_answer(what: &str, head: &Head, body: &[u8]) -> Outcome {
    let said = format!("{what}: {}: {}", head.start, String::from_utf8_lossy(body));
    match head.status() {
        503 if head.field("retry-after").is_some() => Outcome::Refused,
        408 => Outcome::Cut(said),
        _ => Outcome::Wrong(said),
    }
}
