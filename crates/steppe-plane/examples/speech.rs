//! A worker with the service `speech`: receives packets of `@steppe/audio` with 16-bit samples, and sends a line
//! for each utterance at its end.
//!
//! `cargo run -p steppe-plane --example speech -- 127.0.0.1:7701`
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Memory, Status, Worker};
use tokio::signal::unix::{SignalKind, signal};

/// Bytes before the samples of a packet; `clients/node-audio/docs/stream.md` draws them.
const HEADER_BYTES: usize = 48;

/// Most bytes of samples in a packet. A call buffers one packet beside the budget.
const PACKET_BYTES_MAX: usize = 64 << 10;

/// Root mean square above which a packet is speech: 40 dB below full scale.
const SPEECH_RMS: f64 = 0.01;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).expect("an address to listen on");
    let memory = Arc::new(Memory::new(Budget::new(16 << 20).root()));
    let worker = Worker::builder(&memory)
        .stream("speech", 100, |mut request| async move {
            let mut listener = Listener::default();
            request.response.begin(Payment::Standing).await?;
            while let Some(part) = request.body.next().await? {
                for line in listener.hear(&part.bytes)? {
                    request.response.send(line).await?;
                }
            }
            if let Some(line) = listener.end() {
                request.response.send(line).await?;
            }
            request.response.end()
        })
        .build();
    let server = worker.listen(address).await?;
    println!("listening on {}", server.address());
    signal(SignalKind::terminate())?.recv().await;
    println!("drained: {}", server.drain(Duration::from_secs(30)).await);
    Ok(())
}

/// A run of consecutive packets with speech.
struct Utterance {
    /// Position of the first frame in the stream.
    begin: u64,
    frames: u64,
    loudest: f64,
}

#[derive(Default)]
struct Listener {
    /// Received bytes of a packet whose remainder is in the next part.
    rest: Vec<u8>,
    speaking: Option<Utterance>,
}

impl Listener {
    /// Reads a part of the content, split anywhere; returns a line for each utterance that has ended.
    fn hear(&mut self, part: &[u8]) -> Result<Vec<Bytes>, Failure> {
        let mut content = std::mem::take(&mut self.rest);
        content.extend_from_slice(part);
        let mut left = content.as_slice();
        let mut lines = Vec::new();
        while let Some((header, rest)) = left.split_first_chunk::<HEADER_BYTES>() {
            let bytes = u32::from_le_bytes(header[..4].try_into().expect("4 bytes")) as usize;
            if bytes > PACKET_BYTES_MAX {
                return Err(Failure::new(Status::Invalid, "a packet is too large"));
            }
            let Some((samples, rest)) = rest.split_at_checked(bytes) else {
                break;
            };
            lines.extend(self.packet(header, samples));
            left = rest;
        }
        // The incomplete packet stays in the same buffer.
        let heard = content.len() - left.len();
        content.drain(..heard);
        self.rest = content;
        Ok(lines)
    }

    fn packet(&mut self, header: &[u8; HEADER_BYTES], samples: &[u8]) -> Option<Bytes> {
        let rms = rms(samples);
        if rms <= SPEECH_RMS {
            return self.end();
        }
        let frames = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes"));
        let begin = u64::from_le_bytes(header[16..24].try_into().expect("8 bytes"));
        let utterance = self.speaking.get_or_insert(Utterance {
            begin,
            frames: 0,
            loudest: 0.0,
        });
        utterance.frames += u64::from(frames);
        utterance.loudest = utterance.loudest.max(rms);
        None
    }

    fn end(&mut self) -> Option<Bytes> {
        let Utterance {
            begin,
            frames,
            loudest,
        } = self.speaking.take()?;
        Some(format!("{{\"begin\":{begin},\"frames\":{frames},\"rms\":{loudest:.3}}}\n").into())
    }
}

/// Root mean square of 16-bit samples, 1 at full scale.
fn rms(samples: &[u8]) -> f64 {
    let values =
        (samples.chunks_exact(2)).map(|two| f64::from(i16::from_le_bytes([two[0], two[1]])));
    let count = (samples.len() / 2).max(1) as f64;
    (values.map(|value| value * value).sum::<f64>() / count).sqrt() / 32_768.0
}
