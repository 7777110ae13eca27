//! The floor, a minimal protocol over TCP: a header and a body, one call at a time on each connection,
//! a buffer for each body.
//!
//! The floor has no multiplexing, no limits, and no failure but a closed connection. The cost of another
//! peer beyond the floor's is that peer's own work, and not the kernel's or the runtime's.

use std::io;
use std::net::SocketAddr;

use anyhow::{Result, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::BODY_BYTES_MAX;
use crate::load::{Came, Items, Target};

/// Two `u32` in network order: the items requested, or 0 to echo the body; bytes of the body, or of
/// each item.
const HEADER_BYTES: usize = 8;
/// Capacity for headers, and for small bodies behind them.
const INBOX_BYTES: usize = 8 << 10;

/// A connection.
pub struct Floor {
    socket: TcpStream,
    inbox: BytesMut,
}

pub async fn serve(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        let connection = Floor::new(socket)?;
        tokio::spawn(async move {
            // A caller that leaves ends its connection.
            let _ = answer(connection).await;
        });
    }
}

async fn answer(mut connection: Floor) -> io::Result<()> {
    while let Some((count, len)) = connection.header().await? {
        if count == 0 {
            let body = connection.body(len).await?;
            connection.write(0, body).await?;
            continue;
        }
        let items = Items { count, bytes: len };
        let item = items.item();
        for _ in 0..count {
            connection.write(0, item.clone()).await?;
        }
    }
    Ok(())
}

pub async fn targets(address: SocketAddr, count: usize) -> Result<Vec<Floor>> {
    let mut targets = Vec::new();
    for _ in 0..count {
        targets.push(Floor::new(TcpStream::connect(address).await?)?);
    }
    Ok(targets)
}

impl Target for Floor {
    async fn unary(&mut self, body: Bytes) -> Result<Bytes> {
        self.write(0, body).await?;
        self.message().await
    }

    async fn items(&mut self, items: Items) -> Result<Came> {
        let mut header = BytesMut::with_capacity(HEADER_BYTES);
        header.put_u32(items.count);
        header.put_u32(items.bytes);
        self.socket.write_all(&header).await?;
        let mut came = Came::default();
        for _ in 0..items.count {
            came.add(&self.message().await?);
        }
        Ok(came)
    }
}

impl Floor {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            inbox: BytesMut::with_capacity(INBOX_BYTES),
        })
    }

    async fn message(&mut self) -> Result<Bytes> {
        let Some((_, len)) = self.header().await? else {
            bail!("the worker closed");
        };
        Ok(self.body(len).await?)
    }

    async fn header(&mut self) -> io::Result<Option<(u32, u32)>> {
        while self.inbox.len() < HEADER_BYTES {
            if self.inbox.is_empty() {
                self.inbox.reserve(INBOX_BYTES);
            }
            if self.socket.read_buf(&mut self.inbox).await? == 0 {
                return Ok(None);
            }
        }
        Ok(Some((self.inbox.get_u32(), self.inbox.get_u32())))
    }

    async fn body(&mut self, len: u32) -> io::Result<Bytes> {
        let len = len as usize;
        if len > BODY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = BytesMut::with_capacity(len);
        let first = self.inbox.len().min(len);
        body.extend_from_slice(&self.inbox[..first]);
        self.inbox.advance(first);
        while body.len() < len {
            let left = len - body.len();
            if self.socket.read_buf(&mut (&mut body).limit(left)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(body.freeze())
    }

    async fn write(&mut self, count: u32, body: Bytes) -> io::Result<()> {
        let len = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut header = [0; HEADER_BYTES];
        (&mut header[..4]).put_u32(count);
        (&mut header[4..]).put_u32(len);
        let mut frame = Buf::chain(&header[..], body);
        // With vectored writes.
        self.socket.write_all_buf(&mut frame).await
    }
}
