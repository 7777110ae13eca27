//! DNS loads, over UDP and TCP: one question at a time on a socket.
//!
//! UDP sockets are connected, so that a closed port of the server is an error and not a timeout, and take
//! only datagrams of the server. TCP is RFC 7766 without pipelining; a connection that the server closed
//! while it was idle is opened again, and the query sent once more. An operation that runs into its timeout
//! drops its socket, so that a late response can't arrive.

mod question;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::client::Client;
use super::endpoint::io_failure;
use super::tally::Failure;
use crate::limits::DNS_BUF_BYTES;
use crate::scenario::DnsLoad;
use question::{Exchange, Questions};

/// The questions of a load, and the server that is asked.
pub(super) struct DnsPlan {
    server: SocketAddr,
    is_tcp: bool,
    questions: Questions,
}

/// A DNS client with one socket.
pub(super) struct DnsClient {
    plan: Arc<DnsPlan>,
    random: Pcg64Mcg,
    buf: Vec<u8>,
    /// `None` during an operation.
    socket: Option<Socket>,
}

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl DnsPlan {
    /// # Errors
    /// With the reason, when the load is invalid.
    pub(super) fn new(load: &DnsLoad) -> Result<Self, String> {
        Ok(Self {
            server: load.server,
            is_tcp: load.tcp,
            questions: Questions::new(load)?,
        })
    }

    async fn open(&self) -> io::Result<Socket> {
        if self.is_tcp {
            let stream = TcpStream::connect(self.server).await?;
            stream.set_nodelay(true)?;
            return Ok(Socket::Tcp(stream));
        }
        let any: SocketAddr = if self.server.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(self.server).await?;
        Ok(Socket::Udp(socket))
    }
}

impl DnsClient {
    pub(super) fn new(plan: Arc<DnsPlan>, random: Pcg64Mcg) -> Self {
        Self {
            plan,
            random,
            buf: Vec::new(),
            socket: None,
        }
    }

    async fn ask_anew(
        &mut self,
        exchange: &Exchange,
        query: &[u8],
    ) -> io::Result<(Socket, Result<(), Failure>)> {
        let mut socket = self.plan.open().await?;
        let answer = socket.ask(exchange, query, &mut self.buf).await?;
        Ok((socket, answer))
    }
}

impl Client for DnsClient {
    async fn operate(&mut self) -> Result<(), Failure> {
        let (exchange, query) = self.plan.questions.ask(&mut self.random)?;
        let kept = match self.socket.take() {
            Some(mut socket) => match socket.ask(&exchange, &query, &mut self.buf).await {
                Ok(answer) => Some((socket, answer)),
                // RFC 7766 §6.2.4: the server may close a connection at any time, and is asked again.
                Err(_) if self.plan.is_tcp => None,
                Err(error) => return Err(io_failure(&error)),
            },
            None => None,
        };
        let (socket, answer) = match kept {
            Some(asked) => asked,
            None => {
                let asked = self.ask_anew(&exchange, &query).await;
                asked.map_err(|e| io_failure(&e))?
            }
        };
        self.socket = Some(socket);
        answer
    }
}

impl Socket {
    /// Sends a query, and waits for its response; other messages are ignored.
    async fn ask(
        &mut self,
        exchange: &Exchange,
        query: &[u8],
        buf: &mut Vec<u8>,
    ) -> io::Result<Result<(), Failure>> {
        match self {
            Self::Udp(socket) => {
                socket.send(query).await?;
                buf.resize(DNS_BUF_BYTES, 0);
                loop {
                    let len = socket.recv(buf).await?;
                    if let Some(judged) = exchange.judge(&buf[..len]) {
                        return Ok(judged);
                    }
                }
            }
            Self::Tcp(stream) => {
                let len = u16::try_from(query.len()).map_err(io::Error::other)?;
                buf.clear();
                buf.extend_from_slice(&len.to_be_bytes());
                buf.extend_from_slice(query);
                stream.write_all(buf).await?;
                loop {
                    let len = stream.read_u16().await?;
                    buf.resize(len.into(), 0);
                    stream.read_exact(buf).await?;
                    let judged = exchange.judge(buf);
                    // The room of a large response is freed.
                    buf.truncate(DNS_BUF_BYTES);
                    buf.shrink_to(DNS_BUF_BYTES);
                    if let Some(judged) = judged {
                        return Ok(judged);
                    }
                }
            }
        }
    }
}
