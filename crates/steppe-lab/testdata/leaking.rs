//! A server that leaks: so many bytes a request, for ever.
//!
//! `lab-leaking ADDRESS [BYTES]`

#[path = "server.rs"]
mod server;

fn main() -> std::io::Result<()> {
    let len = usize::try_from(server::number(2, 1024)).unwrap_or(usize::MAX);
    // Not zero: a page of zeros that was never written takes no memory.
    server::serve(move || std::mem::forget(vec![0x5a_u8; len].into_boxed_slice()))
}
