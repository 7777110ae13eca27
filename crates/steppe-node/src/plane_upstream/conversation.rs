//! One call, from the first piece of the request to the last of the response.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_mem::{Buffer, Lease};
use steppe_plane::{Call, Failure, Receiver, Sender, Status, Tries};

use tokio::time::{sleep, timeout};

use super::answer::{self, By};
use super::asked::{Asked, too_large};
use super::calling::Calling;
use super::hall::Hall;

/// Makes a call, and moves pieces both ways; the outcome is left in the hall.
pub(super) async fn converse(calls: Arc<dyn Calling>, asked: Asked, hall: Rc<Hall>, lease: Lease) {
    let mut told = Told::new(&*calls);
    let outcome = call(&*calls, &asked, (&hall, &mut told), &lease).await;
    told.status = outcome
        .as_ref()
        .err()
        .map_or(Status::Ok, |(failure, _)| failure.status);
    let outcome = outcome.map_err(|(failure, by)| answer::respond(&failure, by));
    hall.rooms().outcome = Some(outcome);
}

/// The outcome of a call, which is counted when this is dropped.
struct Told<'a> {
    calls: &'a dyn Calling,
    begun: Instant,
    /// The time until an answer began.
    answered: Option<Duration>,
    /// The status; until the call is over, that of a client that has left.
    status: Status,
}

impl<'a> Told<'a> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a call is taken: how long its answer takes is counted from here"
    )]
    fn new(calls: &'a dyn Calling) -> Self {
        Self {
            calls,
            begun: Instant::now(),
            answered: None,
            status: Status::Cancelled,
        }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.calls.count(self.status, self.answered);
    }
}

/// Calls workers until one answers: a worker that refuses before it got any of the body is replaced by another.
#[expect(
    clippy::disallowed_methods,
    reason = "a call begins: its deadline is what is left"
)]
async fn call(
    calls: &dyn Calling,
    asked: &Asked,
    (hall, told): (&Hall, &mut Told<'_>),
    lease: &Lease,
) -> Result<(), (Failure, By)> {
    // A small body is one message. It is collected first, so that a slow client keeps no worker waiting.
    let small = match asked.is_small() {
        true => Some(collect(hall, asked, lease).await.map_err(of_node)?),
        false => None,
    };
    let mut body = Body {
        asked,
        small,
        has_passed: false,
    };
    let mut tries = None;
    loop {
        let opened = calls.call(asked.head(Instant::now()), &mut tries, lease);
        let Call {
            request,
            mut response,
        } = opened.await.map_err(|failure| {
            let is_refusal = tries.as_ref().is_some_and(Tries::is_refused);
            (failure, if is_refusal { By::Worker } else { By::Node })
        })?;
        let sending = send(request, &mut body, hall, calls);
        let answered = tokio::select! {
            biased;
            received = receive(&mut response, hall, told) => {
                received.map_err(|failure| (failure, By::Worker))
            }
            refused = sending => Err(refused),
        };
        let Err((failure, By::Worker)) = answered else {
            return answered;
        };
        if body.has_passed || hall.rooms().has_begun {
            return Err((failure, By::Worker));
        }
        let noted = calls.refused(&mut tries, &response, failure);
        noted.map_err(|failure| (failure, By::Worker))?;
    }
}

fn of_node(failure: Failure) -> (Failure, By) {
    (failure, By::Node)
}

/// The body of a request on its way to a worker.
struct Body<'a> {
    asked: &'a Asked,
    /// A small body: whole until it is sent, empty from then on.
    small: Option<Bytes>,
    /// Set once a part of it was passed on, and is no longer kept.
    has_passed: bool,
}

/// Sends a body. Ready only if it can't be sent: otherwise the answer has the outcome.
async fn send(
    request: Sender,
    body: &mut Body<'_>,
    hall: &Hall,
    calls: &dyn Calling,
) -> (Failure, By) {
    let sent = match body.small.as_mut().map(std::mem::take) {
        Some(message) => {
            body.has_passed = !message.is_empty();
            request.send_whole(message).await.map_err(Unsent::Worker)
        }
        None => send_large(request, body, hall, calls).await,
    };
    match sent {
        Err(Unsent::Refused(failure)) => of_node(failure),
        // A worker that takes no more of the request may still answer, or gives the reason in its failure.
        Ok(()) | Err(Unsent::Worker(_)) => pending().await,
    }
}

