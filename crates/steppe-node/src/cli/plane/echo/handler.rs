//! The request handler of `steppe plane echo`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Request, Sender};
use tokio::time::{Instant, sleep, sleep_until};

use super::json;

/// The settings of answers.
pub(super) struct Manner {
    /// Delay between a body and its answer.
    pub(super) hold: Duration,
    pub(super) is_json: bool,
    /// Number of messages of an answer, instead of the body.
    pub(super) tokens: Option<u32>,
}

/// The content of each message of a stream.
const TOKEN: &[u8] = b"token ";

pub(super) async fn answer(manner: Arc<Manner>, mut request: Request) -> Result<(), Failure> {
    if manner.is_json {
        return values(&manner, request).await;
    }
    let body = request.body.whole().await?;
    if let Some(count) = manner.tokens {
        drop(body);
        return tokens(request.response, count, manner.hold).await;
    }
    hold(&manner).await;
    request.response.send_whole(body).await
}

/// Answers with the body, after its values were held.
async fn values(manner: &Manner, mut request: Request) -> Result<(), Failure> {
    let (body, room) = request.body.whole_with(json::expected_bytes).await?;
    match json::parse(&body, room).await {
        Ok(parsed) => {
            hold(manner).await;
            drop(parsed);
            request.response.send_whole(body).await
        }
        Err(failure) => {
            request.response.fail(&failure);
            Ok(())
        }
    }
}

async fn hold(manner: &Manner) {
    if !manner.hold.is_zero() {
        sleep(manner.hold).await;
    }
}

/// Sends small messages, evenly over the duration of the answer.
#[expect(
    clippy::disallowed_methods,
    reason = "messages are spread over a time that begins here"
)]
async fn tokens(mut response: Sender, count: u32, length: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    response.begin(Payment::Standing).await?;
    for at in 1..=count {
        if !length.is_zero() {
            sleep_until(start + length * at / count).await;
        }
        if response.is_stopped() {
            break;
        }
        response.send(Bytes::from_static(TOKEN)).await?;
    }
    response.end()
}
