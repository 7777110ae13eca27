//! A relay that listens.

use std::net::SocketAddr;
use std::sync::Arc;

use steppe_plane::Relay;
use tokio::net::TcpListener;

/// Has `relay` serve a port of its own while the runtime lives.
pub async fn listen(relay: &Arc<Relay>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("a port");
    let serves = Arc::clone(relay);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serves.serve(socket).expect("room for a connection"));
        }
    });
    address
}