/// The reason why the rest of a request is not sent.
enum Unsent {
    /// There is no room for it.
    Refused(Failure),
    /// The worker takes no more.
    Worker(#[expect(dead_code, reason = "its response tells the same")] Failure),
}

/// Collects a body of one small message; in its own memory if it came in one piece.
async fn collect(hall: &Hall, asked: &Asked, lease: &Lease) -> Result<Bytes, Failure> {
    let Some(first) = hall.next_of_request().await else {
        return Ok(Bytes::new());
    };
    let length = asked.length.and_then(|length| usize::try_from(length).ok());
    let length = length.unwrap_or(first.len());
    if first.len() >= length {
        // Requests the end at once: only then does the gateway check whether the client is still there.
        hall.rooms().wants_request = true;
        return Ok(first);
    }
    let overloaded = |why: &dyn ToString| Failure::new(Status::Overloaded, why.to_string());
    let mut message = Buffer::take(lease, length).map_err(|error| overloaded(&error))?;
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        let put = message.put(&bytes);
        put.map_err(|_| Failure::new(Status::Invalid, "more content than announced"))?;
        piece = hall.next_of_request().await;
    }
    Ok(message.freeze())
}

/// Sends a body as it comes: as one message if its length is known, else one message a piece.
async fn send_large(
    mut request: Sender,
    body: &mut Body<'_>,
    hall: &Hall,
    calls: &dyn Calling,
) -> Result<(), Unsent> {
    // No content is read from the client before the worker can take it.
    grant(&request, calls).await?;
    body.has_passed = true;
    let asked = body.asked;
    let awaited = Awaited {
        hall,
        is_waiting: Cell::new(false),
        pieces: Cell::new(0),
    };
    tokio::select! {
        biased;
        sent = send_pieces(&mut request, asked, &awaited, calls.payload_bytes_max()) => sent?,
        () = unused(&awaited, calls) => {
            let detail = "credit was granted and not used while other calls waited";
            return Err(Unsent::Refused(Failure::new(Status::Overloaded, detail)));
        }
    }
    request.end().map_err(Unsent::Worker)
}

/// Waits for the first credit. After half of its time, calls that do not use their credit have to give it up.
#[expect(clippy::disallowed_methods, reason = "the wait for credit begins")]
async fn grant(request: &Sender, calls: &dyn Calling) -> Result<(), Unsent> {
    let wait = calls.grant_wait();
    let press = async {
        match calls.relay() {
            Some(relay) => relay.press_at(Instant::now() + wait / 2).await,
            None => pending().await,
        }
    };
    let granted = tokio::select! {
        biased;
        granted = timeout(wait, request.granted()) => granted,
        never = press => never,
    };
    match granted {
        Ok(granted) => granted.map_err(Unsent::Worker),
        Err(_) => {
            let failure = Failure::new(Status::Overloaded, "no worker has room for the body");
            Err(Unsent::Refused(failure))
        }
    }
}

/// The wait for the client's next piece, and the number of those that came.
#[derive(Debug)]
struct Awaited<'a> {
    hall: &'a Hall,
    is_waiting: Cell<bool>,
    pieces: Cell<u64>,
}

async fn send_pieces(
    request: &mut Sender,
    asked: &Asked,
    awaited: &Awaited<'_>,
    bytes_max: u64,
) -> Result<(), Unsent> {
    let mut sent = 0;
    loop {
        awaited.is_waiting.set(true);
        let piece = awaited.hall.next_of_request().await;
        awaited.is_waiting.set(false);
        let Some(piece) = piece else { return Ok(()) };
        awaited.pieces.set(awaited.pieces.get() + 1);
        sent += piece.len() as u64;
        if sent > bytes_max {
            return Err(Unsent::Refused(too_large(bytes_max)));
        }
        let rest = asked.length.map_or(0, |length| length.saturating_sub(sent));
        let sent = request.send_part(&piece, rest).await;
        sent.map_err(Unsent::Worker)?;
    }
}

/// Ready once the client has sent nothing for the time that other calls wait for credit, and some wait.
async fn unused(awaited: &Awaited<'_>, calls: &dyn Calling) {
    loop {
        let before = awaited.pieces.get();
        let is_idle = || awaited.is_waiting.get() && awaited.pieces.get() == before;
        sleep(calls.grant_wait()).await;
        if !is_idle() {
            continue;
        }
        let Some(relay) = calls.relay() else {
            return pending().await;
        };
        relay.pressed().await;
        if is_idle() {
            return;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "when its answer began")]
async fn receive(response: &mut Receiver, hall: &Hall, told: &mut Told<'_>) -> Result<(), Failure> {
    response.begun().await?;
    {
        let mut rooms = hall.rooms();
        rooms.content_type = response.content_type();
        rooms.has_begun = true;
    }
    while let Some(part) = response.next().await? {
        let begun = told.begun;
        told.answered.get_or_insert_with(|| begun.elapsed());
        if !part.bytes.is_empty() {
            hall.put_response(part.bytes).await;
        }
    }
    Ok(())
}
