//! A minimal DNS client: one query of type A after another, each answered before the next.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// A socket, and the number of the next query.
pub struct Client {
    socket: UdpSocket,
    next: u16,
}

const TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES: usize = 12;

impl Client {
    /// # Errors
    /// When there is no socket to be had.
    pub async fn new(server: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(server).await?;
        Ok(Self { socket, next: 1 })
    }

    /// Asks for the address of each name.
    ///
    /// # Errors
    /// When one is not answered in time, or with another code than NOERROR.
    pub async fn ask(&mut self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let mut answer = [0; 1_232];
        for name in names {
            let query = query(self.next, &name);
            self.socket.send(&query).await?;
            let received = timeout(TIMEOUT, self.socket.recv(&mut answer)).await;
            let bytes = received.with_context(|| format!("no answer for {name}"))??;
            ensure!(bytes > HEADER_BYTES, "{name}: {bytes} bytes are no answer");
            let is_same = answer[..2] == query[..2] && answer[3] & 0x0f == 0;
            ensure!(is_same, "{name}: not answered with NOERROR");
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }
}

/// RFC 1035 §4.1: a header with RD, and a question of type A, class IN.
fn query(id: u16, name: &str) -> Vec<u8> {
    let mut query = Vec::with_capacity(HEADER_BYTES + name.len() + 6);
    query.extend(id.to_be_bytes());
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        query.extend(u8::try_from(label.len()));
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_one_question() {
        let expected = b"\x00\x07\x01\x00\x00\x01\0\0\0\0\0\0\x02n1\x07example\0\0\x01\0\x01";
        assert_eq!(query(7, "n1.example"), expected);
    }
}
