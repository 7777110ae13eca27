//! `steppe-bench floor-proxy`: a minimal tokio proxy that forwards correctly formed requests.
//!
//! The floor is what Steppe is measured against: two receives and two sends a request on one
//! thread, a buffer a connection that is allocated once, one line added to the head. The cost of a
//! proxy beyond the floor's is that proxy's own work, and not the kernel's or the runtime's. With
//! `--public-key` the floor verifies tokens by the crate jsonwebtoken, as the floor of tokens; with
//! `--gzip` it compresses responses to requests below `/gzip1/` to `/gzip9/` by libdeflate.
//!
//! Non-goals: everything else. The floor has no routing, no limits, no other checks, no chunked coding,
//! no interim responses and no timeouts, and closes a connection on anything that it does not expect.
//! Use it for nothing but this bench.

pub mod codec;
pub mod dns;
mod gzip;
pub mod h2;

use std::cell::RefCell;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Options of `steppe-bench floor-proxy`: its addresses, and its work besides forwarding.
#[derive(Args, Debug)]
pub struct Options {
    /// Address to listen on
    #[arg(long)]
    listen: SocketAddr,
    /// Address to forward to
    #[arg(long)]
    upstream: SocketAddr,
    /// Refuse requests without a bearer token that this key (PEM) has signed by RS256
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Compress responses to requests below /gzip1/ to /gzip9/, at that level
    #[arg(long)]
    gzip: bool,
}

/// Size of a buffer: a head with its added line, or a piece of a body.
const BUFFER_BYTES: usize = 16 << 10;

/// Idle upstream connections that are kept: as many as the other proxies keep.
const IDLE_MAX: usize = 256;

thread_local! {
    /// Idle upstream connections, last in, first out: the last one's memory is the warmest.
    static IDLE: RefCell<Vec<TcpStream>> = const { RefCell::new(Vec::new()) };
}

/// Forwards until the process is stopped.
///
/// # Errors
/// When the address can't be listened on.
pub async fn run(options: &Options) -> Result<bool> {
    let (listen, upstream) = (options.listen, options.upstream);
    let key = options.public_key.as_deref();
    let work = Arc::new(Work {
        verifier: key.map(Verifier::of).transpose()?,
        compresses: options.gzip,
    });
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    loop {
        let (client, address) = listener.accept().await.context("cannot accept")?;
        let line = format!("X-Forwarded-For: {}\r\n\r\n", address.ip());
        let work = Arc::clone(&work);
        tokio::spawn(async move {
            // A peer that leaves, or sends what this proxy does not know, ends its connection.
            let _ = serve(client, upstream, line.as_bytes(), &work).await;
        });
    }
}

