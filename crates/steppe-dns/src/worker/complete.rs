//! The end of a question: all clients that wait for it are answered, on any worker.

use std::sync::Arc;

use super::clients::Destination;
use super::state::WorkerState;
use crate::answer::{Answer, AnswerBytes, rcode_of, write_blocked};
use crate::client::Client;
use crate::in_flight::Ticket;
use crate::manner::Manner;
use crate::query_log::Decision;
use crate::snapshot::BlockedAlias;
use crate::wakes::{SharedAnswer, Wake};
use crate::wire::{ClientQuery, Question};

impl WorkerState {
    /// Answers the clients that wait by a ticket. The answer's body, if it has one, is in `body`.
    pub(super) fn complete(&mut self, ticket: Ticket, answer: Answer) {
        let mut woken = std::mem::take(&mut self.woken);
        let shared = Arc::clone(&self.shared);
        // The coalescer holds a lock meanwhile, so responses are written afterwards.
        shared
            .coalescer()
            .complete(ticket, |waiter| woken.push(waiter));
        let mut elsewhere = None;
        for waiter in woken.drain(..) {
            if waiter.worker == self.index {
                self.answer_waiting(waiter.token, answer);
                continue;
            }
            let answer = elsewhere.get_or_insert_with(|| {
                Arc::new(SharedAnswer {
                    answer,
                    bytes: answer.bytes(&self.body).into(),
                })
            });
            let wake = Wake {
                token: waiter.token,
                answer: Arc::clone(answer),
            };
            shared.wakes.send(waiter.worker, wake);
        }
        self.woken = woken;
    }

    /// Answers a client whose question another worker has asked.
    pub(super) fn wake(&mut self, wake: &Wake) {
        let SharedAnswer { answer, bytes } = &*wake.answer;
        self.body[..bytes.len()].copy_from_slice(bytes);
        self.answer_waiting(wake.token, *answer);
    }

    fn answer_waiting(&mut self, token: u64, answer: Answer) {
        let Some(waited) = self.clients.waited(token) else {
            return;
        };
        let destination = waited.destination;
        let client = self.client_at(destination);
        let answer = AnswerBytes {
            answer,
            name: waited.name,
            bytes: answer.bytes(&self.body),
        };
        let snapshot = &self.current.snapshot;
        let is_body = matches!(answer.answer, Answer::Body(..));
        let blocked = client.filter(|_| is_body).and_then(|client| {
            snapshot.blocked_alias(&client, answer.name.rewriting(), answer.bytes)
        });
        // The query could be parsed before it had to wait, and there is room for any answer. A client whose
        // connection has ended needs none.
        let query = ClientQuery::parse(waited.query).ok();
        let written = query.zip(client).and_then(|(query, client)| {
            let cookies = (&mut self.cookies, self.turn_at);
            let manner = Manner::new(&query, destination.protocol(), client.address, cookies);
            let written = match blocked {
                Some(BlockedAlias { block, .. }) => {
                    write_blocked(manner.reply(&query), block, &mut self.reply)
                }
                None => answer.write(&query, &manner, &mut self.reply),
            };
            written.ok()
        });
        let decision = match blocked {
            Some(_) => Some(Decision::Blocked),
            None => answer.answer.decision(),
        };
        if let (Some(log), Some(len)) = (&mut self.log, written)
            && let Ok(question) = Question::read(waited.query)
        {
            let rcode = rcode_of(&self.reply[..len]);
            log.waited((token, decision), (question, rcode), destination);
        }
        self.clients.leave(token);
        if let Some(BlockedAlias { lists, .. }) = blocked {
            self.metrics.blocked.increment();
            self.count_lists(&std::rc::Rc::clone(&self.current).snapshot, lists);
        }
        if let Some(len) = written {
            self.metrics.response(rcode_of(&self.reply[..len]));
            self.deliver(destination, len);
        }
    }

    /// The client at a destination; `None`: its connection has ended.
    fn client_at(&self, destination: Destination) -> Option<Client> {
        Some(match destination {
            Destination::Datagram { peer, .. } => Client::at(peer.ip()),
            Destination::Stream { connection, .. } => self.connections.get(connection)?.peer.client,
            Destination::InProcess { asker } => *self.askers.get(asker)?.client(),
        })
    }
}
