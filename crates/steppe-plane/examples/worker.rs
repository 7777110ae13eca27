//! A worker: `shout` answers a text in capitals, `count` answers with a stream of numbers.
//!
//! `cargo run -p steppe-plane --example worker -- 127.0.0.1:7701`
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Memory, Status, Worker};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).expect("an address to listen on");
    // Requests and responses take at most this memory, for any number of concurrent calls.
    let memory = Arc::new(Memory::new(Budget::new(16 << 20).root()));
    let worker = Worker::builder(&memory)
        .unary("shout", 100, |body: Bytes| async move {
            let text =
                std::str::from_utf8(&body).map_err(|_| Failure::new(Status::Invalid, "no text"))?;
            Ok(text.to_uppercase().into())
        })
        .stream("count", 100, |mut request| async move {
            request.response.begin(Payment::Standing).await?;
            for number in 1..=5 {
                request.response.send(format!("{number}\n").into()).await?;
            }
            request.response.end()
        })
        .build();
    let server = worker.listen(address).await?;
    println!("listening on {}", server.address());
    signal(SignalKind::terminate())?.recv().await;
    // Accepts no further calls; open calls have 30 seconds to finish.
    println!("drained: {}", server.drain(Duration::from_secs(30)).await);
    Ok(())
}
