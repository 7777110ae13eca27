//! One query by HTTPS, over the connection of a command. Spec: RFC 8484.
//!
//! The protocol, with its limits, is that of the forwarder's client.

use std::io::IoSlice;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use hyper::StatusCode;
use steppe_dns::https_client::{HttpsClient, NotSent, Outcome, QueryError, Target};
use steppe_mem::{Budget, Buffer, Chunk, Lease};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Memory of the connection: a message, and the buffers of HTTP/2.
const BUDGET_BYTES: u64 = 1 << 20;

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// Sends `query`, and returns its response.
pub(super) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    target: Target,
    query: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let lease = Budget::new(BUDGET_BYTES).root().lease();
    let mut client = HttpsClient::new(target, &lease, now())?;
    let mut is_sent = false;
    loop {
        if !is_sent {
            is_sent = send(&mut client, query)?;
        }
        write(&mut stream, &mut client).await?;
        let mut input = read(&mut stream, &lease).await?;
        loop {
            match client.receive(&mut input, now())? {
                Some(Outcome::Response(message)) => {
                    client.end();
                    // The query is answered, whether or not the server gets the rest of the
                    // protocol.
                    let _ = write(&mut stream, &mut client).await;
                    return Ok(message.filled().to_vec());
                }
                Some(Outcome::Failed { error, .. }) => return Err(failure(error)),
                Some(Outcome::Refused { .. }) => is_sent = false,
                None if input.is_empty() => break,
                Some(Outcome::Leaving) | None => {}
            }
            write(&mut stream, &mut client).await?;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command has one connection, and reads the clock when something comes"
)]
fn now() -> Instant {
    Instant::now()
}

/// Sends the query. False: the server takes no query yet.
fn send(client: &mut HttpsClient, query: &[u8]) -> anyhow::Result<bool> {
    match client.send(query, now()) {
        Ok(()) => Ok(true),
        Err(NotSent::Later) => Ok(false),
        Err(NotSent::Over) => bail!("the server ended the connection without a response"),
        Err(error @ (NotSent::OverBudget | NotSent::NoMessage)) => Err(error.into()),
    }
}

async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    client: &mut HttpsClient,
) -> anyhow::Result<()> {
    loop {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = client.slices(&mut slices);
        if count == 0 {
            return Ok(stream.flush().await?);
        }
        match stream.write_vectored(&slices[..count]).await? {
            0 => bail!("the server closed the connection"),
            written => client.written(written),
        }
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin), lease: &Lease) -> anyhow::Result<Chunk> {
    let mut buffer = Buffer::take(lease, READ_BYTES)?;
    let count = stream.read(buffer.spare_mut()).await;
    match count.context("no response")? {
        0 => bail!("the server closed the connection without a response"),
        count => buffer.advance(count),
    }
    Ok(buffer.into())
}

fn failure(error: QueryError) -> anyhow::Error {
    let status = match error {
        QueryError::Status(status) => StatusCode::from_u16(status).ok(),
        _ => None,
    };
    match status {
        Some(status) => anyhow!("HTTP {status}"),
        None => error.into(),
    }
}
