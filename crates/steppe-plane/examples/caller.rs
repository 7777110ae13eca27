//! A caller of `examples/worker.rs`: sends a text to `shout`, and prints the numbers of `count`.
//!
//! `cargo run -p steppe-plane --example caller -- 127.0.0.1:7701 hello`
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use steppe_mem::Budget;
use steppe_plane::frame::Payment;
use steppe_plane::{Ask, Caller, Memory};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or("an address to dial")?;
    let text = words.next().ok_or("a text to shout")?;
    let memory = Arc::new(Memory::new(Budget::new(16 << 20).root()));
    let caller = Caller::connect(address, &memory).await?;
    let ask = Ask {
        deadline: Some(Duration::from_secs(5)),
        ..Ask::new("shout")
    };
    let answer = caller.unary(&ask, text.into()).await?;
    println!("{}", String::from_utf8_lossy(&answer));
    let mut call = caller.call(&Ask::new("count"), Payment::Standing).await?;
    call.request.end()?;
    while let Some(part) = call.response.next().await? {
        print!("{}", String::from_utf8_lossy(&part.bytes));
    }
    Ok(())
}
