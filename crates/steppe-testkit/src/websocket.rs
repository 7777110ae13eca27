//! A WebSocket client and an origin that echoes, both by `tungstenite`.

use std::net::{SocketAddr, TcpStream};

use tungstenite::handshake::client::Response;
pub use tungstenite::protocol::WebSocket;

use crate::RawOrigin;
use crate::peer::PATIENCE;

/// Starts an origin that sends each WebSocket message back.
pub fn websocket_echo() -> RawOrigin {
    RawOrigin::start(|peer| {
        if let Ok(stream) = peer.stream().try_clone() {
            echo(stream);
        }
    })
}

/// Connects to `address` and asks for a WebSocket at `path`.
///
/// # Panics
/// When the handshake fails.
#[track_caller]
pub fn websocket_connect(address: SocketAddr, path: &str) -> (WebSocket<TcpStream>, Response) {
    let stream = TcpStream::connect(address)
        .unwrap_or_else(|error| panic!("can't connect to {address}: {error}"));
    let _ = stream.set_read_timeout(Some(PATIENCE));
    tungstenite::client(format!("ws://{address}{path}"), stream)
        .unwrap_or_else(|error| panic!("no WebSocket at {path}: {error}"))
}

fn echo(stream: TcpStream) {
    let Ok(mut socket) = tungstenite::accept(stream) else {
        return;
    };
    while let Ok(message) = socket.read() {
        let back = message.is_text() || message.is_binary();
        if back && socket.send(message).is_err() {
            return;
        }
    }
}
