//! Tasks that read datagrams: of clients, and of servers.

use std::cell::RefCell;
use std::io;
use std::rc::{Rc, Weak};

use steppe_net::DatagramBatch;
use tokio::net::UdpSocket;

use super::clients::Destination;
use super::decide::Answered;
use super::state::{DatagramListener, Handle, WorkerState, turn};
use crate::client::Client;
use crate::config::Transport;
use crate::limits::{DATAGRAMS_PER_BATCH, READS_PER_TURN_MAX, UDP_PAYLOAD_BYTES};

/// Answers the datagrams that come to a listener, until the task is aborted.
pub(super) async fn serve_datagrams(state: Handle, listener: Rc<DatagramListener>, number: u32) {
    let mut batch = DatagramBatch::new(DATAGRAMS_PER_BATCH, UDP_PAYLOAD_BYTES);
    loop {
        // An error may be an ICMP message about a response, which is no reason to stop.
        if batch.receive(&listener.socket).await.is_ok() {
            answer(&state, &batch, number);
        } else {
            tokio::task::yield_now().await;
        }
    }
}

/// Answers the datagrams that are queued at a listener that is about to close.
pub(super) fn serve_rest(state: &Handle, listener: &DatagramListener, number: u32) {
    let mut batch = DatagramBatch::new(DATAGRAMS_PER_BATCH, UDP_PAYLOAD_BYTES);
    for _ in 0..READS_PER_TURN_MAX {
        match batch.receive_ready(&listener.socket) {
            Ok(0) | Err(_) => return,
            Ok(_) => answer(state, &batch, number),
        }
    }
}

fn answer(state: &Handle, batch: &DatagramBatch, number: u32) {
    turn(state, |state, now| {
        // A datagram that was truncated is malformed, and gets FORMERR.
        for datagram in batch.iter() {
            let destination = Destination::Datagram {
                listener: number,
                peer: datagram.peer,
                local: datagram.local,
            };
            let client = Client::at(datagram.peer.ip());
            let answered = state.query(datagram.bytes, destination, &client, now);
            if let Answered::Now(len) = answered {
                state.deliver(destination, len);
            }
        }
    });
}

/// Reads responses of a server, until its socket is closed.
pub(super) async fn read_server(
    state: Weak<RefCell<WorkerState>>,
    socket: Rc<UdpSocket>,
    number: u32,
) {
    while socket.readable().await.is_ok() {
        let Some(state) = state.upgrade() else { return };
        turn(&state, |state, now| {
            for _ in 0..READS_PER_TURN_MAX {
                let Some(mut batch) = state.received.take() else {
                    return;
                };
                let received = batch.receive_ready(&socket);
                for datagram in batch.iter() {
                    state.message((number, Transport::Udp), datagram.bytes, now);
                }
                state.received = Some(batch);
                match received {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    // The server's port is closed, or there is no route to it.
                    Err(error) => {
                        tracing::debug!(%error, "DNS server unreachable");
                        state.carrier_failed(number, now);
                        return;
                    }
                }
            }
        });
    }
}