/// Serves the requests of a connection one after another; `line` and an empty line replace
/// the empty line of each head.
async fn serve(
    mut client: TcpStream,
    address: SocketAddr,
    line: &[u8],
    work: &Work,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Some(request) =
        Message::read(&mut client, &mut buffer[..BUFFER_BYTES - line.len()]).await?
    {
        let head = &buffer[..request.head_bytes];
        if let Some(verifier) = &work.verifier
            && !verifier.has_signed(head)
        {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let level = gzip::level(head).filter(|_| work.compresses);
        let mut upstream = match IDLE.with_borrow_mut(Vec::pop) {
            Some(idle) => idle,
            None => connect(address).await?,
        };
        let empty_line_at = request.head_bytes - EMPTY_LINE.len();
        buffer.copy_within(
            request.head_bytes..request.filled_bytes,
            empty_line_at + line.len(),
        );
        buffer[empty_line_at..][..line.len()].copy_from_slice(line);
        let sent = request.filled_bytes - EMPTY_LINE.len() + line.len();
        upstream.write_all(&buffer[..sent]).await?;
        pass(&mut client, &mut upstream, request.remaining, &mut buffer).await?;
        let response = Message::read(&mut upstream, &mut buffer).await?;
        let response = response.ok_or(ErrorKind::UnexpectedEof)?;
        let begun = &buffer[..response.filled_bytes];
        if let Some(level) = level {
            gzip::send(&mut upstream, &mut client, &response, begun, level).await?;
        } else {
            client.write_all(begun).await?;
            pass(&mut upstream, &mut client, response.remaining, &mut buffer).await?;
        }
        IDLE.with_borrow_mut(|idle| {
            if idle.len() < IDLE_MAX {
                idle.push(upstream);
            }
        });
    }
    Ok(())
}

/// Work besides forwarding: token verification and compression.
#[derive(Default)]
struct Work {
    verifier: Option<Verifier>,
    compresses: bool,
}

/// Key and validation of jsonwebtoken for a token.
struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

impl Verifier {
    fn of(file: &Path) -> Result<Self> {
        let pem = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_aud = false;
        Ok(Self {
            key: DecodingKey::from_rsa_pem(&pem)?,
            validation,
        })
    }

    /// True if the key has signed the bearer token of this head.
    fn has_signed(&self, head: &[u8]) -> bool {
        let Some(at) = head
            .windows(SCHEME.len())
            .position(|window| window == SCHEME)
        else {
            return false;
        };
        let mut rest = head[at + SCHEME.len()..].split(|&byte| byte == b'\r');
        let decode = |token| jsonwebtoken::decode::<Value>(token, &self.key, &self.validation);
        rest.next().is_some_and(|token| decode(token).is_ok())
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The message at the start of a buffer: a head, and as much content as came with it.
#[derive(Debug, PartialEq)]
struct Message {
    head_bytes: usize,
    /// Bytes of head and content in the buffer.
    filled_bytes: usize,
    /// Bytes of content that are still to come.
    remaining: usize,
}

impl Message {
    /// Reads a message into `buffer`; `None` at the end of the connection.
    async fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<Self>> {
        let mut filled = 0;
        loop {
            // A full buffer reads nothing: the connection ends as if its peer had left.
            let count = stream.read(&mut buffer[filled..]).await?;
            if count == 0 {
                return Ok(None);
            }
            filled += count;
            if let Some(message) = Self::of(&buffer[..filled])? {
                return Ok(Some(message));
            }
        }
    }

    /// Parses a message; `None` while the head is incomplete.
    fn of(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = bytes.windows(END.len()).position(|window| window == END) else {
            return Ok(None);
        };
        let head_bytes = end + END.len();
        let came = bytes.len() - head_bytes;
        let remaining = content_length(&bytes[..end])?.checked_sub(came);
        Ok(Some(Self {
            head_bytes,
            filled_bytes: bytes.len(),
            // More content than announced is a pipelined request, which no client of the bench sends.
            remaining: remaining.ok_or(ErrorKind::InvalidData)?,
        }))
    }
}

const SCHEME: &[u8] = b"Bearer ";
const END: &[u8] = b"\r\n\r\n";
const EMPTY_LINE: &[u8] = b"\r\n";

/// The value of `Content-Length`; 0 if the head has none.
fn content_length(head: &[u8]) -> io::Result<usize> {
    let lines = head.split(|&byte| byte == b'\n');
    let mut values = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(CONTENT_LENGTH.len())?;
        name.eq_ignore_ascii_case(CONTENT_LENGTH).then_some(value)
    });
    let Some(value) = values.next() else {
        return Ok(0);
    };
    let value = std::str::from_utf8(value).map_err(|_| ErrorKind::InvalidData)?;
    Ok(value.trim().parse().map_err(|_| ErrorKind::InvalidData)?)
}

const CONTENT_LENGTH: &[u8] = b"content-length:";

/// Forwards `remaining` bytes as they come.
async fn pass(
    from: &mut TcpStream,
    to: &mut TcpStream,
    mut remaining: usize,
    buffer: &mut [u8],
) -> io::Result<()> {
    while remaining > 0 {
        let part = remaining.min(buffer.len());
        let count = from.read(&mut buffer[..part]).await?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        to.write_all(&buffer[..count]).await?;
        remaining -= count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::EncodingKey;
    use rcgen::KeyPair;

    use super::*;

    #[test]
    fn a_token_passes_that_the_key_has_signed() {
        let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
            .expect("a key");
        let signing = EncodingKey::from_rsa_pem(key.serialize_pem().as_bytes()).expect("PEM");
        let folder = std::env::temp_dir();
        let file = folder.join(format!("steppe-bench-key-{}.pem", std::process::id()));
        fs::write(&file, key.public_key_pem()).expect("a file");
        let verifier = Verifier::of(&file).expect("a key");
        fs::remove_file(&file).expect("it is there");
        let claims = serde_json::json!({ "exp": 4_102_444_800_u64 });
        let header = jsonwebtoken::Header::new(Algorithm::RS256);
        let token = jsonwebtoken::encode(&header, &claims, &signing).expect("it signs");
        let head = |token: &str| format!("GET / HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n");
        assert!(verifier.has_signed(head(&token).as_bytes()));
        let (signed, _) = token.rsplit_once('.').expect("a token");
        assert!(!verifier.has_signed(head(&format!("{signed}.AAAA")).as_bytes()));
        assert!(!verifier.has_signed(b"GET / HTTP/1.1\r\n\r\n"));
    }

    #[test]
    fn a_message_is_its_head_and_the_content_that_came() {
        let message = |text: &str| Message::of(text.as_bytes());
        let head = "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\n";
        let expected = Message {
            head_bytes: head.len(),
            filled_bytes: head.len() + 2,
            remaining: 3,
        };
        let came = message(&format!("{head}ab")).expect("it is formed well");
        assert_eq!(came, Some(expected));
        assert_eq!(message(&head[..head.len() - 1]).expect("so far"), None);
        let without = message("GET / HTTP/1.1\r\n\r\n").expect("it is formed well");
        assert_eq!(without.map(|message| message.remaining), Some(0));
        assert!(
            message(&format!("{head}abcdef")).is_err(),
            "a second message"
        );
        assert!(message("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n").is_err());
    }

    /// Reads a message and its content.
    async fn read_whole(stream: &mut TcpStream) -> String {
        let mut buffer = vec![0; BUFFER_BYTES];
        let message = Message::read(stream, &mut buffer).await.expect("is open");
        let message = message.expect("a message came");
        buffer.truncate(message.filled_bytes);
        let mut rest = vec![0; message.remaining];
        stream.read_exact(&mut rest).await.expect("the rest comes");
        buffer.extend_from_slice(&rest);
        String::from_utf8(buffer).expect("text")
    }

    #[tokio::test]
    async fn requests_are_forwarded_with_a_line_more_over_one_upstream_connection() {
        let origin = TcpListener::bind("127.0.0.1:0").await.expect("is free");
        let upstream = origin.local_addr().expect("it is bound");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("is free");
        let listen = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.expect("somebody comes");
            serve(
                client,
                upstream,
                b"X-Forwarded-For: 127.0.0.1\r\n\r\n",
                &Work::default(),
            )
            .await
        });
        let mut client = TcpStream::connect(listen).await.expect("it listens");
        let content = "x".repeat(3 * BUFFER_BYTES);
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n", content.len());
        let mut kept = None;
        for _ in 0..3 {
            let request = format!("{head}\r\n{content}");
            let send = client.write_all(request.as_bytes());
            let answer = async {
                if kept.is_none() {
                    kept = Some(origin.accept().await.expect("the proxy comes").0);
                }
                let stream = kept.as_mut().expect("was just accepted");
                let got = read_whole(stream).await;
                let expected = format!("{head}X-Forwarded-For: 127.0.0.1\r\n\r\n{content}");
                assert_eq!(got, expected);
                let response = format!(
                    "HTTP/1.1 200 OK\r\n{}",
                    &request["POST / HTTP/1.1\r\n".len()..]
                );
                stream
                    .write_all(response.as_bytes())
                    .await
                    .expect("it reads");
                response
            };
            let (sent, response) = tokio::join!(send, answer);
            sent.expect("the proxy reads");
            assert_eq!(read_whole(&mut client).await, response);
        }
    }
}
