//! Many kept-alive connections, each idle after one request.

use std::io::ErrorKind;
use std::rc::Rc;

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use super::client::{self, Decoder, exchange};
use super::h2;
use super::stream::{Endpoint, Protocol};
use crate::peer::origin;

/// Opens `count` connections, `OPENERS` at a time; each has served one small request.
///
/// Only the socket of a TLS connection is kept: the client sends nothing more on it, and frees the
/// memory of its session.
pub async fn open(endpoint: &Endpoint, count: usize) -> Result<Vec<TcpStream>> {
    let request: Rc<[u8]> = match endpoint.protocol {
        Protocol::Http1 => client::get(endpoint.host(), origin::SMALL_PATH).into(),
        Protocol::Http2 => h2::get(endpoint.scheme(), &endpoint.host(), origin::SMALL_PATH).into(),
    };
    let mut openers = JoinSet::new();
    let local = LocalSet::new();
    local
        .run_until(async {
            for opener in 0..OPENERS {
                let share = (count + opener) / OPENERS;
                let (request, endpoint) = (Rc::clone(&request), endpoint.clone());
                openers.spawn_local(async move { open_share(&endpoint, share, &request).await });
            }
            let mut connections = Vec::with_capacity(count);
            while let Some(share) = openers.join_next().await {
                connections.append(&mut share??);
            }
            Ok(connections)
        })
        .await
}

/// Number of `connections` that the other side has closed.
pub fn closed(connections: &[TcpStream]) -> usize {
    let is_open = |connection: &&TcpStream| {
        let outcome = connection.try_read(&mut [0]);
        matches!(outcome, Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    connections.len() - connections.iter().filter(is_open).count()
}

/// Connections opened at a time: no more requests are in flight than in the other phases, since that
/// sizes a proxy's pools, not the number of idle connections.
const OPENERS: usize = 32;

async fn open_share(endpoint: &Endpoint, share: usize, request: &[u8]) -> Result<Vec<TcpStream>> {
    let mut connections = Vec::with_capacity(share);
    let mut buffer = vec![0; 16 * 1024];
    for _ in 0..share {
        let mut stream = endpoint.connect().await?;
        match endpoint.protocol {
            Protocol::Http1 => {
                exchange(&mut stream, request, &mut Decoder::default(), &mut buffer).await?;
            }
            Protocol::Http2 => {
                h2::exchange(&mut stream, request, &mut h2::Decoder::default()).await?;
            }
        }
        connections.push(stream.into_socket());
    }
    Ok(connections)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::load::handshakes::tests::{Folder, server};
    use crate::load::tls::{Client, Groups};

    #[tokio::test]
    async fn connections_stay_open_until_the_other_side_closes_them() {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let origin = tokio::spawn(async move {
            let mut accepted = Vec::new();
            while accepted.len() < 50 {
                let (mut stream, _) = listener.accept().await.expect("it listens");
                let _ = stream.read(&mut [0; 1024]).await.expect("a request");
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(response).await.expect("it is open");
                accepted.push(stream);
            }
            accepted
        });
        let connections = open(&Endpoint::plain(address), 50)
            .await
            .expect("all are served");
        assert_eq!(connections.len(), 50);
        let accepted = origin.await.expect("no panic");
        assert_eq!(closed(&connections), 0);
        drop(accepted);
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if closed(&connections) == 50 {
                return;
            }
        }
        panic!("only {} of 50 are seen as closed", closed(&connections));
    }

    #[tokio::test]
    async fn tickets_are_read_before_a_connection_with_tls_is_idle() {
        let folder = Folder::new("idle");
        let credentials = folder.credentials();
        let client = Client::new(&credentials, &credentials.p256, Groups::X25519);
        let endpoint = Endpoint {
            address: server(&credentials.p256).await,
            tls: Some(client.expect("PEM")),
            protocol: Protocol::Http1,
        };
        let connections = open(&endpoint, 40).await.expect("all are served");
        // Unread bytes would make it look closed.
        assert_eq!((connections.len(), closed(&connections)), (40, 0));
    }
}
