//! A minimal HTTP/1.1 client: fixed requests, and responses that carry `Content-Length`.
//!
//! Invariant: a response counts as received only when its status was 200 and its body had exactly
//! the announced length; anything else is an error of the run.
//! Leaves out: everything that the bench's own origin never sends (chunked, 1xx, 204).

use std::fmt::Display;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::stream::Endpoint;

/// A GET of `path`.
pub fn get(host: impl Display, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// A POST of `bytes` bytes to `path`, head and body.
pub fn post(host: impl Display, path: &str, bytes: usize) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {bytes}\r\n\r\n");
    let mut request = head.into_bytes();
    request.resize(request.len() + bytes, b'.');
    request
}

/// Decodes responses one after another, keeping no body.
#[derive(Debug, Default)]
pub struct Decoder {
    head: Vec<u8>,
    body_bytes: usize,
    /// Bytes of the body still to come; `None` while the head is incomplete.
    remaining: Option<usize>,
}

impl Decoder {
    /// Takes what was received; returns the length of the body once a response is complete.
    ///
    /// # Errors
    /// A response that is not what the origin sends, or bytes after it.
    pub fn receive(&mut self, received: &[u8]) -> Result<Option<usize>> {
        let remaining = match self.remaining {
            Some(remaining) => remaining.checked_sub(received.len()),
            None => {
                self.head.extend_from_slice(received);
                let Some((head_bytes, body_bytes)) = parse_head(&self.head)? else {
                    return Ok(None);
                };
                self.body_bytes = body_bytes;
                body_bytes.checked_sub(self.head.len() - head_bytes)
            }
        };
        let remaining = remaining.context("bytes after the end of a response")?;
        self.remaining = Some(remaining);
        if remaining > 0 {
            return Ok(None);
        }
        self.head.clear();
        self.remaining = None;
        Ok(Some(self.body_bytes))
    }
}

/// Sends `request` and reads the whole response; returns the length of its body.
pub async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
    decoder: &mut Decoder,
    buffer: &mut [u8],
) -> Result<usize> {
    stream.write_all(request).await?;
    // A socket has nothing to flush; TLS may still hold a record.
    stream.flush().await?;
    loop {
        let count = stream.read(buffer).await?;
        ensure!(count > 0, "closed before the response was complete");
        if let Some(body_bytes) = decoder.receive(&buffer[..count])? {
            return Ok(body_bytes);
        }
    }
}

/// One request on a connection of its own: does the proxy answer as the origin does?
pub async fn probe(endpoint: &Endpoint, request: &[u8], body_bytes: usize) -> Result<()> {
    let mut stream = endpoint.connect().await?;
    let mut buffer = vec![0; 64 * 1024];
    let received = exchange(&mut stream, request, &mut Decoder::default(), &mut buffer).await?;
    ensure!(
        received == body_bytes,
        "a body of {received} bytes instead of {body_bytes}"
    );
    Ok(())
}

/// Lengths of a head and of the body that it announces.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = response.parse(bytes)? else {
        return Ok(None);
    };
    if response.code != Some(200) {
        bail!("status {} instead of 200", response.code.unwrap_or(0));
    }
    let length = response
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = length.context("a response without content-length")?;
    Ok(Some((
        head_bytes,
        std::str::from_utf8(length.value)?.parse()?,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";

    #[test]
    fn a_response_is_complete_at_its_last_byte_however_it_is_cut() {
        for cut in 0..RESPONSE.len() {
            let mut decoder = Decoder::default();
            let (first, second) = RESPONSE.split_at(cut);
            assert_eq!(decoder.receive(first).expect("valid"), None, "cut at {cut}");
            assert_eq!(
                decoder.receive(second).expect("valid"),
                Some(3),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn responses_follow_one_another() {
        let mut decoder = Decoder::default();
        for _ in 0..3 {
            assert_eq!(decoder.receive(RESPONSE).expect("valid"), Some(3));
        }
    }

    #[test]
    fn what_the_origin_never_sends_is_an_error() {
        for (bytes, expected) in [
            (
                &b"HTTP/1.1 502 Bad Gateway\r\n\r\n"[..],
                "status 502 instead of 200",
            ),
            (
                b"HTTP/1.1 200 OK\r\n\r\n",
                "a response without content-length",
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx",
                "bytes after the end of a response",
            ),
        ] {
            let error = Decoder::default()
                .receive(bytes)
                .expect_err("not ours")
                .to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_post_holds_exactly_the_announced_body() {
        let request = post("127.0.0.1", "/u", 5);
        assert!(request.ends_with(b"Content-Length: 5\r\n\r\n....."));
    }
}
