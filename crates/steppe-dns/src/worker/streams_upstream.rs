//! Connections to servers: one for each server, for many queries. TCP (RFC 7766), TLS (RFC 7858) and HTTP/2.
//!
//! A connection is opened with the first query, and carries the next ones until it idles or ends. Queries that
//! were out on a connection that has answered before are sent again on the next one: servers close connections
//! whenever they like (RFC 7766 §6.2.3). After a connection that never answered, the next one is tried after a
//! pause; questions wait for it if the pause is short.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use rand::Rng;
use steppe_net::Stream;
use tokio::time::timeout;

use super::addresses::Sought;
use super::asking::Which;
use super::carriers::{Carrier, Means, Stage};
use super::connecting::Connecting;
use super::https::Https;
use super::line::Line;
use super::queue::{NotSent, StreamQueue};
use super::server::{Failure, Server};
use super::state::{WorkerState, turn};
use crate::config::Transport;
use crate::in_flight::AttemptId;
use crate::limits::{
    ATTEMPTS_PER_EXCHANGE_MAX, ATTEMPTS_PER_SOCKET_MAX, STREAM_BYTES, UPSTREAM_CONNECT_TIME_MAX,
};

impl WorkerState {
    /// The number of the connection to a server, which is opened if there is none.
    pub(super) fn stream_to(&mut self, server: &Rc<Server>, now: Instant) -> Result<u32, NotSent> {
        if let Some(number) = server.stream.get()
            && self.attempts.attempts_on(number) < ATTEMPTS_PER_SOCKET_MAX
            && let Some(carrier) = self.carriers.get(number)
            && carrier.stage == Stage::InUse
        {
            return Ok(number);
        }
        if !server.may_connect(now) {
            return Err(NotSent);
        }
        let queue = StreamQueue::new(&self.lease, STREAM_BYTES).map_err(|_| NotSent)?;
        let queue = Rc::new(queue);
        let carrier = Carrier::new(Rc::clone(server), Means::Stream(Rc::clone(&queue)), now);
        let number = self.carriers.insert(carrier).ok_or(NotSent)?;
        self.attempts.renew_socket(number);
        if let Some(full) = server.stream.replace(Some(number)) {
            self.retire(full);
        }
        let [_, _, high, low] = self.rng.next_u32().to_be_bytes();
        let connecting = Connecting {
            state: self.me.clone(),
            server: Rc::clone(server),
            queue,
            lease: self.lease.clone(),
            number,
            id: u16::from_be_bytes([high, low]),
        };
        let task = tokio::task::spawn_local(run(connecting));
        self.carriers.set_reader(number, task.abort_handle());
        Ok(number)
    }

    /// Handles the end of a connection: its queries are sent again, or other servers are asked.
    fn stream_ended(&mut self, connection: &Connecting, ended: io::Result<()>, now: Instant) {
        let server = &connection.server;
        let has_answered = connection.queue.has_answered();
        if !has_answered {
            server.addresses.pass_over();
        }
        let failure = match has_answered {
            true => Failure::Further,
            false => server.connect_failed(now, self.rng.next_u32()),
        };
        match (ended, failure) {
            (Err(error), Failure::First) => {
                tracing::warn!(server = %server.config, %error, "cannot connect to a DNS server");
            }
            (Err(error), Failure::Further) => {
                tracing::debug!(server = %server.config, %error, "connection to a DNS server ended with an error");
            }
            (Ok(()), _) => {}
        }
        let attempts = self.attempts.attempts_of(connection.number);
        // Queries that are sent again go on another connection.
        self.replace(connection.number);
        for attempt in attempts {
            if has_answered {
                self.send_again(attempt, now);
            } else if let Some(of) = self.end_attempt(attempt) {
                self.connection_lost(of, now);
            }
        }
        self.retire(connection.number);
    }

    /// Sends a query again that was not answered on a connection, which is no failure of its server.
    pub(super) fn send_again(&mut self, attempt: AttemptId, now: Instant) {
        let Some((place, server)) = self.end_attempt(attempt) else {
            return;
        };
        let sent = self.exchanges.get(place).map(|exchange| exchange.sent);
        let may_ask = sent.is_some_and(|sent| sent < ATTEMPTS_PER_EXCHANGE_MAX);
        if !may_ask || self.ask(place, server, now).is_err() {
            self.connection_lost((place, server), now);
        }
    }

    /// Handles a query on a connection that failed: its question waits for the next connection, unless the server is
    /// gone.
    fn connection_lost(&mut self, (place, server): (u32, usize), now: Instant) {
        if self.ask_in_lower_case((place, server), now) {
            return;
        }
        let exchange = self.exchanges.get_mut(place);
        match exchange.is_some_and(|exchange| exchange.awaits_connection(server, now)) {
            true => self.ask_next(place, Which::Another, now),
            false => self.lost(place, server, now),
        }
    }
}

/// Connects, and carries queries and responses until the connection ends or idles.
async fn run(connection: Connecting) {
    // In boxes, so that a connection keeps neither the memory of its establishment nor that of another protocol.
    let established = Box::pin(establish(&connection));
    let established = timeout(UPSTREAM_CONNECT_TIME_MAX, established).await;
    let ended = match established {
        Ok(Ok(transport)) => carry(&connection, transport).await,
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Some(state) = connection.state.upgrade() {
        turn(&state, |state, now| {
            state.stream_ended(&connection, ended, now);
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "once for each time that something happens to a connection"
)]
async fn carry(connection: &Connecting, transport: steppe_net::Transport) -> io::Result<()> {
    if connection.server.config.transport == Transport::Https {
        let carried = async {
            let mut https = Https::new(connection, transport, Instant::now())?;
            poll_fn(|cx| https.poll(cx, Instant::now())).await
        };
        return Box::pin(carried).await;
    }
    let mut line = Line::new(connection, transport, Instant::now());
    poll_fn(|cx| line.poll(cx, Instant::now())).await
}

#[expect(clippy::disallowed_methods, reason = "when a connection is begun")]
async fn establish(connection: &Connecting) -> io::Result<steppe_net::Transport> {
    let server = &connection.server;
    let sought = Sought {
        server: &server.config,
        bootstrap: &server.bootstrap,
        known: &server.addresses,
    };
    let address = sought.address(connection.id, Instant::now()).await?;
    let transport = steppe_net::Transport::new(Stream::connect_tcp(address).await?);
    let Some(tls) = server.tls() else {
        return Ok(transport);
    };
    let name = server.config.certified_name();
    let session = tls.connect(transport, Some(&name), &connection.lease);
    let (transport, agreed) = session.await.map_err(io::Error::other)?;
    let has_http_2 = agreed.alpn.as_deref() == Some(b"h2");
    if server.config.transport == Transport::Https && !has_http_2 {
        return Err(io::Error::other("the server did not negotiate HTTP/2"));
    }
    Ok(transport)
}
