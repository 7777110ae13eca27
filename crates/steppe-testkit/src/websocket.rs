//! A WebSocket client and an origin that echoes, both by `tungstenite`.

use std::net::SocketAddr;
use std::time::Duration;

use tungstenite::handshake::client::Response;
pub use tungstenite::protocol::WebSocket;

use crate::{Peer, RawOrigin, Wire};

/// Time that an echo waits for the next message: tests hold idle tunnels.
const IDLE: Duration = Duration::from_secs(3600);

/// Starts an origin that sends each WebSocket message back.
pub fn websocket_echo() -> RawOrigin {
    RawOrigin::start(|peer| {
        peer.patience(IDLE);
        echo(peer);
    })
}

/// Connects to `address` and asks for a WebSocket at `path`.
///
/// # Panics
/// When the handshake fails.
#[track_caller]
pub fn websocket_connect(address: SocketAddr, path: &str) -> (WebSocket<Peer>, Response) {
    let peer = Wire::of_run().introduce(Peer::connect(address));
    tungstenite::client(format!("ws://{address}{path}"), peer)
        .unwrap_or_else(|error| panic!("no WebSocket at {path}: {error}"))
}

/// The answer to the key of a client's handshake (RFC 6455 §4.2.2).
pub fn websocket_accept(key: &[u8]) -> String {
    tungstenite::handshake::derive_accept_key(key)
}

fn echo(peer: &mut Peer) {
    let Ok(mut socket) = tungstenite::accept(peer) else {
        return;
    };
    while let Ok(message) = socket.read() {
        let back = message.is_text() || message.is_binary();
        if back && socket.send(message).is_err() {
            return;
        }
    }
}
