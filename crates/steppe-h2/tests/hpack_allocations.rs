//! A field line allocates nothing once the dynamic table has its memory.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

use std::alloc::System;

use steppe_h2::hpack::{Decoder, Encoder, FieldLine, FieldSink, Indexing, Out};
use steppe_mem::alloc::{Counted, thread_allocations};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// Keeps one field line, in memory that it has from the beginning.
#[derive(Default)]
struct Last {
    bytes: Vec<u8>,
    /// Of name and value in progress.
    len: usize,
    /// Of the name of the last field line, and of both.
    ends: [usize; 2],
    fields: usize,
    lost: usize,
}

impl FieldSink for Last {
    fn room(&mut self, _: usize) -> Option<&mut [u8]> {
        let room = &mut self.bytes[self.len..];
        (!room.is_empty()).then_some(room)
    }

    fn advance(&mut self, bytes: usize) {
        self.len += bytes;
    }

    fn end_name(&mut self) {
        self.ends[0] = self.len;
    }

    fn end_field(&mut self, _: Indexing) {
        self.ends[1] = self.len;
        (self.len, self.fields) = (0, self.fields + 1);
    }

    fn last(&self) -> (&[u8], &[u8]) {
        self.bytes[..self.ends[1]].split_at(self.ends[0])
    }

    fn lost(&mut self, _: usize) {
        (self.len, self.lost) = (0, self.lost + 1);
    }
}

/// Both ends of a connection, and the memory between them.
struct Exchange {
    encoder: Encoder,
    decoder: Decoder,
    sink: Last,
    block: Vec<u8>,
    /// Different values, so that entries come and go.
    values: Vec<String>,
}

impl Exchange {
    fn new() -> Self {
        Self {
            encoder: Encoder::new(4096),
            decoder: Decoder::new(4096),
            sink: Last {
                bytes: vec![0; 1024],
                ..Last::default()
            },
            block: vec![0; 16 << 10],
            values: (0..1000).map(|number| format!("value {number}")).collect(),
        }
    }

    /// Sends a block with each value, in fragments of 7 bytes.
    fn send_all(&mut self) {
        // Too large for the sink.
        let large = [b'x'; 1025];
        for value in &self.values {
            let mut out = Out::new(&mut self.block);
            self.encoder.begin(&mut out).expect("room");
            for (name, value) in [
                (":method", b"GET".as_slice()),
                ("Date", value.as_bytes()),
                // Becomes an entry: the same again.
                ("date", value.as_bytes()),
                ("X-Custom-Name", value.as_bytes()),
                ("x-custom-name", value.as_bytes()),
                ("", b""),
                ("authorization", b"secret"),
                ("etag", &large),
            ] {
                let line = FieldLine {
                    name: name.as_bytes(),
                    value,
                    indexing: Indexing::Without,
                };
                self.encoder.field(&line, &mut out).expect("room");
            }
            for fragment in out.written().chunks(7) {
                self.decoder
                    .decode(fragment, &mut self.sink)
                    .expect("valid");
            }
            self.decoder.end().expect("whole");
        }
    }
}

#[test]
fn a_field_line_allocates_nothing() {
    let before = thread_allocations();
    drop(std::hint::black_box(Box::new(before)));
    assert_eq!(thread_allocations(), before + 1, "a planted one is seen");

    let mut exchange = Exchange::new();
    // It fills the tables, whose rings have all their memory then.
    exchange.send_all();
    let (fields, lost) = (exchange.sink.fields, exchange.sink.lost);
    let before = thread_allocations();
    exchange.send_all();
    assert_eq!(thread_allocations() - before, 0);
    assert_eq!((fields, lost), (7 * 1000, 1000));
    assert_eq!(
        (exchange.sink.fields, exchange.sink.lost),
        (14 * 1000, 2000)
    );
    assert!(exchange.encoder.table().len() > 50);
    assert_eq!(
        exchange.decoder.table().size(),
        exchange.encoder.table().size()
    );
}
